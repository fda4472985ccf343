"""Two pages of what stands side by side: implementations of the operator by their answers, and two runs that differ.

Answers to Bowtie's table. Invariant: each is made from the document of `floodmark conform` or `floodmark diff` with
`--format json` alone; it needs no script and loads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.system.json_types import Json, JsonView
from harness.system.whole_file import disk_errors_told, write_whole
from reports.cards import with_cards
from reports.page import style_of, templates

_COUNTED: Final = ("pass", "fail", "not run")


def side_by_side_page(document: JsonView) -> str:
    columns: Sequence[Mapping[str, Any]] = document["columns"]
    names = dict.fromkeys(case["name"].partition("/")[0] for column in columns for case in column["cases"])
    return with_cards(
        templates()
        .get_template("side_by_side.html.j2")
        .render(
            document=document,
            columns=columns,
            groups=[_group(name, columns) for name in names],
            differences=[_differences(column) for column in columns],
            style=style_of("page.css"),
        )
    )


def write_side_by_side(document: Mapping[str, object], path: Path) -> None:
    """Writes the page. Raises WorldError if it cannot be written."""
    with disk_errors_told(f"the page cannot be written to {path}"):
        write_whole(path, side_by_side_page(document))


def write_difference(document: JsonView, path: Path) -> None:
    """Writes the page of two runs. Raises WorldError if it cannot be written."""
    page = (
        templates()
        .get_template("difference.html.j2")
        .render(
            document=document,
            first=document["first"],
            measures=[one for one in document["measures"] if one["left"] != one["right"]],
            style=style_of("page.css"),
        )
    )
    with disk_errors_told(
        f"the page cannot be written to {path}", fix="free disk space, or name another file"
    ):
        write_whole(path, page)


def _group(name: str, columns: Sequence[JsonView]) -> Json:
    by_column = [
        {_plain(case["name"]): case for case in column["cases"] if case["name"].partition("/")[0] == name}
        for column in columns
    ]
    cases = {case: found["claim"] for mine in by_column for case, found in mine.items()}
    return {
        "name": name,
        "cells": [_cell(mine.values()) for mine in by_column],
        "cases": [
            {
                "name": case.partition("/")[2],
                "claim": claim,
                "outcomes": [mine[case]["outcome"] if case in mine else "" for mine in by_column],
            }
            for case, claim in cases.items()
        ],
    }


def _plain(name: str) -> str:
    """Random scripts have a case for each difference (`random scripts/ordered 2`); here each mode is one row."""
    group, _, rest = name.partition("/")
    return f"{group}/{rest.partition(' ')[0]}"


def _cell(cases: Iterable[JsonView]) -> dict[str, int]:
    outcomes = [case["outcome"] for case in cases]
    return {
        "passed": outcomes.count("pass"),
        "failed": outcomes.count("fail"),
        "of": sum(outcome in _COUNTED for outcome in outcomes),
    }


def _differences(column: JsonView) -> list[Json]:
    """The failed cases, those with one explanation together, what nothing explains first."""
    by_known: dict[str, list[Mapping[str, Any]]] = {}
    for failed in column["failed"]:
        by_known.setdefault(failed["known"], []).append(failed)
    return [
        {"known": known, "explained": cases[0]["explained"], "cases": cases, "first": cases[0]}
        for known, cases in sorted(by_known.items())
    ]
