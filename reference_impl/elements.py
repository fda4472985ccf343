"""What streams: records, watermarks and their status, and what the source puts between them.

Answers to Flink's `StreamElement` family (`StreamRecord`, `Watermark`, `WatermarkStatus`, `LatencyMarker`,
`RecordAttributes`) and to its `EndOfData`. Invariant: elements are frozen values; whoever holds one
may keep it. They are structs and not dataclasses, for each record makes several (decision 12).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = [
    "EndOfInput",
    "LatencyMarker",
    "OperatorInput",
    "QueueElement",
    "Record",
    "RecordAttributes",
    "StreamElement",
    "Watermark",
    "WatermarkStatus",
]


class Record(Struct, frozen=True, kw_only=True):
    """One record: any value, its event time in ms or none, and where its source read it."""

    value: Any
    timestamp: int | None = None
    position: int | None = None
    """The source position, carried for the history; the operator never reads it."""


class Watermark(Struct, frozen=True, kw_only=True):
    """No record with an event time of at most `timestamp` (ms) follows."""

    timestamp: int
    position: int | None = None
    """The source position, carried for the history; the operator never reads it."""


class WatermarkStatus(Struct, frozen=True, kw_only=True):
    """The source falls idle, and its watermark holds nobody back, or is active again (A55)."""

    idle: bool
    position: int | None = None
    """The source position, carried for the history; the operator never reads it."""


class LatencyMarker(Struct, frozen=True, kw_only=True):
    """Measures the way through the job, not the wait for a call: it overtakes what is in flight (A54)."""

    id: int


class RecordAttributes(Struct, frozen=True, kw_only=True):
    """Whether the records that follow are a backlog; as little in order as a latency marker (A54)."""

    backlog: bool


class EndOfInput(Struct, frozen=True, kw_only=True):
    """The source is exhausted."""


QueueElement = Record | Watermark | WatermarkStatus
"""What an operator's queue holds, and so what its snapshot holds (A56)."""

OperatorInput = QueueElement | LatencyMarker | RecordAttributes
"""What an operator takes in and gives out."""

StreamElement = OperatorInput | EndOfInput
"""What a source yields."""
