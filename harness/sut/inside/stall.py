"""The stall: the task's thread does nothing for a while, and with it its event loop.

Answers to a long garbage collection, or to a blocking call in a coroutine. Invariant: what it writes down is how late
the loop really was, never how long it was asked to be.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from harness.clock import monotonic_us, pause

__all__ = ["ActJournal", "Stall"]


class ActJournal(Protocol):
    """Where an attempt writes what a fault does in it."""

    def acted(self, fault: str, what: str, **facts: Any) -> None:
        """Before, or as, it is done."""

    def measured(self, fault: str, what: str, **facts: Any) -> None:
        """What came of it."""


class Stall:
    """Blocks whoever calls `act` for `lasts_ms`."""

    def __init__(
        self, fault: str, *, lasts_ms: int, loop: asyncio.AbstractEventLoop, journal: ActJournal
    ) -> None:
        self._fault = fault
        self._lasts_ms = lasts_ms
        self._loop = loop
        self._journal = journal

    def act(self) -> None:
        """Stand still; the callback that is due now will say how late it came."""
        self._journal.acted(self._fault, "stall", asked_ms=self._lasts_ms)
        due_us = monotonic_us()
        self._loop.call_soon_threadsafe(self._turned, due_us)
        pause(self._lasts_ms / 1000)

    def _turned(self, due_us: int) -> None:
        lag_ms = round((monotonic_us() - due_us) / 1000, 1)
        self._journal.measured(self._fault, "loop lag", lag_ms=lag_ms)
