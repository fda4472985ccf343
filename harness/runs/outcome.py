"""A finished run, as the reader of a report needs it: what was run, what bit, what was found.

Invariant: everything that a report shows is in `RunOutcome` or in the history file that it names;
nothing is looked up again, so a stored run renders the same anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.verdict import Judgement, Outcome

__all__ = ["FaultRecord", "FaultTime", "Pitfall", "RunOutcome", "WorldDescription", "seen_as_expected"]

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
class FaultTime:
    """One time that a fault acted, on the history's clock."""

    planned_us: int | None = None
    """When it was due; None: it is the attempt's own, which is at its phase when it is."""
    armed_us: int | None = None
    """When arming began, from when on it may act; None: it was due, and the run was over first."""
    measured_us: int | None = None
    """When it was first seen to have bitten, while it acted; None: only afterwards, or never."""
    healed_us: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """Empty: nothing shows that it bit, so the run is vacuous."""

    def moved(self, origin_us: int) -> FaultTime:
        """The same on a clock that starts at `origin_us`."""

        def at(time_us: int | None) -> int | None:
            return None if time_us is None else time_us - origin_us

        return replace(
            self,
            planned_us=at(self.planned_us),
            armed_us=at(self.armed_us),
            measured_us=at(self.measured_us),
            healed_us=at(self.healed_us),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRecord:
    """One fault: what was planned, and each time that it acted; a fault that repeats acts several times."""

    id: str
    kind: str
    plan: Mapping[str, Any]
    """Its fields in the scenario."""
    times: tuple[FaultTime, ...]
    """None: its trigger never came."""

    @property
    def bites(self) -> bool:
        """Whether it acted, and left evidence each time."""
        acted = [time for time in self.times if time.armed_us is not None]
        return bool(acted) and all(time.evidence for time in acted)

    @property
    def first(self) -> FaultTime:
        """The first time; an empty one if it never came."""
        return self.times[0] if self.times else FaultTime()

    @property
    def armed_us(self) -> int | None:
        """When it began to act for the first time; None: it never did."""
        return self.first.armed_us

    @property
    def healed_us(self) -> int | None:
        """When it had healed for the last time; None: it had not when the run was over, or it never acted."""
        return self.times[-1].healed_us if self.times else None

    @property
    def evidence(self) -> Mapping[str, Any]:
        """Of the first time."""
        return self.first.evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Pitfall:
    """A mistake in the use of asynchronous lookups that the run shows; it breaks no promise, and will hurt."""

    name: str
    """As on `docs/explanation/pitfalls.md`."""
    says: str
    """What was measured, and what it means."""
    advice: str
    evidence: Mapping[str, Any]


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
    """Of the merged history (`docs/reference/history.md`)."""
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
    pitfalls: tuple[Pitfall, ...] = ()

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
