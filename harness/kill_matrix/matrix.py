"""The kill matrix: each suspect (a planted defect) is run in scenarios until the invariants meant for it fail.

Answers to a mutation score with the survivors named. A name that is no suspect is an error before anything
runs; a user's own defect is judged as ours are. The same first seed gives the same trial, however many
processes fill the matrix, unless a budget cut it short, which it says. What the honest twin of a run fails
too, or is vacuous for, does not count against the mutant; an incomplete history is not judged.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.checkers.judge import judge
from harness.clock import Deadline
from harness.defects import IN_RUNS, find_defect
from harness.defects.canaries import overlooked
from harness.errors import Exit, HarnessError, SutError, UsageError
from harness.explore.drawing import draw_scenario
from harness.kill_matrix.equivalents import EQUIVALENTS, Sameness, compare
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.runs.order import Order
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.scenario.model import Scenario
from harness.sut.registry import load_attribute
from harness.sut.variant import HONEST, Variant
from harness.verdict import Outcome

__all__ = [
    "OURS",
    "RUNS_LEAST",
    "Charge",
    "Matrix",
    "ReferenceResult",
    "Row",
    "Suspect",
    "SuspectResult",
    "fill",
    "find_suspect",
    "hear_the_reference",
    "try_suspect",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One defect, ready to be simulated."""

    name: str
    label: str
    """`M7`, or nothing."""
    about: str
    mirrors: str
    named: tuple[str, ...]
    """The invariants and checks meant for it; without any, whichever convicts it will do."""
    where: str
    """The scenarios in which it can show, in words."""
    applies: Callable[[Scenario], bool]
    variant: Variant
    scenario: str | None = None
    """Of the catalogue: it is tried there, and in no drawn scenario."""


def _ours(name: str) -> Suspect:
    defect = find_defect(name)
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


OURS = tuple(IN_RUNS)
"""The names of all planted defects that a run can show, in the order of their numbers."""


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
        variant=_variant(load_attribute(name, option="--mutant", kind="ATTR"), name),
    )


def _variant(found: Any, name: str) -> Variant:
    if isinstance(found, Variant):
        return found
    if callable(found):
        return Variant(build_operator=found)
    message = f"--mutant {name} is {type(found).__name__}, neither a Variant nor a build_operator"
    raise SutError(message, fix="see harness/sut/variant.py for what a defect may replace")


Simulate = Callable[[Variant], Simulated]
"""One run, with whatever is planted."""

RUNS_LEAST = 10
"""Of each trial, whoever has convicted by then: who else would have is worth knowing."""
_DRAWS_MAX = 200
"""Scenarios that may be drawn for each that is wanted: a condition that none meets must not take for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspectResult:
    """What came of one suspect, run in scenarios until all that is meant for it has convicted it."""

    name: str
    named: tuple[str, ...]
    runs: int
    """Simulated; without any, its scenarios never occurred."""
    convicted: dict[str, int]
    """Invariant or check -> in which run it convicted for the first time."""
    in_time: bool = True
    """False: the budget was over before it was convicted, or had been given all its runs."""

    @property
    def is_convicted(self) -> bool:
        """By whoever is meant for it; where nobody is, by anybody."""
        return any(name in self.convicted for name in self.named) if self.named else bool(self.convicted)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceResult:
    """What came of the honest reference: its runs, and those that are not acquitted, by seed."""

    runs: int
    convicted: dict[int, tuple[str, ...]]
    """Seed -> by whom."""


def try_suspect(
    suspect: Suspect, *, first_seed: int, runs: int, deadline: Deadline, least: int = RUNS_LEAST
) -> SuspectResult:
    """Up to `runs` runs, in scenarios where it can show, till everybody meant for it has convicted it."""
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
    """So many runs of the honest one; there, a vacuous run is none of its faults."""
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
    """A judge of its own is shown the canaries before anything else."""
    return {"canary": 1} if overlooked(variant.judge(judge)) else {}


def _runs(suspect: Suspect, first_seed: int, runs: int) -> Iterator[tuple[int, Simulate]]:
    """Of its scenario, or in the first `runs` drawn ones in which it can show."""
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
    """Who convicts that run; V23 by finding it vacuous."""
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
"""Scenarios drawn at most for each comparison of an equivalent."""
_COMPARED = 10
"""Of so many runs that a suspect may have, an equivalent is compared in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What is asked for."""

    names: tuple[str, ...]
    """Suspects, in the order of the table."""
    seed: int
    runs: int
    with_equivalents: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One suspect and its trial."""

    label: str
    name: str
    about: str
    mirrors: str
    where: str
    trial: SuspectResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All trials."""

    charge: Charge
    reference: ReferenceResult
    rows: tuple[Row, ...]
    equivalents: tuple[Sameness, ...]

    @property
    def survivors(self) -> tuple[Row, ...]:
        """Tried to the end, and not convicted by whoever is meant to."""
        return tuple(row for row in self.rows if self._was_tried(row) and not row.trial.is_convicted)

    @property
    def untried(self) -> tuple[Row, ...]:
        """Not convicted, for want of time or of a scenario in which they show."""
        return tuple(row for row in self.rows if not self._was_tried(row))

    def _was_tried(self, row: Row) -> bool:
        return row.trial.is_convicted or (row.trial.in_time and row.trial.runs > 0)

    @property
    def numbers(self) -> tuple[int, int]:
        """Of the numbered mutants: the numbers of which every variant is convicted, and all numbers."""
        all_of = dict.fromkeys(row.label for row in self.rows if row.label)
        missed = {row.label for row in (*self.survivors, *self.untried)}
        return len([label for label in all_of if label not in missed]), len(all_of)

    @property
    def exit_code(self) -> Exit:
        """0: every suspect is convicted, and nobody else is."""
        if self.reference.convicted or self.survivors or any(one.convicted for one in self.equivalents):
            return Exit.VIOLATION
        return Exit.UNDECIDED if self.untried else Exit.HOLD


_Finding = ReferenceResult | SuspectResult | Sameness


@dataclass(frozen=True, slots=True, kw_only=True)
class _SuspectTask:
    """What one process does at a time; found by name there, for a suspect holds functions."""

    charge: Charge
    deadline: Deadline
    suspect: str | None = None
    equivalent: int | None = None
    """Neither: the reference."""

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
    charge: Charge, *, jobs: int, budget_s: float, say: Callable[[str], None] = lambda sentence: None
) -> Matrix:
    """Try all that is charged. Raises HarnessError if the judge itself overlooks what it must convict."""
    if missed := overlooked(judge):
        message = f"the judge overlooks the canaries of {', '.join(missed)}: nothing that it says counts"
        raise HarnessError(message)
    suspects = [find_suspect(name) for name in charge.names]
    deadline = Deadline(budget_s)
    equivalents = range(len(EQUIVALENTS)) if charge.with_equivalents else ()
    tasks = [
        _SuspectTask(charge=charge, deadline=deadline),
        *(_SuspectTask(charge=charge, deadline=deadline, suspect=name) for name in charge.names),
        *(_SuspectTask(charge=charge, deadline=deadline, equivalent=number) for number in equivalents),
    ]
    findings: list[_Finding] = []
    for finding in _found(tasks, jobs):
        findings.append(finding)
        say(f"{len(findings)} of {len(tasks)}")
    trials = [finding for finding in findings if isinstance(finding, SuspectResult)]
    (reference,) = [finding for finding in findings if isinstance(finding, ReferenceResult)]
    return Matrix(
        charge=charge,
        reference=reference,
        rows=tuple(_row(suspect, trial) for suspect, trial in zip(suspects, trials, strict=True)),
        equivalents=tuple(finding for finding in findings if isinstance(finding, Sameness)),
    )


def _found(tasks: Sequence[_SuspectTask], jobs: int) -> Iterator[_Finding]:
    """In the order of the tasks."""
    if jobs == 1:
        yield from (task() for task in tasks)
        return
    deaf = (signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for us, who end them
    with multiprocessing.get_context("fork").Pool(jobs, signal.signal, deaf) as pool:
        yield from pool.imap(_call, tasks)


def _call(task: _SuspectTask) -> _Finding:
    return task()


def _row(suspect: Suspect, trial: SuspectResult) -> Row:
    return Row(
        label=suspect.label,
        name=suspect.name,
        about=suspect.about,
        mirrors=suspect.mirrors,
        where=suspect.where,
        trial=trial,
    )
