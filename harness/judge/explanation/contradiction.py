"""Builds an explanation in the form of Elle: *Let* names events of the history, *Then* derives a contradiction.

Invariant: each name stands for one event and is defined in *Let*; the last line of *Then* is the contradiction. A
line about an event states only what the event itself contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from harness.history.values import brief, shown, visible, without_credentials
from harness.history.verdict import Anomaly, Explanation
from harness.judge.explanation.cited_events import CitedEvents
from harness.judge.explanation.event_summary import EventSummary, Json
from harness.judge.explanation.events import describe_event

_LET_MAX = 16
_OPEN, _CLOSE = "\ue000", "\ue001"
_NAME = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_FAULTS_MAX = 3
_RESTARTS_MAX = 3


class Contradiction:
    """One anomaly, access to the events about it, and its explanation under construction. Mutable."""

    def __init__(self, anomaly: Anomaly, gathered: CitedEvents) -> None:
        self.anomaly = anomaly
        self.gathered = gathered
        self._named: dict[int, Json] = {}
        """The events that *Let* defines; `however` names them in the order of the history."""
        self._faults: list[str] = []
        self._then: list[str] = []

    @property
    def s(self) -> Any:
        """The subtask of the anomaly."""
        return self.anomaly.s

    @property
    def cited(self) -> list[Json]:
        """The events that the anomaly cites, in the order in which it lists them."""
        return [self.gathered.events[n] for n in self.anomaly.events if n in self.gathered.events]

    def witness(self, *kinds: str) -> Json | None:
        """The first cited event of one of these kinds."""
        return next((event for event in self.cited if event.get("k") in kinds), None)

    def witnesses(self, *kinds: str) -> list[Json]:
        return [event for event in self.cited if event.get("k") in kinds]

    def story(self, record: object, *kinds: str) -> list[Json]:
        """The events of these kinds about a record, in this subtask (effects: in any subtask)."""
        events = self.gathered.lineage("id", record).events
        return [e for e in events if e["k"] in kinds and (e["k"] == "effect" or e.get("s") == self.s)]

    def taken(self, record: object) -> Json | None:
        """The event by which this subtask first took a record in."""
        return next(iter(self.story(record, "in")), None)

    def marks(self, w: object) -> list[Json]:
        """The positions of a watermark in the source, as the first `wm` at each position."""
        events = self.gathered.lineage("w", w).events
        found: dict[Any, Json] = {}
        for event in events:
            if event["k"] == "wm" and event.get("s") == self.s:
                found.setdefault(event["pos"], event)
        return list(found.values())

    def knows_all(self, name: str, value: object) -> bool:
        """Whether `story` and `marks` return every such event; only then may *Then* say that there is none."""
        return self.gathered.complete and self.gathered.lineage(name, value).whole

    def event(self, summary: EventSummary | None) -> Json | None:
        """The full event of a summary, if it was gathered."""
        return None if summary is None else self.gathered.events.get(summary.n)

    def operator(self, name: str, default: object = None) -> Any:
        """A field of the header's `operator`."""
        operator = self.gathered.header.get("operator")
        return operator.get(name, default) if isinstance(operator, dict) else default

    @property
    def sink(self) -> str:
        """The header's `sink`."""
        return str(self.gathered.header.get("sink", "rollback"))

    def bound(self, name: str) -> Any:
        """A bound from the header, in ms."""
        bounds = self.gathered.header.get("bounds")
        return bounds.get(name, 0) if isinstance(bounds, dict) else 0

    def let(self, event: Json) -> str:
        """Define a name for an event and return its placeholder; beyond the limit, `event <number>`."""
        n = int(event["n"])
        if n not in self._named and len(self._named) >= _LET_MAX:
            return f"event {n}"
        self._named[n] = event
        return f"{_OPEN}{n}{_CLOSE}"

    def let_all(self, events: Iterable[Json]) -> str:
        """Names for several events: `e1, e2 and e3`."""
        return _joined([self.let(event) for event in events])

    def seen(self, one: Json, how: str, other: Json) -> str:
        """The clause that one emission is visible `before` or `after` another; says why if `n` has them reversed."""
        agrees = (one["n"] < other["n"]) == (how == "before")
        why = "" if agrees else ", because their commits have that order"
        return f"{self.let(one)} is visible {how} {self.let(other)}{why}"

    def then(self, fact: str) -> None:
        """Add a line to *Then*."""
        self._then.append(fact)

    def then_precedes(self, first: Json, second: Json) -> None:
        """Add that one element precedes another in the source."""
        self.then(
            f"{self.let(first)} precedes {self.let(second)} in the source:"
            f" position {first['pos']} comes before {second['pos']}."
        )

    def then_finished(self, events_max: int) -> None:
        """Add that the run finished normally, if it did, with the first `events_max` ends of its subtasks."""
        ends = [e for summary in self.gathered.skeleton.finish() if (e := self.event(summary)) is not None]
        if ends:
            self.then(f"The run finished normally: {self.let_all(ends[:events_max])}.")

    def then_said(self) -> None:
        """Add the checker's own sentence as a line of *Then*."""
        self.then(f"{self.anomaly.say[:1].upper()}{self.anomaly.say[1:]}.")

    def however(self, rule: str) -> Explanation:
        """Add the violated rule as the last line, and build the explanation."""
        for event in self.cited:
            self.let(event)
        self._add_restarts()
        self._add_faults()
        self.then(f"However, {rule}: a contradiction.")
        names = {n: f"e{index}" for index, n in enumerate(sorted(self._named), start=1)}
        first = self.gathered.skeleton.first
        origin_us = 0 if first is None else first.t
        let = []
        for n, event in sorted(self._named.items()):
            place = f"event {n}, at {(event['t'] - origin_us) / 1000:.3f} ms"
            place += f", subtask {event['s']}" if "s" in event else ""
            place += f", attempt {event['a']}" if "a" in event else ""
            let.append(f"{names[n]} = {describe_event(event)} ({place})")
        then = [_NAME.sub(lambda found: names.get(int(found[1]), found[0]), fact) for fact in self._then]
        return Explanation(
            let=tuple(visible(line) for line in (*let, *self._faults)),
            then=tuple(visible(line) for line in then),
        )

    def _add_restarts(self) -> None:
        """Add the attempts that started between the named events."""
        if self.s is None or not self._named:
            return
        first, last = min(self._named), max(self._named)
        begun = [
            e for e in self.gathered.skeleton.starts(self.s) if first < e.n < last and e.n not in self._named
        ]
        for start in begun[:_RESTARTS_MAX]:
            if (event := self.event(start)) is not None:
                origin = "from the beginning" if start.from_ is None else f"from checkpoint {start.from_}"
                self.then(f"In between, at {self.let(event)}, attempt {start.a} began {origin}.")
        if len(begun) > _RESTARTS_MAX:
            self.then(f"{len(begun) - _RESTARTS_MAX} more attempts began in between.")

    def _add_faults(self) -> None:
        if not self._named:
            return
        first, last = min(self._named), max(self._named)
        active = [span for span in self.gathered.skeleton.faults if span.overlaps(first, last)]
        for index, span in enumerate(active[:_FAULTS_MAX], start=1):
            begun = span.begin.n
            events = (
                f"from event {begun}, not ended" if span.end is None else f"events {begun} to {span.end.n}"
            )
            end = self.event(span.end) or {}
            evidence = (
                f", evidence {brief(without_credentials(end['evidence']))}" if "evidence" in end else ""
            )
            self._faults.append(f"z{index} = fault {shown(span.begin.f)} ({events}{evidence})")
            inside = [self.let(e) for n, e in sorted(self._named.items()) if span.overlaps(n, n)]
            while_active = f"; {_joined(inside)} fell into it" if inside else ""
            self.then(f"z{index} was active meanwhile{while_active}.")
        if len(active) > _FAULTS_MAX:
            self.then(f"{len(active) - _FAULTS_MAX} more faults were active in between.")


def _joined(names: list[str]) -> str:
    """`e1, e2 and e3`."""
    *before, last = names or ["nothing"]
    return f"{', '.join(before)} and {last}" if before else last
