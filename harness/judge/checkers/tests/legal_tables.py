"""Tables of a legal history, and the rows that a correct sink leaves in them.

It shares no code with the checkers: the rows come from what the model of `legal_histories` knows of its records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.judge.checkers.tests.modelled_parts import Json, Settled, Subtask
from harness.system.choices import Choices


def drawn_tables(choices: Choices, sink: str, effects: str | None) -> dict[str, Json]:
    """Of a header; none for every second history. A key is kept once only where a restart takes back outputs."""
    tables: dict[str, Json] = {}
    if choices.index(2):
        return tables
    if choices.index(2):
        tables["output"] = {"holds": ["outputs"]}
    if choices.index(3) == 0 and effects:
        tables["effects"] = {"holds": ["effects"]}
    if choices.index(3) == 0 and effects == "outputs":
        tables["both"] = {"holds": ["outputs", "effects"]}
    if choices.index(2):
        tables["letters"] = {"holds": ["dead"]}
    for table in tables.values():
        if sink == "rollback" and choices.index(2):
            table["keep"] = ["first", "last", "all"][choices.index(3)]
        if "outputs" in table["holds"] and table.get("keep", "all") == "all" and choices.index(2):
            table["ordered"] = True
    if effects and choices.index(2):
        tables["audit"] = {"holds": ["audit"]}
    return tables


def read_tables(
    tables: dict[str, Json], subtasks: list[Subtask], events: list[Json], choices: Choices
) -> Iterable[Json]:
    """The `row`s of each, and its `read`."""
    effects = [event for event in events if event["k"] == "effect"]
    if "audit" in tables:
        yield {"k": "read", "table": "audit", "rows": len(effects)}
    settled = [item for subtask in subtasks for item in subtask.settled]
    for name, table in tables.items():
        if name == "audit":
            continue
        rows: list[Json] = []
        if "dead" in table["holds"]:
            rows = [{"id": item.record["id"], **item.letter} for item in settled if item.letter is not None]
        elif "outputs" in table["holds"]:
            rows = [row for item in settled for row in _outputs(item, choices)]
        else:
            rows = [{key: e[key] for key in ("id", "j", "v", "token") if key in e} for e in effects]
        rows = [{"k": "row", "table": name, **row} for row in rows]
        if table.get("ordered", False):
            rows = [{**row, "seq": seq} for seq, row in enumerate(rows, start=-1)]
        rows = rows if choices.index(2) else rows[::-1]
        yield from [*rows, {"k": "read", "table": name, "rows": len(rows)}]


def _outputs(item: Settled, choices: Choices) -> list[Json]:
    def given(name: str, value: Any) -> Json:
        return {name: value} if choices.index(2) else {}

    return [
        {"id": item.record["id"], "j": j, **given("v", v), **given("token", item.a)}
        for j, v in enumerate(item.outputs)
    ]
