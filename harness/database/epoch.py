"""The values that sinks exchange: attempts and fencing, saved and restored epochs, rows; and the sink protocols.

Answers to the state that Flink's `TwoPhaseCommitSinkFunction` recovers from. Invariant: plain values that need no
database client, for real and simulated databases alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from harness.system.json_types import Json

INSERT_OUTPUT = "INSERT INTO output (subtask, id, j, v, epoch, token) VALUES (%s, %s, %s, %s, %s, %s)"
INSERT_DEAD_LETTER = "INSERT INTO dead_letter (subtask, id, error, epoch, token) VALUES (%s, %s, %s, %s, %s)"


class Fenced(Exception):
    """A newer attempt of this subtask has taken over; this attempt must stop."""


class SinkLost(Exception):
    """The sink's database did not answer within the time limit of a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEpoch:
    """The snapshot of a subtask's epoch, from which a restart resumes."""

    epoch: int
    position: int
    elements: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPart:
    """A subtask's part of a checkpoint: acknowledged by attempt `token`, stored in `file`."""

    epoch: int
    token: int
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """A completed checkpoint that could not be restored: its file is `torn` or `missing`."""

    epoch: int
    file: str
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The result of a restore; `saved` None: there is no checkpoint yet."""

    saved: SavedEpoch | None
    passed_over: tuple[PassedOver, ...]


class RestoreFromStore(Protocol):
    """The function by which a sink restores from the store."""

    def __call__(self, parts: Sequence[CheckpointPart], *, committed: int) -> Restored:
        """The newest readable part of `parts`, none older than epoch `committed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """The result of taking over a subtask: the attempt's number (its fencing token) and the snapshot to resume from."""

    number: int
    origin_ms: int
    """When the subtask's first attempt began, on the machine's monotonic clock."""
    saved: SavedEpoch | None
    passed_over: tuple[PassedOver, ...] = ()


class Visible(msgspec.Struct, frozen=True, kw_only=True):
    """One output row: the `j`-th output of record `id`."""

    id: int
    j: int
    value: Any


class DeadRow(msgspec.Struct, frozen=True, kw_only=True):
    """One dead letter: record `id` failed with `error`."""

    id: int
    error: str


class OpenEpoch(Protocol):
    """What a sink accepts between two checkpoints."""

    def add(self, row: Visible) -> None:
        """Add an output to the open epoch."""

    def write_dead_letter(self, *, id: int, error: str) -> None:
        """Add a dead letter to the open epoch: the record has no output because of `error`."""


class Sink(OpenEpoch, Protocol):
    """A sink whose commit is the checkpoint."""

    def commit(self, epoch: int, *, position: int, elements: Sequence[Json]) -> None:
        """Make the open epoch's outputs visible, together with its snapshot. Raises `Fenced`, `SinkLost`."""
