"""An anomaly as a contradiction, in the form of Elle: *Let* names events, *Then* derives the contradiction.

Invariant: each name stands for one event and is defined in *Let*; the last line of *Then* is the contradiction. The
facts are the checker's (`Anomaly.then`); what happened between the named events is added here.

The events that explanations name, the attempts and the faults, from one further reading of the history.

A checker keeps no more of an event than it needs to judge, so what *Let* says of an event is read again; the same
reading measures the cost of each fault and kill, and finds what happened between the named events. Memory grows with
attempts and faults, and with the anomalies that are explained.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from harness.history.invariants import INVARIANTS
from harness.history.values import brief, shown, visible, without_credentials
from harness.history.verdict import (
    EVENT_OF_FACT,
    Anomaly,
    Explanation,
    Recovery,
    is_run_finished,
    joined,
    let,
    let_all,
    sentence,
)
from harness.judge.explanation.events import (
    EventLines,
    EventSummary,
    Json,
    describe_event,
    is_empty,
    summaries,
    whole,
)
from harness.judge.explanation.recovery import RecoveryFold

_LIFE = frozenset({"start", "restore", "kill", "failed", "close", "end", "ended"})
_NAMED_UNASKED = frozenset({"start", "ended"})
"""Events that an explanation may name though its anomaly does not."""


@dataclass(slots=True, kw_only=True)
class FaultSpan:
    """One fault, from begin to end. Mutable: the end is set later."""

    begin: EventSummary
    end: EventSummary | None = None

    @property
    def left_evidence(self) -> bool:
        return self.end is not None and not is_empty(self.end.evidence)

    def overlaps(self, first: int, last: int) -> bool:
        """Whether it was active at any event from `first` to `last`."""
        return self.begin.n <= last and (self.end is None or self.end.n >= first)


@dataclass(slots=True, kw_only=True)
class CitedEvents:
    """What explanations need of a history. Mutable while it is read."""

    first: EventSummary | None = None
    events: dict[int, Json] = field(default_factory=dict)
    """Keyed by `n`: the events that anomalies name, and all `_NAMED_UNASKED`."""
    starts: dict[object, list[EventSummary]] = field(default_factory=dict)
    """Keyed by subtask, in order."""
    newest: dict[object, int] = field(default_factory=dict)
    """For each subtask its highest attempt."""
    ended: dict[tuple[object, int], int] = field(default_factory=dict)
    """For each subtask and attempt the number of its `ended`."""
    rescaled: set[object] = field(default_factory=set)
    """The subtasks that a rescale ended."""
    faults: list[FaultSpan] = field(default_factory=list)
    kills: int = 0
    recovery: Recovery = field(default_factory=Recovery)

    def step(self, event: EventSummary) -> None:
        self.first = self.first or event
        if event.k in _LIFE:
            self.newest[event.s] = max(self.newest.get(event.s, 0), event.a)
            self.kills += event.k == "kill"
            if event.k == "start":
                self.starts.setdefault(event.s, []).append(event)
            elif event.k == "ended":
                self.ended.setdefault((event.s, event.a), event.n)
        elif event.k == "rescale":
            self.rescaled.update(event.of or ())
        elif event.k == "fault" and event.phase == "begin":
            self.faults.append(FaultSpan(begin=event))
        elif event.k == "fault":
            running = (span for span in self.faults if span.end is None and span.begin.f == event.f)
            if (oldest := next(running, None)) is not None:
                oldest.end = event

    def defined(self, event: Json) -> str:
        """An event in words, for *Let*."""
        origin_us = 0 if self.first is None else self.first.t
        place = f"event {event['n']}, at {(event['t'] - origin_us) / 1000:.3f} ms"
        place += f", subtask {event['s']}" if "s" in event else ""
        place += f", attempt {event['a']}" if "a" in event else ""
        return f"{describe_event(event)} ({place})"

    @property
    def restarts(self) -> int:
        """The number of attempts that are not the first of their subtask."""
        return sum(len(starts) - 1 for starts in self.starts.values())

    def finish(self) -> list[int]:
        """The `ended` of each subtask's last attempt; empty unless the run finished normally."""
        due = [(s, a) for s, a in self.newest.items() if s not in self.rescaled]
        found = [self.ended.get(attempt) for attempt in due]
        return [] if None in found else [n for n in found if n is not None]


def survey(lines: EventLines, cited: AbstractSet[int] = frozenset()) -> CitedEvents:
    """Read the history, up to its first unreadable line."""
    gathered = CitedEvents()
    recovery = RecoveryFold()
    for event, line in summaries(lines):
        if event is None:
            break
        gathered.step(event)
        restored = 0
        if event.k == "restore":
            restored = sum("id" in element for element in (whole(line) or {}).get("elements", ()))
        recovery.step(event, restored=restored)
        if event.n in cited or (cited and event.k in _NAMED_UNASKED):
            gathered.events[event.n] = whole(line) or {}
    gathered.recovery = recovery.recovery()
    return gathered


_LET_MAX = 16
_FAULTS_MAX = 3
_RESTARTS_MAX = 3


class Naming:
    """The events that *Let* names. Mutable: it grows with the facts that name them."""

    def __init__(self, events: Mapping[int, Json], *, most: int) -> None:
        self._events = events
        self._most = most
        self.named: dict[int, None] = {}

    def noted(self, facts: Iterable[str]) -> list[str]:
        """The facts; events beyond the limit by their numbers. Raises LookupError if one was not read."""
        return [EVENT_OF_FACT.sub(self._name, fact) for fact in facts]

    def _name(self, found: re.Match[str]) -> str:
        n = int(found[1])
        if n not in self._events:
            raise LookupError(n)
        if n not in self.named and len(self.named) >= self._most:
            return f"event {n}"
        self.named[n] = None
        return found[0]

    def explanation(
        self, then: Iterable[str], *, define: Callable[[Json], str], faults: Iterable[str] = ()
    ) -> Explanation:
        """With the names put in, and each defined in words."""
        names = {n: f"e{index}" for index, n in enumerate(sorted(self.named), start=1)}
        told = [EVENT_OF_FACT.sub(lambda found: names[int(found[1])], fact) for fact in then]
        let = [f"{name} = {define(self._events[n])}" for n, name in names.items()]
        return Explanation(let=tuple(map(visible, [*let, *faults])), then=tuple(map(visible, told)))


def contradiction(invariant: str, anomaly: Anomaly, gathered: CitedEvents) -> Explanation:
    """Raises LookupError if an event that it names was not read."""
    naming = Naming(gathered.events, most=_LET_MAX)
    then = naming.noted(_facts(anomaly, gathered))
    rule = anomaly.rule or INVARIANTS.get(invariant, f"{invariant} says otherwise").rstrip(".")
    however = naming.noted([f"However, {rule}: a contradiction."])
    naming.noted(map(let, anomaly.events))
    then += naming.noted(_restarts(anomaly, gathered, naming.named))
    faults, active = _faults(gathered, sorted(naming.named))
    return naming.explanation([*then, *active, *however], define=gathered.defined, faults=faults)


def _facts(anomaly: Anomaly, gathered: CitedEvents) -> Iterator[str]:
    assert not callable(anomaly.then)  # a verdict holds the facts that were found
    for fact in anomaly.then if anomaly.rule else [sentence(anomaly.say)]:
        if (ends_max := is_run_finished(fact)) is None:
            yield fact
        elif ends := gathered.finish():
            yield f"The run finished normally: {let_all(ends[:ends_max])}."


def _restarts(anomaly: Anomaly, gathered: CitedEvents, named: dict[int, None]) -> Iterator[str]:
    """The attempts that started between the named events."""
    if anomaly.s is None or not named:
        return
    first, last = min(named), max(named)
    starts = gathered.starts.get(anomaly.s, ())
    begun = [start for start in starts if first < start.n < last and start.n not in named]
    for start in begun[:_RESTARTS_MAX]:
        origin = "from the beginning" if start.from_ is None else f"from checkpoint {start.from_}"
        yield f"In between, at {let(start.n)}, attempt {start.a} began {origin}."
    if len(begun) > _RESTARTS_MAX:
        yield f"{len(begun) - _RESTARTS_MAX} more attempts began in between."


def _faults(gathered: CitedEvents, named: list[int]) -> tuple[list[str], list[str]]:
    """The faults that were active between the named events, for *Let* and for *Then*."""
    active = [span for span in gathered.faults if named and span.overlaps(named[0], named[-1])]
    defined, facts = [], []
    for index, span in enumerate(active[:_FAULTS_MAX], start=1):
        defined.append(f"z{index} = {_fault(span)}")
        inside = [let(n) for n in named if span.overlaps(n, n)]
        facts.append(f"z{index} was active meanwhile{f'; {joined(inside)} fell into it' if inside else ''}.")
    if len(active) > _FAULTS_MAX:
        facts.append(f"{len(active) - _FAULTS_MAX} more faults were active in between.")
    return defined, facts


def _fault(span: FaultSpan) -> str:
    begun, end = f"fault {shown(span.begin.f)}", span.end
    if end is None:
        return f"{begun} (from event {span.begin.n}, not ended)"
    evidence = ""
    if bytes(end.evidence):
        evidence = f", evidence {brief(without_credentials(json.loads(bytes(end.evidence))))}"
    return f"{begun} (events {span.begin.n} to {end.n}{evidence})"
