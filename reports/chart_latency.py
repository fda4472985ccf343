"""Latency over time: each call as a point by its result, the median and the 99th percentile as lines.

Answers to Jepsen's perf plots. Invariant: quantiles are exact, over all calls with a reply that began in the
slice; only the points are thinned out, evenly, and the chart says how many it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.scenario.outcome import FaultRecord
from reports.chart_scale import (
    Band,
    LinearScale,
    LogScale,
    Tick,
    bands_of,
    bucket_of,
    decade_ticks,
    label_rows,
    points,
    quantile,
    time_ticks,
)
from reports.history_view import CallSpan, HistoryView

WIDTH = 1100
_LEFT, _RIGHT = 96, 14
_PLOT = 240
_BAND_ROW = 15
_AXIS = 30
_LEAST_MS = 0.1
_SECOND_MS = 1000
_SLICES = 60
_RESULTS = ("ok", "unknown", "timeout", "fail", "lost")
_MEANING = {"lost": "no reply: the attempt ended", "unknown": "outcome unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The calls with one result."""

    result: str
    label: str
    path: str
    count: int
    shown: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyChart:
    """The whole chart, with its numbers in words."""

    width: int
    height: float
    left: float
    right: float
    top: float
    bottom: float
    series: tuple[Series, ...]
    median: str
    p99: str
    bands: tuple[Band, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    says: str


def latency_of(view: HistoryView, faults: Sequence[FaultRecord], *, shown: int = 1500) -> LatencyChart | None:
    """The chart of all calls of a history; None if there is no call."""
    calls = sorted((c for lane in view.lanes.values() for c in lane.calls), key=lambda c: c.begin_us)
    if not calls:
        return None
    x = LinearScale(low=0.0, high=view.span_us / 1e6, start=_LEFT, end=WIDTH - _RIGHT)
    bands = bands_of(faults, scale=x, origin_us=view.origin_us, end_us=view.end_us)
    top = 10 + _BAND_ROW * label_rows(bands)
    decades = decade_ticks(max(_LEAST_MS, min(map(_ms, calls))), max(_LEAST_MS, *map(_ms, calls)))
    y = LogScale(low=decades[0], high=decades[-1], start=top + _PLOT, end=top + 6)
    plot = _Plot(view=view, x=x, y=y, calls=calls)
    # The calls of all subtasks are in one plot, so what acts on some of them shades nothing
    return LatencyChart(
        width=WIDTH,
        height=top + _PLOT + _AXIS,
        left=_LEFT,
        right=WIDTH - _RIGHT,
        top=top,
        bottom=top + _PLOT,
        series=tuple(plot.series(result, shown=shown) for result in plot.results()),
        median=plot.line(0.5),
        p99=plot.line(0.99),
        bands=tuple((replace(band, spans=()) if band.kills or band.subtasks else band) for band in bands),
        x_ticks=time_ticks(x),
        y_ticks=tuple(
            Tick(at=y(value), label=f"{value:g} ms" if value < _SECOND_MS else f"{value / _SECOND_MS:g} s")
            for value in decades
        ),
        says=plot.says(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plot:
    """Calls sorted by begin, on a time scale and a latency scale."""

    view: HistoryView
    x: LinearScale
    y: LogScale
    calls: Sequence[CallSpan]

    def results(self) -> list[str]:
        found = {call.result for call in self.calls}
        return [result for result in _RESULTS if result in found] + sorted(found.difference(_RESULTS))

    def series(self, result: str, *, shown: int) -> Series:
        """The points of one result, evenly thinned to its share of all calls."""
        mine = [call for call in self.calls if call.result == result]
        quota = max(100, shown * len(mine) // len(self.calls))
        stride = -(-len(mine) // quota)
        drawn = mine[::stride]
        path = "".join(
            f"M{points(self.x((c.begin_us - self.view.origin_us) / 1e6))} {points(self.y(_ms(c)))}{_glyph(result)}"
            for c in drawn
        )
        label = _MEANING.get(result, result)
        return Series(result=result, label=label, path=path, count=len(mine), shown=len(drawn))

    def line(self, share: float) -> str:
        """A quantile of the latencies per slice of begin time; interrupted at slices without a reply."""
        slices: list[list[float]] = [[] for _ in range(_SLICES)]
        for call in self.calls:
            if call.result != "lost":
                index = bucket_of(call.begin_us, self.view.origin_us, self.view.end_us, count=_SLICES)
                slices[index].append(_ms(call))
        path, pen_up = "", True
        for index, values in enumerate(slices):
            if values:
                x = self.x(self.x.high * (index + 0.5) / _SLICES)
                y = self.y(quantile(sorted(values), share))
                path += f"{'M' if pen_up else 'L'}{points(x)} {points(y)}"
            pen_up = not values
        return path

    def says(self) -> str:
        replied = sorted(_ms(call) for call in self.calls if call.result != "lost")
        ends = ", ".join(f"{sum(c.result == r for c in self.calls)} {r}" for r in self.results())
        if not replied:
            return f"{len(self.calls)} calls, none with a reply: {ends}."
        marks = ", ".join(f"{name} {quantile(replied, share):.1f} ms" for name, share in _QUANTILES)
        return f"{len(self.calls)} calls: {ends}. Of those with a reply: {marks}."


_QUANTILES = (("median", 0.5), ("p99", 0.99), ("longest", 1.0))


def _ms(call: CallSpan) -> float:
    return (call.end_us - call.begin_us) / 1000


def _glyph(result: str) -> str:
    """A shape for each result, so that colour is not the only difference."""
    match result:
        case "ok":
            return "h0"
        case "timeout":
            return "m-3 2.5l3-5l3 5z"
        case "unknown":
            return "m-3 0l3-3l3 3l-3 3z"
        case "lost":
            return "m0-4v8"
        case _:
            return "m-3-3l6 6m0-6l-6 6"
