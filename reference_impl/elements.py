"""Stream elements: records, watermarks, watermark statuses, and the rarer kinds that a source emits.

Answers to Flink's `StreamElement` family (`StreamRecord`, `Watermark`, `WatermarkStatus`, `LatencyMarker`,
`RecordAttributes`) and to its `EndOfData`. Invariant: elements are frozen values. They are structs, not dataclasses,
since several are made for each record (decision 12).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Record(Struct, frozen=True, kw_only=True):
    """A value with its event time in ms and its source position, if it has them."""

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
    """The source becomes idle, so that its watermark does not hold back others, or active again (A55)."""

    idle: bool
    position: int | None = None
    """The source position, carried for the history; the operator never reads it."""


class LatencyMarker(Struct, frozen=True, kw_only=True):
    """Measures latency through the job, without waits for calls: it overtakes queued elements (A54)."""

    id: int


class RecordAttributes(Struct, frozen=True, kw_only=True):
    """Whether the following records are a backlog; overtakes queued elements like a latency marker (A54)."""

    backlog: bool


class EndOfInput(Struct, frozen=True, kw_only=True):
    """The source has no more elements."""


QueueElement = Record | Watermark | WatermarkStatus
"""The content of an operator's queue, and so of its snapshot (A56)."""

OperatorInput = QueueElement | LatencyMarker | RecordAttributes
"""What an operator receives and emits."""

StreamElement = OperatorInput | EndOfInput
"""What a source yields."""
