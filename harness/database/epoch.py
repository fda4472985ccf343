"""What a subtask keeps in the database: its fencing token, its last epoch, its visible rows.

Answers to the state that Flink's `TwoPhaseCommitSinkFunction` recovers from. Invariant: plain values, known to
every sink, whether its database is real or simulated; no client is needed to name them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

__all__ = ["Attempt", "Fenced", "SavedEpoch", "Sink", "SinkLost", "Visible"]


class Fenced(Exception):
    """A newer attempt of this subtask has taken over; this one must stop."""


class SinkLost(Exception):
    """The sink's database did not answer for as long as a commit may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEpoch:
    """The last committed epoch of a subtask: what a restart resumes from."""

    epoch: int
    position: int
    elements: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What taking over a subtask gave: the attempt's number (its fencing token), and where to resume."""

    number: int
    origin_ms: int
    """When the subtask's first attempt began, on the machine's monotonic clock."""
    saved: SavedEpoch | None


class Visible(msgspec.Struct, frozen=True, kw_only=True):
    """One row to make visible: the `j`-th output of record `id`."""

    id: int
    j: int
    value: Any


class Sink(Protocol):
    """What the task needs of a sink."""

    def add(self, row: Visible) -> None:
        """Take one output into the open epoch."""

    def commit(self, epoch: int, *, position: int, elements: Sequence[dict[str, Any]]) -> None:
        """Make the open epoch visible, with its snapshot. Raises `Fenced`, `SinkLost`."""
