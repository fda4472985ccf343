"""The timeline of a job seen from outside: its starts and exits, faults, transactions, and the rows of its table.

Answers to Jepsen's timeline.html. Invariant: every shape shows events of the history, or their number in a slice of
time; the number of shapes is bounded by `slices` and `_MARKS_AT_MOST`, however long the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from harness.history.values import brief, without_credentials
from harness.scenario.outcome import FaultRecord, FaultTime
from reports.chart_scale import Band, LinearScale, Tick, TimeSlices, bands_of, label_rows, points, time_ticks
from reports.chart_timeline import STRIP_HEIGHT, StoryStrip, strip_of
from reports.conviction import Counterexample
from reports.history_view import HistoryView
from reports.outside_view import FaultSpan, OutsideView, StartSpan

WIDTH = 1100
_LEFT, _RIGHT = 96, 14
_BAND_ROW = 15
_LIFE_ROW, _COMMITS, _ROWS, _GAP = 22, 30, 74, 10
_AXIS = 30
_MARKS_AT_MOST: Final = 400
_LEAST_WIDTH = 3.0
_LETTER_WIDTH = 6.6


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeBar:
    """One start of the job, from its begin to its exit."""

    x: float
    width: float
    y: float
    label: str
    label_x: float
    mark: str
    """How it ended: `kill` (a signal, or a fault ended it), `failed` (by itself), `exit`, or `open`."""
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTimeline:
    """The whole chart; paths are SVG path data, possibly empty."""

    width: int
    height: float
    left: float
    right: float
    top: float
    bottom: float
    lives: tuple[LifeBar, ...]
    held: tuple[Tick, ...]
    """The moments at which faults took effect."""
    held_y: float
    commits_base: float
    commits: str
    blamed: tuple[Tick, ...]
    """Transactions that an anomaly cites."""
    rows_top: float
    rows_base: float
    rows: str
    offered: str
    most: int
    """The highest number of rows, or of offered records."""
    done: Tick | None
    bands: tuple[Band, ...]
    ticks: tuple[Tick, ...]
    strip: StoryStrip | None
    """The counterexample, marked."""
    says: str


def job_timeline_of(
    view: HistoryView,
    faults: Sequence[FaultRecord],
    *,
    slices: int = 280,
    told: Counterexample | None = None,
) -> JobTimeline | None:
    """The timeline of a history seen from outside; None if nothing was started. `told`: what to mark."""
    outside = view.outside
    if outside is None or not outside.starts:
        return None
    return _Drawer(view, outside, slices=slices).draw(faults or tuple(_records_of(outside)), told)


def _records_of(outside: OutsideView) -> Iterator[FaultRecord]:
    """The faults of a history that no outcome describes."""
    for span in outside.faults:
        time = FaultTime(armed_us=span.begin_us, healed_us=span.end_us, evidence=span.evidence)
        yield FaultRecord(id=span.name, kind="fault", plan={}, times=(time,))


class _Drawer:
    def __init__(self, view: HistoryView, outside: OutsideView, *, slices: int) -> None:
        self._view = view
        self._outside = outside
        self._scale = LinearScale(low=0.0, high=view.span_us / 1e6, start=_LEFT, end=WIDTH - _RIGHT)
        self._time = TimeSlices(
            origin_us=view.origin_us, end_us=view.end_us, scale=self._scale, count=max(1, slices)
        )

    def draw(self, faults: Sequence[FaultRecord], told: Counterexample | None) -> JobTimeline:
        view, outside = self._view, self._outside
        bands = bands_of(faults, scale=self._scale, origin_us=view.origin_us, end_us=view.end_us)
        top = 8 + _BAND_ROW * label_rows(bands)
        first = top + 6 + (STRIP_HEIGHT if told else 0)
        lives = tuple(self._lives(first))
        held_y = max(bar.y for bar in lives) + _LIFE_ROW + 4
        commits_base = held_y + 14 + _COMMITS
        rows_top = commits_base + _GAP
        rows_base = rows_top + _ROWS
        most = max(len(outside.offers_us), *(tx.visible for tx in outside.transactions), 1)
        heights = LinearScale(low=0, high=most, start=rows_base, end=rows_top + 4)
        done = None
        if outside.finished is not None:
            at_us, how = outside.finished
            done = Tick(at=self._time.x(at_us), label=f"done at {self._at(at_us)}, known by: {how}")
        elif outside.giveup is not None:
            at_us, _ = outside.giveup
            done = Tick(at=self._time.x(at_us), label=f"given up at {self._at(at_us)}")
        strip = strip_of(told, scale=self._scale, top=top, lanes={}, whole=(first, rows_base))
        return JobTimeline(
            width=WIDTH,
            height=rows_base + 4 + _AXIS,
            left=_LEFT,
            right=WIDTH - _RIGHT,
            top=top,
            bottom=rows_base + 4,
            lives=lives,
            held=tuple(
                Tick(
                    at=self._time.x(fault.begin_us),
                    label=f"{fault.name} takes effect at {self._at(fault.begin_us)}{_evidence(fault)}",
                )
                for fault in outside.faults[:_MARKS_AT_MOST]
            ),
            held_y=held_y,
            commits_base=commits_base,
            commits=self._time.bars(
                (tx.at_us for tx in outside.transactions), base=commits_base, highest=_COMMITS - 6, least=3.0
            ),
            blamed=tuple(self._blamed()),
            rows_top=rows_top,
            rows_base=rows_base,
            rows=self._steps(((tx.at_us, tx.visible) for tx in outside.transactions), heights, closed=True),
            offered=self._steps(
                ((at_us, count) for count, at_us in enumerate(outside.offers_us, start=1)), heights
            ),
            most=most,
            done=done,
            bands=bands,
            ticks=time_ticks(self._scale),
            strip=strip,
            says=self._says() if strip is None else f"{strip.says} {self._says()}",
        )

    def _at(self, at_us: int) -> str:
        return f"{(at_us - self._view.origin_us) / 1e6:.3f} s"

    def _lives(self, top: float) -> Iterator[LifeBar]:
        """One bar a start; starts that lived at once are below each other."""
        row_ends: list[float] = []
        for span in list(self._outside.starts.values())[:_MARKS_AT_MOST]:
            x = self._time.x(span.begin_us)
            end = self._time.x(self._view.end_us if span.end_us is None else span.end_us)
            width = max(_LEAST_WIDTH, end - x)
            label = f"start {span.number}"
            room = max(width + 8, len(label) * _LETTER_WIDTH + 4)
            row = next((i for i, taken in enumerate(row_ends) if taken <= x), len(row_ends))
            row_ends[row : row + 1] = [x + room]
            title = f"start {span.number}, {self._at(span.begin_us)}"
            if span.end_us is None:
                title += ", still ran at the end"
            else:
                title += f" to {self._at(span.end_us)}: {span.ending}, by {span.by or 'itself'}"
            yield LifeBar(
                x=x,
                width=width,
                y=top + row * _LIFE_ROW,
                label=label,
                label_x=min(x + 4, WIDTH - _RIGHT - len(label) * _LETTER_WIDTH),
                mark=_mark_of(span),
                title=title,
            )

    def _blamed(self) -> Iterator[Tick]:
        cited = [tx for tx in self._outside.transactions if tx.blamed][:_MARKS_AT_MOST]
        for tx in cited:
            whose = "" if tx.start is None else f" of start {tx.start}"
            label = (
                f"transaction {tx.tx}{whose} at {self._at(tx.at_us)}, {tx.rows} rows: cited by a violation"
            )
            yield Tick(at=self._time.x_of(self._time.of(tx.at_us)), label=label)

    def _steps(
        self, moments: Iterable[tuple[int, int]], heights: LinearScale, *, closed: bool = False
    ) -> str:
        """A step line of the last value in each slice of time; `closed`: as an area down to the base."""
        of_slice = {self._time.of(at_us): value for at_us, value in moments}
        if not of_slice:
            return ""
        path = [f"M{points(self._time.x_of(min(of_slice)))} {points(heights.start)}"]
        for index, value in sorted(of_slice.items()):
            path.append(f"H{points(self._time.x_of(index))}V{points(heights(value))}")
        path.append(f"H{points(self._time.x_of(self._time.count))}")
        return "".join(path) + (f"V{points(heights.start)}Z" if closed else "")

    def _says(self) -> str:
        outside = self._outside
        ended = [s for s in outside.starts.values() if s.end_us is not None]
        killed = sum(_mark_of(span) == "kill" for span in ended)
        return (
            f"{_counted(len(outside.starts), 'start')}, {killed} killed by a fault; "
            f"{_counted(len(outside.faults), 'effect')} of faults; "
            f"{_counted(len(outside.offers_us), 'record')} offered; "
            f"{_counted(len(outside.transactions), 'transaction')} changed the table, "
            f"which the log leaves with {_counted(outside.rows_now, 'row')}."
        )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _mark_of(span: StartSpan) -> str:
    if span.end_us is None:
        return "open"
    if span.by is not None and span.by not in {"harness", "outside"}:
        return "kill"
    return "failed" if span.failed else "exit"


def _evidence(fault: FaultSpan) -> str:
    held = without_credentials(dict(fault.evidence))
    return f": {brief(held, limit=160)}" if held else ""
