"""A finished run, as the reader of a report needs it: what was run, what bit, what was found.

Invariant: everything that a report shows is in `RunOutcome` or in the history file that it names;
nothing is looked up again, so a stored run renders the same anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.verdict import Judgement, Outcome

__all__ = ["FaultRecord", "RunOutcome", "WorldDescription", "seen_as_expected"]

_CONVICTIONS = {False: {Outcome.FAIL}, True: {Outcome.VACUOUS}}
"""V23 never fails: a run without evidence is convicted by being vacuous."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldDescription:
    """Which world a run had, and why that one."""

    kind: str
    """`local` or `containers`."""
    why: str
    server: str
    """`MariaDB 10.11.19`, `MySQL 9.7.4`."""
    proxy: str
    """`Toxiproxy 2.12.0`."""
    ready_s: float
    """From nothing to a proxied `SELECT 1`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRecord:
    """One fault: what was planned, when it really began and ended, and what shows that it bit."""

    id: str
    kind: str
    plan: Mapping[str, Any]
    """Its fields in the scenario."""
    armed_us: int | None
    """On the history's clock; None: its trigger never came."""
    healed_us: int | None
    evidence: Mapping[str, Any]
    """Empty: no evidence was found, so the run is vacuous."""
    bites: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """One run of one scenario."""

    run_id: str
    scenario: str
    about: str
    plan: Mapping[str, Any]
    """The scenario as a JSON value, with `--set` applied."""
    level: str
    seed: int
    sut: str
    mutant: str | None
    convicts: tuple[str, ...]
    """With a mutant: the invariants that must convict it. Otherwise empty."""
    world: WorldDescription
    judgement: Judgement
    faults: tuple[FaultRecord, ...]
    history: Path
    """Of the merged history (`docs/history.md`)."""
    started_at: str
    """ISO 8601, UTC; for people only."""
    duration_s: float
    phases_s: Mapping[str, float]
    """`world`, `spark`, `run`, `merge`, `judge`: seconds."""
    accounting: Mapping[str, int]
    """Counted in the database by SQL, beside the checkers: rows, distinct, missing, doubled, disordered."""
    again: str
    """The command that runs exactly this again."""
    versions: Mapping[str, str]
    threats: tuple[str, ...] = ()
    """Whatever could make a pass mean less than it seems: warnings, gaps, fallbacks."""
    error: str | None = None
    """Why the run stopped early, if it did."""
    interrupted: bool = False
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def as_expected(self) -> bool:
        """Whether the reference passed, or the planted defect was convicted by what is meant for it."""
        return seen_as_expected(self.judgement, self.convicts)


def seen_as_expected(judgement: Judgement, convicts: Sequence[str]) -> bool:
    """Whether a judgement is a pass, or with `convicts` a conviction by one of them."""
    if not convicts:
        return judgement.outcome is Outcome.PASS
    meant = [verdict for verdict in judgement.invariants if verdict.invariant in convicts]
    return any(verdict.outcome in _CONVICTIONS[verdict.invariant == "V23"] for verdict in meant)
