"""What the calm twin of a job shows: its pace, its table, what passed the proxy, and whether it keeps state.

Invariant: each number was measured in a run without faults; what it says of the table is what SQL read there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.jobs.finished import ExpectedRows
from harness.jobs.life import JobLife
from harness.jobs.life_parts import Pace
from harness.jobs.traffic import Message

__all__ = ["CalmTwin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalmTwin:
    """What the calm run shows."""

    pace: Pace
    expected: ExpectedRows
    messages: tuple[Message, ...]
    """What passed both links of the proxy."""
    keeps_state: bool
    """Whether it left anything by which a further start knows what is done."""
    life: JobLife

    @property
    def facts(self) -> Mapping[str, Any]:
        """For the report."""
        sink = [one for one in self.messages if one.link == "sink" and one.side == "request"]
        commits = sum(one.statement == "commit" for one in sink)
        return {
            "first_row_ms": round(self.pace.first_row_us / 1000),
            "gap_ms": round(self.pace.gap_us / 1000),
            "took_s": round(self.pace.took_us / 1e6, 2),
            "messages": len(sink),
            "commits": commits,
        }
