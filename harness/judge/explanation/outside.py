"""Explains a judgement of a history seen from outside: what the source offered, and what the log and the table show.

Invariant: the judge's verdicts stay unchanged; each line states what an event of the history contains, the last line
of *Then* is the contradiction. One more pass over the history; memory grows with the anomalies that are explained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.history.values import brief, shown, visible, without_credentials
from harness.history.verdict import Anomaly, Cost, Explanation, InvariantVerdict, Judgement, Outcome, Recovery
from harness.judge.explanation.event_summary import Json, whole
from harness.judge.explanation.events import EventLines

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
    cited: dict[int, Json] = field(default_factory=dict)
    by_record: dict[Any, list[Json]] = field(default_factory=dict)
    """The events of each record that is explained: its offer, its rows, its dead letters."""
    cut: set[Any] = field(default_factory=set)
    """The records of which not all events were kept."""
    life: list[Json] = field(default_factory=list)
    """Starts, exits and faults."""
    end: Json | None = None
    times: _Times = field(default_factory=_Times)
    origin_us: int | None = None

    def of(self, anomaly: Anomaly) -> list[Json]:
        """The events of the anomaly's slot: those of its record that have its j, or none."""
        slot = []
        for event in self.by_record.get(anomaly.id, []):
            was = event.get("was")
            numbers = {event.get("j"), was.get("j") if isinstance(was, dict) else None}
            if anomaly.j is None or "j" not in event or anomaly.j in numbers:
                slot.append(event)
        return slot


_OF_RECORDS = frozenset({"offer", "row", "table", "dead"})
_OF_LIFE = frozenset({"start", "exit", "fault"})


def _gathered(lines: EventLines, anomalies: Sequence[Anomaly]) -> _Seen:
    seen = _Seen(header=lines.header())
    cited = {n for anomaly in anomalies for n in anomaly.events}
    seen.by_record = {anomaly.id: [] for anomaly in anomalies if anomaly.id is not None}
    for line in lines.events():
        event = whole(line)
        if event is None:
            break
        if seen.origin_us is None:
            seen.origin_us = event.get("t", 0)
        kind, n = event.get("k"), event.get("n")
        if n in cited:
            seen.cited[event["n"]] = event
        seen.times.step(event)
        if kind in _OF_RECORDS:
            _keep(seen, event)
        elif kind in _OF_LIFE and (len(seen.life) < _KEPT or n in cited):
            seen.life.append(event)
        elif kind in {"finished", "giveup"}:
            seen.end = event
    return seen


def _keep(seen: _Seen, event: Json) -> None:
    was = event.get("was")
    for given in {
        _id(event.get("id")),
        _id(was.get("id")) if isinstance(was, dict) else _id(event.get("id")),
    }:
        events = seen.by_record.get(given)
        if events is None:
            continue
        if len(events) < _KEPT:
            events.append(event)
        else:
            seen.cut.add(given)


def _id(value: object) -> Any:
    """The id as an anomaly names it."""
    return tuple(value) if isinstance(value, list) else (None,) if value is None else value


class _Argument:
    """One explanation under construction. Mutable: *Let* and *Then* grow."""

    def __init__(self, anomaly: Anomaly, seen: _Seen) -> None:
        self.anomaly = anomaly
        self.seen = seen
        self.about = seen.of(anomaly)
        self._let: dict[int, Json] = {}
        self._then: list[tuple[str, list[Json]]] = []

    def then(self, fact: str, events: Iterable[Json] = ()) -> None:
        """Add a fact; `{}` in it stands for the names of its events."""
        kept = list(events)[:_NAMES_MAX]
        for event in kept:
            if len(self._let) < _LET_MAX:
                self._let[event["n"]] = event
        self._then.append((fact, kept))

    def however(self, rule: str) -> Explanation:
        """Add the faults and starts around, and the violated rule as the last line."""
        for n in self.anomaly.events:
            if n in self.seen.cited and len(self._let) < _LET_MAX:
                self._let[n] = self.seen.cited[n]
        self._around()
        self.then(f"However, {rule}: a contradiction.")
        let, names = [], {}
        for index, (n, event) in enumerate(sorted(self._let.items()), start=1):
            names[n] = f"e{index}"
            at_ms = (event["t"] - (self.seen.origin_us or 0)) / 1000
            let.append(visible(f"e{index} = {''.join(_words(event))} (event {n}, at {at_ms:.3f} ms)"))
        then = tuple(visible(_with_names(fact, events, names)) for fact, events in self._then)
        return Explanation(let=tuple(let), then=then)

    def _around(self) -> None:
        """What was done to the job between the first and the last event that is named."""
        if not self._let:
            return
        first, last = min(self._let), max(self._let)
        between = [
            event for event in self.seen.life if first < event["n"] < last and event["n"] not in self._let
        ]
        ends = [event for event in between if event["k"] != "fault" or event.get("phase") == "begin"]
        if ends:
            self.then("In between: {}.", ends)

    def kinds(self, *kinds: str, **fields: Any) -> list[Json]:
        """The events of the record of these kinds with these fields."""
        return [
            event
            for event in self.about
            if event["k"] in kinds and all(event.get(name) == value for name, value in fields.items())
        ]

    @property
    def record(self) -> str:
        """The anomaly's record or row in a sentence."""
        given: Any = self.anomaly.id
        if isinstance(given, tuple):
            given = list(given) if len(given) > 1 else given[0]
        told = f"record {shown(given)}"
        return told if self.anomaly.j is None else f"row {self.anomaly.j} of {told}"

    def offered(self) -> None:
        """What the source offered of it."""
        offers = self.kinds("offer")
        if not offers:
            if self.anomaly.id not in self.seen.cut:
                self.then(f"The source never offered {self.record}.")
            return
        offer = offers[0]
        if offer.get("fails") is True:
            what = "no right job can process it, so it must yield no row"
        elif not isinstance(expect := offer.get("expect"), list):
            what = "which rows it must yield is not known"
        elif self.anomaly.j is not None:
            rows = expect[self.anomaly.j : self.anomaly.j + 1]
            what = (
                f"this row must be {brief(rows[0])}"
                if rows
                else f"it must yield {len(expect)} rows, and not this one"
            )
        elif len(expect) == 1:
            what = f"it must yield the row {brief(expect[0])}"
        else:
            what = (
                f"it must yield the {len(expect)} rows {brief(expect)}" if expect else "it must yield no row"
            )
        self.then(f"The source offered it, {{}}: {what}.", [offer])

    def logged(self) -> None:
        """What the log shows of it."""
        sink = self.seen.header.get("sink")
        if isinstance(sink, dict) and sink.get("changes", True) is False:
            return
        rows = self.kinds("row")
        if rows:
            more = " and further ones" if self.anomaly.id in self.seen.cut or len(rows) > _NAMES_MAX else ""
            self.then(f"The log of changes shows {{}}{more}.", rows)
        elif self.anomaly.id not in self.seen.cut:
            self.then("The log of changes shows no row of it.")

    def in_table(self, reading: int) -> None:
        """What a reading of the table shows of it."""
        rows = self.kinds("table", reading=reading)
        if rows:
            self.then(f"In reading {reading} the table holds {{}}.", rows)
        elif self.anomaly.id not in self.seen.cut:
            self.then(f"In reading {reading} the table holds no row of it.")

    def ended(self) -> None:
        """How the job came to its end."""
        if self.seen.end is not None:
            self.then("The wait for the job ended at {}.", [self.seen.end])


def _with_names(fact: str, events: Sequence[Json], names: Mapping[int, str]) -> str:
    told = [names.get(event["n"], f"event {event['n']}") for event in events]
    joined = " and ".join([*([", ".join(told[:-1])] if told[1:] else []), told[-1]]) if told else ""
    return fact.replace("{}", joined) if events else fact


def _tell_rows(x: _Argument) -> None:
    """What the source offered, and what log and table show of it."""
    x.offered()
    x.logged()
    for reading in _readings(x):
        x.in_table(reading)


def _phantom(x: _Argument) -> Explanation:
    _tell_rows(x)
    return x.however("each row of the table is of a record that was put into the source")


def _duplicate(x: _Argument) -> Explanation:
    _tell_rows(x)
    claims = x.seen.header.get("claims")
    delivery = shown(claims.get("delivery") if isinstance(claims, dict) else None)
    return x.however(f"with {delivery} delivery each row of a record is in the table once")


def _wrong_value(x: _Argument) -> Explanation:
    _tell_rows(x)
    return x.however("the table holds only the values that a record must yield")


def _lost(x: _Argument) -> Explanation:
    x.offered()
    x.logged()
    x.ended()
    x.in_table(1)
    return x.however("when the job is finished, each row that a record must yield is in the table")


def _deleted(x: _Argument) -> Explanation:
    x.offered()
    x.logged()
    sink = x.seen.header.get("sink")
    if isinstance(sink, dict) and sink.get("write") == "append":
        return x.however("a job that appends takes no row away that was right")
    x.in_table(1)
    return x.however("what a job takes away is back in the table in the end")


def _changed_again(x: _Argument) -> Explanation:
    x.in_table(1)
    later = [event for event in x.seen.life if event["k"] == "start"][-1:]
    if later:
        x.then("After that the job was started once more, {}.", later)
    x.in_table(2)
    return x.however("a job that had finished changes nothing when it is started once more")


def _reordered(x: _Argument) -> Explanation:
    offers = [event for event in _cited(x) if event["k"] == "offer"]
    rows = [event for event in _cited(x) if event["k"] == "row"]
    x.then(
        "The source offered {}, in this order of their positions.",
        sorted(offers, key=lambda e: int(e["pos"])),
    )
    x.then("In the log their rows first appear in the order {}.", rows)
    same = "of one key " if x.anomaly.kind == "key-reordered" else ""
    return x.however(
        f"records {same}of one part of the source appear in the table in the order of the source"
    )


def _zombie(x: _Argument) -> Explanation:
    x.then("The log of changes shows {}, in this order.", _cited(x))
    later = [
        event for event in x.seen.life if event["k"] == "start" and event.get("start") == x.anomaly.start
    ]
    if later:
        x.then("The start that wrote the second began at {}.", later)
    return x.however("once a later start has changed the table, no earlier one does")


def _stuck(x: _Argument) -> Explanation:
    if x.anomaly.id is not None:
        x.offered()
        x.logged()
    x.ended()
    faults = [event for event in x.seen.life if event["k"] == "fault"]
    if faults:
        x.then("Every fault had ended long enough before: {}.", faults)
    return x.however("after the last fault the job goes on until its end")


def _swallowed(x: _Argument) -> Explanation:
    x.offered()
    x.then(
        "It is not among the dead letters, and no start exited by itself with another code than 0 after it."
    )
    return x.however("a record that cannot be processed is put aside or makes the job fail")


def _row_foreign(x: _Argument) -> Explanation:
    x.offered()
    x.then("The dead letters hold {}.", x.kinds("dead"))
    return x.however("each dead letter is of a record that was put into the source")


def _row_doubled(x: _Argument) -> Explanation:
    x.then("The dead letters hold {}.", x.kinds("dead"))
    return x.however("a record is among the dead letters once")


def _double_routed(x: _Argument) -> Explanation:
    x.offered()
    x.then("The dead letters hold {}.", x.kinds("dead"))
    x.in_table(1)
    return x.however("a record is either in the table or among the dead letters")


def _unexplained(x: _Argument) -> Explanation:
    x.then("It stopped at {}.", _cited(x))
    before = [event for event in x.seen.life if event["k"] == "fault" and event["n"] < x.anomaly.events[0]]
    if before:
        x.then("The faults before it were {}.", before)
    else:
        x.then("No fault had begun before it.")
    return x.however(
        "a start fails only if a fault, the harness or a record that cannot be processed makes it"
    )


def _readings(x: _Argument) -> list[int]:
    """The readings whose rows the anomaly cites."""
    return sorted({event["reading"] for event in _cited(x) if event["k"] == "table"})


def _cited(x: _Argument) -> list[Json]:
    return [x.seen.cited[n] for n in x.anomaly.events if n in x.seen.cited]


_REASONS: Mapping[str, Callable[[_Argument], Explanation]] = {
    "phantom": _phantom,
    "duplicate": _duplicate,
    "wrong-value": _wrong_value,
    "lost": _lost,
    "deleted": _deleted,
    "changed-again": _changed_again,
    "reordered": _reordered,
    "key-reordered": _reordered,
    "zombie-effect": _zombie,
    "stuck": _stuck,
    "swallowed": _swallowed,
    "row-foreign": _row_foreign,
    "row-doubled": _row_doubled,
    "double-routed": _double_routed,
    "unexplained-failure": _unexplained,
}


def _explanation(anomaly: Anomaly, seen: _Seen) -> Explanation | None:
    """One anomaly as a contradiction; None if the events that it cites were not read, or are not those judged."""
    reason = _REASONS.get(anomaly.kind)
    if reason is None or any(n not in seen.cited for n in anomaly.events):
        return None
    try:
        return reason(_Argument(anomaly, seen))
    except (LookupError, TypeError):
        return None


def _words(event: Json) -> Iterator[str]:
    """The parts of one line that says what happened."""
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
            yield f"{event['op']} of {_row(event)}"
            yield f", before {_row(event['was'])}" if isinstance(event.get("was"), dict) else ""
            yield f", transaction {event['tx']}"
            yield f" of start {event['start']}" if event.get("start") is not None else ""
        case "table":
            yield f"reading {event['reading']} finds {_row(event)}"
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


def _row(row: Json) -> str:
    number = f"row {row['j']}" if "j" in row else "a row"
    return f"{number} of record {brief(row['id'])} with {brief(row['v'])}"
