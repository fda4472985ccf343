"""The loop watches: they record when the function under test blocked the event loop, and at which line.

Answers to asyncio's debug mode, which reports how long a callback took but not where. A second thread samples the stack
of the task's thread. Invariant: only blocking inside the function under test is recorded, not a loaded machine, a
stopped process or code of the harness: late samples are ignored, and time in the CPU's run queue is subtracted. At
level sim time is virtual, and stands still meanwhile: there, the real time is added up in which the function itself
holds the thread.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

from harness.history.notes import Alive, LoopBlocked, NoteLog
from harness.system.clock import monotonic_us

_BEAT_S = 0.02
_STILL_US = 100_000
"""A function that is sampled in one place for this long, while the loop does not run, blocks it."""
_LOOK_US = 30_000
_LATE_US = 60_000
"""A sample later than this is ignored, because the whole process may have been stopped."""
_ALIVE_EVERY_US = 1_000_000


def code_of(function: object) -> CodeType | None:
    """The code object of `function` on a stack; None if it is not a Python function."""
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


class _RepeatedSighting(NamedTuple):
    """A place where consecutive samples found the function."""

    turned_us: int
    """When the loop ran last; identifies the block."""
    where: str
    first_us: int
    last_us: int


class LoopWatch:
    """The watch of one attempt. Mutable: its two threads share fields, each written by one of them."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, journal: NoteLog, *, function: CodeType | None
    ) -> None:
        self._loop = loop
        self._journal = journal
        self._function = function
        self._task_thread = threading.get_ident()
        self._turned_us = monotonic_us()
        self._queued_us = _queued_us()
        """The thread's total time in the CPU's run queue when the loop last ran."""
        self._said_us = self._turned_us
        self._seen: _RepeatedSighting | None = None
        """Where the samples found the function since the loop last ran."""
        self._over = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches while the block lasts; call it on the task's thread."""
        looker = threading.Thread(target=self._look, name="loop-watch", daemon=True)
        self._turned_us = monotonic_us()
        beat = self._loop.call_later(_BEAT_S, self._beat)
        looker.start()
        try:
            yield
        finally:
            beat.cancel()
            self._over.set()
            looker.join()

    def _beat(self) -> None:
        """Runs in the loop: records a block that has just ended."""
        if self._over.is_set():
            return
        now_us, queued_us, seen = monotonic_us(), _queued_us(), self._seen
        if seen is not None and seen.turned_us == self._turned_us:
            stood_us = seen.last_us - seen.first_us - (queued_us - self._queued_us)
            if stood_us >= _STILL_US:
                self._journal.note(LoopBlocked(ms=round(stood_us / 1000, 1), where=seen.where))
        if now_us - self._said_us >= _ALIVE_EVERY_US:
            self._said_us = now_us
            self._journal.note(Alive())
        self._turned_us, self._queued_us = now_us, queued_us
        self._loop.call_later(_BEAT_S, self._beat)

    def _look(self) -> None:
        """Runs in the sampling thread."""
        before_us = monotonic_us()
        while not self._over.wait(_LOOK_US / 1_000_000):
            now_us, turned_us = monotonic_us(), self._turned_us
            is_late = now_us - before_us > _LOOK_US + _LATE_US
            before_us = now_us
            if not is_late and now_us - turned_us >= _LOOK_US:
                self._note(turned_us, now_us)

    def _note(self, turned_us: int, now_us: int) -> None:
        """Takes a sample and compares it with the previous one."""
        where, seen = self._where(), self._seen
        if where is None:
            return
        is_still = (
            seen is not None
            and seen.turned_us == turned_us
            and _function_of(seen.where) == _function_of(where)
        )
        first_us = seen.first_us if seen is not None and is_still else now_us
        self._seen = _RepeatedSighting(turned_us=turned_us, where=where, first_us=first_us, last_us=now_us)

    def _where(self) -> str | None:
        """The innermost line in the function's own file on the stack; None if the function does not run."""
        if self._function is None:
            return None
        frame: FrameType | None = sys._current_frames().get(self._task_thread)  # noqa: SLF001 - public by its docs
        innermost: str | None = None
        while frame is not None:
            code = frame.f_code
            if code.co_filename == self._function.co_filename:
                innermost = innermost or _place(frame)
            if code is self._function:
                return innermost
            frame = frame.f_back
        return None


_SAMPLE_US = 5_000
_SWITCH_US = 5_000
"""Python's switch interval (`sys.getswitchinterval`)."""


class HoldWatch:
    """The watch of a simulated run, from the thread that makes it. Mutable: its sampling thread adds to `held`."""

    def __init__(self, *, function: Callable[[], CodeType | None]) -> None:
        """`function`: the function under test; None as long as it is not known."""
        self._function = function
        self._held: dict[str, Counter[str]] = {}
        """By the function's name: the microseconds at each place of it."""
        self._thread = threading.get_ident()
        self._over = threading.Event()

    def holds(self) -> Iterator[tuple[str, int]]:
        """Where each function held the thread most often, and for about how many ms in all."""
        for places in self._held.values():
            yield places.most_common(1)[0][0], places.total() // 1000

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches while the block lasts; call it on the thread that makes the run."""
        looker = threading.Thread(target=self._look, name="hold-watch", daemon=True)
        looker.start()
        try:
            yield
        finally:
            self._over.set()
            looker.join()

    def _look(self) -> None:
        before_us = monotonic_us()
        while not self._over.wait(_SAMPLE_US / 1_000_000):
            now_us = monotonic_us()
            # A sample may be late because other code held the interpreter, for as long as a switch interval.
            passed_us = min(max(_SAMPLE_US, now_us - before_us - _SWITCH_US), _LATE_US)
            before_us = now_us
            where = self._where()
            if where is not None:
                self._held.setdefault(_function_of(where), Counter())[where] += passed_us

    def _where(self) -> str | None:
        """The innermost line in the function's file; None: it does not run, or waits for the harness's own code."""
        frame: FrameType | None = sys._current_frames().get(self._thread)  # noqa: SLF001 - public by its docs
        innermost: str | None = None
        function = self._function()
        while frame is not None and function is not None:
            code = frame.f_code
            if code.co_filename == function.co_filename:
                innermost = innermost or _place(frame)
            elif innermost is None and code.co_filename.startswith(_OURS):
                return None
            if code is function:
                return innermost
            frame = frame.f_back
        return None


_OURS = tuple(f"{Path(__file__).parents[2] / package}{os.sep}" for package in ("harness", "reference_impl"))


def _place(frame: FrameType) -> str:
    name = frame.f_code.co_filename.rpartition("/")[2]
    return f"{frame.f_code.co_name} ({name}:{frame.f_lineno})"


def _queued_us() -> int:
    """The calling thread's total time in the CPU's run queue, on Linux; elsewhere 0."""
    try:
        _, queued_ns, _ = Path("/proc/thread-self/schedstat").read_text("ascii").split()
    except (OSError, ValueError):
        return 0
    return int(queued_ns) // 1000


def _function_of(where: str) -> str:
    """`where` without the line number, which changes during a long computation."""
    return where.partition(":")[0]
