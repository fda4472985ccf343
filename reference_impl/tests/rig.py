"""The bench on which the operator's tests stand: calls that end when a test says so, and ears for everything.

Answers to Flink's `OneInputStreamOperatorTestHarness`. Invariant: no mail runs but what a test asks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hypothesis import settings

from reference_impl.async_function import AsyncFunction
from reference_impl.async_wait import AsyncWaitOperator, BuildOperator, Mode, build_operator
from reference_impl.elements import QueueElement, Record, Watermark
from reference_impl.loops import real_loop
from reference_impl.mailbox import Mailbox, MailboxExecutor
from reference_impl.probe import Ending
from reference_impl.result import ResultHandle
from reference_impl.timers import Timers

__all__ = ["Ears", "HandFunction", "Rig", "open_rig", "quickly", "record", "watched_loop", "watermark"]

quickly = settings(deadline=None, max_examples=60, derandomize=True)
"""For property tests of the quick tier: the same examples every time, and no clock that judges them."""


def record(value: Any) -> Record:
    """A record whose event time is as plain as its value."""
    return Record(value=value, timestamp=value if isinstance(value, int) else None)


def watermark(timestamp: int) -> Watermark:
    """A watermark."""
    return Watermark(timestamp=timestamp)


class HandFunction(AsyncFunction):
    """Calls that a test ends by hand, by value."""

    def __init__(self) -> None:
        self.handles: dict[Any, ResultHandle] = {}
        self.closed = 0

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        """Keep the handle."""
        self.handles[value] = handle

    def close(self) -> None:
        """Count."""
        self.closed += 1


class Ears:
    """A probe that notes what it is told, in the shared order of all that happens."""

    def __init__(self, happened: list[tuple[str, Any]]) -> None:
        self.happened = happened

    def called(self, record: Record, *, attempt: int) -> None:
        """Note a call."""
        self.happened.append(("called", record.value))

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
        """Note an outcome."""
        self.happened.append((ending.value, record.value))


class Rig:
    """An operator and all that it touches."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        build: BuildOperator,
        mode: Mode,
        capacity: int,
        timeout_ms: int,
        function: AsyncFunction,
    ) -> None:
        self.loop = loop
        self.mailbox = Mailbox(loop=loop)
        self.executor = MailboxExecutor(self.mailbox, 0)
        self.timers = Timers(loop, self.executor)
        self.emitted: list[QueueElement] = []
        self.failures: list[BaseException] = []
        self.happened: list[tuple[str, Any]] = []
        self.operator: AsyncWaitOperator = build(
            mode=mode,
            capacity=capacity,
            function=function,
            timeout_ms=timeout_ms,
            executor=self.executor,
            timers=self.timers,
            emit=self._emit,
            fail=self.failures.append,
            probe=Ears(self.happened),
        )
        self.hand = function if isinstance(function, HandFunction) else HandFunction()

    def _emit(self, element: QueueElement) -> None:
        self.emitted.append(element)
        self.happened.append(("emitted", element.value if isinstance(element, Record) else element.timestamp))

    def process(self, *elements: QueueElement) -> None:
        """Hand them to the operator, in order."""
        for element in elements:
            self.operator.process(element)

    def complete(self, value: Any, *results: Any) -> None:
        """End the call for `value` well; its mail waits."""
        self.hand.handles[value].complete(results)

    def complete_soon(self, value: Any, *results: Any) -> None:
        """The same from a callback of the loop, as a client would: seen only when the loop runs."""
        self.loop.call_soon(self.complete, value, *results)

    def run_mail(self) -> None:
        """All mail there is, and what that puts."""
        while self.executor.try_yield():
            pass

    def values(self) -> list[Any]:
        """What was emitted, watermarks as `w<timestamp>`."""
        return [e.value if isinstance(e, Record) else f"w{e.timestamp}" for e in self.emitted]


@contextmanager
def watched_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A real loop; what a callback of it raises, which asyncio would only log, fails the test."""
    raised: list[dict[str, Any]] = []
    with real_loop() as loop:
        loop.set_exception_handler(lambda _loop, report: raised.append(report))
        yield loop
    assert raised == []


@contextmanager
def open_rig(
    *,
    build: BuildOperator = build_operator,
    mode: Mode = "ordered",
    capacity: int = 10,
    timeout_ms: int = 0,
    function: AsyncFunction | None = None,
) -> Iterator[Rig]:
    """A rig on a real loop, which is closed behind it."""
    with watched_loop() as loop:
        yield Rig(
            loop,
            build=build,
            mode=mode,
            capacity=capacity,
            timeout_ms=timeout_ms,
            function=function or HandFunction(),
        )
