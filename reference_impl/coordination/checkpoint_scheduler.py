"""The clock that asks for periodic checkpoints.

Answers to the `ScheduledTrigger` and the timer of Flink's `CheckpointCoordinator`. Invariant: at most one tick is
scheduled; stopped, none is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from reference_impl.loops import NS_PER_MS, call_at_ns, clock_of
from reference_impl.virtual_loop import Handle

__all__ = ["CheckpointScheduler", "call_after_ms"]


def call_after_ms(
    loop: asyncio.AbstractEventLoop, delay_ms: int, callback: Callable[[], None]
) -> asyncio.Handle | Handle:
    """Run `callback` on the loop once `delay_ms` has passed."""
    return call_at_ns(loop, clock_of(loop)() + delay_ms * NS_PER_MS, callback)


class CheckpointScheduler:
    """Ticks at a fixed rate. Mutable: started, stopped, put off."""

    def __init__(
        self, *, loop: asyncio.AbstractEventLoop, interval_ms: int, tick: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._interval_ms = interval_ms
        self._tick = tick
        self._next: asyncio.Handle | Handle | None = None

    @property
    def is_started(self) -> bool:
        """Whether it ticks."""
        return self._next is not None

    def start(self, delay_ms: int) -> None:
        """Tick first after `delay_ms`, then each interval; anew if it ticks already."""
        self.stop()
        self._next = call_after_ms(self._loop, delay_ms, self._on_tick)

    def reschedule(self, delay_ms: int) -> None:
        """Put the next tick off, or bring it forward; nothing if it does not tick (C33)."""
        if self.is_started:
            self.start(delay_ms)

    def stop(self) -> None:
        """Tick no more."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _on_tick(self) -> None:
        self._next = call_after_ms(self._loop, self._interval_ms, self._on_tick)
        self._tick()
