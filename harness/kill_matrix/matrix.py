"""The kill matrix as a value, and how it is filled: one task for each suspect, in as many processes as asked for.

Answers to a mutation score, with the survivors named. Invariant: the matrix depends on what was asked for alone,
however many processes filled it, unless a budget cut it short, which it says.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.checkers.judge import judge
from harness.clock import Deadline
from harness.defects.canaries import overlooked
from harness.errors import Exit, HarnessError
from harness.kill_matrix.equivalents import EQUIVALENTS, Sameness, compare
from harness.kill_matrix.suspect import Suspect, find_suspect
from harness.kill_matrix.trial import Acquittal, Trial, hear_the_reference, try_suspect

__all__ = ["Charge", "Matrix", "Row", "fill"]

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
    trial: Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All trials."""

    charge: Charge
    reference: Acquittal
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


_Finding = Acquittal | Trial | Sameness


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
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
        _Task(charge=charge, deadline=deadline),
        *(_Task(charge=charge, deadline=deadline, suspect=name) for name in charge.names),
        *(_Task(charge=charge, deadline=deadline, equivalent=number) for number in equivalents),
    ]
    findings: list[_Finding] = []
    for finding in _found(tasks, jobs):
        findings.append(finding)
        say(f"{len(findings)} of {len(tasks)}")
    trials = [finding for finding in findings if isinstance(finding, Trial)]
    (reference,) = [finding for finding in findings if isinstance(finding, Acquittal)]
    return Matrix(
        charge=charge,
        reference=reference,
        rows=tuple(_row(suspect, trial) for suspect, trial in zip(suspects, trials, strict=True)),
        equivalents=tuple(finding for finding in findings if isinstance(finding, Sameness)),
    )


def _found(tasks: Sequence[_Task], jobs: int) -> Iterator[_Finding]:
    """In the order of the tasks."""
    if jobs == 1:
        yield from (task() for task in tasks)
        return
    deaf = (signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for us, who end them
    with multiprocessing.get_context("fork").Pool(jobs, signal.signal, deaf) as pool:
        yield from pool.imap(_call, tasks)


def _call(task: _Task) -> _Finding:
    return task()


def _row(suspect: Suspect, trial: Trial) -> Row:
    return Row(
        label=suspect.label,
        name=suspect.name,
        about=suspect.about,
        mirrors=suspect.mirrors,
        where=suspect.where,
        trial=trial,
    )
