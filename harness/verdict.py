"""Verdicts: what a judgement of a history says, as values.

Answers to Jepsen's three-valued results, with `vacuous` added: nothing here could have violated the
invariant, so nothing was shown. Only `pass` is green; merging takes the worst.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from harness.errors import Exit
from harness.recovery import Recovery

__all__ = [
    "Anomaly",
    "Explanation",
    "Guarantee",
    "InvariantVerdict",
    "Judgement",
    "Outcome",
    "Step",
    "worst",
]


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
    """The class of `docs/history.md`: `duplicate`, `lost`, `reordered`, ..."""
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
