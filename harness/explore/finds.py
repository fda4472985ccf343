"""What an exploration found: each violation is shrunk, written as a file, and grouped with those of its kind.

Answers to the buckets of a crash triage. Invariants: a find is written before it is shrunk, so that nothing is lost if
shrinking is interrupted; two finds are of one group if invariant, class and shrunk shape are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness.explore.exploration import FoundViolation
from harness.explore.find import Find
from harness.explore.shrink import NotShown, ShrinkStep, open_runs, shrink, size_of
from harness.explore.trial import Subject, Violation
from harness.system.errors import WorldError

_VALUES: Final = "V8"
"""Compares the results that are visible with those that are expected."""
_SHRUNK_MAX: Final = 3
"""Sightings of one invariant and class that are shrunk; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Violations of one invariant, class and shrunk shape."""

    invariant: str
    kind: str
    shape: str
    """The shrunk scenario in words: `kill_worker at emit; ordered, atomic sink`."""
    find: Find
    """The smallest of what its runs shrank to."""
    file: Path
    first_run: int
    """The number of the run that showed it first."""
    times: int
    """The number of shrunk runs that showed it."""
    not_shrunk: int = 0
    """Further runs with the same invariant and class."""
    repeats: bool = True
    """Whether the run that was shrunk to its file showed it again."""
    unsaved: str = ""
    """Why its smaller form could not be written; its file is then the run as it was found."""


def grouped(
    sightings: Sequence[FoundViolation],
    *,
    subject: Subject,
    only: frozenset[str],
    folder: Path,
    goes_on: Callable[[], bool],
    tell: Callable[[str], None] = lambda line: None,
) -> Iterator[Group]:
    """The groups of what was found, the first find of each invariant and class at first. Raises WorldError."""
    filed = [(sighting, _decisive(sighting, only, subject)) for sighting in sightings]
    for violation in dict.fromkeys(violation for _, violation in filed):
        mine = [sighting for sighting, under in filed if under == violation]
        shapes: dict[str, Group] = {}
        for sighting in mine[:_SHRUNK_MAX]:
            group = _shrunk(sighting, violation, subject=subject, folder=folder, goes_on=goes_on, tell=tell)
            known = shapes.get(group.shape)
            shapes[group.shape] = group if known is None else _merged(known, group)
        left = len(mine) - min(len(mine), _SHRUNK_MAX)
        for index, group in enumerate(shapes.values()):
            yield replace(group, not_shrunk=0 if index else left)


def _merged(known: Group, other: Group) -> Group:
    """One group of two with the same shape: the one that repeats, else the smaller, else the first is kept."""
    kept, left = sorted((known, other), key=lambda group: (not group.repeats, size_of(group.find.scenario)))
    if left.file != kept.file:
        left.file.unlink(missing_ok=True)
    return replace(kept, first_run=known.first_run, times=known.times + 1)


def _decisive(sighting: FoundViolation, only: frozenset[str], subject: Subject) -> Violation:
    """The violation by which a run is filed: the first, in the order of the invariants.

    Of a user's lookup a wrong or missing result, if there is one: the operator around it is the reference, so what else
    is violated follows from that.
    """
    counted = [one for one in sighting.violations if not only or one[0] in only]
    of_values = [one for one in counted if one[0] == _VALUES and subject.is_lookup]
    return (of_values or counted)[0]


def _shrunk(
    sighting: FoundViolation,
    violation: Violation,
    *,
    subject: Subject,
    folder: Path,
    goes_on: Callable[[], bool],
    tell: Callable[[str], None],
) -> Group:
    invariant, kind = violation
    find = Find(
        scenario=sighting.entry.scenario,
        seed=sighting.entry.seed,
        invariant=invariant,
        kind=kind,
        sut=subject.sut,
        mutant=subject.mutant,
        expected=subject.expected,
        import_path=subject.import_path,
    )
    file = find.save(folder)
    tell(f"found    {invariant} {kind} in run {sighting.run}: {file}")

    def on_step(step: ShrinkStep) -> None:
        tell(f"  {'smaller' if step.accepted else 'not'}: {step.what}{f' ({step.why})' if step.why else ''}")

    small, repeats = find, True
    try:
        with open_runs() as run:
            small = shrink(find, run=run, on_step=on_step, goes_on=goes_on)
    except NotShown:
        repeats = False
    unsaved = ""
    try:
        smaller_file = small.save(folder)
    except WorldError as error:
        small, smaller_file, unsaved = find, file, error.what
    if smaller_file != file:
        file.unlink(missing_ok=True)
    phases = ((fault.do, getattr(fault.when, "phase", None)) for fault in small.scenario.faults)
    faults = ", ".join(sorted(f"{do} at {phase}" if phase else do for do, phase in phases)) or "no fault"
    return Group(
        invariant=invariant,
        kind=kind,
        shape=f"{faults}; {small.scenario.operator.mode}, {small.scenario.sink} sink",
        find=small,
        file=smaller_file,
        first_run=sighting.run,
        times=1,
        repeats=repeats,
        unsaved=unsaved,
    )
