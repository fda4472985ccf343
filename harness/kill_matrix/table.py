"""The matrix for its readers: on a terminal, as Markdown, as JSON.

Answers to the score table of a mutation test. Invariant: every suspect has its line, convicted or not; what was
expected and did not happen is shown as such, and not as an empty cell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from harness.defects import HARNESS_CHECKS
from harness.invariants import INVARIANTS
from harness.kill_matrix.equivalents import Sameness
from harness.kill_matrix.matrix import Matrix, Row

__all__ = ["as_json", "as_markdown", "as_text", "summary"]

_COLUMNS = (*INVARIANTS, *HARNESS_CHECKS)


def summary(matrix: Matrix) -> str:
    """How many are convicted, by whom nobody should be, and who is left."""
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


def _why_untried(row: Row) -> str:
    return "the scenarios in which it shows never occurred" if row.trial.in_time else "the budget was over"


def as_text(matrix: Matrix) -> str:
    """A line a suspect: who convicted it, in which run; who is meant for it stands first, with a star."""
    width = max((len(row.name) for row in matrix.rows), default=0)
    lines = [
        f"{row.label:<4} {row.name:<{width}}  {', '.join(_words(row)) or 'nobody'}" for row in matrix.rows
    ]
    same = [
        f"equivalent: {one.name}, {one.where}: same history in {one.same} of {one.runs} runs"
        for one in matrix.equivalents
    ]
    return "\n".join([*lines, "", *same, "", summary(matrix)])


def _words(row: Row) -> Iterator[str]:
    trial = row.trial
    for name in trial.named:
        yield f"{name}* {trial.convicted[name]}" if name in trial.convicted else f"{name}* -"
    for name in _COLUMNS:
        if name in trial.convicted and name not in trial.named:
            yield f"{name} {trial.convicted[name]}"


def as_markdown(matrix: Matrix) -> str:
    """Mutant by invariant; in a cell the run of the first conviction, in bold if it is meant for that mutant."""
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


def _cells(row: Row) -> Iterator[str]:
    trial = row.trial
    for name in _COLUMNS:
        told = str(trial.convicted.get(name, "-" if name in trial.named else ""))
        yield f"**{told}**" if name in trial.named else told


def as_json(matrix: Matrix) -> str:
    """Everything, for a machine."""
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


def _object(row: Row) -> dict[str, Any]:
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
