"""Formats the performance table and inserts it into `docs/reference/performance.md`.

Answers to Maelstrom's generated tables. Invariant: only the text between a part's two marks is replaced.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from harness.system.errors import UsageError
from tools.bench.row import NotMeasured, Row

_HEAD = (
    "| measure | median | lowest - highest | goal | met | rounds | detail |",
    "|---|---|---|---|---|---|---|",
)
_SMALL = 100
"""Values below this are printed with two decimals."""


def as_markdown(rows: Sequence[Row | NotMeasured]) -> str:
    """A table row for each measurement, in the order of measurement."""
    return "\n".join([*_HEAD, *(_line(row) for row in rows)])


def as_json(rows: Sequence[Row | NotMeasured]) -> str:
    """A JSON list of objects; a row that was not measured has a `reason` and no `value`."""
    return json.dumps([_object(row) for row in rows])


def replaced(page: str, part: str, text: str) -> str:
    """`page` with `text` between the marks of `part`. Raises UsageError if the marks are missing."""
    begin, end = f"<!-- bench {part} -->", f"<!-- end of bench {part} -->"
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise UsageError(f"the page has no part for `{part}`", fix=f"put the lines {begin} and {end} into it")
    return f"{before}{begin}\n{text}\n{end}{after}"


def _object(row: Row | NotMeasured) -> dict[str, object]:
    met = {"met": row.met, "within_limit": row.within_limit} if isinstance(row, Row) else {}
    return {**asdict(row), **met}


def _line(row: Row | NotMeasured) -> str:
    if isinstance(row, NotMeasured):
        return f"| {row.name} | not measured | | | | | {row.reason} |"
    spread = "" if row.spread is None else " - ".join(map(_number, row.spread))
    cells = [
        row.name,
        f"{_number(row.value)} {row.unit}",
        spread,
        _goal(row),
        _met(row),
        row.rounds,
        row.detail,
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def _goal(row: Row) -> str:
    sign = ">=" if row.larger_is_better else "<="
    limit = "" if row.limit is None else f" (required {_number(row.limit)})"
    return f"{sign} {_number(row.goal)} {row.unit}{limit}"


def _met(row: Row) -> str:
    if row.met:
        return "yes"
    return "NO" if row.limit is None or not row.within_limit else "no, but what is required"


def _number(value: float) -> str:
    return f"{value:.2f}" if value < _SMALL else f"{value:,.0f}"
