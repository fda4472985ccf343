"""The timeline of a run, and the strip above it that names the counterexample's events.

The timeline: a lane per subtask with calls, outputs, watermarks, commits, deaths and restores, under fault bands.

Answers to Jepsen's timeline.html. Invariant: every shape shows a maximum or a count of the history's events in a
slice of time; the number of shapes is bounded by `slices`, however long the history.

The strip above a timeline that names the counterexample's events, each with a line down to its moment and lane.

Answers to the labelled operations of Jepsen's timeline. Invariant: labels keep the order of the history, do not
overlap, and stay as near to their moments as that allows; a line leads from each to the true moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from harness.scenario.outcome import FaultRecord
from reports.chart_scale import Band, LinearScale, Tick, TimeSlices, bands_of, label_rows, points, time_ticks
from reports.conviction import Counterexample
from reports.history_view import HistoryView, Lane

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


WIDTH = 1100
_LEFT, _RIGHT = 96, 14
_BAND_ROW = 15
_LANE, _LANE_GAP = 84, 12
_CALLS_HEIGHT, _OUTPUTS_HEIGHT = 46, 18
_AXIS = 30
_TROUBLE = frozenset({"fail", "timeout", "lost"})
_MARKS_AT_MOST = 400
_PLACES_AT_MOST = 12
_ENDS = frozenset({"kill", "failed"})
_NEAR = 12.0
"""A death within a kill's band, or this near to it (pixels), is the kill's."""
_DEAD_LABEL = 70.0
"""The least width of a dead span that has room for its label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadSpan:
    """A time in which a subtask had no attempt."""

    x: float
    width: float
    begin_us: int
    end_us: int
    label: str
    """Empty if there is no room for it."""
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneDrawing:
    """The shapes of one subtask; paths are SVG path data, possibly empty."""

    s: int
    top: float
    calls_base: float
    outputs_base: float
    bottom: float
    in_flight: str
    most_in_flight: int
    trouble: str
    """Calls that failed, timed out, or were lost with their attempt."""
    outputs: str
    watermarks: str
    commits: tuple[Tick, ...]
    kills: tuple[Tick, ...]
    restores: tuple[Tick, ...]
    dead: tuple[DeadSpan, ...]
    places: tuple[Tick, ...]
    """Where its attempts ran, each at its beginning; none if that was on no cluster."""
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The whole chart."""

    width: int
    height: float
    left: float
    right: float
    top: float
    lanes: tuple[LaneDrawing, ...]
    bands: tuple[Band, ...]
    ticks: tuple[Tick, ...]
    strip: StoryStrip | None
    """The counterexample, marked."""
    says: str


def timeline_of(
    view: HistoryView,
    faults: Sequence[FaultRecord],
    *,
    slices: int = 280,
    placed: Sequence[Mapping[str, object]] = (),
    told: Counterexample | None = None,
) -> Timeline | None:
    """The timeline of a history; None if it has no subtask.

    `placed`: where each attempt ran on a cluster; `told`: the counterexample to mark.
    """
    if not view.lanes:
        return None
    scale = LinearScale(low=0.0, high=view.span_us / 1e6, start=_LEFT, end=WIDTH - _RIGHT)
    bands = bands_of(faults, scale=scale, origin_us=view.origin_us, end_us=view.end_us)
    top = 8 + _BAND_ROW * label_rows(bands)
    time = TimeSlices(origin_us=view.origin_us, end_us=view.end_us, scale=scale, count=slices)
    drawer = _LaneDrawer(view=view, time=time, placed=placed)
    first = top + 6 + (STRIP_HEIGHT if told else 0)
    lanes = tuple(
        drawer.draw(lane, top=first + index * (_LANE + _LANE_GAP))
        for index, lane in enumerate(view.lanes.values())
    )
    strip = strip_of(
        told,
        scale=scale,
        top=top,
        lanes={lane.s: (lane.top, lane.outputs_base) for lane in lanes},
        whole=(first, lanes[-1].outputs_base),
    )
    words = [lane.says for lane in lanes] + [f"Fault {band.title}." for band in bands]
    return Timeline(
        width=WIDTH,
        height=lanes[-1].bottom + _AXIS,
        left=_LEFT,
        right=WIDTH - _RIGHT,
        top=top,
        lanes=lanes,
        bands=tuple(_in_its_lanes(band, lanes) for band in bands),
        ticks=time_ticks(scale),
        strip=strip,
        says=" ".join(words if strip is None else [strip.says, *words]),
    )


def _in_its_lanes(band: Band, lanes: Sequence[LaneDrawing]) -> Band:
    """Shades only the lanes that the fault acted on; a kill none, where the deaths are drawn."""
    own = [lane for lane in lanes if not band.subtasks or lane.s in band.subtasks]
    if band.kills and any(
        -_NEAR < span.x - band.x < band.width + _NEAR for lane in own for span in lane.dead
    ):
        return replace(band, spans=())
    if not band.subtasks or not own:
        return band
    return replace(band, spans=tuple((lane.top, lane.bottom - lane.top) for lane in own))


@dataclass(frozen=True, slots=True, kw_only=True)
class _LaneDrawer:
    """Draws the lanes of a view on one time scale."""

    view: HistoryView
    time: TimeSlices
    placed: Sequence[Mapping[str, Any]]

    def draw(self, lane: Lane, *, top: float) -> LaneDrawing:
        levels = self._in_flight(lane)
        calls_base = top + _CALLS_HEIGHT
        bottom = top + _LANE
        marks = {what: self._marks(lane, what) for what in ("commit", "kill", "restore")}
        places, dead = self._places(lane), tuple(self._dead(lane))
        return LaneDrawing(
            s=lane.s,
            top=top,
            calls_base=calls_base,
            outputs_base=bottom - 8,
            bottom=bottom,
            in_flight=self._area(levels, base=calls_base),
            most_in_flight=max(levels, default=0),
            trouble=self._ticks((c.end_us for c in lane.calls if c.result in _TROUBLE), calls_base + 2, 5),
            outputs=self.time.bars(lane.outputs_us, base=bottom - 8, highest=_OUTPUTS_HEIGHT, least=1.5),
            watermarks=self._watermarks(lane, top=top, base=calls_base),
            commits=marks["commit"],
            kills=marks["kill"],
            restores=marks["restore"],
            dead=dead,
            places=places,
            says=(
                f"Subtask {lane.s}: {len(lane.calls)} calls, {len(lane.outputs_us)} outputs, "
                f"{len(marks['commit'])} commits, {len(marks['kill'])} kills."
                + "".join(f" {span.title[:1].upper()}{span.title[1:]}." for span in dead[:_PLACES_AT_MOST])
                + "".join(f" {place.label[:1].upper()}{place.label[1:]}." for place in places)
            ),
        )

    def _in_flight(self, lane: Lane) -> list[int]:
        """The maximum number of open calls in each slice."""
        steps = [(call.begin_us, 1) for call in lane.calls] + [(call.end_us, -1) for call in lane.calls]
        most = [0] * self.time.count
        level = at = 0
        for t_us, step in sorted(steps):
            index = self.time.of(t_us)
            for passed in range(at, index + 1):
                most[passed] = max(most[passed], level)
            level += step
            most[index] = max(most[index], level)
            at = index
        return most if steps else []

    def _area(self, levels: Sequence[int], *, base: float) -> str:
        if not any(levels):
            return ""
        height = LinearScale(low=0, high=max(levels), start=base, end=base - _CALLS_HEIGHT + 4)
        path = [f"M{points(self.time.x_of(0))} {points(base)}"]
        for index, level in enumerate(levels):
            if index == 0 or level != levels[index - 1]:
                path.append(f"H{points(self.time.x_of(index))}V{points(height(level))}")
        return "".join(path) + f"H{points(self.time.x_of(self.time.count))}V{points(base)}Z"

    def _ticks(self, moments_us: Iterable[int], top: float, length: float) -> str:
        places = sorted({self.time.of(at_us) for at_us in moments_us})
        return "".join(f"M{points(self.time.x_of(p))} {points(top)}v{points(length)}" for p in places)

    def _watermarks(self, lane: Lane, *, top: float, base: float) -> str:
        finite = [w for _, w in lane.watermarks if math.isfinite(w)]
        if not finite:
            return ""
        height = LinearScale(low=min(finite), high=max(finite), start=base - 1, end=top + 3)
        last_of_slice = {self.time.of(at_us): (at_us, w) for at_us, w in lane.watermarks}
        path = [f"M{points(self.time.x(lane.watermarks[0][0]))} {points(base - 1)}"]
        path += [f"H{points(self.time.x(at_us))}V{points(height(w))}" for at_us, w in last_of_slice.values()]
        return "".join(path)

    def _dead(self, lane: Lane) -> Iterator[DeadSpan]:
        """The times from the end of each attempt to the start of the next one."""
        begun: int | None = None
        for mark in lane.marks[: 4 * _MARKS_AT_MOST]:
            if mark.what in _ENDS and begun is None:
                begun = mark.at_us
            elif mark.what == "start" and begun is not None:
                yield self._dead_span(begun, mark.at_us)
                begun = None
        if begun is not None:
            yield self._dead_span(begun, self.view.end_us, back=False)

    def _dead_span(self, begin_us: int, end_us: int, *, back: bool = True) -> DeadSpan:
        x, right = self.time.x(begin_us), self.time.x(end_us)
        took = f"dead {(end_us - begin_us) / 1e6:.2f} s"
        since = f"{(begin_us - self.view.origin_us) / 1e6:.3f} s"
        until = f"to {(end_us - self.view.origin_us) / 1e6:.3f} s" if back else "to the end"
        return DeadSpan(
            x=x,
            width=max(1.0, right - x),
            begin_us=begin_us,
            end_us=end_us,
            label=took if right - x >= _DEAD_LABEL else "",
            title=f"dead from {since} {until}",
        )

    def _places(self, lane: Lane) -> tuple[Tick, ...]:
        mine = [place for place in self.placed if place["s"] == lane.s][:_PLACES_AT_MOST]
        return tuple(
            Tick(
                at=self.time.x(self.view.origin_us + place["at_us"]),
                label=f"attempt {place['a']}: host {place['host']}, executor {place['executor']},"
                f" driver {place['driver']}",
            )
            for place in mine
        )

    def _marks(self, lane: Lane, what: str) -> tuple[Tick, ...]:
        found = [mark for mark in lane.marks if mark.what == what][:_MARKS_AT_MOST]
        return tuple(
            Tick(
                at=self.time.x(mark.at_us),
                label=f"{what} {mark.number} at {(mark.at_us - self.view.origin_us) / 1e6:.3f} s",
            )
            for mark in found
        )
