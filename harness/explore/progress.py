"""What an exploration tells: one line while it goes on, and text or JSON at its end.

Invariant: every number is one of `Explored`; a violation is told with the file that shows it again and its command.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.explore.exploration import Explored, Plan
from harness.explore.finds import Group
from harness.scenario.file import dump

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
