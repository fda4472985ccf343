"""The loop watch: writes down when an attempt's event loop stood still, and where the function under test stood then.

Answers to asyncio's debug mode, which says how long a callback took and not where. Invariant: only a stop of the task's
thread *inside* the function under test is told; a machine that is busy, a stopped process or the harness's own code
is none, for a second thread looks at the stack, and looks away where it was late itself, and time in which the thread
waited for a processor does not count.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, Protocol

from harness.clock import monotonic_us

__all__ = ["LoopWatch", "WatchJournal", "code_of"]

_BEAT_S = 0.02
_STILL_US = 100_000
"""A function that is found at one place for so long, the loop not turning, blocks it."""
_LOOK_US = 30_000
_LATE_US = 60_000
"""A look that came so much later than it should says nothing: the whole process may have stood still."""
_ALIVE_EVERY_US = 1_000_000


class WatchJournal(Protocol):
    """Where an attempt notes it."""

    def blocked(self, *, ms: float, where: str) -> None:
        """The loop stood still for so long, and the function under test was at `where`."""

    def alive(self) -> None:
        """The loop turns."""


def code_of(function: Callable[..., Any]) -> CodeType | None:
    """What of `function` is seen on a stack; None for what is no Python."""
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


class _Seen(NamedTuple):
    """A place at which several looks in a row have found the function."""

    turned_us: int
    """Which stop of the loop it is of: when it turned last."""
    where: str
    first_us: int
    last_us: int


class LoopWatch:
    """Of one attempt. Mutable: what the beat and the look share, each item written by one of them."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, journal: WatchJournal, *, function: CodeType | None
    ) -> None:
        self._loop = loop
        self._journal = journal
        self._function = function
        self._task_thread = threading.get_ident()
        self._turned_us = monotonic_us()
        self._queued_us = _queued_us()
        """How long the thread had waited for a processor when the loop last turned."""
        self._said_us = self._turned_us
        self._seen: _Seen | None = None
        """Where the function has been seen, look after look, since the loop last turned."""
        self._over = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While the block lasts; on the task's thread."""
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
        """On the task's thread: the loop turns again."""
        if self._over.is_set():
            return
        now_us, queued_us, seen = monotonic_us(), _queued_us(), self._seen
        if seen is not None and seen.turned_us == self._turned_us:
            stood_us = seen.last_us - seen.first_us - (queued_us - self._queued_us)
            if stood_us >= _STILL_US:
                self._journal.blocked(ms=round(stood_us / 1000, 1), where=seen.where)
        if now_us - self._said_us >= _ALIVE_EVERY_US:
            self._said_us = now_us
            self._journal.alive()
        self._turned_us, self._queued_us = now_us, queued_us
        self._loop.call_later(_BEAT_S, self._beat)

    def _look(self) -> None:
        """On a thread of its own."""
        before_us = monotonic_us()
        while not self._over.wait(_LOOK_US / 1_000_000):
            now_us, turned_us = monotonic_us(), self._turned_us
            is_late = now_us - before_us > _LOOK_US + _LATE_US
            before_us = now_us
            if not is_late and now_us - turned_us >= _LOOK_US:
                self._note(turned_us, now_us)

    def _note(self, turned_us: int, now_us: int) -> None:
        """It is still where it was at the last look, or somewhere else, or not there at all."""
        where, seen = self._where(), self._seen
        if where is None:
            return
        is_still = (
            seen is not None
            and seen.turned_us == turned_us
            and _function_of(seen.where) == _function_of(where)
        )
        first_us = seen.first_us if seen is not None and is_still else now_us
        self._seen = _Seen(turned_us=turned_us, where=where, first_us=first_us, last_us=now_us)

    def _where(self) -> str | None:
        """The line at which the function under test is, or what it calls in its own file; None if it does not run."""
        if self._function is None:
            return None
        frame: FrameType | None = sys._current_frames().get(self._task_thread)  # noqa: SLF001 - public by its docs
        innermost: str | None = None
        while frame is not None:
            code = frame.f_code
            if code.co_filename == self._function.co_filename:
                name = code.co_filename.rpartition("/")[2]
                innermost = innermost or f"{code.co_name} ({name}:{frame.f_lineno})"
            if code is self._function:
                return innermost
            frame = frame.f_back
        return None


def _queued_us() -> int:
    """How long the calling thread has waited for a processor, as Linux counts it; 0 where nobody does."""
    try:
        _, queued_ns, _ = Path("/proc/thread-self/schedstat").read_text("ascii").split()
    except (OSError, ValueError):
        return 0
    return int(queued_ns) // 1000


def _function_of(where: str) -> str:
    """Without the line: a long computation is at many."""
    return where.partition(":")[0]
