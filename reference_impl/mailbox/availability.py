"""Availability, on which callers wait, and the status with which an input answers a request for data.

Answers to Flink's `AvailabilityProvider` with its futures, and to `DataInputStatus`. Invariant: each wait ends exactly
once (A14), and the task has exactly one reaction to each status (M41).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Availability:
    """One period in which something is unavailable, or the state of being available. Mutable: ends once.

    Answers to the futures of Flink's `AvailabilityProvider`. Invariant: a callback registered during the period is
    called exactly once, at its end; one registered later is called at once (A14).
    """

    __slots__ = ("_ended", "_waiting")

    def __init__(self, *, ended: bool = False) -> None:
        self._ended = ended
        self._waiting: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return self._ended

    def then(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the period ends, or now if it has ended."""
        if self._ended:
            callback()
        else:
            self._waiting.append(callback)

    def end(self) -> None:
        """End the period and call the callbacks in the order of their registration."""
        self._ended = True
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()


AVAILABLE = Availability(ended=True)
"""Always available: there is nothing to wait for."""


class DataInputStatus(Enum):
    """What an input answers when the task asks it for one element.

    Answers to Flink's `DataInputStatus`. The task has exactly one reaction to each status (M41).
    """

    MORE_AVAILABLE = "more is there"
    NOTHING_AVAILABLE = "nothing is there now"
    END_OF_RECOVERY = "what was in flight has been taken in"
    STOPPED = "the data have ended, without a drain"
    END_OF_DATA = "the data have ended, with a drain"
    END_OF_INPUT = "nothing at all will come"
