"""What a subtask keeps in the database: its fencing token, its last epoch, its visible rows.

Answers to the state that Flink's `TwoPhaseCommitSinkFunction` recovers from. Invariant: plain values, known to
every sink, whether its database is real or simulated; no client is needed to name them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

__all__ = [
    "Attempt",
    "DeadRow",
    "Fenced",
    "OpenEpoch",
    "Part",
    "PassedOver",
    "Restore",
    "Restored",
    "SavedEpoch",
    "Sink",
    "SinkLost",
    "Visible",
]


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
class Part:
    """What a subtask handed in of a checkpoint: attempt `token` did, and it is in `file`."""

    epoch: int
    token: int
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """A completed checkpoint that could not be restored: it is `torn` or `missing`."""

    epoch: int
    file: str
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a store gave back; `saved` None: there is nothing yet."""

    saved: SavedEpoch | None
    passed_over: tuple[PassedOver, ...]


class Restore(Protocol):
    """How a sink asks the store."""

    def __call__(self, parts: Sequence[Part], *, committed: int) -> Restored:
        """The newest part that can be restored, none older than epoch `committed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What taking over a subtask gave: the attempt's number (its fencing token), and where to resume."""

    number: int
    origin_ms: int
    """When the subtask's first attempt began, on the machine's monotonic clock."""
    saved: SavedEpoch | None
    passed_over: tuple[PassedOver, ...] = ()


class Visible(msgspec.Struct, frozen=True, kw_only=True):
    """One row to make visible: the `j`-th output of record `id`."""

    id: int
    j: int
    value: Any


class DeadRow(msgspec.Struct, frozen=True, kw_only=True):
    """One dead letter: record `id`, which failed with `error`."""

    id: int
    error: str


class OpenEpoch(Protocol):
    """What a sink takes between two checkpoints."""

    def add(self, row: Visible) -> None:
        """Take one output into the open epoch."""

    def bury(self, *, id: int, error: str) -> None:
        """Take one dead letter into the open epoch: the record has no output, and why."""


class Sink(OpenEpoch, Protocol):
    """A sink whose commit completes the checkpoint."""

    def commit(self, epoch: int, *, position: int, elements: Sequence[dict[str, Any]]) -> None:
        """Make the open epoch visible, with its snapshot. Raises `Fenced`, `SinkLost`."""
