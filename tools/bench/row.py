"""One row of the performance table: the measured value, what it was compared with, and the goal."""

from __future__ import annotations

from dataclasses import dataclass

from tools.bench.rounds import ROUNDS, Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement: the median `value` in `unit` over `rounds` rounds."""

    name: str
    value: float
    unit: str
    rounds: int
    goal: float
    larger_is_better: bool
    limit: float | None = None
    """The required value, where the goal is higher than that."""
    spread: tuple[float, float] | None = None
    """The lowest and the highest round."""
    detail: str = ""

    @property
    def met(self) -> bool:
        return self._reaches(self.goal)

    @property
    def within_limit(self) -> bool:
        """Whether the required value is reached."""
        return self._reaches(self.goal if self.limit is None else self.limit)

    def _reaches(self, bound: float) -> bool:
        return self.value >= bound if self.larger_is_better else self.value <= bound


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMeasured:
    """A row that this machine cannot measure, with the reason."""

    name: str
    reason: str


def ratio_row(
    name: str,
    ratio: Ratio,
    *,
    goal: float,
    detail: str,
    unit: str = "x",
    limit: float | None = None,
    larger_is_better: bool = True,
    rounds: int = ROUNDS,
) -> Row:
    """The row of a measurement that was taken in rounds."""
    return Row(
        name=name,
        value=ratio.median,
        unit=unit,
        rounds=rounds,
        goal=goal,
        limit=limit,
        larger_is_better=larger_is_better,
        spread=(ratio.low, ratio.high),
        detail=detail,
    )
