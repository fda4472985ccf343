"""What a snapshot of operator state leaves behind, as plain values.

Answers to Flink's `OperatorStateHandle`, its `StateMetaInfo` and its `Mode`. Invariant: a handle is a value that
shares nothing with the state it was taken of (S23). Each item is whole by itself, so a list can be cut between any
two of them: there are no offsets into one file that a compression could shift (FLINK-33863).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from reference_impl.state.schema import ANY, Schema

__all__ = ["Item", "Mode", "OperatorStateHandle", "OperatorStatePartitions"]

Item = bytes | tuple[bytes, bytes]
"""An element, or of broadcast state an entry: its key and its value. Encoded by the state's serializers."""


class Mode(Enum):
    """How a state's items find the subtasks of the next run (S18)."""

    SPLIT_DISTRIBUTE = "split"
    """Each item goes to one subtask (S20)."""
    UNION = "union"
    """Every subtask gets all items of all (S22)."""
    BROADCAST = "broadcast"
    """Every subtask has a copy of the same, and gets one (S22)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStatePartitions:
    """What one subtask wrote of one state."""

    mode: Mode
    schema: Schema = ANY
    """By which its elements, or values, can be read (S2)."""
    key_schema: Schema | None = None
    """By which the keys of broadcast state can be read."""
    items: tuple[Item, ...] = ()
    """In their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStateHandle:
    """What one subtask wrote of all its operator state; one without state writes none at all (S18)."""

    states: Mapping[str, OperatorStatePartitions] = field(default_factory=dict)
