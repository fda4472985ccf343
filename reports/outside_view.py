"""What a report shows of a history seen from outside: starts, faults, transactions, rows of the table over time.

Answers to Jepsen's timeline for a client that is a whole job. Invariant: every number comes from an event of the
history (`docs/reference/history.md`), and nothing is judged here: what is lost or doubled is the judgement's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from signal import Signals
from typing import Any, Final

from harness.history.values import brief, visible
from harness.history.verdict import Judgement

Json = Mapping[str, Any]
Key = object
"""An id that can be a key: a list of several columns is a tuple."""

_READINGS_CHANGE: Final = {"insert": 1, "delete": -1, "update": 0}


@dataclass(slots=True, kw_only=True)
class StartSpan:
    """One life of the job. Mutable while the history is read."""

    number: int
    n: int
    begin_us: int
    end_us: int | None = None
    """None: it still ran when the history ended."""
    end_n: int | None = None
    ending: str = ""
    """`exit 0`, `SIGKILL`, in words."""
    by: str | None = None
    """`harness`, `outside`, or the name of a fault; None: by itself."""
    failed: bool = False
    """Whether it ended by itself with another code than 0, or by a signal."""


@dataclass(slots=True, kw_only=True)
class FaultSpan:
    """One period in which a fault acted. Mutable while the history is read."""

    name: str
    n: int
    begin_us: int
    end_us: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


@dataclass(slots=True, kw_only=True)
class Transaction:
    """One transaction that changed the table. Mutable while its rows are read."""

    tx: int
    start: int | None
    at_us: int
    first_n: int
    last_n: int
    rows: int = 0
    """How many rows it changed."""
    visible: int = 0
    """How many rows the log leaves in the table after it."""
    whole: bool = False
    """Whether its last row is in the history, so that it is visible."""
    blamed: bool = False
    """Whether a row of it is the witness of an anomaly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """One record as it was put into the source."""

    n: int
    at_us: int
    part: int
    pos: int
    key: Any


@dataclass(slots=True, kw_only=True)
class OutsideView:
    """A history seen from outside, as a report shows it. Mutable while it is read."""

    witnesses: frozenset[int] = frozenset()
    """The events that anomalies cite."""
    noun: str = "record"
    """What a row of the table is of: a record, or a key."""
    starts: dict[int, StartSpan] = field(default_factory=dict)
    faults: list[FaultSpan] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    sentinels: int = 0
    """How many of the offered records are further ones, for a job that had gone quiet."""
    offers_us: list[int] = field(default_factory=list)
    offered: dict[Key, Offered] = field(default_factory=dict)
    first_row: dict[Key, int] = field(default_factory=dict)
    """The event of the first row of each id."""
    asked: int = 0
    asked_again: int = 0
    """Lookups of a key that had been looked up before."""
    counted: dict[str, int] = field(default_factory=dict)
    """What each reading counted: `table 1`, `log 1`, `dead 1`, ..."""
    finished: tuple[int, str] | None = None
    """When, and how the harness knew."""
    giveup: tuple[int, str] | None = None
    rows_now: int = 0
    keys_asked: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, judgement: Judgement | None, *, noun: str) -> OutsideView:
        """An empty view that will mark the transactions that the anomalies of `judgement` cite."""
        anomalies = [a for v in judgement.invariants for a in v.anomalies] if judgement else []
        return cls(witnesses=frozenset(n for anomaly in anomalies for n in anomaly.events), noun=noun)

    def see(self, event: Json) -> None:
        match event["k"]:
            case "offer":
                self._offer(event)
            case "start":
                number = event.get("start", 0)
                self.starts[number] = StartSpan(number=number, n=event["n"], begin_us=event["t"])
            case "exit":
                if (span := self.starts.get(event.get("start", 0))) is not None:
                    span.end_us, span.end_n = event["t"], event["n"]
                    span.ending, span.by = ending_of(event), event.get("by")
                    span.failed = span.by is None and (event.get("code", 0) != 0 or "signal" in event)
            case "fault":
                self._fault(event)
            case "row":
                self._row(event)
            case "asked":
                self.asked += 1
                key = brief(event.get("key"))
                self.keys_asked[key] += 1
                self.asked_again += self.keys_asked[key] > 1
            case "read":
                self.counted[f"{event.get('of')} {event.get('reading')}"] = event.get("rows", 0)
            case "finished":
                self.finished = (event["t"], str(event.get("how")))
            case "giveup":
                self.giveup = (event["t"], _told(event.get("why")))
            case _:
                pass

    def _offer(self, event: Json) -> None:
        self.offers_us.append(event["t"])
        self.sentinels += event.get("sentinel") is True
        self.offered[key_of(event.get("id"))] = Offered(
            n=event["n"],
            at_us=event["t"],
            part=event.get("part", 0),
            pos=event.get("pos", 0),
            key=event.get("key"),
        )

    def _fault(self, event: Json) -> None:
        name = str(event.get("f"))
        if event.get("phase") == "begin":
            self.faults.append(FaultSpan(name=name, n=event["n"], begin_us=event["t"]))
            return
        span = next((s for s in self.faults if s.name == name and s.end_us is None), None)
        if span is not None:
            span.end_us = event["t"]
            span.evidence = event.get("evidence") or {}
            span.error = _told(event.get("error"))

    def _row(self, event: Json) -> None:
        last = self.transactions[-1] if self.transactions else None
        if last is None or last.whole or last.tx != event.get("tx"):
            last = Transaction(
                tx=event.get("tx", 0),
                start=event.get("start"),
                at_us=event["t"],
                first_n=event["n"],
                last_n=event["n"],
            )
            self.transactions.append(last)
        if event.get("op") != "delete":
            self.first_row.setdefault(key_of(event.get("id")), event["n"])
        last.rows += 1
        last.last_n, last.at_us = event["n"], event["t"]
        last.blamed = last.blamed or event["n"] in self.witnesses
        self.rows_now += _READINGS_CHANGE.get(str(event.get("op")), 0)
        last.visible = self.rows_now
        last.whole = bool(event.get("last"))

    def transaction_at(self, n: int) -> Transaction | None:
        """The transaction of which event `n` is a row."""
        return next((tx for tx in self.transactions if tx.first_n <= n <= tx.last_n), None)


def key_of(identity: object) -> Key:
    """An id as a key of a dict; several columns become a tuple."""
    return tuple(identity) if isinstance(identity, list | tuple) else identity


def told_id(identity: object) -> str:
    """An id for a reader: `7`, `"a-7"`, `(7, "x")`."""
    if isinstance(identity, list | tuple):
        return f"({', '.join(brief(part, limit=40) for part in identity)})"
    return brief(identity, limit=40)


def ending_of(event: Json) -> str:
    if "signal" in event:
        try:
            return Signals(event["signal"]).name
        except ValueError:
            return f"signal {event['signal']}"
    return f"exit {event['code']}" if "code" in event else "ended"


def _told(value: object) -> str:
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) else brief(value, limit=200)


def noun_of(header: Json) -> str:
    """What a row of the table is of, by the header of a history."""
    sink = header.get("sink")
    return str(sink.get("rows", "record")) if isinstance(sink, dict) else "record"


def describe_outside(event: Json, *, noun: str) -> str:
    """An event in words; `noun`: what a row of the table is of."""
    return "".join(_words(event, noun)) or brief(dict(event), limit=100)


def _words(event: Json, noun: str) -> Iterator[str]:
    match event.get("k"):
        case "offer":
            yield from _offered(event)
        case "start":
            yield f"start {event.get('start')} of the job"
        case "exit":
            by = event.get("by")
            yield f"start {event.get('start')} has ended: {ending_of(event)}, by {by or 'itself'}"
        case "fault":
            yield from _of_fault(event)
        case "row":
            yield from _changed(event, noun)
        case "table" | "expect":
            number = f" row {event['j']}" if "j" in event else ""
            has = (
                f"reading {event['reading']}: the table has"
                if "reading" in event
                else "in the end there must be"
            )
            record = f"{noun} {told_id(event.get('id'))} = {brief(event.get('v'))}"
            yield f"{has}{number} {record}"
        case "dead":
            yield f"reading {event.get('reading')}: the dead letters have record {told_id(event.get('id'))}"
        case "read":
            yield f"reading {event.get('reading')} of the {event.get('of')} is complete: {event.get('rows')} rows"
        case "asked":
            yield f"the database saw a lookup of key {brief(event.get('key'))}"
        case "finished":
            yield f"the job is done, known by: {event.get('how')}"
        case "giveup":
            yield f"the harness stopped waiting: {_told(event.get('why'))}"


def _offered(event: Json) -> Iterator[str]:
    yield f"record {told_id(event.get('id'))} is put into the source at position {event.get('pos')}"
    if "key" in event:
        yield f", key {brief(event['key'], limit=40)}"
    if "expect" in event:
        yield f", to yield {brief(event['expect'])}"
    if event.get("fails"):
        yield ", and no right job can process it"
    if event.get("sentinel"):
        yield ", to show whether what stands before it was passed"


def _of_fault(event: Json) -> Iterator[str]:
    if event.get("phase") == "begin":
        yield f"fault {event.get('f')} takes effect"
        return
    yield f"fault {event.get('f')} has ended"
    if event.get("error") is not None:
        yield f"; it failed itself: {_told(event['error'])}"
    if event.get("evidence"):
        yield f", evidence {brief(event['evidence'], limit=160)}"


def _changed(event: Json, noun: str) -> Iterator[str]:
    number = f" row {event['j']}" if "j" in event else ""
    yield f"{event.get('op')} of{number} {noun} {told_id(event.get('id'))} = {brief(event.get('v'))}"
    if "was" in event:
        yield f", before {brief((event['was'] or {}).get('v'))}"
    start = event.get("start")
    yield f", transaction {event.get('tx')}" + ("" if start is None else f" of start {start}")
    if event.get("last"):
        yield ", its last row: visible from here"
