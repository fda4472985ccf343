"""Scales, ticks and quantiles of the charts, and the shaded bands of faults over their time axis.

Answers to the part of d3-scale that these charts need. A scale maps its domain to its range monotonically; a
value outside is drawn at the edge. A band spans from the recorded moment a fault was armed to the moment it was
healed; a fault that never began has no band, and one without evidence is drawn and labelled differently.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.scenario.outcome import FaultRecord, FaultTime

_NICE_STEPS = (1, 2, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearScale:
    """Maps `low`..`high` to `start`..`end` linearly."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        width = self.high - self.low
        share = (value - self.low) / width if width > 0 else 0.0
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogScale:
    """Maps `low`..`high` (both above 0) to `start`..`end` logarithmically."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The coordinate of `value`; a value below `low` is drawn at the low end."""
        if value <= self.low:
            return self.start
        width = math.log(self.high) - math.log(self.low)
        share = (math.log(value) - math.log(self.low)) / width if width > 0 else 0.0
        return self.start + min(1.0, share) * (self.end - self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A grid line or mark: its coordinate and its label."""

    at: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSlices:
    """The time of a history, on a scale in seconds and in `count` equal slices."""

    origin_us: int
    end_us: int
    scale: LinearScale
    count: int

    def x(self, at_us: int) -> float:
        return self.scale((at_us - self.origin_us) / 1e6)

    def of(self, at_us: int) -> int:
        return bucket_of(at_us, self.origin_us, self.end_us, count=self.count)

    def x_of(self, index: int) -> float:
        return self.scale(self.scale.high * index / self.count)

    def bars(self, moments_us: Iterable[int], *, base: float, highest: float, least: float) -> str:
        """A bar for each slice with moments, as path data: from `base`, at least `least` and at most `highest`."""
        counts = Counter(map(self.of, moments_us))
        height = LinearScale(low=0, high=max(counts.values(), default=0), start=0, end=highest)
        return "".join(
            f"M{points(self.x_of(index))} {points(base)}v-{points(max(least, height(count)))}"
            for index, count in sorted(counts.items())
        )


def even_ticks(low: float, high: float, *, count: int = 8) -> tuple[float, ...]:
    """Round values (1, 2 or 5 times a power of ten apart) inside `low`..`high`, about `count` of them."""
    if high <= low:
        return (low,)
    rough = (high - low) / max(1, count)
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next((nice * magnitude for nice in _NICE_STEPS if nice * magnitude >= rough), 10 * magnitude)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return tuple(round(k * step, 12) for k in range(first, last + 1))


def decade_ticks(low: float, high: float) -> tuple[float, ...]:
    """The powers of ten that enclose `low`..`high`, at least two."""
    first = math.floor(math.log10(low) + 1e-9)
    last = max(first + 1, math.ceil(math.log10(high) - 1e-9))
    return tuple(10.0**k for k in range(first, last + 1))


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the (sorted, not empty) values do not exceed."""
    rank = math.ceil(share * len(ordered))
    return ordered[min(len(ordered), max(1, rank)) - 1]


def bucket_of(value: float, low: float, high: float, *, count: int) -> int:
    """Which of `count` equal buckets of `low`..`high` holds `value`."""
    share = (value - low) / (high - low) if high > low else 0.0
    return min(count - 1, max(0, int(share * count)))


def points(number: float) -> str:
    """A coordinate for SVG, rounded to a tenth of a pixel."""
    text = f"{number:.1f}"
    return text.removesuffix(".0")


_LEAST_WIDTH = 2.0
_LETTER_WIDTH = 6.4
"""Approximate width of a letter in the label font."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One period of a fault on a chart."""

    x: float
    width: float
    label_x: float
    label: str
    row: int
    """The row of its label, from the top."""
    bites: bool
    title: str
    subtasks: tuple[int, ...] = ()
    """The subtasks on which it acted; empty: all, or not known."""
    kills: bool = False
    """Whether it ends attempts: the time until they are back is drawn in their lanes."""
    spans: tuple[tuple[float, float], ...] | None = None
    """The heights that are shaded, each as its top and its length; None: the whole chart."""


_KILLS: Final = frozenset({"kill_worker", "kill_executor", "kill_driver", "lose_host"})


def subtasks_of(fault: FaultRecord, time: FaultTime) -> tuple[int, ...]:
    """The subtasks on which a fault acted, by its evidence, else by its plan; empty: all, or not known."""
    replaced = time.evidence.get("replaced")
    told = [row.get("subtask") for row in replaced if isinstance(row, Mapping)] if replaced else []
    told = told or [time.evidence.get("subtask", fault.plan.get("subtask"))]
    return tuple(dict.fromkeys(s for s in told if isinstance(s, int) and not isinstance(s, bool)))


def bands_of(
    faults: Sequence[FaultRecord], *, scale: LinearScale, origin_us: int, end_us: int
) -> tuple[Band, ...]:
    """One band for each period in which a fault was armed, sorted by begin."""
    acted = [(time.armed_us, fault, time) for fault in faults for time in fault.times]
    began = [(armed_us, fault, time) for armed_us, fault, time in acted if armed_us is not None]
    bands: list[Band] = []
    row_ends: list[float] = []
    for armed_us, fault, time in sorted(began, key=lambda band: (band[0], band[1].id)):
        healed_us = time.healed_us if time.healed_us is not None else end_us
        x, right = scale((armed_us - origin_us) / 1e6), scale((healed_us - origin_us) / 1e6)
        label = f"{fault.id}: {fault.kind}" + ("" if time.evidence else " (no evidence)")
        label_x = min(x, scale.end - len(label) * _LETTER_WIDTH)
        row = next((i for i, end in enumerate(row_ends) if end + _LETTER_WIDTH <= label_x), len(row_ends))
        row_ends[row : row + 1] = [label_x + len(label) * _LETTER_WIDTH]
        width = max(_LEAST_WIDTH, right - x)
        title = f"{label}, {(armed_us - origin_us) / 1e6:.3f} s to {(healed_us - origin_us) / 1e6:.3f} s"
        bands.append(
            Band(
                x=x,
                width=width,
                label_x=label_x,
                label=label,
                row=row,
                bites=bool(time.evidence),
                title=title,
                subtasks=subtasks_of(fault, time),
                kills=fault.kind in _KILLS,
            )
        )
    return tuple(bands)


def label_rows(bands: Sequence[Band]) -> int:
    return max((band.row + 1 for band in bands), default=0)


def time_ticks(scale: LinearScale) -> tuple[Tick, ...]:
    return tuple(Tick(at=scale(value), label=f"{value:g} s") for value in even_ticks(scale.low, scale.high))
