"""The recording of a job's run: what was offered, done and read, each with its place in the database's log of changes.

Answers to `harness.history.recorder` for a job that writes no journal of ours. Invariants: it may be called from any
thread; times and places never go back; the history is made when the run is over, so that the end of a fault can be
told its evidence late.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from harness.history.outside import (
    AskedLookup,
    DeadLetterRow,
    ExpectedRow,
    JobExit,
    JobFault,
    JobFinished,
    JobGiveUp,
    JobStart,
    LogRow,
    Offer,
    OutsideEvent,
    PartRead,
    TableRow,
)
from harness.levels.job.binlog import LoggedTransaction, LogPosition
from harness.levels.job.sink_rows import SinkColumns, SinkReplay, id_text
from harness.system.clock import monotonic_us
from harness.system.json_types import JsonView

_KINDS: Mapping[str, type[msgspec.Struct]] = {
    "offer": Offer,
    "start": JobStart,
    "exit": JobExit,
    "fault": JobFault,
    "asked": AskedLookup,
    "table": TableRow,
    "expect": ExpectedRow,
    "dead": DeadLetterRow,
    "read": PartRead,
    "finished": JobFinished,
    "giveup": JobGiveUp,
}


class OwnersOfSessions(Protocol):
    """Which start a session of the database belongs to."""

    def start_of(self, session: int | None, at: LogPosition) -> int | None:
        """The start that opened `session`, which wrote at that place of the log; None: not known."""


@dataclass(slots=True, kw_only=True)
class _Noted:
    """One event. Mutable: the end of a fault gets its evidence later."""

    t_us: int
    at: LogPosition
    kind: str
    fields: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class JobRecording:
    """Collects the events of a run. Mutable, from any thread.

    `where` asks the server for the end of its log, and may answer with less if the server does not; `read` is the place
    up to which the log was read, which is never too late.
    """

    where: Callable[[], LogPosition]
    read: Callable[[], LogPosition]
    began_us: int = field(default_factory=monotonic_us)
    _noted: list[_Noted] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _ends: dict[str, list[_Noted]] = field(default_factory=dict)

    def note(
        self, kind: str, *, at: LogPosition | None = None, t_us: int | None = None, **fields: Any
    ) -> int:
        """Notes an event that happens now, or at a known time or place; returns its time."""
        place = at if at is not None else self.where()
        with self._lock:
            return self._add(kind, place, fields, t_us=t_us).t_us

    def note_offer(self, **fields: Any) -> None:
        """Notes that a record is about to be offered: before it can have an effect."""
        with self._lock:
            self._add("offer", self.read(), fields)

    def begins(self, fault: str) -> None:
        """A fault takes effect. Each can cause an exit: a right job may refuse to go on after what a dead one left."""
        self.note("fault", f=fault, phase="begin", can=["exit"])

    def ends(self, fault: str) -> None:
        """Record that a fault has healed; its evidence follows later."""
        place = self.where()
        with self._lock:
            noted = self._add("fault", place, {"f": fault, "phase": "end"})
            self._ends.setdefault(fault, []).append(noted)

    def evidence(
        self,
        fault: str,
        cycle: int,
        *,
        evidence: JsonView | None = None,
        error: str | None = None,
        why: str = "",
    ) -> None:
        """Tells the end of a fault's activation (from 0) its evidence, or why it has none or itself failed."""
        with self._lock:
            ends = self._ends.get(fault, [])
            if cycle < len(ends):
                ends[cycle].fields |= {} if not evidence else {"evidence": dict(evidence)}
                ends[cycle].fields |= {} if error is None else {"error": error}
                ends[cycle].fields |= {"why": why} if why else {}

    def insert(self, kind: str, *, t_us: int, **fields: Any) -> None:
        """Puts in an event that happened at `t_us`, as it was learned only later."""
        with self._lock:
            place = bisect_right(self._noted, t_us, key=lambda one: one.t_us)
            at = self._noted[max(0, place - 1)].at if self._noted else self.read()
            noted = _Noted(t_us=max(t_us, self.began_us), at=at, kind=kind, fields=dict(fields))
            self._noted.insert(place, noted)

    def expect_keys(self, rows: Iterable[tuple[object, Sequence[object]]]) -> None:
        """Puts in, before all else, the rows that keys must have in the end: id and values."""
        for told, values in rows:
            self.insert("expect", t_us=self.began_us, id=told, v=list(values))

    def expect(self, rows: Mapping[str, Sequence[Sequence[object]]]) -> None:
        """Tells each offered record what it must yield, by the text of its id."""
        with self._lock:
            for one in self._noted:
                wanted = rows.get(id_text(one.fields["id"])) if one.kind == "offer" else None
                if wanted is not None and not one.fields.get("fails"):
                    one.fields["expect"] = [list(values) for values in wanted]

    def last_us(self, *kinds: str) -> int | None:
        """When an event of one of these kinds was last noted."""
        with self._lock:
            return max((one.t_us for one in self._noted if one.kind in kinds), default=None)

    def told(self) -> Sequence[tuple[int, LogPosition, str, JsonView]]:
        """All events so far: time, place, kind and fields."""
        with self._lock:
            return [(one.t_us, one.at, one.kind, one.fields) for one in self._noted]

    def _add(self, kind: str, place: LogPosition, fields: JsonView, *, t_us: int | None = None) -> _Noted:
        last = self._noted[-1] if self._noted else None
        now = monotonic_us() if t_us is None else t_us
        noted = _Noted(
            t_us=now if last is None else max(now, last.t_us),
            at=place if last is None else max(place, last.at),
            kind=kind,
            fields=dict(fields),
        )
        self._noted.append(noted)
        return noted


LoggedRow = tuple[LoggedTransaction, Mapping[str, object]]
"""The fields of a `row` event, with its transaction."""


def events_of(recording: JobRecording, rows: Sequence[LoggedRow]) -> list[OutsideEvent]:
    """The events of the history, `rows` at their places in the log among the others; numbers and times are set."""
    events: list[OutsideEvent] = []
    taken, time_us = 0, recording.began_us

    def add(kind: type[msgspec.Struct], t_us: int, fields: Mapping[str, object]) -> None:
        nonlocal time_us
        time_us = max(time_us, t_us)
        events.append(kind(n=len(events) + 1, t=time_us - recording.began_us, **fields))  # type: ignore[arg-type]

    for t_us, at, kind, fields in recording.told():
        while taken < len(rows) and rows[taken][0].end <= at:
            add(LogRow, min(rows[taken][0].seen_us, t_us), rows[taken][1])
            taken += 1
        add(_KINDS[kind], t_us, {**fields, "rows": taken} if fields.get("of") == "log" else fields)
    for transaction, fields in rows[taken:]:
        add(LogRow, transaction.seen_us, fields)
    return events


def logged_rows(
    transactions: Sequence[LoggedTransaction],
    columns: SinkColumns | None,
    owners: OwnersOfSessions,
    *,
    session_of: Callable[[LoggedTransaction], int | None],
) -> Iterator[LoggedRow]:
    """The rows of the log; none if the table's columns are not known."""
    if columns is None:
        return
    replay, number = SinkReplay(columns=columns), 0
    for transaction in transactions:
        changes = replay.take(transaction)
        if not changes:
            continue
        number += 1
        session = session_of(transaction)
        start = owners.start_of(session, transaction.end)
        told = {
            **({} if session is None else {"session": session}),
            **({} if start is None else {"start": start}),
        }
        for change in changes:
            fields = {"op": change.op, "tx": number, **told, **change.row.told()}
            if change.was is not None:
                fields["was"] = change.was.told()
            if change is changes[-1]:
                fields["last"] = True
            yield transaction, fields
