"""What streams: records, watermarks, and the barrier and the end that the source puts between them.

Answers to Flink's `StreamElement` family (`StreamRecord`, `Watermark`, `CheckpointBarrier`,
`EndOfData`). Invariant: elements are frozen values; whoever holds one may keep it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Barrier", "EndOfInput", "QueueElement", "Record", "StreamElement", "Watermark"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record: any value, its event time in ms or none, and where its source read it."""

    value: Any
    timestamp: int | None = None
    position: int | None = None
    """The source position, carried for the history; the operator never reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """No record with an event time of at most `timestamp` (ms) follows."""

    timestamp: int
    position: int | None = None
    """The source position, carried for the history; the operator never reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """Checkpoint `checkpoint` cuts the stream here; it takes no source position."""

    checkpoint: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfInput:
    """The source is exhausted."""


QueueElement = Record | Watermark
"""What an operator's queue holds, and so what its snapshot holds (A56)."""

StreamElement = Record | Watermark | Barrier | EndOfInput
