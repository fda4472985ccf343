"""What an input says of itself after it was asked for one element.

Answers to Flink's `DataInputStatus`. Invariant: each status has exactly one answer of the task (M41), and it is below
both who says it and who acts on it.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["DataInputStatus"]


class DataInputStatus(Enum):
    """The states of an input."""

    MORE_AVAILABLE = "more is there"
    NOTHING_AVAILABLE = "nothing is there now"
    END_OF_RECOVERY = "what was in flight has been taken in"
    STOPPED = "the data have ended, without a drain"
    END_OF_DATA = "the data have ended, with a drain"
    END_OF_INPUT = "nothing at all will come"
