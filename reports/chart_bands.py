"""Faults as shaded bands over a time axis, with labels that do not lie on one another.

Invariant: a band spans from the moment its fault was armed to the moment it was healed, as recorded; a fault
that never began has none, and one that left no evidence is drawn apart and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.runs.outcome import FaultRecord
from reports.chart_scale import LinearScale, Tick, even_ticks

__all__ = ["Band", "bands_of", "label_rows", "time_ticks"]

_LEAST_WIDTH = 2.0
_LETTER_WIDTH = 6.4
"""Of the chart's label font, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One fault on a chart."""

    x: float
    width: float
    label_x: float
    label: str
    row: int
    """Of its label, from the top."""
    bites: bool
    title: str


def bands_of(
    faults: Sequence[FaultRecord], *, scale: LinearScale, origin_us: int, end_us: int
) -> tuple[Band, ...]:
    """A band for each time that a fault acted, in the order in which they began."""
    acted = [(time.armed_us, fault, time) for fault in faults for time in fault.times]
    began = [(armed_us, fault, time) for armed_us, fault, time in acted if armed_us is not None]
    bands: list[Band] = []
    row_ends: list[float] = []
    for armed_us, fault, time in sorted(began, key=lambda band: (band[0], band[1].id)):
        healed_us = time.healed_us if time.healed_us is not None else end_us
        x, right = scale((armed_us - origin_us) / 1e6), scale((healed_us - origin_us) / 1e6)
        label = f"{fault.id}: {fault.kind}" + ("" if time.evidence else " (no evidence)")
        label_x = min(x, scale.end - len(label) * _LETTER_WIDTH)
        row = _free_row(row_ends, label_x, label_x + len(label) * _LETTER_WIDTH)
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
            )
        )
    return tuple(bands)


def _free_row(row_ends: list[float], left: float, right: float) -> int:
    """The first row of labels with room from `left` on; `row_ends` is brought up to date."""
    row = next((i for i, end in enumerate(row_ends) if end + _LETTER_WIDTH <= left), len(row_ends))
    row_ends[row : row + 1] = [right]
    return row


def label_rows(bands: Sequence[Band]) -> int:
    """How many rows the labels of `bands` take."""
    return max((band.row + 1 for band in bands), default=0)


def time_ticks(scale: LinearScale) -> tuple[Tick, ...]:
    """The seconds to be marked on a time axis."""
    return tuple(Tick(at=scale(value), label=f"{value:g} s") for value in even_ticks(scale.low, scale.high))
