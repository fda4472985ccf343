"""Formats the kill matrix: for a terminal, as Markdown, as JSON, and as the page `docs/reference/mutants.md`.

Answers to the score table of a mutation test and to Maelstrom's generated tables. Invariant: every suspect
has a row, convicted or not, and a named invariant that did not convict shows as `-`, not as an empty cell.
`floodmark mutants --write docs/reference/mutants.md` regenerates the page; the part above the matrix depends
only on the code, so a test compares it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from harness.history.verdict import INVARIANTS
from harness.kill_matrix.equivalents import Sameness
from harness.kill_matrix.matrix import OURS, Matrix, MatrixRow, Suspect, find_suspect
from harness.sut.defects import DEFECTS, HARNESS_CHECKS, PropertyDefect

__all__ = ["as_json", "as_markdown", "as_text", "opening", "page_text", "summary"]

_COLUMNS = (*INVARIANTS, *HARNESS_CHECKS)


def summary(matrix: Matrix) -> str:
    """Counts of convictions, then one line per survivor, untried suspect and wrong conviction."""
    killed, numbers = matrix.numbers
    convicted = sum(row.trial.is_convicted for row in matrix.rows)
    reference = matrix.reference
    told = [
        f"{killed} of {numbers} convicted by who is meant for them ({convicted} of {len(matrix.rows)} variants)",
        f"the reference: {len(reference.convicted)} of {reference.runs} runs convicted",
        *(f"survivor: {row.name}, in {row.trial.runs} runs" for row in matrix.survivors),
        *(f"not tried: {row.name}, {_why_untried(row)}" for row in matrix.untried),
        *(
            f"no equivalent after all: {one.name}, {one.where}: seed {one.convicted[0]}"
            for one in matrix.equivalents
            if one.convicted
        ),
        *(f"the reference, seed {seed}: {', '.join(by)}" for seed, by in reference.convicted.items()),
    ]
    return "\n".join(told)


def _why_untried(row: MatrixRow) -> str:
    return "the scenarios in which it shows never occurred" if row.trial.in_time else "the budget was over"


def as_text(matrix: Matrix) -> str:
    """One line per suspect: each convicting invariant and its first run; named ones first, with a star."""
    width = max((len(row.name) for row in matrix.rows), default=0)
    lines = [
        f"{row.label:<4} {row.name:<{width}}  {', '.join(_words(row)) or 'nobody'}" for row in matrix.rows
    ]
    same = [
        f"equivalent: {one.name}, {one.where}: same history in {one.same} of {one.runs} runs"
        for one in matrix.equivalents
    ]
    return "\n".join([*lines, "", *same, "", summary(matrix)])


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
        *([row.label, f"`{row.name}`", str(row.trial.runs), *_cells(row)] for row in matrix.rows),
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
        "mutants": [_object(row) for row in matrix.rows],
        "equivalents": [_sameness(one) for one in matrix.equivalents],
    }
    return json.dumps(told, ensure_ascii=False, indent=2)


def _object(row: MatrixRow) -> dict[str, Any]:
    trial = row.trial
    return {
        "number": row.label,
        "mutant": row.name,
        "about": row.about,
        "convicted_by": list(trial.named),
        "convicted": trial.is_convicted,
        "runs": trial.runs,
        "in_time": trial.in_time,
        "first": {name: trial.convicted[name] for name in _COLUMNS if name in trial.convicted},
    }


def _sameness(one: Sameness) -> dict[str, Any]:
    convicted: Sequence[int] = one.convicted
    return {
        "mutant": one.name,
        "where": one.where,
        "because": one.because,
        "runs": one.runs,
        "same": one.same,
        "convicted": list(convicted),
    }


_OPENING = """\
# Mutants

Made by `floodmark mutants --write docs/reference/mutants.md`; do not edit.

A checker that never convicts proves nothing by its silence. So there are planted defects: each is the reference, its
sink, its client, its task or the harness itself with one thing wrong, and names the invariants that must convict it.
`floodmark mutants` tries each in random scenarios at level sim, until it is convicted by all of those, and the
honest reference in as many; `floodmark run SCENARIO --mutant NAME` shows one. Your own: `floodmark mutants --mutant
MODULE:ATTR`, a `harness.sut.variant.Variant` or a `build_operator` like the reference's.

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
in `harness/sut/defects/tests` acquits the reference's part and convicts the wrong one. The last column names the
[statements](statements.md) that the wrong part breaks.

| defect | what is wrong | after | in the place of | breaks |
|---|---|---|---|---|
{property_rows}
"""


def opening() -> str:
    """The part of the page above the matrix."""
    checks = "\n".join(f"- `{name}`: {about}" for name, about in HARNESS_CHECKS.items())
    rows = "\n".join(_line(find_suspect(name)) for name in OURS)
    properties = (defect for defect in DEFECTS.values() if isinstance(defect, PropertyDefect))
    return _OPENING.format(checks=checks, rows=rows, property_rows="\n".join(map(_property_line, properties)))


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


def _property_line(defect: PropertyDefect) -> str:
    cells = [
        f"`{defect.name}`",
        defect.about,
        defect.mirrors,
        f"`{defect.replaces}`",
        ", ".join(defect.statements),
    ]
    return f"| {' | '.join(cells)} |"


def page_text(matrix: Matrix) -> str:
    """The whole page, as Markdown."""
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
