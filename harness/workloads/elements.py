"""The elements of the lookups workload: a record that asks for a key, and a watermark.

Answers to Flink's `StreamRecord` and `Watermark`, before they are given their place. Invariant: plain values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from harness.faults.hot_key import HOT_KEY

__all__ = ["HOT_KEY", "Lookup", "MarkOfTime", "StampedLookup"]


class Lookup(Struct, frozen=True, kw_only=True):
    """What a record asks for; the first argument of a user's `lookup(record, pool)`. A struct: each record has one."""

    id: int
    """Unique in the run."""
    key: int
    """The row to look up."""
    service_ms: int
    """How long the database itself takes for it."""
    row_bytes: int = 0
    """How many bytes the database adds to each row of its answer."""

    def as_json(self) -> dict[str, Any]:
        """For a snapshot."""
        asked = {"id": self.id, "key": self.key, "service_ms": self.service_ms}
        return {**asked, "row_bytes": self.row_bytes} if self.row_bytes else asked


class StampedLookup(Lookup, frozen=True, kw_only=True):
    """A lookup with what the operator in front made of it, which each of its results carries."""

    stamp: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """For a snapshot."""
        return {**super().as_json(), "stamp": self.stamp}


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOfTime:
    """A source position that holds a watermark of `timestamp` ms."""

    timestamp: int
