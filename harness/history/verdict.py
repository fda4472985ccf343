"""The values of a judgement: verdicts, anomalies, the guarantee, the time to recover (V17).

Answers to Jepsen's three-valued results, with `vacuous` added: nothing in the history could have violated the
invariant, so nothing is shown. Only `pass` is a success; merging outcomes takes the worst. A cost that the history
cannot give is replaced by the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from harness.system.errors import Exit
from harness.system.json_types import Json

NO_EVIDENCE = ("V23", "vacuous")
"""How a run is filed that lacks a fault's evidence, or a count that the scenario asks for, beside its violations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one fault or kill."""

    what: str
    """`fault "spike" (all subtasks)`, `kill of attempt 1 of subtask 0`."""
    event: int
    """The number of the event with which it began."""
    begin_us: int
    """Time since the history's first event."""
    detect_us: int | None = None
    """A fault: until the first failed call, failed attempt or kill. A kill: since the attempt's last own event."""
    first_output_us: int | None = None
    """The time from the fault's end, or from the kill, to the next result."""
    steady_us: int | None = None
    """The time from the same moment until consecutive results were within the 99th percentile of the lags before."""
    replayed: int | None = None
    """A kill: records that the next attempt restored or read again."""
    replayed_of: int | None = None
    """A kill: the records accepted before it."""
    deficit: int | None = 0
    """Records taken in minus records that left, summed over tenths of a second, from its begin until steady.

    None: not known, as in a history seen from outside.
    """
    absent: Mapping[str, str] = field(default_factory=dict)
    """The measures without a number, and why."""

    def as_json(self) -> Json:
        return {
            "what": self.what,
            "event": self.event,
            "begin_us": self.begin_us,
            "detect_us": self.detect_us,
            "first_output_us": self.first_output_us,
            "steady_us": self.steady_us,
            "replayed_records": self.replayed,
            "accepted_records": self.replayed_of,
            "deficit_records": self.deficit,
            "absent": dict(self.absent),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The cost of every fault and kill of a history, or why there is none."""

    costs: tuple[Cost, ...] = ()
    omitted: int = 0
    """The number of further faults and kills, which were not measured."""
    why: str = ""
    """Why nothing was measured."""

    def as_json(self) -> Json:
        return {"costs": [cost.as_json() for cost in self.costs], "omitted": self.omitted, "why": self.why}


class Outcome(StrEnum):
    """The outcome for one invariant, or for a whole history."""

    PASS = "pass"
    VACUOUS = "vacuous"
    UNKNOWN = "unknown"
    FAIL = "fail"
    NOT_CLAIMED = "not-claimed"

    @property
    def exit_code(self) -> Exit:
        """The exit code of a run that ends with this overall verdict."""
        match self:
            case Outcome.PASS:
                return Exit.HOLD
            case Outcome.FAIL:
                return Exit.VIOLATION
            case _:
                return Exit.UNDECIDED


_SEVERITY = (Outcome.NOT_CLAIMED, Outcome.PASS, Outcome.VACUOUS, Outcome.UNKNOWN, Outcome.FAIL)


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The worst of `outcomes`; `vacuous` if there is none, since nothing was judged."""
    return max(outcomes, key=_SEVERITY.index, default=Outcome.VACUOUS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why an anomaly is a contradiction: named events, and the facts that follow, the contradiction last."""

    let: tuple[str, ...]
    """Named events of the history, such as `e1 = output 0 of record 7 leaves = "v" (event 13, ...)`."""
    then: tuple[str, ...]
    """One fact per line."""

    def as_json(self) -> Json:
        return {"let": list(self.let), "then": list(self.then)}


ANOMALIES_IN_FULL = 10
"""Anomalies explained for each invariant; further ones are counted by class."""
Facts = Sequence[str] | Callable[[], Iterable[str]]
EVENT_OF_FACT = re.compile("\ue000(-?[0-9]+)\ue001")


def let(n: int) -> str:
    """Event `n` in a fact of `Anomaly.then`; the explanation puts the event's name in its place."""
    return f"\ue000{n}\ue001"


def let_all(numbers: Iterable[int]) -> str:
    """Several events in a fact: `e1, e2 and e3`."""
    return joined([let(n) for n in numbers])


def joined(names: list[str]) -> str:
    *before, last = names or ["nothing"]
    return f"{', '.join(before)} and {last}" if before else last


def run_finished(events_max: int) -> str:
    """The fact that the run finished normally, if it did; the explanation adds the first ends of subtasks."""
    return f"\ue002{events_max}"


def is_run_finished(fact: str) -> int | None:
    """Its `events_max`, if a fact is `run_finished`."""
    return int(fact[1:]) if fact.startswith("\ue002") else None


def sentence(say: str) -> str:
    """What an anomaly says, as a fact of `Anomaly.then`."""
    return f"{say[:1].upper()}{say[1:]}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One violation of an invariant, with a sentence and the numbers (`n`) of the events that show it."""

    kind: str
    """The class of `docs/reference/history.md`: `duplicate`, `lost`, `reordered`, ..."""
    say: str
    events: tuple[int, ...]
    s: int | None = None
    id: int | str | tuple[Any, ...] | None = None
    """In a history seen from outside, an id of several columns, or one that is null, is the tuple of its columns."""
    w: int | str | None = None
    c: int | None = None
    table: str | None = None
    """The table whose rows show it."""
    j: int | None = None
    """The number of the output, where a table is judged by output."""
    tx: int | None = None
    """The transaction of a log of changes."""
    start: int | None = None
    """The start of a job seen from outside."""
    then: Facts = field(default=(), repr=False, compare=False)
    """The facts from which the contradiction follows, with `let` in place of each event.

    Of the first anomalies of a verdict alone; a checker may leave the work of finding them to `in_full`.
    """
    rule: str = field(default="", repr=False, compare=False)
    """The rule that the facts contradict."""
    explanation: Explanation | None = None
    """Set for the first anomalies of each invariant, once the judgement is explained."""

    def in_full(self) -> Self:
        """With its facts found; without facts and rule if that fails, since it must not hide the verdict."""
        if not callable(self.then):
            return self
        try:
            return replace(self, then=tuple(self.then()))
        except Exception:  # noqa: BLE001
            return replace(self, then=(), rule="")

    @property
    def named_events(self) -> set[int]:
        """The numbers of the events that an explanation names."""
        facts = (*(() if callable(self.then) else self.then), self.rule)
        return {*self.events, *(int(n) for fact in facts for n in EVENT_OF_FACT.findall(fact))}

    def as_json(self) -> Json:
        named = ("s", "id", "j", "w", "c", "table", "tx", "start")
        told = {name: value for name in named if (value := getattr(self, name)) is not None}
        if isinstance(self.id, tuple):
            told["id"] = list(self.id) if len(self.id) > 1 else self.id[0]
        return {
            "class": self.kind,
            **told,
            "events": list(self.events),
            "say": self.say,
            **({"explanation": self.explanation.as_json()} if self.explanation else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantVerdict:
    """The answer of one checker, anomalies as `floodmark check --format json` prints them."""

    invariant: str
    outcome: Outcome
    anomalies: tuple[Anomaly, ...] = ()
    omitted: int = 0
    """How many anomalies are beyond the limit, and not listed."""
    why: str = ""
    """For `unknown`, `vacuous` and `not-claimed`: the reason, one sentence (a traceback for a crash)."""
    observed: int = 0
    """How many observations the verdict rests on (outputs, watermarks, snapshots, ...)."""
    follows: str = ""
    """For `fail`: the violated invariant from whose wrong results all of this follows; empty: none is known."""

    def as_json(self) -> Json:
        return {
            "invariant": self.invariant,
            "verdict": str(self.outcome),
            "anomalies": [anomaly.as_json() for anomaly in self.anomalies],
            "omitted": self.omitted,
            **({"why": self.why} if self.why else {}),
            "observed": self.observed,
            **({"follows": self.follows} if self.follows else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A level of guarantee that a history does not show, and why not."""

    level: str
    refuted_by: tuple[str, ...] = ()
    """The anomalies that refute it, such as `V8 duplicate`; if empty, it is merely not shown."""
    why: str = ""

    def as_json(self) -> Json:
        return {"level": self.level, "refuted_by": list(self.refuted_by), "why": self.why}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """The strongest guarantee that a history shows without refuting it, for delivery and for order."""

    delivery: str
    """Such as `effectively-once`; `none` if not even the weakest level is shown."""
    order: str
    """Such as `ordered`; `none` if not even the weakest level is shown."""
    not_reached: tuple[Step, ...] = ()
    """The stronger levels, with what refutes them or why they are not shown."""
    under: tuple[str, ...] = ()
    """The faults, kills and restarts in the history, such as `fault "spike" (2 times)`, `1 kill`."""
    remarks: tuple[str, ...] = ()

    @property
    def statement(self) -> str:
        """Both directions, such as `fenced-exactly-once, ordered`."""
        named = (("delivery", self.delivery), ("order", self.order))
        return ", ".join(f"nothing about {what}" if level == "none" else level for what, level in named)

    def as_json(self) -> Json:
        return {
            "delivery": self.delivery,
            "order": self.order,
            "not_reached": [step.as_json() for step in self.not_reached],
            "under": list(self.under),
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict on a whole history, and each invariant's own, in the order V1, V2, ..."""

    outcome: Outcome
    invariants: tuple[InvariantVerdict, ...]
    warnings: tuple[str, ...] = ()
    accounting: Mapping[str, int] = field(default_factory=dict)
    """Counts for a reader: events, records, outputs, watermarks, attempts, checkpoints, ..."""
    view: str = ""
    """The view of the history, such as `outside`; empty: that of an operator."""
    guarantee: Guarantee | None = None
    recovery: Recovery | None = None
    """V17. Guarantee and recovery are None until the judgement is explained."""

    def as_json(self) -> Json:
        """The form of `floodmark check --format json`."""
        return {
            "verdict": str(self.outcome),
            **({"view": self.view} if self.view else {}),
            "invariants": [verdict.as_json() for verdict in self.invariants],
            "warnings": list(self.warnings),
            **({"guarantee": self.guarantee.as_json()} if self.guarantee else {}),
            **({"recovery": self.recovery.as_json()} if self.recovery else {}),
        }

    @property
    def violations(self) -> tuple[tuple[str, str], ...]:
        """The violations (invariant, kind of anomaly), each once, in the order of the invariants."""
        found = ((verdict.invariant, one.kind) for verdict in self.convicted() for one in verdict.anomalies)
        return tuple(dict.fromkeys(found))

    @property
    def shown(self) -> tuple[tuple[str, str], ...]:
        """The violations, and `NO_EVIDENCE` if a fault or a count is missing that the scenario asks for."""
        is_vacuous = any(v.invariant == "V23" and v.outcome is Outcome.VACUOUS for v in self.invariants)
        return (*self.violations, *([NO_EVIDENCE] if is_vacuous else []))

    def convicted(self) -> tuple[InvariantVerdict, ...]:
        """The verdicts on violated invariants."""
        return tuple(v for v in self.invariants if v.outcome is Outcome.FAIL)
