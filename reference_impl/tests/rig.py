"""The bench on which the operator's tests stand: calls that end when a test says so, and ears for everything.

Answers to Flink's `OneInputStreamOperatorTestHarness`. Invariant: no mail runs but what a test asks for. The same
bodies run on a real loop and in virtual time; only the latter can be told how late it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import get_ident
from typing import Any, Protocol, TypedDict, Unpack

from hypothesis import settings

from reference_impl.elements import OperatorInput, Record, Watermark, WatermarkStatus
from reference_impl.mailbox.availability import Availability
from reference_impl.mailbox.loops import VirtualLoop, real_loop, virtual_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import BuildOperator, Mode, build_operator
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.queues import KeyOf
from reference_impl.operator.result import Ending, ResultHandle
from reference_impl.operator.retry import Quirks, RetryStrategy

quickly = settings(deadline=None, derandomize=True)
"""For property tests of the quick tier: the same examples every time, and no clock that judges them."""


def record(value: Any) -> Record:
    """A record whose event time is as plain as its value."""
    return Record(value=value, timestamp=value if isinstance(value, int) else None)


def watermark(timestamp: int) -> Watermark:
    """A watermark."""
    return Watermark(timestamp=timestamp)


def shown(element: OperatorInput) -> Any:
    """A record's value; a watermark as `w5`, a status as `idle` or `active`, another element as it is."""
    match element:
        case Record():
            return element.value
        case Watermark():
            return f"w{element.timestamp}"
        case WatermarkStatus():
            return "idle" if element.idle else "active"
        case _:
            return element


def substitute(*results: Any) -> Callable[[Any, ResultHandle], None]:
    """A timeout handler that answers with `results`."""
    return lambda _value, handle: handle.complete(results)


class HandFunction(AsyncFunction):
    """Calls that a test ends by hand, by value and attempt."""

    def __init__(
        self,
        *,
        invoke: Callable[[Any, ResultHandle], None] | None = None,
        timeout: Callable[[Any, ResultHandle], None] | None = None,
    ) -> None:
        self.attempts: dict[Any, list[ResultHandle]] = {}
        self.timeouts: dict[Any, list[ResultHandle]] = {}
        self.closed = 0
        self.then = invoke
        """What each call does, besides keeping its handle; may be set later."""
        self._on_timeout = timeout

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        """Keep the handle, then do what the test wants done."""
        self.attempts.setdefault(value, []).append(handle)
        if self.then is not None:
            self.then(value, handle)

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        """Keep the handle, then answer as the test wants, or as by default."""
        self.timeouts.setdefault(value, []).append(handle)
        if self._on_timeout is not None:
            self._on_timeout(value, handle)
        else:
            super().timeout(value, handle)

    def close(self) -> None:
        """Count."""
        self.closed += 1


class Ears:
    """A probe that notes what it is told, in the shared order of all that happens."""

    def __init__(self, happened: list[tuple[str, Any]]) -> None:
        self.happened = happened

    def called(self, record: Record, *, attempt: int) -> None:
        """Note a call; a further attempt's with its number."""
        self.happened.append(("called", record.value if attempt == 1 else (record.value, attempt)))

    def settled(
        self,
        record: Record,
        *,
        attempt: int,
        ending: Ending,
        final: bool,
        results: Sequence[Any] | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Note an outcome; one that is not final with the attempt's number."""
        self.happened.append((ending.value, record.value if final else (record.value, attempt)))


class More(TypedDict, total=False):
    """What an operator may have besides."""

    retry: RetryStrategy
    quirks: Quirks
    copy_value: Callable[[Any], Any] | None
    downstream: Callable[[], Availability] | None
    key_of: KeyOf


def itself(value: Any) -> Any:
    """The key in mode `keyed`, if a test names none: values differ, so records overtake as in `unordered`."""
    return value


class Rig:
    """An operator and all that it touches; in a mailbox and at a priority of its own, or in a chain's."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        build: BuildOperator = build_operator,
        mode: Mode = "ordered",
        capacity: int = 10,
        timeout_ms: int = 0,
        function: AsyncFunction | None = None,
        mailbox: Mailbox | None = None,
        priority: int = 0,
        emit: Callable[[OperatorInput], None] | None = None,
        **more: Unpack[More],
    ) -> None:
        self.loop = loop
        self.mailbox = mailbox or Mailbox(loop=loop)
        self.executor = MailboxExecutor(self.mailbox, priority)
        self.timers = Timers(loop, self.executor)
        self.emitted: list[OperatorInput] = []
        self.failures: list[BaseException] = []
        self.threads: set[int] = set()
        """In which something was emitted, or the task was failed."""
        self.happened: list[tuple[str, Any]] = []
        self.hand = function if isinstance(function, HandFunction) else HandFunction()
        self._next = emit
        if mode == "keyed":
            more.setdefault("key_of", itself)
        self.operator: AsyncWaitOperator = build(
            mode=mode,
            capacity=capacity,
            function=function or self.hand,
            timeout_ms=timeout_ms,
            executor=self.executor,
            timers=self.timers,
            emit=self._emit,
            fail=self._fail,
            probe=Ears(self.happened),
            **more,
        )

    def _emit(self, element: OperatorInput) -> None:
        self.threads.add(get_ident())
        self.emitted.append(element)
        self.happened.append(("emitted", shown(element)))
        if self._next is not None:
            self._next(element)

    def _fail(self, error: BaseException) -> None:
        self.threads.add(get_ident())
        self.failures.append(error)

    # ---------------------------------------------------------------------------------------- what a test does

    def process(self, *elements: OperatorInput) -> None:
        """Hand them to the operator, in order."""
        for element in elements:
            self.operator.process(element)

    def complete(self, value: Any, *results: Any, attempt: int = 0) -> None:
        """End a call for `value` well, the latest or the `attempt`-th; its mail waits."""
        self.hand.attempts[value][attempt - 1].complete(results)

    def fail(self, value: Any, error: BaseException | None = None, *, attempt: int = 0) -> None:
        """End it badly."""
        self.hand.attempts[value][attempt - 1].fail(error or ArithmeticError(value))

    def complete_soon(self, value: Any, *results: Any) -> None:
        """The same from a callback of the loop, as a client would: seen only when the loop runs."""
        self.loop.call_soon(self.complete, value, *results)

    def run_mail(self) -> None:
        """All mail there is, and what that puts."""
        while self.executor.try_yield():
            pass

    def advance(self, to_ms: int, *, hold: bool = False) -> None:
        """In virtual time: let it be `to_ms`, and run what falls due at each instant; or only post it."""
        assert isinstance(self.loop, VirtualLoop), "real time goes its own way"
        while True:
            if not hold:
                self.run_mail()
            due_ms = self.loop.next_due_ms()
            if due_ms is None or due_ms > to_ms:
                break
            self.loop.advance(due_ms)
            self.loop.run_ready()
        self.loop.advance(to_ms)

    # ----------------------------------------------------------------------------------------- what it looks at

    def values(self) -> list[Any]:
        """What was emitted: records by their value, what else there is by its short name."""
        return [shown(element) for element in self.emitted]

    def calls(self) -> list[Any]:
        """The calls that were made: by value, further attempts as (value, attempt)."""
        return [value for what, value in self.happened if what == "called"]

    def causes(self) -> list[type[BaseException | None]]:
        """Why the task failed, each time that it was told so."""
        return [type(failure.__cause__) for failure in self.failures]


class OpenRig(Protocol):
    """Opens a rig, on one kind of loop or the other."""

    def __call__(
        self,
        *,
        build: BuildOperator = ...,
        mode: Mode = ...,
        capacity: int = ...,
        timeout_ms: int = ...,
        function: AsyncFunction | None = ...,
        **more: Unpack[More],
    ) -> AbstractContextManager[Rig]:
        """A rig, closed behind it."""


@contextmanager
def watched_loop(*, virtual: bool = False) -> Iterator[asyncio.AbstractEventLoop]:
    """A loop; what a callback of it raises, which asyncio would only log, fails the test."""
    if virtual:
        with virtual_loop() as loop:
            yield loop
        return
    raised: list[dict[str, Any]] = []
    with real_loop() as loop:
        loop.set_exception_handler(lambda _loop, report: raised.append(report))
        yield loop
    assert raised == []


@contextmanager
def open_rig(
    *,
    virtual: bool = False,
    build: BuildOperator = build_operator,
    mode: Mode = "ordered",
    capacity: int = 10,
    timeout_ms: int = 0,
    function: AsyncFunction | None = None,
    **more: Unpack[More],
) -> Iterator[Rig]:
    """A rig on a real loop, or in virtual time; the loop is closed behind it."""
    with watched_loop(virtual=virtual) as loop:
        yield Rig(
            loop,
            build=build,
            mode=mode,
            capacity=capacity,
            timeout_ms=timeout_ms,
            function=function,
            **more,
        )


open_virtual: OpenRig = partial(open_rig, virtual=True)
"""A rig in virtual time."""
