"""Box plots side by side: for each name a bar from p5 to p95, a box over the middle half, and the median.

Invariant: quantiles are exact, over all values given; only measured values are drawn, and both axes name their
unit. The drawing is one SVG that is readable on a light and on a dark page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

from reports.chart_scale import LogScale, points, quantile

_WIDTH = 920
_LEFT, _RIGHT = 150, 90
_ROW, _TITLE, _AXIS = 30, 34, 30
_INK, _GRID, _BAR, _BOX = "#6b7280", "#9ca3af55", "#3b82f6", "#3b82f699"
_NICE = (1, 2, 3, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One measure of all compared systems."""

    title: str
    unit: str
    values: Mapping[str, Sequence[float]]
    """Values by system; each has at least one, all above 0."""


def spread_svg(panels: Sequence[Panel]) -> str:
    """All panels in one column, each with a logarithmic axis."""
    heights = [_TITLE + _ROW * len(panel.values) + _AXIS for panel in panels]
    tops = [sum(heights[:place]) for place in range(len(panels))]
    body = [line for panel, top in zip(panels, tops, strict=True) for line in _panel(panel, top)]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {sum(heights)}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{_INK}">'
    )
    return "\n".join([head, *body, "</svg>"]) + "\n"


def _panel(panel: Panel, top: float) -> Iterator[str]:
    everything = [value for values in panel.values.values() for value in values]
    ticks = _ticks(min(everything), max(everything))
    x = LogScale(low=ticks[0], high=ticks[-1], start=_LEFT, end=_WIDTH - _RIGHT)
    bottom = top + _TITLE + _ROW * len(panel.values)
    title = f"{panel.title}, {panel.unit}"
    yield f'<text x="{_LEFT}" y="{points(top + 22)}" font-weight="600">{escape(title)}</text>'
    for tick in ticks:
        at = points(x(tick))
        yield f'<path d="M{at} {points(top + _TITLE)}V{points(bottom)}" stroke="{_GRID}"/>'
        yield f'<text x="{at}" y="{points(bottom + 18)}" text-anchor="middle">{tick:g}</text>'
    for row, (name, values) in enumerate(panel.values.items()):
        yield from _row(name, sorted(values), x=x, y=top + _TITLE + _ROW * (row + 0.5), unit=panel.unit)


def _row(name: str, values: Sequence[float], *, x: LogScale, y: float, unit: str) -> Iterator[str]:
    low, first, third, high = (quantile(values, share) for share in (0.05, 0.25, 0.75, 0.95))
    middle = median(values)
    box = f'x="{points(x(first))}" y="{points(y - 8)}" width="{points(max(1.0, x(third) - x(first)))}" height="16"'
    yield f'<text x="{_LEFT - 10}" y="{points(y + 5)}" text-anchor="end">{escape(name)}</text>'
    yield f'<path d="M{points(x(low))} {points(y)}H{points(x(high))}" stroke="{_BAR}" stroke-width="2"/>'
    yield f'<rect {box} fill="{_BOX}"/>'
    yield f'<path d="M{points(x(middle))} {points(y - 11)}v22" stroke="{_BAR}" stroke-width="3"/>'
    yield f'<text x="{_WIDTH - _RIGHT + 12}" y="{points(y + 5)}">{middle:.2f} {escape(unit)}</text>'


def _ticks(low: float, high: float) -> Sequence[float]:
    """At least two round numbers that enclose all values."""
    candidates = [nice * 10.0**power for power in range(-3, 7) for nice in _NICE]
    below = max((tick for tick in candidates if tick <= low), default=candidates[0])
    above = min((tick for tick in candidates if tick >= high and tick > below), default=candidates[-1])
    return [tick for tick in candidates if below <= tick <= above]
