"""Processing-time timers whose callbacks arrive as mail.

Answers to Flink's `ProcessingTimeService`. Invariant: the loop only puts the mail; the callback runs on the
task's thread, between two other mails (T2).

Deviation: a timer is due when its delay has passed and not one millisecond later (T1): the delay is counted
from the loop's own, finer clock, so it never fires early. The same rule holds under a virtual clock (A49).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from reference_impl.errors import MailboxClosed
from reference_impl.mailbox import MailboxExecutor

__all__ = ["Timer", "Timers"]


class Timer:
    """One timer. Mutable: pending until it fires or is cancelled, then nothing for ever."""

    __slots__ = ("_handle", "_timers")

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._handle: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        """Do not fire; without effect on one that has fired: its mail, if still waiting, runs (T3)."""
        self._timers._cancel(self)  # noqa: SLF001 - the two are one concept


class Timers:
    """The timers of one task. Mutable; `len` is the number of those neither fired nor cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: MailboxExecutor) -> None:
        self._loop = loop
        self._executor = executor
        self._pending: dict[Timer, None] = {}
        self._quiesced = False

    def __len__(self) -> int:
        """The pending timers."""
        return len(self._pending)

    def register(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` as mail once `delay_ms` has passed; never, if the service is quiesced (T6)."""
        if delay_ms < 0:
            raise ValueError(f"a timer's delay is {delay_ms} ms; give 0 or more")
        timer = Timer(self)
        if not self._quiesced:
            self._pending[timer] = None
            timer._handle = self._loop.call_later(delay_ms / 1000, self._fire, timer, callback)  # noqa: SLF001
        return timer

    def quiesce(self) -> None:
        """Cancel what is pending and let nothing new fire; mail already put still runs (T7)."""
        self._quiesced = True
        for timer in list(self._pending):
            self._cancel(timer)

    def _fire(self, timer: Timer, callback: Callable[[], None]) -> None:
        del self._pending[timer]
        timer._handle = None  # noqa: SLF001
        try:
            self._executor.execute(callback, "timer")
        except MailboxClosed:
            return  # the task is going down: not a failure of it (T5)

    def _cancel(self, timer: Timer) -> None:
        handle, timer._handle = timer._handle, None  # noqa: SLF001
        if handle is not None:
            handle.cancel()
            del self._pending[timer]
