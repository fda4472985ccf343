"""Measures `floodmark explore`: what it finds within a budget of runs, against undirected draws and Hypothesis.

Answers to the tables of Magma and FuzzBench. `python -m tools.bench.exploration --write docs/reference/exploration.md`.
Invariants: the three search with the same number of runs, the same system and the same checkers; a defect that was not
tried before the time was over is counted as not tried, never as found or missed.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from harness.engine.executors import PlainExecutors
from harness.explore.drawing import draw_scenario
from harness.explore.exploration import Explored, Exploring, Plan, explore
from harness.explore.find import load_find
from harness.explore.finds import grouped
from harness.explore.trial import Candidate, Subject, Way, try_all
from harness.scenario.file import load_many
from harness.scenario.model import Scenario
from harness.system.choices import Choices
from harness.system.clock import Deadline, monotonic_us
from tools.bench.exploration_machine import Machine, run_machine
from tools.bench.table import replaced
from tools.defects import IN_RUNS, mutant_named

__all__ = ["Left", "Measured", "summary"]

_ALL: Final[tuple[Way, ...]] = ("drawn", "changed", "shortened")
_FORTY: Final = range(36, 45)
"""Records of the scenarios whose rate is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What shrinking left of a find."""

    shows: str
    faults: int
    records: int
    lines: int
    seconds: float
    is_shown_again: bool
    """Whether the file, read back, shows the same invariant and class."""

    def cells(self) -> list[str]:
        """Of the table."""
        size = f"{self.faults} / {self.records} / {self.lines}"
        return [self.shows, size, f"{self.seconds:.1f}", "yes" if self.is_shown_again else "NO"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One defect under the three searches."""

    name: str
    explored: int | None
    """The run that showed it; None: none did."""
    drawn: int | None
    machine: int | None
    left: Left | None = None
    machine_size: tuple[int, int] | None = None
    machine_s: float = 0.0

    def row(self) -> str:
        """A line of the table."""
        left = self.left
        by_machine = f"{self.machine_size[0]} / {self.machine_size[1]}" if self.machine_size else ""
        cells = [
            f"`{self.name}`",
            _or_missed(self.explored),
            _or_missed(self.drawn),
            _or_missed(self.machine),
            *(left.cells() if left else [""] * 4),
            by_machine,
            f"{self.machine_s:.1f}" if self.machine_size else "",
        ]
        return f"| {' | '.join(cells)} |"


_COLUMNS: Final = (
    "defect", "explore: run", "draws: run", "Hypothesis: run", "shows", "faults / records / lines left", "shrunk in s",
    "file shows it", "Hypothesis: faults / records left", "shrunk in s",
)  # fmt: skip
_HEAD: Final = (f"| {' | '.join(_COLUMNS)} |", f"|{'---|' * len(_COLUMNS)}")
_SHARE: Final = 95
_FAULTS: Final = 1
_RECORDS: Final = 6
_SHRUNK_S: Final = 30
_RATIO: Final = 1.5
_RATE: Final = 1000
"""The goals."""


def _or_missed(run: int | None) -> str:
    return "-" if run is None else str(run)


def measure(
    name: str, *, runs: int, seed: int, shelf: tuple[Scenario, ...], shrink_s: float, with_machine: bool
) -> Measured:
    """The three searches for one defect."""
    subject = Subject(mutant=mutant_named(name))
    explored = _search(subject, runs=runs, seed=seed, ways=_ALL, shelf=shelf)
    drawn = _search(subject, runs=runs, seed=seed, ways=("drawn",), shelf=())
    machine = run_machine(subject, runs=runs, budget_s=shrink_s) if with_machine else Machine()
    return Measured(
        name=name,
        explored=_found_at(explored),
        drawn=_found_at(drawn),
        machine=machine.found_at,
        machine_size=machine.sighting,
        machine_s=machine.shrunk_s,
        left=_shrunk(explored, subject, shrink_s=shrink_s),
    )


def _search(
    subject: Subject, *, runs: int, seed: int, ways: tuple[Way, ...], shelf: tuple[Scenario, ...]
) -> Explored:
    plan = Plan(subject=subject, seed=seed, runs=runs, ways=ways, shelf=shelf)
    return explore(plan, Exploring(executors=PlainExecutors()))


def _found_at(explored: Explored) -> int | None:
    found = explored.to_shrink(keep_going=False)
    return found[0].run if found else None


def _shrunk(explored: Explored, subject: Subject, *, shrink_s: float) -> Left | None:
    """What is left of the find, how long it took, and whether its file shows it."""
    found = explored.to_shrink(keep_going=False)
    if not found:
        return None
    began_us, deadline = monotonic_us(), Deadline(shrink_s)
    with TemporaryDirectory() as folder:
        (group,) = grouped(
            found, subject=subject, only=frozenset(), folder=Path(folder), goes_on=lambda: not deadline.passed
        )
        took_s = (monotonic_us() - began_us) / 1e6
        lines = len(group.file.read_text("utf-8").splitlines())
        saved = load_find(group.file)
    (trial,) = try_all(subject, [Candidate(way="given", seed=saved.seed, parent=saved.scenario)])
    workload = saved.scenario.workload
    return Left(
        shows=f"{group.invariant} {group.kind}",
        faults=len(saved.scenario.faults),
        records=workload.records * workload.subtasks,
        lines=lines,
        seconds=took_s,
        is_shown_again=(group.invariant, group.kind) in trial.violations,
    )


# --------------------------------------------------------------------------------------- features and rate


def features_rows(*, runs: int, seed: int, shelf: tuple[Scenario, ...]) -> Iterator[str]:
    """Features that exploration and undirected draws reach, with equal runs."""
    began_us = monotonic_us()
    explored = _search(Subject(), runs=runs, seed=seed, ways=_ALL, shelf=shelf)
    between_us = monotonic_us()
    drawn = _search(Subject(), runs=runs, seed=seed, ways=("drawn",), shelf=())
    ended_us = monotonic_us()
    one, other = len(explored.features), len(drawn.features)
    yield _line(
        f"features reached in {runs} runs, explore against undirected draws",
        f"{one} against {other}: {one / other:.2f} x",
        f"{_RATIO} x",
        one / other >= _RATIO,
    )
    seconds = f"{(between_us - began_us) / 1e6:.0f} s against {(ended_us - between_us) / 1e6:.0f} s"
    yield _line("time of these runs, in one process", seconds)


def rate_row(*, runs: int) -> str:
    """Runs a second of a core, of drawn scenarios of about 40 records, with judging."""
    candidates: list[Candidate] = []
    for seed in range(runs * 1000):
        scenario = draw_scenario(seed)
        if scenario.workload.records * scenario.workload.subtasks in _FORTY:
            candidates.append(Candidate(way="given", seed=seed, parent=scenario))
        if len(candidates) == runs:
            break
    try_all(Subject(), candidates[:1])  # the canaries
    began, began_us = os.times(), monotonic_us()
    try_all(Subject(), candidates)
    ended, wall_s = os.times(), (monotonic_us() - began_us) / 1e6
    rate = runs / (ended.user + ended.system - began.user - began.system)
    load = os.getloadavg()[0]
    return _line(
        f"runs a second of a core, of {_FORTY[0]} to {_FORTY[-1]} records, judged, with features",
        f"{rate:.0f} ({runs / wall_s:.0f} by the clock, at a load of {load:.1f})",
        str(_RATE),
        rate >= _RATE,
    )


def _line(name: str, value: str, goal: str = "", is_met: bool | None = None) -> str:  # noqa: FBT001 - a cell
    met = "" if is_met is None else "yes" if is_met else "no"
    return f"| {name} | {value} | {goal} | {met} |"


def summary(rows: Sequence[Measured], *, asked: int, runs: int, shrink_s: float) -> Iterator[str]:
    """The first table: what was found, and how large it is."""
    yield "| measure | value | goal | met |"
    yield "|---|---|---|---|"
    tried, found = len(rows), sum(row.explored is not None for row in rows)
    share = 100 * found / tried if tried else 0
    value = f"{found} of {tried} ({share:.0f} %)"
    yield _line("defects of our own that a run at sim can show; tried here", f"{asked}; {tried}")
    yield _line(f"found by explore within {runs} runs", value, f"{_SHARE} %", share >= _SHARE)
    drawn = sum(row.drawn is not None for row in rows)
    machine = sum(row.machine is not None for row in rows)
    yield _line(f"found by undirected draws within {runs} runs", f"{drawn} of {tried}")
    yield _line(f"found by a state machine of Hypothesis within {runs} examples", f"{machine} of {tried}")
    yield _line("the longest time that a shrinking had, by the clock", f"{shrink_s:.0f} s")
    yield from _sizes([row.left for row in rows if row.left is not None])
    sized = [row for row in rows if row.machine_size]
    if sized:
        faults = median(row.machine_size[0] for row in sized if row.machine_size)
        records = median(row.machine_size[1] for row in sized if row.machine_size)
        seconds = median(row.machine_s for row in sized)
        left = f"{faults:g} faults, {records:g} records, in {seconds:.1f} s"
        yield _line("what Hypothesis's own shrinker leaves, median", left)


def _sizes(left: Sequence[Left]) -> Iterator[str]:
    if not left:
        return
    faults, records = median(one.faults for one in left), median(one.records for one in left)
    seconds, again = median(one.seconds for one in left), sum(one.is_shown_again for one in left)
    yield _line("faults left in the shrunk file, median", f"{faults:g}", f"{_FAULTS}", faults <= _FAULTS)
    yield _line("records left in the shrunk file, median", f"{records:g}", f"{_RECORDS}", records <= _RECORDS)
    yield _line("time of shrinking, median", f"{seconds:.1f} s", f"{_SHRUNK_S} s", seconds <= _SHRUNK_S)
    yield _line(
        "files that show the same when read back", f"{again} of {len(left)}", "all", again == len(left)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is not in the file of rows yet, print, and write the page."""
    parser = ArgumentParser(prog="python -m tools.bench.exploration", description=__doc__)
    parser.add_argument("--runs", type=int, default=600, help="the budget of each search")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no further defect after this time")
    parser.add_argument("--shrink-seconds", type=float, default=60.0, help="of each shrinking")
    parser.add_argument(
        "--features", type=int, default=0, help="runs for the comparison of features, and the rate"
    )
    parser.add_argument("--no-machine", action="store_true", help="without Hypothesis")
    parser.add_argument(
        "--rows", type=Path, metavar="FILE", help="keep what is measured there, and go on from it"
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables into this page")
    parser.add_argument("names", nargs="*", help="defects; none: all that a run at sim can show")
    given = parser.parse_args(arguments)
    reachable = [name for name, defect in IN_RUNS.items() if "sim" in defect.levels and defect.shows_in_a_run]
    rows, notes = _read(given.rows)
    shelf = tuple(scenario for scenario in load_many(["all"]) if "sim" in scenario.levels)
    deadline = Deadline(given.minutes * 60)
    for name in _shuffled(given.names or reachable, given.seed):
        if name in rows or deadline.passed:
            continue
        rows[name] = measure(
            name,
            runs=given.runs,
            seed=given.seed,
            shelf=shelf,
            shrink_s=given.shrink_seconds,
            with_machine=not given.no_machine,
        )
        sys.stderr.write(rows[name].row() + "\n")
        _append(given.rows, asdict(rows[name]))
    if given.features:
        notes += [*features_rows(runs=given.features, seed=given.seed, shelf=shelf), rate_row(runs=100)]
        _append(given.rows, {"notes": notes})
    told = [rows[name] for name in reachable if name in rows]
    text = "\n".join(
        [
            *summary(told, asked=len(reachable), runs=given.runs, shrink_s=given.shrink_seconds),
            *notes,
            "",
            *_HEAD,
            *(one.row() for one in told),
        ]
    )
    sys.stdout.write(text + "\n")
    if given.write is not None:
        given.write.write_text(replaced(given.write.read_text("utf-8"), "exploration", text), "utf-8")
    return 0


def _append(file: Path | None, value: dict[str, object]) -> None:
    if file is not None:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(value) + "\n")


def _read(file: Path | None) -> tuple[dict[str, Measured], list[str]]:
    """What was measured before, by defect, and the lines of the first table besides."""
    rows: dict[str, Measured] = {}
    notes: list[str] = []
    for line in file.read_text("utf-8").splitlines() if file is not None and file.exists() else ():
        value = json.loads(line)
        if "notes" in value:
            notes = value["notes"]
            continue
        left, size = value.pop("left"), value.pop("machine_size")
        rows[value["name"]] = Measured(
            **value, left=Left(**left) if left else None, machine_size=tuple(size) if size else None
        )
    return rows, notes


def _shuffled(names: Sequence[str], seed: int) -> list[str]:
    """In a drawn order, so that a measurement that is cut short is of no chosen part."""
    left, choices, drawn = list(names), Choices(seed, "order of the defects"), []
    while left:
        drawn.append(left.pop(choices.index(len(left))))
    return drawn


if __name__ == "__main__":
    sys.exit(main())
