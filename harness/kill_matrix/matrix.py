"""The kill matrix: each suspect (a planted defect) is run in scenarios until the invariants meant for it fail.

Answers to a mutation score that names its survivors. An unknown name is an error before the first run; a
user's own defect is judged like the planted ones. Invariants: the same first seed gives the same results for
any number of processes, unless the time budget ended a trial, which the result states. An invariant that the
reference also fails in the same run does not count against the mutant; an incomplete history is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache

from harness.engine.executors import Executors, open_processes
from harness.explore.drawing import draw_scenario
from harness.history.verdict import Outcome
from harness.judge.canaries.canary import canaries, overlooked
from harness.judge.checkers.judge import judge
from harness.kill_matrix.equivalents import EQUIVALENTS, Sameness, compare
from harness.levels.sim.level import SimulatedLevel
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.sut.defects import IN_RUNS, find_defect, own_variant
from harness.sut.variant import HONEST, Variant
from harness.system.clock import CALENDAR_CLOCK, Deadline
from harness.system.errors import Exit, UsageError

__all__ = [
    "OURS",
    "RUNS_LEAST",
    "Charge",
    "Matrix",
    "MatrixRow",
    "ReferenceResult",
    "Suspect",
    "SuspectResult",
    "fill",
    "find_suspect",
    "hear_the_reference",
    "try_suspect",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A defect to be tried: a planted one, or a user's own."""

    name: str
    label: str
    """The mutant's number, such as `M7`, or empty."""
    about: str
    mirrors: str
    named: tuple[str, ...]
    """The invariants and checks that must convict it; empty: any may."""
    where: str
    """Description of the scenarios in which it can show, for which `applies` is true."""
    applies: Callable[[Scenario], bool]
    variant: Variant
    scenario: str | None = None
    """The catalogue scenario in which it is tried; None: drawn scenarios."""


def _ours(name: str) -> Suspect:
    defect = find_defect(name)
    if "sim" not in defect.levels:
        message = f"the mutant {name} needs a real world, as in scenario {defect.scenario}"
        raise UsageError(message, fix="floodmark mutants --level live, or floodmark run --mutant")
    return Suspect(
        name=name,
        label=defect.label,
        about=defect.about,
        mirrors=defect.mirrors,
        named=defect.convicted_by,
        where=defect.where,
        applies=defect.applies,
        variant=defect.variant,
        scenario=defect.tried_in,
    )


OURS = tuple(name for name, defect in IN_RUNS.items() if "sim" in defect.levels)
"""The names of all planted defects that a run at level sim can show, in the order of their numbers."""


def find_suspect(name: str) -> Suspect:
    """The planted defect `name`, or a user's own: `MODULE:ATTR`, a `Variant` or a `build_operator`.

    Raises UsageError for a name that no run can show, SutError for an attribute that is neither.
    """
    if ":" not in name:
        try:
            return _ours(name)
        except UsageError as error:
            raise UsageError(error.what, fix=f"MODULE:ATTR for your own, or {error.fix}") from None
    return Suspect(
        name=name,
        label="",
        about="a defect of yours",
        mirrors="",
        named=(),
        where="anywhere",
        applies=lambda scenario: True,
        variant=own_variant(name),
    )


Simulate = Callable[[Variant], Simulated]
"""Simulates one run with the given variant."""

RUNS_LEAST = 10
"""Runs of each trial, even if it is decided earlier: shows which other invariants convict."""
_DRAWS_MAX = 200
"""Scenarios drawn at most for each run, so that a trial to which no scenario applies ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspectResult:
    """The result of trying one suspect."""

    name: str
    named: tuple[str, ...]
    runs: int
    """Simulated runs; 0: no drawn scenario applied."""
    convicted: dict[str, int]
    """Invariant or check -> number of the run in which it first convicted."""
    in_time: bool = True
    """False: the time budget ended before all named had convicted it and before its last run."""

    @property
    def is_convicted(self) -> bool:
        """At least one of `named` convicted it; if none are named, any invariant or check did."""
        return any(name in self.convicted for name in self.named) if self.named else bool(self.convicted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceResult:
    """The result of running the honest reference."""

    runs: int
    convicted: dict[int, tuple[str, ...]]
    """Seed of a convicted run -> the invariants that convict it."""


def try_suspect(
    suspect: Suspect, *, first_seed: int, runs: int, deadline: Deadline, least: int = RUNS_LEAST
) -> SuspectResult:
    """Simulates up to `runs` runs; ends after `least` runs if all named invariants have convicted."""
    convicted = _by_canary(suspect.variant)
    made = 0
    for seed, simulated_by in _runs(suspect, first_seed, runs):
        if made >= least and suspect.named and all(name in convicted for name in suspect.named):
            break
        if deadline.passed:
            return SuspectResult(
                name=suspect.name, named=suspect.named, runs=made, convicted=convicted, in_time=False
            )
        made += 1
        convicts = [name for name in _convicts(simulated_by, seed, suspect.variant) if name not in convicted]
        if convicts:
            of_anybody = _convicts(simulated_by, seed, HONEST)
            convicted |= {name: made for name in convicts if name not in of_anybody}
    return SuspectResult(name=suspect.name, named=suspect.named, runs=made, convicted=convicted)


def hear_the_reference(*, first_seed: int, runs: int, deadline: Deadline) -> ReferenceResult:
    """Runs the honest reference in drawn scenarios; V23 (a vacuous run) does not convict it."""
    convicted: dict[int, tuple[str, ...]] = {}
    made = 0
    for seed in range(first_seed, first_seed + runs):
        if deadline.passed:
            break
        made += 1
        simulated_by = _in(draw_scenario(seed), seed)
        by = tuple(name for name in _convicts(simulated_by, seed, HONEST) if name != "V23")
        if by:
            convicted[seed] = by
    return ReferenceResult(runs=made, convicted=convicted)


def _by_canary(variant: Variant) -> dict[str, int]:
    """Convicts a variant whose judge overlooks a canary; counts as the first run.

    The judge of all other variants has been shown the canaries before the first trial (`fill`).
    """
    its_judge = variant.judge(judge)
    return {"canary": 1} if its_judge is not judge and overlooked(its_judge, canaries("operator")) else {}


def _runs(suspect: Suspect, first_seed: int, runs: int) -> Iterator[tuple[int, Simulate]]:
    """(seed, run) pairs: in the suspect's scenario, or in the first `runs` drawn scenarios that apply."""
    if suspect.scenario is not None:
        scenario = load(catalogue()[suspect.scenario])
        for seed in range(first_seed, first_seed + runs):
            yield seed, _in(scenario, seed)
        return
    found = 0
    for seed in range(first_seed, first_seed + runs * _DRAWS_MAX):
        scenario = draw_scenario(seed)
        if suspect.applies(scenario):
            yield seed, _in(scenario, seed)
            found += 1
            if found == runs:
                return


def _in(scenario: Scenario, seed: int) -> Simulate:
    order = Order(scenario=scenario, level="sim", seed=seed)
    return lambda variant: simulate_scenario(order, variant=variant)


def _convicts(simulated_by: Simulate, seed: int, variant: Variant) -> tuple[str, ...]:
    """The invariants that convict the run; V23 also convicts if it is vacuous."""
    try:
        simulated = simulated_by(variant)
    except Exception as error:
        error.add_note(f"in the simulation of seed {seed}")
        raise
    if len(simulated.events) != simulated.numbered:
        return ("recording",)
    judgement = variant.judge(judge)(simulated.header, simulated.events)
    return tuple(
        verdict.invariant
        for verdict in judgement.invariants
        if verdict.outcome is Outcome.FAIL
        or (verdict.invariant == "V23" and verdict.outcome is Outcome.VACUOUS)
    )


_DRAWS_PER_RUN = 40
"""Scenarios drawn at most for each comparison run of an equivalent."""
_COMPARED = 10
"""An equivalent gets one comparison run per this many runs of a suspect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """The parameters of a matrix."""

    names: tuple[str, ...]
    """The suspects, in the order of the rows."""
    seed: int
    runs: int
    with_equivalents: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """A suspect's row of the matrix."""

    label: str
    name: str
    about: str
    mirrors: str
    where: str
    trial: SuspectResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The filled matrix: the results of the reference, all suspects and all equivalents."""

    charge: Charge
    reference: ReferenceResult
    rows: tuple[MatrixRow, ...]
    equivalents: tuple[Sameness, ...]

    @property
    def survivors(self) -> tuple[MatrixRow, ...]:
        """Suspects that were tried to the end and not convicted."""
        return tuple(row for row in self.rows if self._was_tried(row) and not row.trial.is_convicted)

    @property
    def untried(self) -> tuple[MatrixRow, ...]:
        """Suspects not convicted because the time budget ended or no scenario applied."""
        return tuple(row for row in self.rows if not self._was_tried(row))

    def _was_tried(self, row: MatrixRow) -> bool:
        return row.trial.is_convicted or (row.trial.in_time and row.trial.runs > 0)

    @property
    def numbers(self) -> tuple[int, int]:
        """(mutant numbers whose every variant is convicted, all mutant numbers), as counts."""
        all_of = dict.fromkeys(row.label for row in self.rows if row.label)
        missed = {row.label for row in (*self.survivors, *self.untried)}
        return len([label for label in all_of if label not in missed]), len(all_of)

    @property
    def exit_code(self) -> Exit:
        """HOLD: every suspect is convicted; the reference and the equivalents are not."""
        if self.reference.convicted or self.survivors or any(one.convicted for one in self.equivalents):
            return Exit.VIOLATION
        return Exit.UNDECIDED if self.untried else Exit.HOLD


_Finding = ReferenceResult | SuspectResult | Sameness


@dataclass(frozen=True, slots=True, kw_only=True)
class _SuspectTask:
    """A worker process's unit of work. Names its suspect, since a `Suspect` holds unpicklable functions."""

    charge: Charge
    deadline: Deadline
    suspect: str | None = None
    equivalent: int | None = None
    """Index in `EQUIVALENTS`. With neither set, the task runs the reference."""

    def __call__(self) -> _Finding:
        charge = self.charge
        if self.suspect is not None:
            return try_suspect(
                find_suspect(self.suspect), first_seed=charge.seed, runs=charge.runs, deadline=self.deadline
            )
        if self.equivalent is not None:
            runs = max(1, charge.runs // _COMPARED)
            return compare(
                EQUIVALENTS[self.equivalent],
                first_seed=charge.seed,
                runs=runs,
                draws_max=runs * _DRAWS_PER_RUN,
                deadline=self.deadline,
            )
        return hear_the_reference(first_seed=charge.seed, runs=charge.runs, deadline=self.deadline)


def fill(
    charge: Charge,
    *,
    jobs: int,
    budget_s: float,
    tell: Callable[[int, int], None] = lambda done, asked: None,
    executors: Executors | None = None,
) -> Matrix:
    """Fills the matrix, on `executors` if there are any, else in `jobs` processes; `tell` is called after each trial.

    Raises HarnessError if the harness overlooks a canary.
    """
    SimulatedLevel().refuse_blindness(None)
    suspects = [find_suspect(name) for name in charge.names]
    deadline = Deadline(budget_s, clock=CALENDAR_CLOCK)
    equivalents = range(len(EQUIVALENTS)) if charge.with_equivalents else ()
    tasks = [
        _SuspectTask(charge=charge, deadline=deadline),
        *(_SuspectTask(charge=charge, deadline=deadline, suspect=name) for name in charge.names),
        *(_SuspectTask(charge=charge, deadline=deadline, equivalent=number) for number in equivalents),
    ]
    findings: list[_Finding] = []
    with nullcontext(executors) if executors is not None else open_processes(jobs) as chosen:
        # A trial is long, so it is a piece by itself.
        for finding in chosen.map(_tried, tasks, most=1):
            findings.append(finding)
            tell(len(findings), len(tasks))
    trials = [finding for finding in findings if isinstance(finding, SuspectResult)]
    (reference,) = [finding for finding in findings if isinstance(finding, ReferenceResult)]
    return Matrix(
        charge=charge,
        reference=reference,
        rows=tuple(_row(suspect, trial) for suspect, trial in zip(suspects, trials, strict=True)),
        equivalents=tuple(finding for finding in findings if isinstance(finding, Sameness)),
    )


def _tried(tasks: Sequence[_SuspectTask]) -> _Finding:
    (task,) = tasks
    _refuse_blindness_here()
    return task()


@cache
def _refuse_blindness_here() -> None:
    """Once in each process of the pool, which judges by itself."""
    SimulatedLevel().refuse_blindness(None)


def _row(suspect: Suspect, trial: SuspectResult) -> MatrixRow:
    return MatrixRow(
        label=suspect.label,
        name=suspect.name,
        about=suspect.about,
        mirrors=suspect.mirrors,
        where=suspect.where,
        trial=trial,
    )
