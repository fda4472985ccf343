"""What the charts and tables of a report need of one history, gathered in a single pass.

Answers to Jepsen's timeline and perf plots. Invariant: every number here was read from an event; calls whose
reply never came stay open and are shown so. Memory grows with calls and outputs (a few machine words each).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.explanation.event_lines import Json
from harness.verdict import Judgement
from reports.excerpt import Excerpts
from reports.history_lines import HistoryLines

__all__ = ["CallSpan", "CheckpointRow", "HistoryView", "Lane", "Mark", "read_view"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSpan:
    """One external call: from `call` to its first `res` (`ok`, ...), or to its attempt's end (`lost`)."""

    begin_us: int
    end_us: int
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment in a subtask's life: `commit`, `kill`, `restore`, `start`, `failed`."""

    at_us: int
    what: str
    number: int | None = None
    """The checkpoint or the attempt."""


@dataclass(slots=True, kw_only=True)
class Lane:
    """One subtask's history (mutable while it is read)."""

    s: int
    calls: list[CallSpan] = field(default_factory=list)
    outputs_us: list[int] = field(default_factory=list)
    watermarks: list[tuple[int, float]] = field(default_factory=list)
    """When each watermark left, and its value; the final one is infinite."""
    marks: list[Mark] = field(default_factory=list)
    open_calls: dict[tuple[int, Any], int] = field(default_factory=dict)

    def close_calls(self, *, below: int, at_us: int) -> None:
        """The calls of the attempts up to `below` will have no reply that counts."""
        for key in [key for key in self.open_calls if key[0] <= below]:
            self.calls.append(CallSpan(begin_us=self.open_calls.pop(key), end_us=at_us, result="lost"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """A subtask's part of a completed checkpoint."""

    c: int
    s: int
    attempt: int
    taken_us: int
    completed_us: int
    in_flight: int
    gap_us: int | None
    """Since this subtask's completion before."""


@dataclass(slots=True, kw_only=True)
class HistoryView:
    """A history as a report shows it (mutable while it is read)."""

    excerpts: Excerpts
    origin_us: int = 0
    end_us: int = 0
    events: int = 0
    lanes: dict[int, Lane] = field(default_factory=dict)
    checkpoints: list[CheckpointRow] = field(default_factory=list)
    header: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def span_us(self) -> int:
        """From the first event to the last, at least 1."""
        return max(1, self.end_us - self.origin_us)


def read_view(path: Path, *, judgement: Judgement | None = None) -> HistoryView:
    """Read a history once, with the excerpts that the failures of `judgement` need."""
    lines = HistoryLines(path)
    view = _Reading(excerpts=Excerpts(judgement)).read(lines)
    view.header, view.problems = lines.header, lines.problems
    view.lanes = dict(sorted(view.lanes.items()))
    return view


class _Reading:
    """The fold from events to a view (mutable)."""

    def __init__(self, *, excerpts: Excerpts) -> None:
        self.view = HistoryView(excerpts=excerpts)
        self._snaps: dict[tuple[int, int], Json] = {}
        self._completed_us: dict[int, int] = {}

    def read(self, events: Iterable[Json]) -> HistoryView:
        for event in events:
            self._see(event)
        for lane in self.view.lanes.values():
            lane.close_calls(below=max((a for a, _ in lane.open_calls), default=0), at_us=self.view.end_us)
        return self.view

    def _see(self, event: Json) -> None:
        view = self.view
        if not view.events:
            view.origin_us = event["t"]
        view.events += 1
        view.end_us = max(view.end_us, event["t"])
        view.excerpts.see(event)
        if event["k"] == "done":
            self._done(event)
        elif isinstance(event.get("s"), int):
            self._of_subtask(event, self._lane(event["s"]))

    def _lane(self, s: int) -> Lane:
        return self.view.lanes.setdefault(s, Lane(s=s))

    def _of_subtask(self, event: Json, lane: Lane) -> None:
        at_us, attempt = event["t"], event.get("a", 0)
        match event["k"]:
            case "call":
                lane.open_calls[attempt, event.get("id")] = at_us
            case "res":
                self._replied(event, lane)
            case "out":
                lane.outputs_us.append(at_us)
            case "owm":
                lane.watermarks.append((at_us, _height(event.get("w"))))
            case "start":
                lane.close_calls(below=attempt - 1, at_us=at_us)
                lane.marks.append(Mark(at_us=at_us, what="start", number=attempt))
            case "kill":
                lane.close_calls(below=attempt, at_us=at_us)
                lane.marks.append(Mark(at_us=at_us, what="kill", number=attempt))
            case "failed" | "restore" as what:
                lane.marks.append(Mark(at_us=at_us, what=what, number=event.get("c", attempt)))
            case "snap":
                self._snaps[lane.s, event.get("c", 0)] = event
            case "commit":
                lane.marks.append(Mark(at_us=at_us, what="commit", number=event.get("c")))
                self._completed(lane.s, event)
            case _:
                pass

    def _replied(self, event: Json, lane: Lane) -> None:
        key = (event.get("a", 0), event.get("id"))
        begin_us = lane.open_calls.pop(key, None)
        if begin_us is not None:
            result = str(event.get("r", "unknown"))
            lane.calls.append(CallSpan(begin_us=begin_us, end_us=event["t"], result=result))

    def _done(self, event: Json) -> None:
        for s in [s for s, c in self._snaps if c == event.get("c")]:
            self._completed(s, event)

    def _completed(self, s: int, event: Json) -> None:
        """The first of `commit` and `done` completes a subtask's part; the other finds no snapshot left."""
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


def _height(w: object) -> float:
    return float(w) if isinstance(w, int) else float("inf")
