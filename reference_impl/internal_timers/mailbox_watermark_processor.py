"""A watermark passes once its timers have fired, and lets mail through between two of them.

Answers to Flink's `MailboxWatermarkProcessor`. Invariant: a watermark leaves only when every timer up to it has fired,
so that nothing a timer emits comes behind it; and at most one continuation waits in the mailbox (T13). Thousands of
timers that one watermark releases therefore hold up no barrier (FLINK-20217).

The continuation is deferrable: an operator that yields while it waits for room downstream must not run it, or it would
put itself back for ever (FLINK-35528); who finishes runs deferrable mail too, and loses no timer (FLINK-39481).

Deviation: a watermark that passed before its continuation ran is not emitted again by that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from reference_impl.elements import Watermark
from reference_impl.internal_timers.internal_timer_service import MIN_WATERMARK
from reference_impl.mailbox_executor import MailboxExecutor

__all__ = ["AdvancingTimers", "MailboxWatermarkProcessor"]


class AdvancingTimers(Protocol):
    """All the event-time timers of one operator."""

    @property
    def reached_watermark(self) -> int:
        """The highest watermark whose timers have all fired; `MIN_WATERMARK` before the first."""

    def try_advance_watermark(self, timestamp: int, should_stop: Callable[[], bool]) -> bool:
        """Fire the timers up to `timestamp` until `should_stop`; whether it came to the end (T13)."""


class MailboxWatermarkProcessor:
    """Of one operator. Mutable: holds the newest watermark until its timers have fired."""

    def __init__(
        self,
        *,
        timers: AdvancingTimers,
        executor: MailboxExecutor,
        emit: Callable[[Watermark], None],
        intermediate_watermarks: bool = False,
    ) -> None:
        """With `intermediate_watermarks` downstream hears how far an interrupted advance has come (FLINK-40101)."""
        self._timers = timers
        self._executor = executor
        self._continuations = executor.deferring()
        self._emit = emit
        self._intermediate = intermediate_watermarks
        self._pending: Watermark | None = None
        self._highest: Watermark | None = None
        self._continuation_waits = False
        self._emitted = MIN_WATERMARK

    @property
    def is_pending(self) -> bool:
        """Whether a watermark waits for its timers."""
        return self._pending is not None

    def emit_watermark_inside_mailbox(self, watermark: Watermark) -> None:
        """Fire its timers as far as mail allows, now or in a continuation, and then let it pass.

        A watermark that still waits is overtaken: only the highest passes. One that is behind what came before counts
        as that, as in Flink: time never goes back.
        """
        if self._highest is None or watermark.timestamp >= self._highest.timestamp:
            self._highest = watermark
        self._pending = self._highest
        self._advance(self._pending)

    def _advance(self, watermark: Watermark) -> None:
        if self._timers.try_advance_watermark(watermark.timestamp, self._executor.should_interrupt):
            self._pending = None
            self._pass_on(watermark)
            return
        if self._intermediate:
            self._tell_progress()
        if not self._continuation_waits:
            self._continuation_waits = True
            self._continuations.execute(self._continue, "fire the timers that are left of a watermark")

    def _continue(self) -> None:
        self._continuation_waits = False
        if self._pending is not None:
            self._advance(self._pending)

    def _tell_progress(self) -> None:
        reached = self._timers.reached_watermark
        if reached > self._emitted:
            self._pass_on(Watermark(timestamp=reached))

    def _pass_on(self, watermark: Watermark) -> None:
        self._emitted = watermark.timestamp
        self._emit(watermark)
