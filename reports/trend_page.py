"""The page of a trend: a small chart for each measure of each scenario, and the numbers beside it, in one file.

Answers to Allure's trend charts. Invariant: it is made from the series alone; each chart says in words what it shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.scenario.outcome import measure_text
from harness.system.whole_file import disk_errors_told, write_whole
from reports.cards import with_cards
from reports.chart_scale import LinearScale
from reports.over_time import SHOWN, TrendSeries
from reports.page import style_of, templates

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 340, 120, 8, 8, 24, 22
_LABEL_MAX = 22
_RUNS = "runs that were vacuous"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dot:
    """One report on a chart."""

    x: float
    y: float
    tone: str
    """`bad`: slower than the others; else empty."""
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chart:
    """One measure over the reports, in the units of the SVG."""

    name: str
    about: str
    """What it shows, in words."""
    dots: Sequence[_Dot]
    band: tuple[float, float] | None
    """The top of the band of noise, and its height."""
    top: str
    first: str
    last: str
    width: int = _WIDTH
    height: int = _HEIGHT

    @property
    def line(self) -> str:
        return " ".join(f"{dot.x:.1f},{dot.y:.1f}" for dot in self.dots)


def trend_text(series: Sequence[TrendSeries]) -> str:

    slower = sum(bool(point.slower) for one in series for point in one.points)
    flaky = sum(one.is_flaky for one in series)
    reports = len(dict.fromkeys(point.report for one in series for point in one.points))
    return with_cards(
        templates()
        .get_template("trend.html.j2")
        .render(
            drawn=[(one, list(_charts(one)), list(one.told())) for one in series],
            shown=SHOWN,
            text_of=measure_text,
            headline=f"{reports} reports: {slower} slower, {flaky} flaky",
            tone="bad" if slower else "open" if flaky else "good",
            style=style_of("page.css"),
        )
    )


def write_trend(series: Sequence[TrendSeries], path: Path) -> None:
    """Writes the page. Raises WorldError if it cannot be written."""
    with disk_errors_told(
        f"the page cannot be written to {path}", fix="free disk space, or name another file"
    ):
        write_whole(path, trend_text(series))


def _charts(series: TrendSeries) -> Iterator[_Chart]:
    for name in SHOWN:
        values = {
            place: point.values[name] for place, point in enumerate(series.points) if name in point.values
        }
        if values:
            yield _chart(series, name, values)
    if series.vacuous:
        shares = {place: point.verdicts.get("vacuous", 0) for place, point in enumerate(series.points)}
        yield _chart(series, _RUNS, shares)


def _chart(series: TrendSeries, name: str, values: dict[int, float] | dict[int, int]) -> _Chart:
    band = series.bands.get(name)
    highest = max((*values.values(), band.high if band else 0.0)) or 1.0
    across = LinearScale(low=0, high=max(1, len(series.points) - 1), start=_LEFT, end=_WIDTH - _RIGHT)
    up = LinearScale(low=0, high=highest, start=_HEIGHT - _BOTTOM, end=_TOP)
    worse = {place for place, point in enumerate(series.points) if name in {one.name for one in point.slower}}
    dots = [
        _Dot(
            x=across(place),
            y=up(value),
            tone="bad" if place in worse else "",
            says=f"{series.points[place].report}: {_text(name, value)}"
            + (", slower" if place in worse else ""),
        )
        for place, value in values.items()
    ]
    shown = list(values.values())
    about = f"{name} of {len(values)} reports, from {_text(name, min(shown))} to {_text(name, max(shown))}"
    return _Chart(
        name=name,
        about=about
        + (f"; slower: {', '.join(series.points[place].report for place in sorted(worse))}" if worse else ""),
        dots=dots,
        band=None if band is None else (up(band.high), up(band.low) - up(band.high)),
        top=_text(name, max(shown)),
        first=_short(series.points[0].report),
        last=_short(series.points[-1].report),
    )


def _short(name: str) -> str:
    return name if len(name) <= _LABEL_MAX else f"...{name[3 - _LABEL_MAX :]}"


def _text(name: str, value: float) -> str:
    return str(value) if name == _RUNS else measure_text(name, value)
