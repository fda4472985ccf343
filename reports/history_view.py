"""What a report shows of one history, gathered in a single pass: lanes, calls, checkpoints and excerpts.

Answers to Jepsen's timeline and perf plots, and to Elle's counterexamples. A torn last line is dropped, and any
other unreadable line ends the reading; the report mentions both. Every number comes from an event. An excerpt
holds events of the history in its order. Memory grows with calls, outputs and the requested witnesses.
"""

from __future__ import annotations

import gzip
import io
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Final

from harness.history.values import brief, visible
from harness.history.verdict import ANOMALIES_IN_FULL, Anomaly, Judgement, Outcome
from harness.judge.explanation.events import describe_event, element_ids
from harness.system.json_types import Json
from reports.outside_view import Key, OutsideView, describe_outside, key_of, noun_of


class HistoryLines:
    """Iterates over the events of a file. Mutable: sets `header` and `problems` meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: dict[str, Any] = {}
        self.problems: list[str] = []

    def __iter__(self) -> Iterator[Json]:
        """The events, in order; none if the file is unreadable."""
        try:
            with _opened(self.path) as lines:
                yield from self._events(lines)
        except (OSError, EOFError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.problems.append(f"the history file {self.path.name} could not be read: {reason}")

    def _events(self, lines: IO[bytes]) -> Iterator[Json]:
        for number, line in enumerate(lines, start=1):
            try:
                value = json.loads(line)
            except ValueError:
                value = None
            if not isinstance(value, dict):
                self.problems.append(
                    f"line {number} of the history does not parse; what follows is not shown"
                    if line.endswith(b"\n")
                    else f"the last line of the history (line {number}) was cut off and is left out"
                )
                return
            if number == 1:
                self.header = value
            elif "k" in value and all(type(value.get(name)) is int for name in ("n", "t")):
                yield value
            else:
                self.problems.append(f"line {number} of the history is no event; what follows is not shown")
                return


def _opened(path: Path) -> IO[bytes]:
    match path.suffix:
        case ".gz":
            return io.BufferedReader(gzip.open(path, "rb"))
        case ".zst":
            import zstandard  # noqa: PLC0415  only histories in this form need it

            return io.BufferedReader(zstandard.open(path, "rb"))
        case _:
            return path.open("rb")


_AROUND = 5
_AROUND_FEWER = 2
"""Events shown before and after each witness: more if there are few witnesses."""
_FEW_WITNESSES = 2
_WITNESSES = 8
"""Most witnesses shown of one anomaly."""
_LINEAGE = 24
_LIFE_FOLLOWED = 6
"""After an event of a record, how many starts, snaps, commits and kills of its subtask follow."""
_LIFE = frozenset({"start", "restore", "snap", "commit", "kill", "failed", "close"})
_LIFE_OF_A_JOB = frozenset({"start", "exit", "fault", "finished", "giveup"})
_ENDS_AND_BEGINNINGS = frozenset({"start", "restore", "kill", "failed"})
"""They follow however late: a record that a snapshot omits is lost only when that snapshot is restored."""
_FOLLOWED_AT_MOST = 60

Stream = int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One event of an excerpt; `after_gap` marks that events before it are left out."""

    n: int
    at_s: float
    s: int | None
    a: int | None
    text: str
    marked: bool
    after_gap: bool = False
    label: str = ""
    """The event in a word or two, as the timeline names it: `call`, `snap 3`, `restore 3`."""


@dataclass(slots=True, kw_only=True)
class _Window:
    """The events near witnesses, of one subtask or of the whole history. Mutable."""

    seen: int = 0
    keep_until: int = -1
    recent: deque[tuple[int, Json]] = field(default_factory=lambda: deque(maxlen=_AROUND))
    kept: dict[int, Json] = field(default_factory=dict)
    place_of: dict[int, int] = field(default_factory=dict)

    def see(self, event: Json, *, is_witness: bool) -> None:
        place = self.seen
        self.seen += 1
        if is_witness:
            self.kept.update(self.recent)
            self.place_of[int(event["n"])] = place
            self.keep_until = place + _AROUND
        if place <= self.keep_until:
            self.kept[place] = event
        self.recent.append((place, event))


@dataclass(slots=True, kw_only=True)
class _Lineage:
    """The events of one record, with the starts, snaps, commits and kills that follow. Mutable."""

    events: list[Json] = field(default_factory=list)
    s: int | None = None
    budget: int = 0

    def see(self, event: Json) -> None:
        self.events.append(event)
        self.s = event.get("s", self.s)
        self.budget = _LIFE_FOLLOWED

    def see_life(self, event: Json) -> None:
        if not self.events or event.get("s") != self.s:
            return
        late = event["k"] in _ENDS_AND_BEGINNINGS and len(self.events) < _FOLLOWED_AT_MOST
        if self.budget or late:
            self.events.append(event)
            self.budget = max(0, self.budget - 1)


class Excerpts:
    """Gathers the events that the anomalies of one judgement need, in one pass. Mutable."""

    def __init__(self, judgement: Judgement | None = None, *, outside: str = "") -> None:
        """`outside`: what a row is of, in a history seen from outside; empty: it is none."""
        self._life = _LIFE_OF_A_JOB if outside else _LIFE
        self._describe: Callable[[Json], str] = (
            partial(describe_outside, noun=outside) if outside else describe_event
        )
        self._noun = outside
        failed = [v for v in judgement.invariants if v.outcome is Outcome.FAIL] if judgement else []
        anomalies = [anomaly for verdict in failed for anomaly in verdict.anomalies[:ANOMALIES_IN_FULL]]
        self._witnesses = {n for anomaly in anomalies for n in anomaly.events[:_WITNESSES]}
        self._lineages = {key_of(a.id): _Lineage() for a in anomalies if a.id is not None}
        self._windows: dict[Stream, _Window] = {None: _Window()}
        self._origin_us: int | None = None

    def see(self, event: Json) -> None:
        if self._origin_us is None:
            self._origin_us = int(event["t"])
        if not self._witnesses and not self._lineages:
            return
        is_witness = event["n"] in self._witnesses
        s = event.get("s")
        if s is not None and s not in self._windows:
            self._windows[s] = _Window()
        for stream, window in self._windows.items():
            if s is None or stream is None or stream == s:
                window.see(event, is_witness=is_witness)
        is_of_row = self._noun != "key" or event["k"] != "offer"  # the id of a record is none of a key
        named = [i for i in _ids_of(event) if i in self._lineages] if is_of_row else []
        for record in named:
            self._lineages[record].see(event)
        if event.get("k") in self._life:
            for record, lineage in self._lineages.items():
                if record not in named:
                    lineage.see_life(event)

    def around(self, anomaly: Anomaly) -> tuple[Line, ...]:
        """The events of the subtask before and after each witness; witnesses are marked."""
        witnesses = anomaly.events[:_WITNESSES]
        window = self._windows.get(anomaly.s, self._windows[None])
        if any(n not in window.place_of for n in witnesses):
            window = self._windows[None]
        reach = _AROUND if len(witnesses) <= _FEW_WITNESSES else _AROUND_FEWER
        centres = [window.place_of[n] for n in witnesses if n in window.place_of]
        places = sorted({p for c in centres for p in range(c - reach, c + reach + 1) if p in window.kept})
        return tuple(self._lines([(p, window.kept[p]) for p in places], anomaly))

    def events_of(self, anomaly: Anomaly) -> list[Json]:
        """The events of the anomaly's record and of its subtask's life since; empty if it names no record."""
        lineage = self._lineages.get(key_of(anomaly.id)) if anomaly.id is not None else None
        return lineage.events if lineage else []

    def lineage(self, anomaly: Anomaly) -> tuple[Line, ...]:
        """The events of the anomaly's record, over all attempts; empty if it names no record."""
        events = self.events_of(anomaly)
        head, tail = events[:_LINEAGE], events[_LINEAGE:][-4:]
        placed = list(enumerate(head)) + [(len(events) - len(tail) + i, e) for i, e in enumerate(tail)]
        return tuple(self._lines(placed, anomaly, record=anomaly.id))

    def _lines(
        self, placed: Iterable[tuple[int, Json]], anomaly: Anomaly, *, record: object = None
    ) -> Iterator[Line]:
        previous: int | None = None
        for place, event in placed:
            holds = ""
            if record is not None and "elements" in event:
                holds = (
                    " (holds this record)" if record in element_ids(event) else " (does not hold this record)"
                )
            yield Line(
                n=int(event["n"]),
                at_s=(int(event["t"]) - (self._origin_us or 0)) / 1_000_000,
                s=event.get("s"),
                a=event.get("a", event.get("start")),
                text=self._describe(event) + holds,
                label=_label(event),
                marked=event["n"] in anomaly.events,
                after_gap=previous is not None and place != previous + 1,
            )
            previous = place


_LABELS: Final = {
    "snap": "snap {c}",
    "commit": "commit {c}",
    "restore": "restore {c}",
    "start": "start {a}",
    "offer": "offered",
    "row": "row",
    "dead": "dead letter",
}


def _label(event: Json) -> str:
    kind = str(event.get("k"))
    if kind == "call" and event.get("try", 1) != 1:
        return f"call {brief(event['try'], limit=8)}"
    if kind == "fault":
        return f"{brief(event.get('f'), limit=16)} {event.get('phase')}".replace('"', "")
    numbers = {"c": brief(event.get("c"), limit=8), "a": brief(event.get("a", event.get("start")), limit=8)}
    return _LABELS.get(kind, visible(kind)).format(**numbers)


def _ids_of(event: Json) -> list[Key]:
    if "elements" in event:
        return list(dict.fromkeys(i for i in element_ids(event) if isinstance(i, int | str)))
    record = event.get("id")
    return [key_of(record)] if isinstance(record, int | str | list) else []


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSpan:
    """One external call, from `call` to its first `res`, or to the end of its attempt (`lost`)."""

    begin_us: int
    end_us: int
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An event drawn as a mark: `commit`, `kill`, `restore`, `start`, `failed`."""

    at_us: int
    what: str
    number: int | None = None
    """The number of the checkpoint or the attempt."""


@dataclass(slots=True, kw_only=True)
class Lane:
    """What is drawn of one subtask. Mutable while the history is read."""

    s: int
    calls: list[CallSpan] = field(default_factory=list)
    outputs_us: list[int] = field(default_factory=list)
    watermarks: list[tuple[int, float]] = field(default_factory=list)
    """(time, value) of each emitted watermark; the final one is infinite."""
    marks: list[Mark] = field(default_factory=list)
    open_calls: dict[tuple[int, Any], int] = field(default_factory=dict)

    def close_calls(self, *, below: int, at_us: int) -> None:
        """Close the open calls of the attempts up to `below` as lost."""
        for key in [key for key in self.open_calls if key[0] <= below]:
            self.calls.append(CallSpan(begin_us=self.open_calls.pop(key), end_us=at_us, result="lost"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """The snapshot of one subtask in a completed checkpoint."""

    c: int
    s: int
    attempt: int
    taken_us: int
    completed_us: int
    in_flight: int
    gap_us: int | None
    """Time since this subtask's previous completed checkpoint."""


@dataclass(slots=True, kw_only=True)
class HistoryView:
    """A history as a report shows it. Mutable while it is read."""

    excerpts: Excerpts
    origin_us: int = 0
    end_us: int = 0
    events: int = 0
    lanes: dict[int, Lane] = field(default_factory=dict)
    checkpoints: list[CheckpointRow] = field(default_factory=list)
    header: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    outside: OutsideView | None = None
    """Set if the header says `"view": "outside"`; then there are no lanes."""

    @property
    def span_us(self) -> int:
        """The time from the first event to the last, at least 1."""
        return max(1, self.end_us - self.origin_us)


def read_view(path: Path, *, judgement: Judgement | None = None) -> HistoryView:
    """Read a history once, with the excerpts for the anomalies of `judgement`."""
    lines = HistoryLines(path)
    events = iter(lines)
    first = list(islice(events, 1))  # the header is read with it
    noun = noun_of(lines.header) if lines.header.get("view") == "outside" else ""
    reading = _Reading(
        excerpts=Excerpts(judgement, outside=noun),
        outside=OutsideView.of(judgement, noun=noun) if noun else None,
    )
    view = reading.read(chain(first, events))
    view.header, view.problems = lines.header, lines.problems
    view.lanes = dict(sorted(view.lanes.items()))
    return view


class _Reading:
    """The fold from events to a view. Mutable."""

    def __init__(self, *, excerpts: Excerpts, outside: OutsideView | None = None) -> None:
        self.view = HistoryView(excerpts=excerpts, outside=outside)
        self._snaps: dict[tuple[int, int], Json] = {}
        self._completed_us: dict[int, int] = {}

    def read(self, events: Iterable[Json]) -> HistoryView:
        view = self.view
        for event in events:
            if not view.events:
                view.origin_us = event["t"]
            view.events += 1
            view.end_us = max(view.end_us, event["t"])
            view.excerpts.see(event)
            if view.outside is not None:
                view.outside.see(event)
            elif event["k"] == "done":
                for s in [s for s, c in self._snaps if c == event.get("c")]:
                    self._completed(s, event)
            elif isinstance(event.get("s"), int):
                self._of_subtask(event, view.lanes.setdefault(event["s"], Lane(s=event["s"])))
        for lane in view.lanes.values():
            lane.close_calls(below=max((a for a, _ in lane.open_calls), default=0), at_us=view.end_us)
        return view

    def _of_subtask(self, event: Json, lane: Lane) -> None:
        at_us, attempt = event["t"], event.get("a", 0)
        match event["k"]:
            case "call":
                lane.open_calls[attempt, event.get("id")] = at_us
            case "res":
                begin_us = lane.open_calls.pop((attempt, event.get("id")), None)
                if begin_us is not None:
                    result = str(event.get("r", "unknown"))
                    lane.calls.append(CallSpan(begin_us=begin_us, end_us=at_us, result=result))
            case "out":
                lane.outputs_us.append(at_us)
            case "owm":
                w = event.get("w")
                lane.watermarks.append((at_us, float(w) if isinstance(w, int) else float("inf")))
            case "start":
                lane.close_calls(below=attempt - 1, at_us=at_us)
                lane.marks.append(Mark(at_us=at_us, what="start", number=attempt))
            case "kill" | "failed" as what:
                lane.close_calls(below=attempt, at_us=at_us)
                lane.marks.append(Mark(at_us=at_us, what=what, number=attempt))
            case "restore" as what:
                lane.marks.append(Mark(at_us=at_us, what=what, number=event.get("c", attempt)))
            case "snap":
                self._snaps[lane.s, event.get("c", 0)] = event
            case "commit":
                lane.marks.append(Mark(at_us=at_us, what="commit", number=event.get("c")))
                self._completed(lane.s, event)
            case _:
                pass

    def _completed(self, s: int, event: Json) -> None:
        """The first `commit` or `done` after a snapshot completes it; a later one is ignored."""
        snap = self._snaps.pop((s, event.get("c", 0)), None)
        if snap is None:
            return
        before_us = self._completed_us.get(s)
        row = CheckpointRow(
            c=event["c"],
            s=s,
            attempt=snap.get("a", 0),
            taken_us=snap["t"],
            completed_us=event["t"],
            in_flight=len(snap.get("elements", ())),
            gap_us=None if before_us is None else event["t"] - before_us,
        )
        self.view.checkpoints.append(row)
        self._completed_us[s] = event["t"]
