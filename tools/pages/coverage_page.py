"""Generates `docs/reference/coverage.md`: how often each fault was effective at each phase, by level; what is missing.

Answers to a coverage report. `python -m tools.pages.coverage_page` writes the page from `harness/explore/reached.json`,
and a test fails while it is out of date; with `--count` the runs are made first and the file is written. Invariant:
each number is a count of runs whose history shows the fault with evidence.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from harness.explore.changing import exploring_form
from harness.explore.exploration import CorpusEntry, Explored, Exploring, Plan, explore
from harness.explore.features import (
    COUNTS,
    Feature,
    Hole,
    Source,
    features_of,
    holes,
    pairs_of,
    phases_of_faults,
    sources,
    written,
)
from harness.explore.trial import Subject
from harness.faults.registry import FAULTS
from harness.history.read import read_whole
from harness.scenario.file import load_many
from harness.system.clock import Deadline
from harness.system.errors import HarnessError
from harness.system.pool import open_processes

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "coverage.md"
_SEED: Final = 1
_OPENING: Final = """\
# Which fault was effective where

Made by `python -m tools.pages.coverage_page`; do not edit.

A number is a count of runs whose history shows the fault, with evidence, at that phase. Of a fault that an attempt does
to itself at a phase, the history names the phase; of any other, it is that of the last event of the subtask that acted
last. The catalogue at sim is each of its scenarios once; the exploration is `floodmark explore` with the reference.
`floodmark list coverage --format json` has the same numbers.
"""


def page_text(counted: Sequence[Source] | None = None) -> str:
    """The whole page."""
    counted = sources() if counted is None else counted
    return "\n".join([_OPENING, *_told_sources(counted), *_tables(counted), *_holes(tuple(counted))]) + "\n"


def _told_sources(counted: Sequence[Source]) -> Iterator[str]:
    yield "| counted | runs | first seed | kinds of faults | pairs of kind and phase |"
    yield "|---|---|---|---|---|"
    for source in counted:
        pairs = sum(map(len, source.pairs.values()))
        yield f"| {source.title} | {source.runs} | {source.seed} | {len(source.pairs)} | {pairs} |"
    yield ""


def _tables(counted: Sequence[Source]) -> Iterator[str]:
    for source in counted:
        reached = [
            phase for phase in phases_of_faults() if any(phase in pairs for pairs in source.pairs.values())
        ]
        yield f"## The {source.title}"
        yield ""
        yield f"| fault | {' | '.join(reached)} |"
        yield f"|---|{'---|' * len(reached)}"
        for kind in FAULTS:
            pairs = source.pairs.get(kind)
            if pairs:
                cells = " | ".join(str(pairs.get(phase, "")) for phase in reached)
                yield f"| `{kind}` | {cells} |"
        yield ""


def _holes(counted: tuple[Source, ...]) -> Iterator[str]:
    yield "## What no exploration reached"
    yield ""
    found = list(holes(counted))
    for hole in found:
        yield f"- {_named(hole)}: {hole.why or 'open: no reason is known, so a scenario is to come'}."
    if not found:
        yield "Nothing: each kind of fault was effective, and a crash at each phase."


def _named(hole: Hole) -> str:
    return f"`{hole.kind}` at `{hole.phase}`" if hole.phase else f"`{hole.kind}`"


# ------------------------------------------------------------------------------------------------ counting


def _catalogue(jobs: int) -> Source:
    """Each scenario of the catalogue once, at sim."""
    entries = [
        CorpusEntry(scenario=exploring_form(scenario), seed=_SEED)
        for scenario in load_many(["all"])
        if "sim" in scenario.levels
    ]
    plan = Plan(subject=Subject(), seed=_SEED, runs=len(entries), given=tuple(entries))
    with open_processes(jobs) as executors:
        return _source("catalogue", explore(plan, Exploring(executors=executors)))


def _exploration(jobs: int, *, runs: int | None, budget_s: float) -> Source:
    shelf = tuple(scenario for scenario in load_many(["all"]) if "sim" in scenario.levels)
    plan = Plan(subject=Subject(), seed=_SEED, runs=runs, shelf=shelf)
    with open_processes(jobs) as executors:
        return _source(
            "exploration", explore(plan, Exploring(executors=executors, deadline=Deadline(budget_s)))
        )


def _source(what: str, explored: Explored) -> Source:
    if explored.broken:
        raise HarnessError(explored.broken[0])
    return Source(what=what, level="sim", runs=explored.runs, seed=_SEED, pairs=pairs_of(explored.features))


def _of_reports(folder: Path, level: str) -> Source:
    """The runs of the catalogue at another level, from the reports that `floodmark run` left in `folder`."""
    reached: Counter[Feature] = Counter()
    runs = seed = 0
    for file in sorted(folder.rglob("run.json")):
        document = json.loads(file.read_text("utf-8"))
        for run in document.get("runs", [document]):
            history = file.parent / str((run.get("history") or {}).get("file", ""))
            if run.get("level") != level or not history.is_file():
                continue
            kinds = {fault["id"]: fault["do"] for fault in run["plan"]["faults"]}
            header, events = read_whole(history)
            reached.update(features_of(header, events, kinds=kinds))
            runs, seed = runs + 1, seed or int(run["seed"])
    return Source(what="catalogue", level=level, runs=runs, seed=seed, pairs=pairs_of(reached))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, with `--count` after counting."""
    parser = ArgumentParser(prog="python -m tools.pages.coverage_page", description=__doc__)
    parser.add_argument(
        "--count",
        nargs="*",
        choices=["catalogue", "exploration"],
        metavar="catalogue|exploration",
        help="make these runs at level sim (default: both), and write their counts",
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=int, default=None, help="of the exploration")
    parser.add_argument("--budget", type=float, default=600.0, help="of the exploration, in seconds")
    parser.add_argument("--reports", type=Path, metavar="FOLDER", help="count the runs of these reports, too")
    parser.add_argument("--level", default="live", help="of these reports")
    given = parser.parse_args(arguments)
    counted = {(source.what, source.level): source for source in (sources() if COUNTS.exists() else ())}
    made = []
    asked = given.count if given.count is None or given.count else ["catalogue", "exploration"]
    if "catalogue" in (asked or ()):
        made.append(_catalogue(given.jobs))
    if "exploration" in (asked or ()):
        made.append(_exploration(given.jobs, runs=given.runs, budget_s=given.budget))
    if given.reports is not None:
        made.append(_of_reports(given.reports, given.level))
    if made:
        counted |= {(source.what, source.level): source for source in made}
        COUNTS.write_text(written(counted), encoding="utf-8")
        sources.cache_clear()
    PAGE.write_text(page_text(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
