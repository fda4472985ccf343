"""A source that is read by position, and what a checkpoint keeps of the subtask that reads it.

Answers to Flink's `SourceReader` and to the state of a source operator. Invariant: the same position gives the same
element in every attempt, so a subtask restarts from a position and from the elements that had not left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from reference_impl.elements import StreamElement
from reference_impl.events import CheckpointBarrier

__all__ = ["Checkpoint", "Source"]


class Source(Protocol):
    """A deterministic source that can be read from any position."""

    def read(self, position: int) -> StreamElement:
        """The element at `position`; `EndOfInput` behind the last."""

    def barrier_before(self, position: int) -> CheckpointBarrier | None:
        """The barrier that cuts the stream just before `position`."""

    def due_ms(self, position: int) -> int:
        """When `position` may be read, on the loop's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A subtask's part of a checkpoint: where its source resumes, and what is replayed first (A56)."""

    number: int
    position: int
    """The next source position to read after a restore."""
    elements: Sequence[Any]
    """The state of the operator in front of the lookups, if there is one, then the elements that have not left."""
