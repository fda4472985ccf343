"""The events that explanations name, the attempts and the faults, from one further reading of the history.

A checker keeps no more of an event than it needs to judge, so what *Let* says of an event is read again; the same
reading measures the cost of each fault and kill, and finds what happened between the named events. Memory grows with
attempts and faults, and with the anomalies that are explained.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from harness.history.verdict import Recovery
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
