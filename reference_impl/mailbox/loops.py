"""Event loops on real and on virtual time. Only this module builds loops, and only through a loop is time read.

Answers to the thread of Flink's mailbox, the clock of its `ProcessingTimeService`, and `TestProcessingTimeService`.
Invariant: `reference_impl` reads time only from the loop that it was given, so with a `VirtualLoop` all of it runs in
virtual time.
"""

from __future__ import annotations

import asyncio
import select
import selectors
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from heapq import heappop, heappush
from threading import get_ident
from time import monotonic_ns
from typing import Any

from msgspec import Struct

from reference_impl.errors import SimulationStuck, WrongState

_DESCRIPTOR_MAX = 1023
"""The largest file descriptor that `select` accepts."""


def fine_selector() -> selectors.BaseSelector:
    """A selector whose waits are precise to microseconds, on Linux.

    Python's epoll rounds waits up to whole milliseconds, a fifth of a request that takes 5 ms. `select` on epoll's own
    descriptor waits precisely. It never wakes early, and finds the same events. Flink's timers have threads and need
    no such class.
    """
    return _FineEpollSelector() if sys.platform == "linux" else selectors.DefaultSelector()


if sys.platform == "linux":

    class _FineEpollSelector(selectors.EpollSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if timeout is not None and timeout > 0 and self.fileno() <= _DESCRIPTOR_MAX:
                select.select([self.fileno()], [], [], timeout)
                timeout = 0
            return super().select(timeout)


Pick = Callable[[int], int]
"""Scheduling choice, a pure function: from the number of ready callbacks to the index of the one to run next."""


class Handle(Struct, eq=False):
    """A scheduled callback that can be cancelled. Mutable."""

    callback: Callable[..., Any]
    args: tuple[Any, ...]
    context: Context | None
    when_ms: int = 0
    gone: bool = False

    def cancel(self) -> None:
        self.gone = True

    def cancelled(self) -> bool:
        return self.gone

    def when(self) -> float:
        """The due time in seconds, as asyncio counts."""
        return self.when_ms / 1000


_TASKS_KEPT = 32
"""Finished tasks that a loop may keep beside as many as there are unfinished ones."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop in virtual time: the clock stands still while anything can run, else jumps to the next timer.

    Mutable. Raises `SimulationStuck` where a real loop would wait for ever. It supports asyncio's futures, tasks and
    timers, but no files, no sockets and no other threads.

    Answers to Flink's `TestProcessingTimeService`. Invariant: what runs, and in which order, depends only on what was
    scheduled and on `pick`; time is a whole number of milliseconds. Decision 14 says why asyncio's own loop does not
    do.
    """

    def __init__(self, *, start_ms: int = 0, pick: Pick | None = None) -> None:
        # Skips the parent's constructor, which sets up a selector, a clock and signals.
        self._now_ms = start_ms
        self._pick = pick
        self._thread = get_ident()
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[int, int, Handle]] = []
        self._numbers = 0
        self._stopping = False
        self._running = False
        self._closed = False
        self._raised: BaseException | None = None
        self._tasks: list[asyncio.Task[object]] = []
        """Every unfinished task, and some finished ones: asyncio itself does not keep a task that nobody awaits, and
        Python would destroy it at a moment that depends on what else the process did."""
        self._tasks_max = _TASKS_KEPT

    # ------------------------------------------------------------------------------------------- time

    def now_ms(self) -> int:
        return self._now_ms

    def now_ns(self) -> int:
        return self._now_ms * 1_000_000

    def time(self) -> float:
        """Virtual time in seconds, as asyncio expects."""
        return self._now_ms / 1000

    def next_due_ms(self) -> int | None:
        """Due time of the next timer, or None."""
        timers = self._timers
        while timers and timers[0][2].gone:
            heappop(timers)
        return timers[0][0] if timers else None

    @property
    def is_idle(self) -> bool:
        """Whether no callback is ready."""
        return not self._ready

    def advance(self, to_ms: int) -> None:
        """Set the clock to `to_ms`, and make timers due by then ready, in order of due time and registration."""
        timers = self._timers
        while timers and timers[0][0] <= to_ms:
            handle = heappop(timers)[2]
            if not handle.gone:
                self._ready.append(handle)
        if to_ms > self._now_ms:  # noqa: PLR1730 - hot path: saves the call of `max`
            self._now_ms = to_ms

    # --------------------------------------------------------------------------------------- callbacks

    def call_soon(  # type: ignore[override]  # returns a smaller handle with the same methods
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> Handle:
        if self._closed:
            raise RuntimeError("the virtual loop is closed")
        handle = Handle(callback, args, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> Handle:
        """As `call_soon`; refuses other threads, since what they do takes real time."""
        if get_ident() != self._thread:
            raise WrongState("a foreign thread cannot enter virtual time; use a real loop")
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> Handle:
        """Run `callback` after `delay` seconds, rounded to milliseconds; a shorter wait takes one, so time goes on."""
        wait_ms = round(delay * 1000) or (delay > 0)
        return self._schedule(self._now_ms + wait_ms, Handle(callback, args, context))

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> Handle:
        """Run `callback` when the loop's time is `when` seconds."""
        return self._schedule(round(when * 1000), Handle(callback, args, context))

    def call_at_ms(self, when_ms: int, callback: Callable[..., object], *args: object) -> Handle:
        """As `call_at`, without the rounding of seconds in floating point."""
        return self._schedule(when_ms, Handle(callback, args, None))

    def _schedule(self, when_ms: int, handle: Handle) -> Handle:
        if self._closed:
            raise RuntimeError("the virtual loop is closed")
        handle.when_ms = when_ms
        self._numbers += 1
        heappush(self._timers, (when_ms, self._numbers, handle))
        return handle

    # ------------------------------------------------------------------------------------------ turning

    def run_forever(self) -> None:
        """Run turns until `stop`; if stopped before, run one turn, as asyncio does."""
        outer = asyncio._get_running_loop()  # noqa: SLF001 - meant for authors of loops
        asyncio._set_running_loop(self)  # noqa: SLF001
        try:
            self._turn_until_stopped()
        finally:
            asyncio._set_running_loop(outer)  # noqa: SLF001

    def _turn_until_stopped(self) -> None:
        if self._running or self._closed:
            raise RuntimeError(f"the virtual loop is {'closed' if self._closed else 'running already'}")
        self._running = True
        try:
            while True:
                self._turn()
                if self._raised is not None:
                    raised, self._raised = self._raised, None
                    raise raised
                if self._stopping:
                    break
        finally:
            self._stopping = self._running = False

    def _turn(self) -> None:
        """Run the callbacks that are ready now; if there are none, advance to the next timer first."""
        if self._ready or self._stopping:
            self.advance(self._now_ms)  # makes timers that are due now ready, as asyncio does in each turn
        else:
            due_ms = self.next_due_ms()
            if due_ms is None:
                tasks = self.unfinished_tasks()
                waiting = sorted(f"task {task.get_name()} in {task.get_coro()!r}" for task in tasks)
                raise SimulationStuck(self._now_ms, waiting)
            self.advance(due_ms)
        self.run_ready()

    def run_ready(self) -> None:
        """Run the callbacks that are ready now, without advancing the clock."""
        ready = self._ready
        for left in range(len(ready), 0, -1):
            if self._pick is not None and left > 1:
                ready.rotate(-self._pick(left))
            handle = ready.popleft()
            if handle.gone:
                continue
            if handle.context is None:
                handle.callback(*handle.args)
            else:
                handle.context.run(handle.callback, *handle.args)

    def stop(self) -> None:
        """Leave `run_forever` after the current turn."""
        self._stopping = True

    def run_until_complete(self, future: Any) -> Any:
        """Run until `future`, a coroutine or a future, is done, and return its result."""
        awaited = asyncio.ensure_future(future, loop=self)
        awaited.add_done_callback(self._stop_for)
        try:
            self.run_forever()
        finally:
            awaited.remove_done_callback(self._stop_for)  # a later cancel must not stop a later run
        if not awaited.done():
            raise RuntimeError("the virtual loop was stopped before what it ran for was done")
        return awaited.result()

    def _stop_for(self, _: object) -> None:
        self.stop()

    # --------------------------------------------------------------------------------------------- life

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Drop pending callbacks and timers, and refuse new ones."""
        if self._running:
            raise RuntimeError("the virtual loop is running; stop it before it is closed")
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        self._tasks.clear()

    async def shutdown_asyncgens(self) -> None:
        """Does nothing: callers close the asynchronous generators that they open."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any] | AsyncGenerator[Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        """Create a task; unnamed tasks are numbered in the order of creation."""
        self._numbers += 1
        options["name"] = options.get("name") or f"{self._numbers}"
        task = asyncio.Task(coro, loop=self, **options)  # type: ignore[arg-type]
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_max:
            self._tasks = self.unfinished_tasks()
            self._tasks_max = 2 * len(self._tasks) + _TASKS_KEPT
        return task

    def unfinished_tasks(self) -> list[asyncio.Task[object]]:
        """The tasks that have not ended, in the order of their creation."""
        return [task for task in self._tasks if not task.done()]

    def call_exception_handler(self, context: dict[str, object]) -> None:
        """End the run with the error, which asyncio would only log."""
        error = context.get("exception")
        if not isinstance(error, BaseException):
            error = RuntimeError(str(context.get("message", context)))
        self._raised = error
        self.stop()

    def get_debug(self) -> bool:
        return False


NS_PER_MS = 1_000_000

CANCELLATION_LIMIT_S = 5.0
"""A closing loop waits this long for cancelled tasks to end, then gives them up."""


@contextmanager
def real_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An asyncio loop on real time; on exit, remaining tasks are cancelled and the loop is closed."""
    loop = asyncio.SelectorEventLoop(fine_selector())
    try:
        yield loop
    finally:
        try:
            _cancel_leftovers(loop, asyncio.all_tasks(loop))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


@contextmanager
def virtual_loop(*, start_ms: int = 0, pick: Pick | None = None) -> Iterator[VirtualLoop]:
    """A loop on virtual time; `pick` chooses which ready callback runs next.

    On exit, remaining tasks are cancelled.
    """
    loop = VirtualLoop(start_ms=start_ms, pick=pick)
    try:
        yield loop
    finally:
        try:
            _cancel_leftovers(loop, loop.unfinished_tasks())
        finally:
            loop.close()


def clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], int]:
    """A fast function that returns the loop's time in nanoseconds."""
    return loop.now_ns if isinstance(loop, VirtualLoop) else monotonic_ns


def call_at_ns(
    loop: asyncio.AbstractEventLoop, instant_ns: int, callback: Callable[[], None]
) -> asyncio.Handle | Handle:
    """Run `callback` when the loop's time is `instant_ns`."""
    if isinstance(loop, VirtualLoop):
        return loop.call_at_ms(instant_ns // NS_PER_MS, callback)
    return loop.call_at(instant_ns / 1_000_000_000, callback)


def _cancel_leftovers(loop: asyncio.AbstractEventLoop, tasks: Collection[asyncio.Task[object]]) -> None:
    if not tasks:
        return
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.wait(tasks, timeout=CANCELLATION_LIMIT_S))
