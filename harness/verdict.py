"""Verdicts: what a judgement of a history says, as values; the list of invariants; the time to recover (V17).

Answers to Jepsen's three-valued results, with `vacuous` added: nothing here could have violated the
invariant, so nothing was shown. Only `pass` is green; merging takes the worst. An id is in the list of
invariants if and only if it has a checker (`docs/reference/history.md`). V17 measures what each disturbance cost, in
microseconds, and is never a verdict: where the history does not hold a number's parts, the reason stands in
its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from harness.errors import Exit

__all__ = [
    "INVARIANTS",
    "NOT_ON_A_HISTORY",
    "Anomaly",
    "Cost",
    "Explanation",
    "Guarantee",
    "InvariantVerdict",
    "Judgement",
    "Outcome",
    "Recovery",
    "Step",
    "worst",
]

INVARIANTS: dict[str, str] = {
    "V1": "Ordered mode: results leave in the order of their records, and watermarks keep their place.",
    "V2": "Unordered mode: no result leaves before a watermark that came in ahead of its record.",
    "V3": "Results of one key leave in the order of that key's records.",
    "V4": "Watermarks leave in the order in which they came in; none goes back.",
    "V5": "A watermark leaves only after everything that came in ahead of it is resolved.",
    "V6": "Every watermark leaves, and none is held once nothing ahead of it is open.",
    "V7": "A watermark leaves only if it came in, as often as it did, and nothing follows the last one.",
    "V8": "Every record's results are visible in the end, each once, with the right value and time.",
    "V9": "The database shows the effect of every record once: not twice, not missing, not altered.",
    "V10": "A checkpoint cuts cleanly: each element before it has either left or is stored in it.",
    "V11": "A restart goes on from a completed checkpoint, with its elements and its source position.",
    "V12": "An epoch becomes visible whole, once, in order, and only when its checkpoint allows it.",
    "V13": "Once a newer attempt has taken effect, nothing of an older one does.",
    "V14": "No more elements are in flight than the capacity allows, with one more at most waiting to enter.",
    "V15": "Each record's calls end in exactly one outcome, in time, within the allowed tries.",
    "V16": "After the last fault has healed the operator goes on to its end.",
    "V18": "Checkpoints keep completing, however full the queue and however slow the database.",
    "V19": "Every answer belongs to the call that asked for it.",
    "V20": "A record that failed for good fails its task or goes to the dead letters; it is never swallowed.",
    "V21": "Only the task's thread acts, between its start and its close, one record's results at a time.",
    "V23": "Every fault left evidence that it bit, and as much was observed as the scenario asks for.",
}
"""In the order of `floodmark check --format json`."""

NOT_ON_A_HISTORY: dict[str, str] = {
    "V17": "the time to recover is a measurement; it is reported, not judged",
    "V22": "the database's own isolation is judged on a probe's history, not on a run's",
}
"""Numbers of the catalogue that no history can be judged by, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one fault or kill cost."""

    what: str
    """`fault "spike" (all subtasks)`, `kill of attempt 1 of subtask 0`."""
    event: int
    """The event by which it began."""
    begin_us: int
    """Since the history's first event."""
    detect_us: int | None = None
    """A fault: until the first call that failed, or attempt that failed or died. A kill: since its last sign."""
    first_output_us: int | None = None
    """From its end (a kill: from the kill) to the first result after it."""
    steady_us: int | None = None
    """From its end until results were again as quick as 99 in 100 were before, for a row of them."""
    replayed: int | None = None
    """A kill: records that the next attempt took up again."""
    replayed_of: int | None = None
    """The records accepted by then."""
    deficit: int = 0
    """Records by which what came in outran what left, summed over tenths of a second, from its begin until steady."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """The measures that have no number, and why."""

    def as_json(self) -> dict[str, Any]:
        """The form of `floodmark check --format json`."""
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
    """Every disturbance of a history with its cost; or why there is none."""

    costs: tuple[Cost, ...] = ()
    omitted: int = 0
    """Further disturbances that were only counted."""
    why: str = ""
    """Why nothing could be measured."""

    def as_json(self) -> dict[str, Any]:
        """The form of `floodmark check --format json`."""
        return {"costs": [cost.as_json() for cost in self.costs], "omitted": self.omitted, "why": self.why}


class Outcome(StrEnum):
    """The answer to one invariant, or to a whole history."""

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
    """The worst of `outcomes`; `vacuous` of none, for nothing was judged."""
    return max(outcomes, key=_SEVERITY.index, default=Outcome.VACUOUS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why an anomaly cannot be: events by name, and what follows from them, the contradiction last."""

    let: tuple[str, ...]
    """`e1 = output 0 of record 7 leaves = "v" (event 13, ...)`: a name, and an event of the history."""
    then: tuple[str, ...]
    """One fact a line."""

    def as_json(self) -> dict[str, Any]:
        """The form of `floodmark check --format json`."""
        return {"let": list(self.let), "then": list(self.then)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One breach with its witness: the events (`n`) of the history that show it, and a sentence."""

    kind: str
    """The class of `docs/reference/history.md`: `duplicate`, `lost`, `reordered`, ..."""
    say: str
    events: tuple[int, ...]
    s: int | None = None
    id: int | str | None = None
    w: int | str | None = None
    c: int | None = None
    explanation: Explanation | None = None
    """Of those that are told in full."""

    def as_json(self) -> dict[str, Any]:
        """The form of `floodmark check --format json`."""
        named = {"s": self.s, "id": self.id, "w": self.w, "c": self.c}
        return {
            "class": self.kind,
            **{name: value for name, value in named.items() if value is not None},
            "events": list(self.events),
            "say": self.say,
            **({"explanation": self.explanation.as_json()} if self.explanation else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class InvariantVerdict:
    """What one checker found: its outcome, at most a stated number of anomalies, and how many more."""

    invariant: str
    outcome: Outcome
    anomalies: tuple[Anomaly, ...] = ()
    omitted: int = 0
    why: str = ""
    """For `unknown`, `vacuous` and `not-claimed`: the reason, one sentence (a traceback for a crash)."""
    observed: int = 0
    """How many observations the verdict rests on (outputs, watermarks, snapshots, ...)."""

    def as_json(self) -> dict[str, Any]:
        """The form of `floodmark check --format json`."""
        return {
            "invariant": self.invariant,
            "verdict": str(self.outcome),
            "anomalies": [anomaly.as_json() for anomaly in self.anomalies],
            "omitted": self.omitted,
            **({"why": self.why} if self.why else {}),
            "observed": self.observed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A guarantee that a history does not show, and why not."""

    level: str
    refuted_by: tuple[str, ...] = ()
    """`V8 duplicate`; none: it is only not shown."""
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """The form of `floodmark check --format json`."""
        return {"level": self.level, "refuted_by": list(self.refuted_by), "why": self.why}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """The strongest that a history shows and nothing in it refutes, in two directions: delivery and order."""

    delivery: str
    """`effectively-once`, ...; `none` where not even the weakest was shown."""
    order: str
    """`ordered`, ...; `none` likewise."""
    not_reached: tuple[Step, ...] = ()
    """The stronger ones: what refuted them, or why they were not shown."""
    under: tuple[str, ...] = ()
    """The disturbances that it stood: `fault "spike" 2 times`, `kill 1 time`."""
    remarks: tuple[str, ...] = ()

    @property
    def statement(self) -> str:
        """Both directions: `fenced-exactly-once, ordered`."""
        named = (("delivery", self.delivery), ("order", self.order))
        return ", ".join(f"nothing about {what}" if level == "none" else level for what, level in named)

    def as_json(self) -> dict[str, Any]:
        """The form of `floodmark check --format json`."""
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
    guarantee: Guarantee | None = None
    recovery: Recovery | None = None
    """V17, a measurement; both are there once the judgement is explained."""

    def as_json(self) -> dict[str, Any]:
        """The form of `floodmark check --format json`."""
        return {
            "verdict": str(self.outcome),
            "invariants": [verdict.as_json() for verdict in self.invariants],
            "warnings": list(self.warnings),
            **({"guarantee": self.guarantee.as_json()} if self.guarantee else {}),
            **({"recovery": self.recovery.as_json()} if self.recovery else {}),
        }

    def convicted(self) -> tuple[InvariantVerdict, ...]:
        """The invariants that were violated."""
        return tuple(v for v in self.invariants if v.outcome is Outcome.FAIL)
