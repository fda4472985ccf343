"""Formats the kill matrix: for a terminal, as Markdown and as JSON.

Answers to the score table of a mutation test. Invariant: every suspect has a row, convicted or not, and a named
invariant that did not convict shows as `-`, not as an empty cell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.explore.kill_matrix import Matrix, MatrixRow
from harness.history.verdict import INVARIANTS
from harness.sut.defects import HARNESS_CHECKS

_COLUMNS = (*INVARIANTS, *HARNESS_CHECKS)


def summary(matrix: Matrix) -> str:
    """Counts of convictions, then one line per survivor, untried suspect and convicted run of the reference."""
    killed, numbers = matrix.numbers
    convicted = sum(row.trial.is_convicted for row in matrix.rows)
    reference = matrix.reference
    never = "the scenarios in which it shows never occurred"
    told = [
        f"{killed} of {numbers} convicted by who is meant for them ({convicted} of {len(matrix.rows)} variants)",
        f"the reference: {len(reference.convicted)} of {reference.runs} runs convicted",
        *(f"survivor: {row.suspect.name}, in {row.trial.runs} runs" for row in matrix.survivors),
        *(
            f"not tried: {row.suspect.name}, {never if row.trial.in_time else 'the budget was over'}"
            for row in matrix.untried
        ),
        *(f"the reference, seed {seed}: {', '.join(by)}" for seed, by in reference.convicted.items()),
    ]
    return "\n".join(told)


def as_text(matrix: Matrix) -> str:
    """One line per suspect: each convicting invariant and its first run; named ones first, with a star."""
    width = max((len(row.suspect.name) for row in matrix.rows), default=0)
    lines = [
        f"{row.suspect.label:<4} {row.suspect.name:<{width}}  {', '.join(_words(row)) or 'nobody'}"
        for row in matrix.rows
    ]
    return "\n".join([*lines, "", summary(matrix)])


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
        *(
            [row.suspect.label, f"`{row.suspect.name}`", str(row.trial.runs), *_cells(row)]
            for row in matrix.rows
        ),
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
        "mutants": [
            {
                "number": row.suspect.label,
                "mutant": row.suspect.name,
                "about": row.suspect.about,
                "convicted_by": list(row.trial.named),
                "convicted": row.trial.is_convicted,
                "runs": row.trial.runs,
                "in_time": row.trial.in_time,
                "first": {
                    name: row.trial.convicted[name] for name in _COLUMNS if name in row.trial.convicted
                },
            }
            for row in matrix.rows
        ],
    }
    return json.dumps(told, ensure_ascii=False, indent=2)
