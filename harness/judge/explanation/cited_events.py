"""Cited events: the events that explanations use, gathered by reading the history at most twice more.

Answers to Jepsen's nemesis history and to Elle's recovery of the operations behind a cycle. It holds unchanged
events of the history, at most `_LINEAGE` for each record. The skeleton (attempts, faults, checkpoints) grows with
those, not with records; the rest grows with the anomalies that are explained.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.history.verdict import Anomaly, Recovery
from harness.judge.explanation.event_summary import EventSummary, Json, whole
from harness.judge.explanation.events import EventLines, is_empty, summaries
from harness.judge.explanation.recovery import RecoveryFold

_LIFE = frozenset({"start", "restore", "kill", "failed", "close", "end", "ended"})
_OF_CHECKPOINTS = frozenset({"done", "abort", "retire", "commit"})


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
class Skeleton:
    """Attempts, snaps, checkpoints and faults of a history; takes its events in order. Mutable."""

    life: dict[Any, list[EventSummary]] = field(default_factory=dict)
    """Keyed by subtask."""
    snaps: dict[tuple[Any, Any], list[EventSummary]] = field(default_factory=dict)
    """Keyed by subtask and checkpoint."""
    checkpoints: dict[Any, list[EventSummary]] = field(default_factory=dict)
    """Keyed by checkpoint: its `done`, `abort`, `retire` and `commit` events."""
    faults: list[FaultSpan] = field(default_factory=list)
    kills: int = 0
    rescaled: dict[Any, EventSummary] = field(default_factory=dict)
    """For each subtask that a rescale ended, the rescale."""
    first: EventSummary | None = None
    last: EventSummary | None = None

    def step(self, event: EventSummary) -> None:
        self.first = self.first or event
        self.last = event
        if event.k in _LIFE:
            self.life.setdefault(event.s, []).append(event)
            self.kills += event.k == "kill"
        elif event.k == "snap":
            self.snaps.setdefault((event.s, event.c), []).append(event)
        elif event.k in _OF_CHECKPOINTS:
            self.checkpoints.setdefault(event.c, []).append(event)
        elif event.k == "rescale":
            self.rescaled.update(dict.fromkeys(event.of or (), event))
        elif event.k == "fault" and event.phase == "begin":
            self.faults.append(FaultSpan(begin=event))
        elif event.k == "fault":
            running = (span for span in self.faults if span.end is None and span.begin.f == event.f)
            if (oldest := next(running, None)) is not None:
                oldest.end = event

    def starts(self, s: object) -> list[EventSummary]:
        """The `start` events of a subtask, in order."""
        return [event for event in self.life.get(s, ()) if event.k == "start"]

    @property
    def restarts(self) -> int:
        """The number of attempts that are not the first of their subtask."""
        return sum(max(0, len(self.starts(s)) - 1) for s in self.life)

    def restored_snap(self, start: EventSummary) -> EventSummary | None:
        """The snap that an attempt starts from: the one of the highest earlier attempt before the start."""
        if start.from_ is None:
            return None
        taken = [
            snap
            for snap in self.snaps.get((start.s, start.from_), ())
            if snap.n < start.n and snap.a < start.a
        ]
        return max(taken, key=lambda snap: int(snap.a), default=None)

    def snap_after(self, s: object, a: object, n: int) -> EventSummary | None:
        """The snap that closes the epoch of emission `n` of an attempt."""
        return min(self._snaps_after(s, a, n), key=lambda snap: snap.n, default=None)

    def completed_snap_after(self, s: object, a: object, n: int) -> EventSummary | None:
        """The first snap of an attempt after event `n` that was completed at some time."""
        completed = (
            snap
            for snap in self._snaps_after(s, a, n)
            if any(
                e.n > snap.n and (e.k == "done" or (e.k == "commit" and e.s == s))
                for e in self.checkpoints.get(snap.c, ())
            )
        )
        return min(completed, key=lambda snap: snap.n, default=None)

    def _snaps_after(self, s: object, a: object, n: int) -> Iterator[EventSummary]:
        for snaps in self.snaps.values():
            yield from (snap for snap in snaps if snap.s == s and snap.a == a and snap.n > n)

    def finish(self) -> list[EventSummary]:
        """The `ended` of each subtask's last attempt; empty unless the run finished normally."""
        found: list[EventSummary] = []
        for s, events in self.life.items():
            if s in self.rescaled:
                continue
            last = max((event.a for event in events), default=0)
            ended = next((event for event in events if event.k == "ended" and event.a == last), None)
            if ended is None:
                return []
            found.append(ended)
        return found

    def end_of(self, s: object, a: object) -> EventSummary | None:
        """The event that ended an attempt: its `kill`, `close` or `ended`, else the `start` of a later attempt."""
        own = [e for e in self.life.get(s, ()) if e.a == a and e.k in {"kill", "close", "ended"}]
        if own:
            return own[0]
        return next((start for start in self.starts(s) if start.a > a), None)


_LINEAGE = 200
"""Most events kept for one record or watermark."""
_LIVES = 12
"""How many of the last attempts of a subtask are gathered with their snaps."""

_FAULTS = 100
"""Most faults whose events are gathered."""

_OF_RECORDS = frozenset({"in", "call", "res", "out", "dead", "failed", "effect", "row"})

Key = tuple[str, Any]
"""A record or a watermark: `("id", 7)`, `("w", 100)`."""


@dataclass(slots=True, kw_only=True)
class Lineage:
    """The events that name one record or one watermark. Mutable."""

    events: list[Json] = field(default_factory=list)
    whole: bool = True
    """Whether no event was left out."""

    def add(self, event: Json) -> None:
        if len(self.events) < _LINEAGE:
            self.events.append(event)
        else:
            self.whole = False


@dataclass(slots=True, kw_only=True)
class CitedEvents:
    """The events that explanations use. Mutable while it is gathered."""

    header: Json
    skeleton: Skeleton = field(default_factory=Skeleton)
    recovery: Recovery = field(default_factory=Recovery)
    complete: bool = True
    """Whether the history was readable to its end."""
    events: dict[int, Json] = field(default_factory=dict)
    """Keyed by `n`: cited events, attempts, faults."""
    lineages: dict[Key, Lineage] = field(default_factory=dict)

    def lineage(self, name: str, value: object) -> Lineage:
        """The events that name a record or a watermark; empty if none does."""
        return self.lineages.get((name, value)) or Lineage()


def survey(lines: EventLines, cited: Container[int] = ()) -> CitedEvents:
    """The first reading: the skeleton, the `cited` events, and the cost of each fault and kill."""
    gathered = CitedEvents(header=lines.header())
    recovery = RecoveryFold()
    for event, line in summaries(lines):
        if event is None:
            gathered.complete = False
            break
        gathered.skeleton.step(event)
        restored = 0
        if event.k == "restore":
            restored = sum("id" in element for element in (whole(line) or {}).get("elements", ()))
        recovery.step(event, restored=restored)
        if event.n in cited:
            gathered.events[event.n] = whole(line) or {}
    gathered.recovery = recovery.recovery()
    return gathered


def gather(gathered: CitedEvents, lines: EventLines, anomalies: Iterable[Anomaly]) -> None:
    """The second reading: attempts of the subtasks in `anomalies`, and events of their records and watermarks."""
    told = list(anomalies)
    spans = gathered.skeleton.faults
    wanted = {n for s in dict.fromkeys(anomaly.s for anomaly in told) for n in _lives(gathered.skeleton, s)}
    wanted |= {n for span in spans[:_FAULTS] for n in _numbers(span.begin, span.end)}
    for anomaly in told:
        cited = (gathered.events.get(n, {}) for n in anomaly.events)
        for id_, w in ((anomaly.id, anomaly.w), *((event.get("id"), event.get("w")) for event in cited)):
            named = ("id", id_), ("w", w)
            gathered.lineages |= {key: Lineage() for key in named if isinstance(key[1], int | str)}
    for event, line in summaries(lines):
        if event is None:
            return
        key = _key_of(event)
        lineage = None if key is None else gathered.lineages.get(key)
        if (lineage is not None or event.n in wanted) and (read := whole(line)) is not None:
            if event.n in wanted:
                gathered.events[event.n] = read
            if lineage is not None:
                lineage.add(read)


def _lives(skeleton: Skeleton, s: object) -> list[int]:
    """The starts of a subtask, the snaps that they restore, and the events that ended its attempts."""
    starts = skeleton.starts(s)[-_LIVES:]
    snaps = [snap for start in starts if (snap := skeleton.restored_snap(start)) is not None]
    others = [event for event in skeleton.life.get(s, ()) if event.k != "start"]
    completions = [e for snap in snaps for e in skeleton.checkpoints.get(snap.c, ())]
    numbers = _numbers(*starts, *snaps, *others[-4 * _LIVES :], *completions, *skeleton.finish())
    return numbers if skeleton.last is None else [*numbers, skeleton.last.n]


def _numbers(*events: EventSummary | None) -> list[int]:
    return [event.n for event in events if event is not None]


def _key_of(event: EventSummary) -> Key | None:
    if event.k in _OF_RECORDS:
        return ("id", event.id) if isinstance(event.id, int | str) else None
    if event.k in {"wm", "owm"}:
        return ("w", event.w) if isinstance(event.w, int | str) else None
    return None
