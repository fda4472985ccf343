"""The outcome of a finished run: what was run, what the faults did, and the judgement.

Invariant: reports use only `RunOutcome` and the history file that it names, so a stored run renders the same anywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from harness.history.verdict import Judgement, Outcome
from harness.scenario.symptom import counts_for, decisive_in, error_cause, violation_of, without_numbers
from harness.system.json_types import JsonView

_CONVICTIONS = {False: {Outcome.FAIL}, True: {Outcome.VACUOUS}}
"""The outcomes that detect a planted defect. V23 never fails: it detects a missing fault by being vacuous."""


SIMULATED_SERVER = "simulated database"
"""The server of a run at level sim whose lookups ask the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldDescription:
    """The infrastructure of a run."""

    kind: str
    """`local` or `containers`."""
    why: str
    """Why it was chosen."""
    server: str
    """`MariaDB 10.11.19`, `MySQL 9.7.4`."""
    proxy: str
    """`Toxiproxy 2.12.0`."""
    ready_s: float
    """Seconds until the first `SELECT 1` through the proxy."""

    @property
    def is_half_real(self) -> bool:
        """Whether lookups of level sim asked a real server."""
        return self.kind == "simulated" and self.server != SIMULATED_SERVER


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultTime:
    """One time that a fault acted; times are microseconds of the history's clock, null for what never came."""

    planned_us: int | None = None
    """When it was due; None: the attempt performed it itself at its phase."""
    armed_us: int | None = None
    """When arming began, so that it may have acted; None: the run ended before."""
    measured_us: int | None = None
    """When its evidence was first found while it was active; None: only afterwards, or never."""
    healed_us: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """Empty: no effect was recorded, so the run is vacuous."""
    witnesses: tuple[str, ...] | None = None
    """Without whose word there would be no evidence; empty: several, and each is enough. None at level sim, where the
    simulation itself counts.
    """

    def moved(self, origin_us: int) -> FaultTime:
        """The same times on a clock that starts at `origin_us`."""

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
    """A disturbance: armed for the first time, healed for the last time, with the evidence of the first."""

    id: str
    kind: str
    plan: Mapping[str, Any]
    """Its fields in the scenario."""
    times: tuple[FaultTime, ...] = ()
    """Each activation, in order; empty: its trigger never came."""

    @property
    def bites(self) -> bool:
        """Whether it was active and has evidence for each activation."""
        acted = [time for time in self.times if time.armed_us is not None]
        return bool(acted) and all(time.evidence for time in acted)

    @property
    def witnesses(self) -> tuple[str, ...] | None:
        """The witnesses of the first activation that has one only, else of the first that has any.

        None: it left no evidence, or is simulated.
        """
        told = [time.witnesses for time in self.times if time.evidence and time.witnesses is not None]
        return next((names for names in told if len(names) == 1), told[0] if told else None)

    @property
    def first(self) -> FaultTime:
        """The first activation; an empty one if its trigger never came."""
        return self.times[0] if self.times else FaultTime()

    @property
    def armed_us(self) -> int | None:
        """The beginning of its first activation; None: it had none."""
        return self.first.armed_us

    @property
    def healed_us(self) -> int | None:
        """When its last activation had healed; None: it had not when the run ended, or had none."""
        return self.times[-1].healed_us if self.times else None

    @property
    def evidence(self) -> JsonView:
        return self.first.evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Pitfall:
    """A mistake that breaks no promise and will hurt; `name` as on `docs/explanation/pitfalls.md`."""

    name: str
    says: str
    """What was measured, and what it means."""
    advice: str
    evidence: Mapping[str, Any]


_A_RATIO = "calls_per_record"
"""The one measure that is no time."""


def measure_text(name: str, value: float) -> str:
    """The value of a measure with its unit: `2 s`, `63.5 ms`, `1.2`."""
    if name == _A_RATIO:
        return f"{value:.4g}"
    return f"{value / 1000:.4g} s" if value >= 1000 else f"{value:.4g} ms"  # noqa: PLR2004 - a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One number that was taken of a run: milliseconds, or calls for each record."""

    value: float | None
    """None: it could not be measured."""
    at_least: float = 0.0
    """A lower bound, whatever was not measured."""
    why: str = ""
    """What was not measured, and why; empty: everything was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One threshold of the scenario; with a planted defect it decides nothing."""

    name: str
    limit: float
    """The limit in milliseconds, or in calls for each record."""
    value: float | None
    """The measure; None: it could not be taken whole."""
    verdict: Literal["holds", "crossed", "unknown"]
    why: str = ""

    @property
    def says(self) -> str:
        """A sentence without its full stop: `recovery_p95 is 3.2 s, and at most 2 s is allowed`."""
        limit = measure_text(self.name, self.limit)
        if self.verdict == "unknown":
            return f"{self.name} could not be measured, and at most {limit} is allowed: {self.why}"
        taken = "" if self.value is None else measure_text(self.name, self.value)
        found = f"is {taken}" if taken else f"is more than {limit}, though not measured whole ({self.why})"
        return f"{self.name} {found}, and at most {limit} is allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFile:
    """The history beside this document."""

    file: str
    """Its path relative to the folder of the report."""
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRuns:
    """What the runs of one scenario with one system under test have in common, and what repeats them besides a seed."""

    scenario: str
    mutant: str | None
    level: str
    sut: str
    about: str
    plan: Mapping[str, Any]
    """The scenario as a JSON value, with `--set` applied."""
    convicts: tuple[str, ...] = ()
    """The invariants that must detect the mutant; empty without a mutant."""
    runner: str = "continuous"
    """How level spark runs the operator."""
    expected: str | None = None
    cluster: int = 0
    master: str = ""
    """As `harness.scenario.order.Order` has them."""

    @property
    def kind(self) -> tuple[str, str | None, str, str]:
        """The key of equal runs: scenario, planted defect, level, system under test."""
        return self.scenario, self.mutant, self.level, self.sut


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome(PlannedRuns):
    """One run of one scenario."""

    run_id: str
    seed: int
    world: WorldDescription
    judgement: Judgement
    faults: tuple[FaultRecord, ...]
    history: Path
    """The file of the merged history (`docs/reference/history.md`)."""
    started_at: str
    """ISO 8601, UTC; for display only."""
    duration_s: float
    phases_s: Mapping[str, float]
    """`world`, `spark`, `run`, `merge`, `judge`: seconds."""
    accounting: Mapping[str, int]
    """Counts by SQL, independent of the checkers: rows, distinct, missing, doubled, disordered."""
    again: str
    """The command line that repeats this run."""
    versions: Mapping[str, str]
    threats: tuple[str, ...] = ()
    """Warnings that limit the meaning of a pass: gaps in the recording, fallbacks."""
    error: str | None = None
    """Why the run ended early, if it did."""
    interrupted: bool = False
    extras: Mapping[str, Any] = field(default_factory=dict)
    pitfalls: tuple[Pitfall, ...] = ()
    values: str = ""
    """Where the expected results of a user's lookup come from, and what it cost to find them."""
    fails_on_pitfall: bool = False
    """Whether a pitfall makes the run fail."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """What was measured of it, by the names of thresholds, in milliseconds or calls for each record."""
    thresholds: tuple[Threshold, ...] = ()
    """The thresholds of the scenario, in its order."""

    @property
    def level_in_words(self) -> str:
        """The level, and the runner where it is not the usual one."""
        return self.level if self.runner == "continuous" else f"{self.level} ({self.runner})"

    @property
    def as_expected(self) -> bool:
        """Whether the reference passed, or the planted defect was detected by one of its invariants.

        Not with a pitfall or a crossed threshold that makes the run fail.
        """
        return seen_as_expected(self.judgement, self.convicts) and not self.falls

    @property
    def falls(self) -> bool:
        """Whether a pitfall or a threshold makes it fail."""
        return self.falls_by_pitfall or bool(self.crossed)

    @property
    def falls_by_pitfall(self) -> bool:
        return self.fails_on_pitfall and bool(self.pitfalls)

    @property
    def cause(self) -> str:
        """Invariant and class of the violation, exception and line, or why nothing was shown; empty: it simply passed.

        The runs of a campaign are grouped by these words.
        """
        if self.mutant is not None:
            if self.as_expected and self.convicts:
                shown = violation_of(self.judgement, self.convicts) or "a vacuous V23"
                return f"planted {self.mutant}: convicted by {shown}"
            found = self._found if self.judgement.outcome is not Outcome.PASS else "all holds"
            if not self.convicts:
                return f"{self.mutant}: {found}"
            return f"planted {self.mutant}: not convicted; {found}"
        if self.as_expected:
            return f"pitfall {self.pitfalls[0].name}" if self.pitfalls else ""
        return self._found

    @property
    def _found(self) -> str:
        raised, verdict = error_cause(self.error), self.judgement.outcome
        if raised is not None:
            return raised
        if verdict is Outcome.FAIL:
            return violation_of(self.judgement, ())
        if self.interrupted:
            return "interrupted while it ran"
        if self.error:
            return f"stopped early: {without_numbers(self.error)}"
        for threshold in (*self.crossed, *self.unmeasured):
            return f"threshold {threshold.name} {'crossed' if verdict is Outcome.PASS else 'not held'}"
        if self.pitfalls and verdict is Outcome.PASS:
            return f"pitfall {self.pitfalls[0].name}"
        decisive = decisive_in(self.plan)
        for one in self.judgement.invariants:
            if one.outcome is verdict and counts_for(one, decisive=decisive, has_values=bool(self.values)):
                return f"{one.invariant} {verdict}: {without_numbers(one.why) or 'nothing was shown'}"
        return f"{verdict}: nothing was shown"

    @property
    def crossed(self) -> tuple[Threshold, ...]:
        """The thresholds that make it fail; none with a planted defect, which only a conviction concerns."""
        return () if self.convicts else tuple(t for t in self.thresholds if t.verdict == "crossed")

    @property
    def unmeasured(self) -> tuple[Threshold, ...]:
        """The thresholds that leave it undecided; none with a planted defect."""
        return () if self.convicts else tuple(t for t in self.thresholds if t.verdict == "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRun:
    """One run of a report; its seed repeats it."""

    scenario: str
    mutant: str | None
    level: str
    seed: int
    verdict: Outcome
    as_expected: bool
    events: int
    falls: bool = False
    """Whether a pitfall or a threshold makes it fail; not written."""
    digest: str = ""
    """The digest of its history (`harness.history.text.digest_of`); empty: not taken."""
    sut: str = "reference"
    cause: str = ""
    """What it has shown, in words by which runs are grouped (`harness.scenario.symptom`); empty: it simply passed."""
    violations: tuple[tuple[str, str], ...] = ()
    """Each violation (invariant, kind of anomaly) once."""
    took_s: float = field(default=0.0, compare=False)
    again: str = ""
    """The command line that repeats it."""
    run_id: str = ""
    """The id of a run that left a history; empty: the run was only counted."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """As `RunOutcome.measures`."""

    @classmethod
    def of(cls, outcome: RunOutcome, **more: Any) -> Self:
        return cls(
            scenario=outcome.scenario,
            mutant=outcome.mutant,
            level=outcome.level,
            seed=outcome.seed,
            verdict=outcome.judgement.outcome,
            as_expected=outcome.as_expected,
            events=outcome.judgement.accounting.get("events", 0),
            falls=outcome.falls,
            sut=outcome.sut,
            cause=outcome.cause,
            violations=outcome.judgement.violations,
            took_s=outcome.duration_s,
            again=outcome.again,
            run_id=outcome.run_id,
            measures=outcome.measures,
            **more,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRuns:
    """Runs that were asked for and not made."""

    scenario: str
    mutant: str | None
    level: str
    seeds: tuple[int, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A scenario that was not named and that the job cannot meet; none of its runs is in `asked`."""

    scenario: str
    need: str
    """What it needs, in a word or two: `Kafka`."""
    why: str


def left_out_line(left_out: Iterable[LeftOut]) -> str:
    """`6 left out: 4 need Spark, 2 need Kafka`; empty: none was."""
    needs = Counter(one.need for one in left_out)
    told = (f"{count} need{'s' if count == 1 else ''} {need}" for need, count in needs.most_common())
    return f"{needs.total()} left out: {', '.join(told)}" if needs else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much of a campaign was made."""

    asked: int
    """How many runs were requested."""
    interrupted: bool = False
    took_s: float = 0.0
    missing: tuple[MissingRuns, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    planned: tuple[PlannedRuns, ...] = ()
    """The planned runs of each scenario, if not every run is shown in full."""


def seen_as_expected(judgement: Judgement, convicts: Sequence[str]) -> bool:
    """Whether a judgement is a pass, or with `convicts` whether one of them detected the defect."""
    if not convicts:
        return judgement.outcome is Outcome.PASS
    meant = [verdict for verdict in judgement.invariants if verdict.invariant in convicts]
    return any(verdict.outcome in _CONVICTIONS[verdict.invariant == "V23"] for verdict in meant)
