"""Explains a judgement of a history seen from outside: what the source offered, and what the log and the table show.

Invariant: the judge's verdicts stay unchanged; each line states what an event of the history contains, the last line
of *Then* is the contradiction. One more pass over the history, for the rows of a record: the checkers of this view
keep a count of them, not their events. Memory grows with the anomalies that are explained.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from harness.history.values import brief, shown, without_credentials
from harness.history.verdict import (
    Anomaly,
    Cost,
    Explanation,
    InvariantVerdict,
    Judgement,
    Outcome,
    Recovery,
    let,
    let_all,
)
from harness.judge.explanation.contradiction import Naming
from harness.judge.explanation.events import EventLines, Json, whole

_KEPT = 24
"""Most events kept of one record, and of the life of the job."""
_LET_MAX = 14
_COSTS_MAX = 100
_UNDISTURBED = "no fault began, and the job was started once at most"
_NAMES_MAX = 6


def explained_outside(judgement: Judgement, lines: EventLines, *, most: int) -> Judgement:
    """The same judgement, with the first `most` anomalies of each invariant explained."""
    failed = [verdict for verdict in judgement.invariants if verdict.outcome is Outcome.FAIL]
    anomalies = [anomaly for verdict in failed for anomaly in verdict.anomalies[:most]]
    counts = judgement.accounting
    if not anomalies and not counts.get("faults") and counts.get("starts", 0) <= 1:
        return replace(judgement, recovery=Recovery(why=_UNDISTURBED))
    seen = _gathered(lines, anomalies)
    verdicts = tuple(_explained(verdict, seen, most) for verdict in judgement.invariants)
    return replace(judgement, invariants=verdicts, recovery=seen.times.recovery(seen.origin_us or 0))


def _explained(verdict: InvariantVerdict, seen: _Seen, most: int) -> InvariantVerdict:
    if verdict.outcome is not Outcome.FAIL:
        return verdict
    first = (replace(one, explanation=_explanation(one, seen)) for one in verdict.anomalies[:most])
    return replace(verdict, anomalies=(*first, *verdict.anomalies[most:]))


class _Times:
    """V17 seen from outside: from the end of each fault, and from each exit that nobody asked for, to the next commit.

    Mutable: the state of a fold.
    """

    def __init__(self) -> None:
        self._begun: list[tuple[str, Json, Json | None, Json | None]] = []
        """What happened, its first event, the one from which time counts, and the next commit."""
        self._waits = False
        """Whether something is over, and no commit came yet."""

    def step(self, event: Json) -> None:
        match event.get("k"):
            case "fault" if event.get("phase") == "begin":
                self._begun.append((f"fault {shown(event.get('f'))}", event, None, None))
            case "fault":
                self._end(event)
            case "exit" if event.get("by") != "harness" and event.get("code") != 0:
                self._begun.append((f"exit of start {event.get('start')}", event, event, None))
                self._waits = True
            case "row" if event.get("last") is True and self._waits:
                # It ends the first transaction after all that is over by now.
                self._waits = False
                self._begun = [
                    (what, first, since, event if since is not None and commit is None else commit)
                    for what, first, since, commit in self._begun
                ]

    def _end(self, event: Json) -> None:
        for place, (what, first, since, commit) in enumerate(self._begun):
            if since is None and first["k"] == "fault" and first.get("f") == event.get("f"):
                self._begun[place] = (what, first, event, commit)
                self._waits = True
                return

    def recovery(self, origin_us: int) -> Recovery:
        """The cost of each disturbance, or why there is none."""
        if not self._begun:
            return Recovery(why=_UNDISTURBED)
        costs = (self._cost(*one, origin_us) for one in self._begun[:_COSTS_MAX])
        return Recovery(costs=tuple(costs), omitted=max(0, len(self._begun) - _COSTS_MAX))

    @staticmethod
    def _cost(what: str, first: Json, since: Json | None, commit: Json | None, origin_us: int) -> Cost:
        absent = {}
        if since is None:
            absent["first result"] = "the fault had not ended"
        elif commit is None:
            absent["first result"] = "no transaction came after it"
        return Cost(
            what=what,
            event=first["n"],
            begin_us=first["t"] - origin_us,
            first_output_us=None if since is None or commit is None else commit["t"] - since["t"],
            deficit=None,
            absent=absent,
        )


@dataclass(slots=True, kw_only=True)
class _Seen:
    """What was gathered from a history. Mutable while it is read."""

    header: Json
    events: dict[int, Json] = field(default_factory=dict)
    """Keyed by `n`: all that is kept."""
    cited: set[int]
    by_record: dict[Any, list[Json]]
    """The events of each record that is explained: its offer, its rows, its dead letters."""
    cut: set[Any] = field(default_factory=set)
    """The records of which not all events were kept."""
    life: list[Json] = field(default_factory=list)
    """Starts, exits and faults."""
    end: Json | None = None
    times: _Times = field(default_factory=_Times)
    origin_us: int | None = None

    @property
    def noun(self) -> str:
        """What rows are of."""
        sink = self.header.get("sink")
        return str(sink.get("rows", "record")) if isinstance(sink, dict) else "record"

    def defined(self, event: Json) -> str:
        """An event in words, for *Let*."""
        at_ms = (event["t"] - (self.origin_us or 0)) / 1000
        return f"{''.join(_words(event, self.noun))} (event {event['n']}, at {at_ms:.3f} ms)"

    def of(self, anomaly: Anomaly) -> list[Json]:
        """The events of the anomaly's slot: those of its record that have its j, or none."""
        slot = []
        for event in self.by_record.get(anomaly.id, []):
            was = event.get("was")
            numbers = {event.get("j"), was.get("j") if isinstance(was, dict) else None}
            if anomaly.j is None or "j" not in event or anomaly.j in numbers:
                slot.append(event)
        return slot


_OF_ROWS = {
    "record": frozenset({"offer", "row", "table", "dead"}),
    "key": frozenset({"expect", "row", "table"}),
}
_OF_LIFE = frozenset({"start", "exit", "fault"})


def _gathered(lines: EventLines, anomalies: Sequence[Anomaly]) -> _Seen:
    seen = _Seen(
        header=lines.header(),
        cited={n for anomaly in anomalies for n in anomaly.events},
        by_record={anomaly.id: [] for anomaly in anomalies if anomaly.id is not None},
    )
    for line in lines.events():
        event = whole(line)
        if event is None:
            break
        if seen.origin_us is None:
            seen.origin_us = event.get("t", 0)
        kind, is_cited = event.get("k"), event.get("n") in seen.cited
        seen.times.step(event)
        if is_cited:
            seen.events[event["n"]] = event
        if kind in _OF_ROWS[seen.noun]:
            _keep(seen, event)
        elif kind in _OF_LIFE and (len(seen.life) < _KEPT or is_cited):
            seen.life.append(event)
        elif kind in {"finished", "giveup"}:
            seen.end = event
    kept = [*seen.life, *(event for events in seen.by_record.values() for event in events)]
    seen.events |= {event["n"]: event for event in [*kept, *([seen.end] if seen.end else [])]}
    return seen


def _keep(seen: _Seen, event: Json) -> None:
    was = event.get("was")
    for given in {_id(row.get("id")) for row in (event, was) if isinstance(row, dict)}:
        events = seen.by_record.get(given)
        if events is None:
            continue
        if len(events) < _KEPT:
            events.append(event)
        else:
            seen.cut.add(given)


def _id(value: object) -> object:
    """The id as an anomaly names it."""
    return tuple(value) if isinstance(value, list) else (None,) if value is None else value


class _About:
    """One anomaly and the events about it. What its methods yield are facts of *Then*."""

    def __init__(self, anomaly: Anomaly, seen: _Seen) -> None:
        self.anomaly = anomaly
        self.seen = seen
        self.cited = [seen.events[n] for n in anomaly.events]

    def kinds(self, *kinds: str, **fields: object) -> list[Json]:
        """The events of the record of these kinds with these fields."""
        return [
            event
            for event in self.seen.of(self.anomaly)
            if event["k"] in kinds and all(event.get(name) == value for name, value in fields.items())
        ]

    @property
    def record(self) -> str:
        """The anomaly's record or row in a sentence."""
        given: Any = self.anomaly.id
        if isinstance(given, tuple):
            given = list(given) if len(given) > 1 else given[0]
        told = f"{self.seen.noun} {shown(given)}"
        return told if self.anomaly.j is None else f"row {self.anomaly.j} of {told}"

    def offered(self) -> Iterator[str]:
        """What the source offered of it."""
        if self.seen.noun == "key":
            due = self.kinds("expect")
            yield (
                f"In the end the table must hold {_named(due)} of it."
                if due
                else "It must have no row in the end."
            )
            return
        j, offers = self.anomaly.j, self.kinds("offer")
        if not offers:
            if self.anomaly.id not in self.seen.cut:
                yield f"The source never offered {self.record}."
            return
        expect = offers[0].get("expect")
        if offers[0].get("fails") is True:
            what = "no right job can process it, so it must yield no row"
        elif not isinstance(expect, list):
            what = "which rows it must yield is not known"
        elif j is not None and (rows := expect[j : j + 1]):
            what = f"this row must be {brief(rows[0])}"
        elif j is not None:
            what = f"it must yield {len(expect)} rows, and not this one"
        elif len(expect) == 1:
            what = f"it must yield the row {brief(expect[0])}"
        else:
            rows_told = f"the {len(expect)} rows {brief(expect)}" if expect else "no row"
            what = f"it must yield {rows_told}"
        yield f"The source offered it, {_named(offers[:1])}: {what}."

    def logged(self) -> Iterator[str]:
        """What the log shows of it."""
        if self.header("sink").get("changes", True) is False:
            return
        rows, is_cut = self.kinds("row"), self.anomaly.id in self.seen.cut
        if rows:
            more = " and further ones" if is_cut or len(rows) > _NAMES_MAX else ""
            yield f"The log of changes shows {_named(rows)}{more}."
        elif not is_cut:
            yield "The log of changes shows no row of it."

    def in_table(self, reading: int) -> Iterator[str]:
        """What a reading of the table shows of it."""
        rows = self.kinds("table", reading=reading)
        if rows:
            yield f"In reading {reading} the table holds {_named(rows)}."
        elif self.anomaly.id not in self.seen.cut:
            yield f"In reading {reading} the table holds no row of it."

    def ended(self) -> Iterator[str]:
        """How the job came to its end."""
        if self.seen.end is not None:
            yield f"The wait for the job ended at {_named([self.seen.end])}."

    def header(self, part: str) -> Json:
        """A part of the header; empty if there is none."""
        found = self.seen.header.get(part)
        return found if isinstance(found, dict) else {}

    @property
    def appends(self) -> bool:
        return self.header("sink").get("write") == "append"


def _named(events: Iterable[Json]) -> str:
    return let_all(event["n"] for event in list(events)[:_NAMES_MAX])


def _rows(x: _About) -> Iterator[str]:
    """What the source offered, and what log and table show of it."""
    yield from x.offered()
    yield from x.logged()
    for reading in sorted({event["reading"] for event in x.cited if event["k"] == "table"}):
        yield from x.in_table(reading)


def _changed_again(x: _About) -> Iterator[str]:
    yield from x.in_table(1)
    later = [event for event in x.seen.life if event["k"] == "start"][-1:]
    if later:
        yield f"After that the job was started once more, {_named(later)}."
    yield from x.in_table(2)


def _reordered(x: _About) -> Iterator[str]:
    offers = sorted((e for e in x.cited if e["k"] == "offer"), key=lambda e: int(e["pos"]))
    yield f"The source offered {_named(offers)}, in this order of their positions."
    rows = [event for event in x.cited if event["k"] == "row"]
    yield f"In the log their rows first appear in the order {_named(rows)}."


def _zombie(x: _About) -> Iterator[str]:
    yield f"The log of changes shows {_named(x.cited)}, in this order."
    start = x.anomaly.start
    later = [event for event in x.seen.life if event["k"] == "start" and event.get("start") == start]
    if later:
        yield f"The start that wrote the second began at {_named(later)}."


def _stuck(x: _About) -> Iterator[str]:
    if x.anomaly.id is not None:
        yield from x.offered()
        yield from x.logged()
    yield from x.ended()
    faults = [event for event in x.seen.life if event["k"] == "fault"]
    if faults:
        yield f"Every fault had ended long enough before: {_named(faults)}."


def _letters(x: _About) -> Iterator[str]:
    if x.anomaly.kind != "row-doubled":
        yield from x.offered()
    yield f"The dead letters hold {_named(x.kinds('dead'))}."
    if x.anomaly.kind == "double-routed":
        yield from x.in_table(1)


def _unexplained(x: _About) -> Iterator[str]:
    yield f"It stopped at {_named(x.cited)}."
    before = [event for event in x.seen.life if event["k"] == "fault" and event["n"] < x.anomaly.events[0]]
    yield f"The faults before it were {_named(before)}." if before else "No fault had begun before it."


_OF_TABLE = frozenset({"phantom", "duplicate", "wrong-value", "lost", "deleted"})
_NOWHERE = (
    "It is not among the dead letters, and no start exited by itself with another code than 0 after it."
)
_IN_ORDER = "of one part of the source appear in the table in the order of the source"
_REASONS: Mapping[str, tuple[Callable[[_About], Iterator[str]], str | Callable[[_About], str]]] = {
    "phantom": (_rows, "each row of the table is of a record that was put into the source"),
    "duplicate": (
        _rows,
        lambda x: (
            f"with {shown(x.header('claims').get('delivery'))} delivery each row of a record is in the table once"
        ),
    ),
    "wrong-value": (_rows, "the table holds only the values that a record must yield"),
    "lost": (
        lambda x: chain(x.offered(), x.logged(), x.ended(), x.in_table(1)),
        "when the job is finished, each row that a record must yield is in the table",
    ),
    "deleted": (
        lambda x: chain(x.offered(), x.logged(), () if x.appends else x.in_table(1)),
        lambda x: (
            "a job that appends takes no row away that was right"
            if x.appends
            else "what a job takes away is back in the table in the end"
        ),
    ),
    "changed-again": (
        _changed_again,
        "a job that had finished changes nothing when it is started once more",
    ),
    "reordered": (_reordered, f"records {_IN_ORDER}"),
    "key-reordered": (_reordered, f"records of one key {_IN_ORDER}"),
    "zombie-effect": (_zombie, "once a later start has changed the table, no earlier one does"),
    "stuck": (_stuck, "after the last fault the job goes on until its end"),
    "swallowed": (
        lambda x: chain(x.offered(), [_NOWHERE]),
        "a record that cannot be processed is put aside or makes the job fail",
    ),
    "row-foreign": (_letters, "each dead letter is of a record that was put into the source"),
    "row-doubled": (_letters, "a record is among the dead letters once"),
    "double-routed": (_letters, "a record is either in the table or among the dead letters"),
    "unexplained-failure": (
        _unexplained,
        "a start fails only if a fault, the harness or a record that cannot be processed makes it",
    ),
}


def _explanation(anomaly: Anomaly, seen: _Seen) -> Explanation | None:
    """One anomaly as a contradiction; None if the events that it cites were not read, or are not those judged."""
    if anomaly.kind not in _REASONS:
        return None
    facts, rule = _REASONS[anomaly.kind]
    try:
        x, naming = _About(anomaly, seen), Naming(seen.events, most=_LET_MAX)
        then = naming.noted(facts(x))
        naming.noted(map(let, anomaly.events))
        then += naming.noted(_between(x, naming.named))
        if seen.noun == "key" and anomaly.kind in _OF_TABLE:
            rule = "when the job is finished, the table holds the expected rows of each key, and no other"
        then.append(f"However, {rule if isinstance(rule, str) else rule(x)}: a contradiction.")
        return naming.explanation(then, define=seen.defined)
    except (LookupError, TypeError):
        return None


def _between(x: _About, named: Collection[int]) -> Iterator[str]:
    """What was done to the job between the first and the last event that is named."""
    if named:
        first, last = min(named), max(named)
        between = (e for e in x.seen.life if first < e["n"] < last and e["n"] not in named)
        done = [e for e in between if e["k"] != "fault" or e.get("phase") == "begin"]
        if done:
            yield f"In between: {_named(done)}."


def _words(event: Json, noun: str) -> Iterator[str]:
    """The parts of one line that says what happened; `noun`: what rows are of."""
    match event["k"]:
        case "offer":
            yield f"record {brief(event['id'])} is put into part {event['part']} of the source, position {event['pos']}"
            yield f", key {brief(event['key'])}" if "key" in event else ""
        case "start":
            yield f"start {event['start']} of the job"
        case "exit":
            yield f"start {event['start']} exits"
            yield from (
                f", {name} {brief(event[name])}" for name in ("code", "signal", "by") if name in event
            )
        case "fault" if event.get("phase") == "begin":
            yield f"fault {brief(event['f'])} takes hold"
        case "fault":
            yield f"fault {brief(event['f'])} has ended, evidence {brief(without_credentials(event.get('evidence')))}"
        case "row":
            yield f"{event['op']} of {_row(event, noun)}"
            yield f", before {_row(event['was'], noun)}" if isinstance(event.get("was"), dict) else ""
            yield f", transaction {event['tx']}"
            yield f" of start {event['start']}" if event.get("start") is not None else ""
        case "table" | "expect":
            finds = f"reading {event['reading']} finds" if "reading" in event else "in the end there must be"
            yield f"{finds} {_row(event, noun)}"
        case "dead":
            yield f"reading {event['reading']} finds record {brief(event['id'])} among the dead letters"
            yield f", error {brief(event['error'])}" if "error" in event else ""
        case "read":
            yield f"reading {event['reading']} has read the {event['of']} to its end: {event['rows']} rows"
        case "finished":
            yield f"the harness holds the job to be finished, by {event['how']}"
        case "giveup":
            yield f"the harness stops waiting: {brief(event['why'])}"
        case _:
            yield brief(dict(event), limit=100)


def _row(row: Json, noun: str) -> str:
    number = f"row {row['j']}" if "j" in row else "a row"
    return f"{number} of {noun} {brief(row['id'])} with {brief(row['v'])}"
