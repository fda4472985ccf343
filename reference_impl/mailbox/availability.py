"""Whether something can be used now: an availability that others wait for, and the status that an input answers with.

Answers to Flink's `AvailabilityProvider` with its futures, and to `DataInputStatus`. Invariant: each wait ends exactly
once (A14), and each status has exactly one answer of the task (M41).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

__all__ = ["AVAILABLE", "Availability", "DataInputStatus"]


class Availability:
    """Whether something can be used now, and who is told when it can again.

    One period of being unavailable, or none. Mutable: ends once.

    Answers to Flink's `AvailabilityProvider` and its futures. Invariant: a wait that began while something was
    unavailable ends exactly once, when it becomes available; one that is over already ends at once (A14).
    """

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
    """What an input says of itself after it was asked for one element.

    The states of an input.

    Answers to Flink's `DataInputStatus`. Invariant: each status has exactly one answer of the task (M41), and it is
    below both who says it and who acts on it.
    """

    MORE_AVAILABLE = "more is there"
    NOTHING_AVAILABLE = "nothing is there now"
    END_OF_RECOVERY = "what was in flight has been taken in"
    STOPPED = "the data have ended, without a drain"
    END_OF_DATA = "the data have ended, with a drain"
    END_OF_INPUT = "nothing at all will come"
