"""The trace: a history indexed by subtask and attempt. All checkers share this one fold over the events.

Answers to the indexed histories of `jepsen.history`. The fold is `Trace(header)` and `step`; each checker judges the
result. Events are only filed here, never interpreted. Memory grows with the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self, assert_never

from harness.history.event import (
    Abort,
    Ack,
    AttemptEvent,
    Change,
    Commit,
    Dead,
    Done,
    Effect,
    Emission,
    Ended,
    Event,
    FaultEvent,
    GiveUp,
    Id,
    OfAttempt,
    Out,
    Owm,
    Res,
    Rescale,
    Restore,
    Retire,
    Row,
    Snap,
    Start,
    TableRead,
)
from harness.history.header import Header

Settled = Res | Dead
"""An event that can be the outcome of a record in an attempt."""


class SnapshotCut(NamedTuple):
    """A snap and its epoch: the slice `since:emitted` of its attempt's emissions."""

    snap: Snap
    since: int
    emitted: int


class AttemptTrace:
    """The events of one attempt of one subtask. Mutable."""

    def __init__(self, s: int, a: int) -> None:
        self.s = s
        self.a = a
        self.start: Start | None = None
        self.restore: Restore | None = None
        self.events: list[OfAttempt] = []
        self.emissions: list[Emission] = []
        self.cuts: list[SnapshotCut] = []
        self.outcomes: dict[Id, Settled] = {}
        """The earliest final `res` or `dead` of each record."""
        self.ended: int | None = None
        """Number of the first `ended` event: the attempt has drained."""

    def file(self, event: OfAttempt) -> None:
        self.events.append(event)
        match event:
            case Out() | Owm():
                self.emissions.append(event)
            case Res(final=True) | Dead():
                self.outcomes.setdefault(event.id, event)
            case Snap():
                since = self.cuts[-1].emitted if self.cuts else 0
                self.cuts.append(SnapshotCut(event, since, len(self.emissions)))
            case Start():
                self.start = event
            case Restore():
                self.restore = event
            case Ended():
                self.ended = event.n if self.ended is None else self.ended
            case _:
                pass


class SubtaskTrace:
    """The attempts and commits of one subtask. Mutable."""

    def __init__(self, s: int) -> None:
        self.s = s
        self.attempts: dict[int, AttemptTrace] = {}
        self.commits: list[Commit] = []

    def attempt(self, a: int) -> AttemptTrace:
        """Attempt `a`; created on first use."""
        if a not in self.attempts:
            self.attempts[a] = AttemptTrace(self.s, a)
        return self.attempts[a]

    @property
    def last(self) -> AttemptTrace | None:
        """The highest attempt; None if the subtask has only commits."""
        return self.attempts[max(self.attempts)] if self.attempts else None


class Trace:
    """A history, indexed by subtask. Mutable: the state of the fold."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.subtasks: dict[int, SubtaskTrace] = {}
        self.dones: list[Done] = []
        self.aborts: list[Abort] = []
        self.retires: list[Retire] = []
        self.rescales: list[Rescale] = []
        self.faults: list[FaultEvent] = []
        self.effects: list[Effect] = []
        self.giveups: list[GiveUp] = []
        self.rows: dict[str, list[Row]] = {}
        """By table, in history order; a table without a row is absent."""
        self.table_reads: list[TableRead] = []
        self.acks: list[Ack] = []
        self.changes: list[Change] = []
        self.events = 0
        self.last: Event | None = None

    def step(self, event: Event) -> None:
        self.events += 1
        self.last = event
        if isinstance(event, AttemptEvent):
            self._subtask(event.s).attempt(event.a).file(event)
            return
        match event:
            case Done():
                self.dones.append(event)
            case Commit():
                self._subtask(event.s).commits.append(event)
            case Effect() | Row() | TableRead():
                self._of_the_database(event)
            case Ack():
                self.acks.append(event)
            case Change():
                self.changes.append(event)
            case FaultEvent():
                self.faults.append(event)
            case Abort():
                self.aborts.append(event)
            case Retire():
                self.retires.append(event)
            case GiveUp():
                self.giveups.append(event)
            case Rescale():
                self.rescales.append(event)
            case _:
                assert_never(event)

    def _of_the_database(self, event: Effect | Row | TableRead) -> None:
        match event:
            case Effect():
                self.effects.append(event)
            case Row():
                self.rows.setdefault(event.table, []).append(event)
            case TableRead():
                self.table_reads.append(event)

    def extend(self, events: Iterable[Event]) -> Self:
        for event in events:
            self.step(event)
        return self

    def _subtask(self, s: int) -> SubtaskTrace:
        if s not in self.subtasks:
            self.subtasks[s] = SubtaskTrace(s)
        return self.subtasks[s]
