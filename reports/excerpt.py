"""Excerpts of a history: the events around a witness, and what befell one record, gathered in one pass.

Answers to Elle's counterexamples. Invariant: an excerpt holds events of the history in its order, nothing
else; memory grows with the number of witnesses asked for, never with the history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.explanation.event_lines import Json
from harness.explanation.event_words import describe_event, element_ids
from harness.explanation.explain import ANOMALIES_IN_FULL
from harness.verdict import Anomaly, Judgement, Outcome

__all__ = ["Excerpts", "Line"]

_AROUND = 5
_AROUND_FEWER = 2
"""Before and after each witness: wide around few of them, narrow around many."""
_FEW_WITNESSES = 2
_WITNESSES = 8
"""At most so many witnesses of one anomaly are looked up."""
_LINEAGE = 24
_LIFE_FOLLOWED = 6
"""After an event of a record, so many events of its subtask's life are shown with it."""
_LIFE = frozenset({"start", "restore", "snap", "commit", "kill", "failed", "close"})

Stream = int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One event of an excerpt; `after_gap` says that events between it and the line above are left out."""

    n: int
    at_s: float
    s: int | None
    a: int | None
    text: str
    marked: bool
    after_gap: bool = False


@dataclass(slots=True, kw_only=True)
class _Window:
    """One subtask's events near witnesses (mutable: it is fed); key None holds the whole history's."""

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
    """One record's events with its subtask's life beside them (mutable: it is fed)."""

    events: list[Json] = field(default_factory=list)
    s: int | None = None
    budget: int = 0

    def see(self, event: Json) -> None:
        self.events.append(event)
        self.s = event.get("s", self.s)
        self.budget = _LIFE_FOLLOWED

    def see_life(self, event: Json) -> None:
        if self.budget and event.get("s") == self.s:
            self.events.append(event)
            self.budget -= 1


class Excerpts:
    """Gathers, while a history streams by, what the anomalies of one judgement need (mutable)."""

    def __init__(self, judgement: Judgement | None = None) -> None:
        anomalies = list(_told_in_full(judgement)) if judgement else []
        self._witnesses = {n for anomaly in anomalies for n in anomaly.events[:_WITNESSES]}
        self._lineages = {a.id: _Lineage() for a in anomalies if a.id is not None}
        self._windows: dict[Stream, _Window] = {None: _Window()}
        self._origin_us: int | None = None

    def see(self, event: Json) -> None:
        """Take the next event of the history."""
        if self._origin_us is None:
            self._origin_us = int(event["t"])
        if not self._witnesses and not self._lineages:
            return
        self._see_windows(event)
        self._see_lineages(event)

    def _see_windows(self, event: Json) -> None:
        is_witness = event["n"] in self._witnesses
        s = event.get("s")
        if s is not None and s not in self._windows:
            self._windows[s] = _Window()
        for stream, window in self._windows.items():
            if s is None or stream is None or stream == s:
                window.see(event, is_witness=is_witness)

    def _see_lineages(self, event: Json) -> None:
        named = [i for i in _ids_of(event) if i in self._lineages]
        for record in named:
            self._lineages[record].see(event)
        if event.get("k") in _LIFE:
            for record, lineage in self._lineages.items():
                if record not in named:
                    lineage.see_life(event)

    def around(self, anomaly: Anomaly) -> tuple[Line, ...]:
        """The events before and after each witness, of the same subtask; witnesses are marked."""
        witnesses = anomaly.events[:_WITNESSES]
        window = self._windows.get(anomaly.s, self._windows[None])
        if any(n not in window.place_of for n in witnesses):
            window = self._windows[None]
        reach = _AROUND if len(witnesses) <= _FEW_WITNESSES else _AROUND_FEWER
        centres = [window.place_of[n] for n in witnesses if n in window.place_of]
        places = sorted({p for c in centres for p in range(c - reach, c + reach + 1) if p in window.kept})
        return tuple(self._lines([(p, window.kept[p]) for p in places], anomaly))

    def lineage(self, anomaly: Anomaly) -> tuple[Line, ...]:
        """What befell the anomaly's record, over all attempts; nothing where it names none."""
        lineage = self._lineages.get(anomaly.id) if anomaly.id is not None else None
        events = lineage.events if lineage else []
        head, tail = events[:_LINEAGE], events[_LINEAGE:][-4:]
        placed = list(enumerate(head)) + [(len(events) - len(tail) + i, e) for i, e in enumerate(tail)]
        return tuple(self._lines(placed, anomaly, record=anomaly.id))

    def _lines(
        self, placed: Iterable[tuple[int, Json]], anomaly: Anomaly, *, record: Any = None
    ) -> Iterator[Line]:
        previous: int | None = None
        for place, event in placed:
            yield Line(
                n=int(event["n"]),
                at_s=(int(event["t"]) - (self._origin_us or 0)) / 1_000_000,
                s=event.get("s"),
                a=event.get("a"),
                text=describe_event(event) + _membership(event, record),
                marked=event["n"] in anomaly.events,
                after_gap=previous is not None and place != previous + 1,
            )
            previous = place


def _told_in_full(judgement: Judgement) -> Iterator[Anomaly]:
    for verdict in judgement.invariants:
        if verdict.outcome is Outcome.FAIL:
            yield from verdict.anomalies[:ANOMALIES_IN_FULL]


def _ids_of(event: Json) -> list[Any]:
    if "elements" in event:
        return list(dict.fromkeys(i for i in element_ids(event) if isinstance(i, int | str)))
    record = event.get("id")
    return [record] if isinstance(record, int | str) else []


def _membership(event: Json, record: Any) -> str:
    """Whether a snapshot or a restore holds the record whose story is told: read off, not inferred."""
    if record is None or "elements" not in event:
        return ""
    return " (holds this record)" if record in element_ids(event) else " (does not hold this record)"
