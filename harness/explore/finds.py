"""What an exploration found: each violation is shrunk, written, grouped with its kind, and reported.

Answers to the buckets of a crash triage. Invariants: a find is written before it is shrunk, so that nothing is lost if
shrinking is interrupted; two finds are of one group if invariant, class and shrunk shape are equal.

Of what is reported, every number is one of `Explored`, and a violation is told with the file that shows it again and
its command.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from harness.explore.exploration import Explored, FoundViolation, Plan
from harness.explore.find import Find
from harness.explore.shrink import open_runs, shrink, size_of
from harness.explore.shrinking import NotShown, ShrinkStep
from harness.explore.trial import Subject, Violation
from harness.scenario.file import dump
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
        scenario=subject.order(sighting.entry.scenario, sighting.entry.seed).scenario,
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
        with open_runs(world=subject.world) as run:
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


_NOT_REPEATED: Final = (
    "the same run did not show it a second time, so the file may not either and was not made smaller: the system under "
    "test is not deterministic"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationEnd:
    """What was explored, where, and how it ended."""

    explored: Explored
    groups: Sequence[Group]
    plan: Plan
    seconds: float
    jobs: int
    on: str | None
    """The master of the executors; None: processes of this machine."""
    corpus: Path | None
    interrupted: bool


def standing(explored: Explored, *, seconds: float) -> str:
    """Runs, runs a second, features, what was kept, and the newest find."""
    rate = explored.runs / seconds if seconds else 0
    return (
        f"{explored.runs} runs, {rate:.0f} a second, {len(explored.features)} features, {len(explored.kept)} kept"
        f"   {explored.newest}"
    )


def as_text(end: ExplorationEnd) -> str:
    """The report for a terminal."""
    explored, groups, seconds = end.explored, end.groups, end.seconds
    where = machines(end.jobs, end.on)
    rate = explored.runs / seconds if seconds else 0
    counted = ", ".join(f"{name.lower()} {count}" for name, count in sorted(explored.outcomes.items()))
    kept = len(explored.kept)
    lines = [
        f"runs     {explored.runs} in {seconds:.1f} s, {rate:.0f} a second, judging included ({where})",
        f"verdicts {counted or 'none'}",
        f"features {len(explored.features)}, reached by {kept} scenario{'s' * (kept != 1)}"
        + (f", kept in {end.corpus}" if end.corpus is not None else ""),
    ]
    lines += [f"unknown  {count} x {why}" for why, count in explored.whys.most_common(3)]
    lines += [f"refused  {count} x {why}" for why, count in explored.refused.most_common(3)]
    lines += (
        [f"broken   {len(explored.broken)} of the runs, first {explored.broken[0]}"]
        if explored.broken
        else []
    )
    for group in groups:
        rest = (
            f"; {group.not_shrunk} more runs show {group.invariant} {group.kind}" if group.not_shrunk else ""
        )
        times = f"{group.times} times, first " if group.times > 1 else ""
        lines += [
            f"found    {group.invariant} {group.kind}, {times}in run {group.first_run}: {group.shape}{rest}",
            f"file     {group.file}",
            f"again    floodmark run {group.file}",
        ]
        if not group.repeats:
            lines.append(f"note     {_NOT_REPEATED}")
        if group.unsaved:
            lines.append(
                f"note     it is not made smaller: {group.unsaved}; later: floodmark shrink {group.file}"
            )
    if explored.sightings and not groups:
        first = explored.sightings[0]  # no file could be written, so the scenario is told here
        shown = ", ".join(" ".join(violation) for violation in first.violations)
        run = f"run {first.run}, with seed {first.entry.seed}"
        lines += [
            f"found    {shown} in {run}; no file could be written, so here it is:",
            dump(first.entry.scenario).rstrip(),
        ]
    if not explored.sightings:
        lines.append(
            f"found    nothing{' before it was interrupted' if end.interrupted else ''}; seed {end.plan.seed}"
        )
    return "\n".join(lines)


def machines(jobs: int, on: str | None) -> str:
    """Where the runs are made: `2 processes`, or the master of the executors."""
    if on is not None:
        return f"on {on}"
    return "1 process" if jobs == 1 else f"{jobs} processes"


def as_json(end: ExplorationEnd) -> str:
    """The same as a document."""
    explored, groups, plan = end.explored, end.groups, end.plan
    document: dict[str, Any] = {
        "seed": plan.seed,
        "sut": plan.subject.sut,
        "mutant": plan.subject.mutant,
        "runs": explored.runs,
        "events": explored.events,
        "seconds": round(end.seconds, 3),
        "jobs": end.jobs,
        "on": end.on,
        "outcomes": {name.lower(): count for name, count in sorted(explored.outcomes.items())},
        "features": len(explored.features),
        "kept": len(explored.kept),
        "corpus": None if end.corpus is None else str(end.corpus),
        "interrupted": end.interrupted,
        "refused": dict(explored.refused),
        "broken": explored.broken,
        "violations": [
            {
                "invariant": group.invariant,
                "kind": group.kind,
                "shape": group.shape,
                "run": group.first_run,
                "times": group.times,
                "not_shrunk": group.not_shrunk,
                "file": str(group.file),
                "repeats": group.repeats,
                "unsaved": group.unsaved,
                "faults": len(group.find.scenario.faults),
                "records": group.find.scenario.workload.records * group.find.scenario.workload.subtasks,
            }
            for group in groups
        ],
    }
    if explored.sightings and not groups:
        document["unsaved"] = [
            {
                "seed": one.entry.seed,
                "violations": one.violations,
                "scenario": one.entry.scenario.model_dump(mode="json", by_alias=True),
            }
            for one in explored.sightings
        ]
    return json.dumps(document, indent=2)
