"""The whole kill matrix: every planted defect that names its invariants, the honest reference, and the equivalents.

`python -m tools.kill_matrix --write docs/reference/mutants.md` makes the page; the part of it above the matrix depends
only on the code, so a test compares it. Invariant: the exit code is 0 only if every defect is convicted by an invariant
meant for it, and the reference and every equivalent by none.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill as fill_text
from typing import Final

import click

from harness.explore.kill_matrix import DefectEntry, Matrix, as_markdown, as_text, fill, summary
from harness.sut.defects import DEFECTS as TWELVE
from harness.sut.defects import HARNESS_CHECKS, Defect
from harness.system.clock import CALENDAR_CLOCK, Deadline
from harness.system.errors import Exit
from harness.system.pool import open_processes
from tools.defects import DEFECTS, IN_RUNS, OURS, mutant_named
from tools.defects.equivalents import Sameness, compare_equivalents
from tools.defects.kinds import PropertyDefect

_COMPARED: Final = 10
"""An equivalent gets one comparison run per this many runs of a defect."""


_OPENING = """\
# Mutants

Made by `python -m tools.kill_matrix --write docs/reference/mutants.md`; do not edit.

A checker that never convicts proves nothing by its silence. So there are planted defects: each is the reference, its
sink, its client, its task or the harness itself with one thing wrong, and names the invariants that must convict it.
`python -m tools.kill_matrix` tries each in random scenarios at level sim, until it is convicted by all of those, and
the honest reference in as many.

{twelve}
`floodmark mutants` tries these, and `floodmark run SCENARIO --mutant NAME` shows one. All others are in `tools/defects`
of the source tree; from its top folder `MODULE:ATTR` reaches them: `floodmark run late-result --mutant
tools.defects:late_results`. Your own: `floodmark mutants --mutant MODULE:ATTR`, a `harness.sut.variant.Variant` or a
`build_operator` like the reference's.

A defect of a task with keyed state, or of the rows that a lookup gets, shows in few drawn scenarios, so the one that
is named is run instead.
Two checks are none of an invariant's, for they judge the harness:

{checks}

Where a catalogue of such mutants names one invariant more, `docs/reference/history.md` leaves that nothing to see:
V11 compares a `restore` with its snapshot, so it is for `state-read-backwards` and not for `restores-reversed`; an
`append` sink has no epochs (M5, V12); a watermark behind a lost completion was never ready (M6, V6); one that comes
too early is V5's (M8, V2); what a failed attempt emits stands in no chain (M24, V8); a dead letter is no effect
(M29, V9).

## What each is

| | mutant | what is wrong | after | meant for it | where it can show |
|---|---|---|---|---|---|
{rows}

## Defects that no run shows

Each of these is a wrong class in the place of one part of the reference. `--mutant` does not take them: a property test
in `tools/defects/tests` acquits the reference's part and convicts the wrong one. The last column names the
[statements](statements.md) that the wrong part breaks.

| defect | what is wrong | after | in the place of | breaks |
|---|---|---|---|---|
{property_rows}
"""


def opening() -> str:
    """The part of the page above the matrix."""
    checks = "\n".join(f"- `{name}`: {about}" for name, about in HARNESS_CHECKS.items())
    rows = "\n".join(_line(IN_RUNS[name]) for name in OURS)
    names = ", ".join(f"`{name}`" for name in TWELVE)
    properties = (defect for defect in DEFECTS.values() if isinstance(defect, PropertyDefect))
    return _OPENING.format(
        checks=checks,
        twelve=fill_text(f"Twelve are part of the product: {names}.", width=120),
        rows=rows,
        property_rows="\n".join(map(_property_line, properties)),
    )


def _line(suspect: Defect) -> str:
    cells = [
        suspect.label,
        f"`{suspect.name}`",
        suspect.about,
        suspect.mirrors,
        ", ".join(suspect.convicted_by),
        suspect.where,
    ]
    return f"| {' | '.join(cells)} |"


def _property_line(defect: PropertyDefect) -> str:
    cells = [
        f"`{defect.name}`",
        defect.about,
        defect.mirrors,
        f"`{defect.replaces}`",
        ", ".join(defect.statements),
    ]
    return f"| {' | '.join(cells)} |"


def page_text(matrix: Matrix, equivalents: Sequence[Sameness]) -> str:
    """The whole page, as Markdown."""
    charge = matrix.charge
    rows = "\n".join(_equivalent(one) for one in equivalents)
    return f"""{opening()}
## The matrix

Random scenarios from seed {charge.seed} on, at most {charge.runs} runs of each mutant. In a cell: in which run that
invariant convicted for the first time; bold: it is meant for that mutant. A trial ends when all that are meant for it
have convicted, but not before its tenth run.

{as_markdown(matrix)}

{_as_list(_summary(matrix, equivalents))}

## Equivalents

What cannot be convicted is named with the argument, tried beside the reference, and not scored.

| variant | where | why nobody can tell | same bytes | convicted |
|---|---|---|---:|---:|
{rows}
"""


def _equivalent(one: Sameness) -> str:
    told = [f"`{one.name}`", one.where, one.because, f"{one.same} of {one.runs}", str(len(one.convicted))]
    return f"| {' | '.join(told)} |"


def _as_list(text: str) -> str:
    return "\n".join(f"- {line}" for line in text.splitlines())


def _summary(matrix: Matrix, equivalents: Sequence[Sameness]) -> str:
    wrong = [one for one in equivalents if one.convicted]
    lines = [f"no equivalent after all: {one.name}, {one.where}: seed {one.convicted[0]}" for one in wrong]
    return "\n".join([summary(matrix), *lines])


@click.command()
@click.option("--runs", type=click.IntRange(min=1), default=400, show_default=True,
              help="The largest number of runs until a defect is convicted.")  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="It draws the scenarios."
)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes.")
@click.option(
    "--budget", type=float, default=3600.0, show_default=True, help="Seconds; after them no run begins."
)
@click.option(
    "--write", "page", type=click.Path(dir_okay=False, path_type=Path), help="Write the page to it."
)
def main(runs: int, seed: int, jobs: int, budget: float, page: Path | None) -> None:
    """Try every planted defect, and the reference, against every invariant, at level sim."""
    deadline = Deadline(budget, clock=CALENDAR_CLOCK)
    charge = DefectEntry(names=tuple(map(mutant_named, OURS)), seed=seed, runs=runs)
    matrix = fill(charge, jobs=jobs, deadline=deadline)
    with open_processes(jobs) as processes:
        equivalents = compare_equivalents(
            processes, first_seed=seed, runs=max(1, runs // _COMPARED), deadline=deadline
        )
    if page is not None:
        page.write_text(page_text(matrix, equivalents), encoding="utf-8")
    click.echo(as_text(matrix))
    for one in equivalents:
        found = f", convicted with seed {one.convicted[0]}" if one.convicted else ""
        click.echo(
            f"equivalent: {one.name}, {one.where}: same history in {one.same} of {one.runs} runs{found}"
        )
    sys.exit(Exit.VIOLATION if any(one.convicted for one in equivalents) else matrix.exit_code)


if __name__ == "__main__":
    main()
