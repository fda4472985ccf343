"""One row of the performance table: what was measured, against what, and the goal it is held to."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Row"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measure; `value` in `unit`, over `rounds` rounds (the median)."""

    name: str
    value: float
    unit: str
    rounds: int
    goal: float
    larger_is_better: bool
    detail: str = ""

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.value >= self.goal if self.larger_is_better else self.value <= self.goal
