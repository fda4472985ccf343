"""The page of the mutants, `docs/mutants.md`: what each is, who is meant for it, and the matrix of a run.

Answers to Maelstrom's generated tables. `floodmark mutants --write docs/mutants.md` makes it anew. Invariant: what
stands above the matrix is a function of the code alone, so a test can compare it.
"""

from __future__ import annotations

from harness.defects import HARNESS_CHECKS
from harness.kill_matrix.equivalents import Sameness
from harness.kill_matrix.matrix import Matrix
from harness.kill_matrix.suspect import OURS, Suspect, find_suspect
from harness.kill_matrix.table import as_markdown, summary

__all__ = ["opening", "page_text"]

_OPENING = """\
# Mutants

Made by `floodmark mutants --write docs/mutants.md`; do not edit.

A checker that never convicts proves nothing by its silence. So there are planted defects: each is the reference, its
sink, its client, its task or the harness itself with one thing wrong, and names the invariants that must convict it.
`floodmark mutants` tries each in random scenarios at level sim, until it is convicted by all of those, and the
honest reference in as many; `floodmark run SCENARIO --mutant NAME` shows one. Your own: `floodmark mutants --mutant
MODULE:ATTR`, a `harness.sut.variant.Variant` or a `build_operator` like the reference's.

A defect of a task with keyed state shows in no drawn scenario, but in the one that is named, which is run instead. M28
of the catalogue needs an operator that keeps the order of keys; there is none here. Two checks are none of an
invariant's, for they judge the harness:

{checks}

Where a catalogue of such mutants names one invariant more, `docs/history.md` leaves that nothing to see: V11 compares
a `restore` with its snapshot, so it is for `state-read-backwards` and not for `restores-reversed`; an `append` sink
has no epochs (M5, V12); a watermark behind a lost completion was never ready (M6, V6); one that comes too early is
V5's (M8, V2); what a failed attempt emits stands in no chain (M24, V8); a dead letter is no effect (M29, V9).

## What each is

| | mutant | what is wrong | after | meant for it | where it can show |
|---|---|---|---|---|---|
{rows}
"""


def opening() -> str:
    """The page above its matrix."""
    checks = "\n".join(f"- `{name}`: {about}" for name, about in HARNESS_CHECKS.items())
    return _OPENING.format(checks=checks, rows="\n".join(_line(find_suspect(name)) for name in OURS))


def _line(suspect: Suspect) -> str:
    cells = [
        suspect.label,
        f"`{suspect.name}`",
        suspect.about,
        suspect.mirrors,
        ", ".join(suspect.named),
        suspect.where,
    ]
    return f"| {' | '.join(cells)} |"


def page_text(matrix: Matrix) -> str:
    """The whole page."""
    charge = matrix.charge
    equivalents = "\n".join(_equivalent(one) for one in matrix.equivalents)
    return f"""{opening()}
## The matrix

Random scenarios from seed {charge.seed} on, at most {charge.runs} runs of each mutant. In a cell: in which run that
invariant convicted for the first time; bold: it is meant for that mutant. A trial ends when all that are meant for it
have convicted, but not before its tenth run.

{as_markdown(matrix)}

{_as_list(summary(matrix))}

## Equivalents

What cannot be convicted is named with the argument, tried beside the reference, and not scored.

| variant | where | why nobody can tell | same bytes | convicted |
|---|---|---|---:|---:|
{equivalents}
"""


def _equivalent(one: Sameness) -> str:
    told = [f"`{one.name}`", one.where, one.because, f"{one.same} of {one.runs}", str(len(one.convicted))]
    return f"| {' | '.join(told)} |"


def _as_list(text: str) -> str:
    return "\n".join(f"- {line}" for line in text.splitlines())
