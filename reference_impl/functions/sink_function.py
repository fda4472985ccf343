"""A function at the end of the stream.

Answers to Flink's `SinkFunction` and its `Context`. Invariant: each record of the stream is given to `invoke` once, in
order, on the task's thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["SinkContext", "SinkFunction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """Of the record at hand."""

    current_processing_time: int
    current_watermark: int
    timestamp: int | None
    """The record's event time."""


class SinkFunction(Protocol):
    """What a user writes; `open()`, `finish()` and `close()`, state and notifications are optional."""

    def invoke(self, value: Any, context: SinkContext) -> None:
        """A record has come."""
