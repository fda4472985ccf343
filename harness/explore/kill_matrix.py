"""The kill matrix: each planted defect runs in scenarios until its invariants fail; and its table.

Answers to a mutation score that names its survivors. An unknown name is an error before the first run; a
user's own defect is judged like the planted ones. Invariants: the same first seed gives the same results for
any number of processes, unless the time budget ended a trial, which the result states. An invariant that the
reference also fails in the same run does not count against the mutant; an incomplete history is not judged.

The table answers to the score table of a mutation test. Invariant: every suspect has a row, convicted or not, and a
named invariant that did not convict shows as `-`, not as an empty cell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from harness.explore.drawing import draw_scenario
from harness.explore.trial import refuse_blindness_here
from harness.history.invariants import INVARIANTS
from harness.history.verdict import Outcome
from harness.judge.canaries.canary import canaries, overlooked
from harness.judge.checkers.judge import judge
from harness.levels.sim.level import SimulatedLevel
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.sut.defects import DEFECTS, HARNESS_CHECKS, Defect, find_defect
from harness.sut.variant import HONEST, Variant
from harness.system.clock import Deadline
from harness.system.errors import Exit, UsageError
from harness.system.pool import Executors, open_processes

OURS = tuple(name for name, defect in DEFECTS.items() if "sim" in defect.levels)
"""The planted defects that a run at level sim can show, in the order of their numbers."""


def find_suspect(name: str) -> Defect:
    """The planted defect to be tried, as `find_defect`. Raises UsageError for one that no run at level sim can show."""
    defect = find_defect(name)
    if not defect.levels:
        raise UsageError(f"no run shows the mutant {name}", fix="see docs/reference/mutants.md")
    if "sim" not in defect.levels:
        message = f"the mutant {name} needs a real world, as in scenario {defect.scenario}"
        raise UsageError(message, fix="floodmark mutants --level live, or floodmark run --mutant")
    return defect


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
        """Whether one of `named` convicted it; without names, whether any invariant or check did."""
        return any(name in self.convicted for name in self.named) if self.named else bool(self.convicted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceResult:
    """The result of running the honest reference."""

    runs: int
    convicted: dict[int, tuple[str, ...]]
    """Seed of a convicted run -> the invariants that convict it."""


def try_suspect(
    suspect: Defect, *, first_seed: int, runs: int, deadline: Deadline, least: int = RUNS_LEAST
) -> SuspectResult:
    """Simulates up to `runs` runs; ends after `least` runs if all named invariants have convicted."""
    # A judge that overlooks a canary convicts its variant; `fill` has shown the canaries to the judge of all others.
    its_judge = suspect.variant.judge(judge)
    is_blind = its_judge is not judge and overlooked(its_judge, canaries("operator"))
    convicted = {"canary": 1} if is_blind else {}
    made = 0
    for seed, simulated_by in _runs(suspect, first_seed, runs):
        if made >= least and suspect.convicted_by and all(name in convicted for name in suspect.convicted_by):
            break
        if deadline.passed:
            return SuspectResult(
                name=suspect.name, named=suspect.convicted_by, runs=made, convicted=convicted, in_time=False
            )
        made += 1
        convicts = [name for name in _convicts(simulated_by, seed, suspect.variant) if name not in convicted]
        if convicts:
            of_anybody = _convicts(simulated_by, seed, HONEST)
            convicted |= {name: made for name in convicts if name not in of_anybody}
    return SuspectResult(name=suspect.name, named=suspect.convicted_by, runs=made, convicted=convicted)


def run_reference(*, first_seed: int, runs: int, deadline: Deadline) -> ReferenceResult:
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


def _runs(suspect: Defect, first_seed: int, runs: int) -> Iterator[tuple[int, Simulate]]:
    """(seed, run) pairs: in the suspect's scenario, or in the first `runs` drawn scenarios that apply."""
    if suspect.tried_in is not None:
        scenario = load(catalogue()[suspect.tried_in])
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
    if len(simulated.events) != simulated.tape.numbered:
        return ("recording",)
    judgement = simulated.judge(simulated.header, simulated.events)
    return tuple(
        verdict.invariant
        for verdict in judgement.invariants
        if verdict.outcome is Outcome.FAIL
        or (verdict.invariant == "V23" and verdict.outcome is Outcome.VACUOUS)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DefectEntry:
    """The parameters of a matrix."""

    names: tuple[str, ...]
    """The suspects, in the order of the rows."""
    seed: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """A suspect's row of the matrix."""

    suspect: Defect
    trial: SuspectResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The filled matrix: the results of the reference and of all suspects."""

    charge: DefectEntry
    reference: ReferenceResult
    rows: tuple[MatrixRow, ...]

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
        all_of = dict.fromkeys(row.suspect.label for row in self.rows if row.suspect.label)
        missed = {row.suspect.label for row in (*self.survivors, *self.untried)}
        return len([label for label in all_of if label not in missed]), len(all_of)

    @property
    def exit_code(self) -> Exit:
        """HOLD: every suspect is convicted, and the reference is not."""
        if self.reference.convicted or self.survivors:
            return Exit.VIOLATION
        return Exit.UNDECIDED if self.untried else Exit.HOLD


_Finding = ReferenceResult | SuspectResult


@dataclass(frozen=True, slots=True, kw_only=True)
class _SuspectTask:
    """A worker process's unit of work. Names its suspect, since a `Defect` holds unpicklable functions."""

    charge: DefectEntry
    deadline: Deadline
    suspect: str | None = None
    """None: the task runs the reference."""

    def __call__(self) -> _Finding:
        charge = self.charge
        if self.suspect is not None:
            return try_suspect(
                find_suspect(self.suspect), first_seed=charge.seed, runs=charge.runs, deadline=self.deadline
            )
        return run_reference(first_seed=charge.seed, runs=charge.runs, deadline=self.deadline)


def fill(
    charge: DefectEntry,
    *,
    jobs: int,
    deadline: Deadline,
    tell: Callable[[int, int], None] = lambda done, asked: None,
    executors: Executors | None = None,
) -> Matrix:
    """Fills the matrix, on `executors` if there are any, else in `jobs` processes; `tell` is called after each trial.

    Raises HarnessError if the harness overlooks a canary.
    """
    SimulatedLevel().refuse_blindness(None)
    suspects = [find_suspect(name) for name in charge.names]
    tasks = [
        _SuspectTask(charge=charge, deadline=deadline),
        *(_SuspectTask(charge=charge, deadline=deadline, suspect=name) for name in charge.names),
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
        rows=tuple(
            MatrixRow(suspect=suspect, trial=trial) for suspect, trial in zip(suspects, trials, strict=True)
        ),
    )


def _tried(tasks: Sequence[_SuspectTask]) -> _Finding:
    (task,) = tasks
    refuse_blindness_here()
    return task()


_COLUMNS = (*INVARIANTS, *HARNESS_CHECKS)


def summary(matrix: Matrix) -> str:
    """Counts of convictions, then one line per survivor, untried suspect and convicted run of the reference."""
    killed, numbers = matrix.numbers
    convicted = sum(row.trial.is_convicted for row in matrix.rows)
    reference = matrix.reference
    never = "the scenarios in which it shows never occurred"
    told = [
        f"{killed} of {numbers} convicted by who is meant for them ({convicted} of {len(matrix.rows)} variants)",
        f"the reference: {len(reference.convicted)} of {reference.runs} runs convicted",
        *(f"survivor: {row.suspect.name}, in {row.trial.runs} runs" for row in matrix.survivors),
        *(
            f"not tried: {row.suspect.name}, {never if row.trial.in_time else 'the budget was over'}"
            for row in matrix.untried
        ),
        *(f"the reference, seed {seed}: {', '.join(by)}" for seed, by in reference.convicted.items()),
    ]
    return "\n".join(told)


def as_text(matrix: Matrix) -> str:
    """One line per suspect: each convicting invariant and its first run; named ones first, with a star."""
    width = max((len(row.suspect.name) for row in matrix.rows), default=0)
    lines = [
        f"{row.suspect.label:<4} {row.suspect.name:<{width}}  {', '.join(_words(row)) or 'nobody'}"
        for row in matrix.rows
    ]
    return "\n".join([*lines, "", summary(matrix)])


def _words(row: MatrixRow) -> Iterator[str]:
    trial = row.trial
    for name in trial.named:
        yield f"{name}* {trial.convicted[name]}" if name in trial.convicted else f"{name}* -"
    for name in _COLUMNS:
        if name in trial.convicted and name not in trial.named:
            yield f"{name} {trial.convicted[name]}"


def as_markdown(matrix: Matrix) -> str:
    """Table of mutants by invariants; a cell has the run of the first conviction, bold if named."""
    reference = matrix.reference
    by = {name for names in reference.convicted.values() for name in names}
    heads = ["", "mutant", "runs", *_COLUMNS]
    lines = [
        heads,
        ["---", "---", *["---:"] * (len(heads) - 2)],
        ["", "the reference", str(reference.runs), *("!" if name in by else "" for name in _COLUMNS)],
        *(
            [row.suspect.label, f"`{row.suspect.name}`", str(row.trial.runs), *_cells(row)]
            for row in matrix.rows
        ),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(row: MatrixRow) -> Iterator[str]:
    trial = row.trial
    for name in _COLUMNS:
        told = str(trial.convicted.get(name, "-" if name in trial.named else ""))
        yield f"**{told}**" if name in trial.named else told


def as_json(matrix: Matrix) -> str:
    """All results of the matrix, as JSON."""
    killed, numbers = matrix.numbers
    told: dict[str, Any] = {
        "seed": matrix.charge.seed,
        "runs": matrix.charge.runs,
        "convicted": killed,
        "numbers": numbers,
        "reference": {
            "runs": matrix.reference.runs,
            "convicted": {str(seed): list(by) for seed, by in matrix.reference.convicted.items()},
        },
        "mutants": [
            {
                "number": row.suspect.label,
                "mutant": row.suspect.name,
                "about": row.suspect.about,
                "convicted_by": list(row.trial.named),
                "convicted": row.trial.is_convicted,
                "runs": row.trial.runs,
                "in_time": row.trial.in_time,
                "first": {
                    name: row.trial.convicted[name] for name in _COLUMNS if name in row.trial.convicted
                },
            }
            for row in matrix.rows
        ],
    }
    return json.dumps(told, ensure_ascii=False, indent=2)
