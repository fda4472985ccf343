"""The strip above a timeline that names the counterexample's events, each with a line down to its moment and lane.

Answers to the labelled operations of Jepsen's timeline. Invariant: labels keep the order of the history, do not
overlap, and stay as near to their moments as that allows; a line leads from each to the true moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reports.chart_scale import LinearScale
from reports.counterexample import Counterexample

STRIP_HEIGHT: Final = 50
_LETTER, _PADDING, _GAP = 6.8, 10, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMark:
    """One event: its label in the strip, and its moment in its lane."""

    n: int
    name: str
    label: str
    told: str
    x: float
    """The moment."""
    left: float
    width: float
    """The box of the label."""
    top: float
    bottom: float
    """Where it is drawn in the lane, from `top` to `bottom`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryStrip:
    """The strip; its labels stand at `y`, its lines begin at `y + 8` and reach the lanes at `base`."""

    subject: str
    y: float
    base: float
    marks: tuple[StepMark, ...]

    @property
    def says(self) -> str:
        """The steps with their times; what each is stands in the explanation."""
        steps = ", ".join(f"{mark.label} at {mark.told.partition(':')[0]}" for mark in self.marks)
        return f"Counterexample, {self.subject}: {steps}."


def strip_of(
    told: Counterexample | None,
    *,
    scale: LinearScale,
    top: float,
    lanes: Mapping[int, tuple[float, float]],
    whole: tuple[float, float],
) -> StoryStrip | None:
    """The strip of a counterexample at height `top`; None if there is none.

    `lanes`: from where to where the lane of each subtask reaches; `whole`: the same for events of no lane.
    """
    if told is None:
        return None
    labels = [f"{step.name} {step.label}".strip() for step in told.steps]
    widths = [len(label) * _LETTER + _PADDING for label in labels]
    moments = [scale(step.at_s) for step in told.steps]
    reaches = [whole if step.s is None else lanes.get(step.s, whole) for step in told.steps]
    lefts = _spread([x - width / 2 for x, width in zip(moments, widths, strict=True)], widths, scale)
    return StoryStrip(
        subject=told.subject,
        y=top + 14,
        base=top + STRIP_HEIGHT - 6,
        marks=tuple(
            StepMark(
                n=step.n,
                name=step.name,
                label=label,
                told=step.told,
                x=x,
                left=left,
                width=width,
                top=reach[0],
                bottom=reach[1],
            )
            for step, label, x, left, width, reach in zip(
                told.steps, labels, moments, lefts, widths, reaches, strict=True
            )
        ),
    )


def _spread(wanted: Sequence[float], widths: Sequence[float], scale: LinearScale) -> list[float]:
    """Left edges nearest to those wanted, in order and without overlap (adjacent violators are pooled)."""
    offsets = [sum(width + _GAP for width in widths[:index]) for index in range(len(widths))]
    pools: list[tuple[float, int]] = []
    for left, offset in zip(wanted, offsets, strict=True):
        pools.append((left - offset, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (one, of_one), (two, of_two) = pools[-2:]
            pools[-2:] = [((one * of_one + two * of_two) / (of_one + of_two), of_one + of_two)]
    places = [place for place, count in pools for _ in range(count)]
    least, most = scale.start, scale.end - offsets[-1] - widths[-1]
    return [max(least, min(place, most)) + offset for place, offset in zip(places, offsets, strict=True)]
