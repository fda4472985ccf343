"""The skeleton of a history: the life of its subtasks and what befell them, without what streamed.

Answers to Jepsen's nemesis history. Invariant: it grows with attempts, checkpoints and faults, not with
records; each entry is an event of the history.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.explanation.event_lines import Glimpse, is_empty

__all__ = ["FaultSpan", "Skeleton"]

_LIFE = frozenset({"start", "restore", "kill", "failed", "close", "end", "ended"})
_OF_CHECKPOINTS = frozenset({"done", "abort", "retire", "commit"})


@dataclass(slots=True, kw_only=True)
class FaultSpan:
    """One fault (mutable: its end comes later)."""

    begin: Glimpse
    end: Glimpse | None = None

    @property
    def left_evidence(self) -> bool:
        """Whether it ended with evidence that it took effect."""
        return self.end is not None and not is_empty(self.end.evidence)

    def overlaps(self, first: int, last: int) -> bool:
        """Whether it was active at any event from `first` to `last`."""
        return self.begin.n <= last and (self.end is None or self.end.n >= first)


@dataclass(slots=True, kw_only=True)
class Skeleton:
    """Fed with the events of a history, in order (mutable)."""

    life: dict[Any, list[Glimpse]] = field(default_factory=dict)
    """By subtask."""
    snaps: dict[tuple[Any, Any], list[Glimpse]] = field(default_factory=dict)
    """By subtask and checkpoint."""
    checkpoints: dict[Any, list[Glimpse]] = field(default_factory=dict)
    """By checkpoint: what completes it, gives it up or retires it."""
    faults: list[FaultSpan] = field(default_factory=list)
    kills: int = 0
    first: Glimpse | None = None
    last: Glimpse | None = None

    def step(self, event: Glimpse) -> None:
        """Take the next event."""
        self.first = self.first or event
        self.last = event
        if event.k in _LIFE:
            self.life.setdefault(event.s, []).append(event)
            self.kills += event.k == "kill"
        elif event.k == "snap":
            self.snaps.setdefault((event.s, event.c), []).append(event)
        elif event.k in _OF_CHECKPOINTS:
            self.checkpoints.setdefault(event.c, []).append(event)
        elif event.k == "fault":
            self._fault(event)

    def _fault(self, event: Glimpse) -> None:
        if event.phase == "begin":
            self.faults.append(FaultSpan(begin=event))
            return
        running = (span for span in self.faults if span.end is None and span.begin.f == event.f)
        if (oldest := next(running, None)) is not None:
            oldest.end = event

    def starts(self, s: Any) -> list[Glimpse]:
        """The attempts of a subtask, in the order of their starts."""
        return [event for event in self.life.get(s, ()) if event.k == "start"]

    @property
    def restarts(self) -> int:
        """How many attempts began after another of their subtask."""
        return sum(max(0, len(self.starts(s)) - 1) for s in self.life)

    def restored_snap(self, start: Glimpse) -> Glimpse | None:
        """The snap that an attempt starts from: of the highest earlier attempt, before the start."""
        if start.from_ is None:
            return None
        taken = [
            snap
            for snap in self.snaps.get((start.s, start.from_), ())
            if snap.n < start.n and snap.a < start.a
        ]
        return max(taken, key=lambda snap: int(snap.a), default=None)

    def snap_after(self, s: Any, a: Any, n: int) -> Glimpse | None:
        """The snap that closes the epoch of an emission `n` of an attempt."""
        return min(self._snaps_after(s, a, n), key=lambda snap: snap.n, default=None)

    def completed_snap_after(self, s: Any, a: Any, n: int) -> Glimpse | None:
        """The first snap that an attempt took after `n` and that was completed at some time."""
        completed = (snap for snap in self._snaps_after(s, a, n) if self._is_completed(snap))
        return min(completed, key=lambda snap: snap.n, default=None)

    def _snaps_after(self, s: Any, a: Any, n: int) -> Iterator[Glimpse]:
        for snaps in self.snaps.values():
            yield from (snap for snap in snaps if snap.s == s and snap.a == a and snap.n > n)

    def _is_completed(self, snap: Glimpse) -> bool:
        found = self.checkpoints.get(snap.c, ())
        return any(e.n > snap.n and (e.k == "done" or (e.k == "commit" and e.s == snap.s)) for e in found)

    def finish(self) -> list[Glimpse]:
        """The `ended` of each subtask's last attempt, if all have one: the run finished normally."""
        found: list[Glimpse] = []
        for events in self.life.values():
            last = max((event.a for event in events), default=0)
            ended = next((event for event in events if event.k == "ended" and event.a == last), None)
            if ended is None:
                return []
            found.append(ended)
        return found

    def end_of(self, s: Any, a: Any) -> Glimpse | None:
        """By what an attempt came to its end: killed, closed, ended, or superseded."""
        own = [e for e in self.life.get(s, ()) if e.a == a and e.k in {"kill", "close", "ended"}]
        if own:
            return own[0]
        return next((start for start in self.starts(s) if start.a > a), None)
