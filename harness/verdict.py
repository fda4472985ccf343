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

__all__ = ["Anomaly", "InvariantVerdict", "Judgement", "Outcome", "worst"]


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

    def as_json(self) -> dict[str, Any]:
        """The form of `floodmark check --format json`."""
        named = {"s": self.s, "id": self.id, "w": self.w, "c": self.c}
        return {
            "class": self.kind,
            **{name: value for name, value in named.items() if value is not None},
            "events": list(self.events),
            "say": self.say,
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
class Judgement:
    """The verdict on a whole history, and each invariant's own, in the order V1, V2, ..."""

    outcome: Outcome
    invariants: tuple[InvariantVerdict, ...]
    warnings: tuple[str, ...] = ()
    accounting: Mapping[str, int] = field(default_factory=dict)
    """Counts for a reader: events, records, outputs, watermarks, attempts, checkpoints, ..."""

    def as_json(self) -> dict[str, Any]:
        """The form of `floodmark check --format json`."""
        return {
            "verdict": str(self.outcome),
            "invariants": [verdict.as_json() for verdict in self.invariants],
            "warnings": list(self.warnings),
        }

    def convicted(self) -> tuple[InvariantVerdict, ...]:
        """The invariants that were violated."""
        return tuple(v for v in self.invariants if v.outcome is Outcome.FAIL)
