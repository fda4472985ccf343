"""Whether something can be used now, and who is told when it can again.

Answers to Flink's `AvailabilityProvider` and its futures. Invariant: a wait that began while something was
unavailable ends exactly once, when it becomes available; one that is over already ends at once (A14).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

__all__ = ["AVAILABLE", "Availability", "DataInputStatus"]


class Availability:
    """One period of being unavailable, or none. Mutable: ends once."""

    __slots__ = ("_ended", "_waiting")

    def __init__(self, *, ended: bool = False) -> None:
        self._ended = ended
        self._waiting: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return self._ended

    def then(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the period ends; at once if it has ended."""
        if self._ended:
            callback()
        else:
            self._waiting.append(callback)

    def end(self) -> None:
        """Available again: tell who waits, in the order in which they asked."""
        self._ended = True
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()


AVAILABLE = Availability(ended=True)
"""The availability of what is available: nothing is there to wait for."""


class DataInputStatus(Enum):
    """The states of an input."""

    MORE_AVAILABLE = "more is there"
    NOTHING_AVAILABLE = "nothing is there now"
    END_OF_RECOVERY = "what was in flight has been taken in"
    STOPPED = "the data have ended, without a drain"
    END_OF_DATA = "the data have ended, with a drain"
    END_OF_INPUT = "nothing at all will come"
