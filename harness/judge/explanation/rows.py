"""Explains anomalies of tables that were read after the run: V8 (outputs), V9 (effects), V20 (dead letters).

The classes have one name in all three invariants. What the rows contradict is what the anomaly cites beside them: an
`out` that is visible, an `effect` of the audit, a `dead`, or the record's `in` where only expectations are known.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.history.values import shown
from harness.history.verdict import Explanation
from harness.judge.explanation.contradiction import Contradiction
from harness.judge.explanation.event_summary import Json

_EVENTS_MAX = 4


def row_missing(x: Contradiction) -> Explanation:
    """V8, V9, V20: something should stand in a table, and does not."""
    _sources(x)
    _rows_left(x)
    x.then_finished(_EVENTS_MAX)
    return x.however(f"{x.anomaly.say}, and nothing that should be in the table may be missing from it")


def row_deleted(x: Contradiction) -> Explanation:
    """V9: what the audit log shows is not in the table any more."""
    _sources(x)
    _rows_left(x)
    return x.however(f"{x.anomaly.say}, and what was written stays in the table")


def row_doubled(x: Contradiction) -> Explanation:
    """V8, V9, V20: more rows than there should be."""
    _sources(x)
    rows = x.witnesses("row")
    x.then(f"{_table(x)} holds {len(rows)} rows of it: {x.let_all(rows[:_EVENTS_MAX])}.")
    tables = x.gathered.header.get("tables")
    table = tables.get(x.anomaly.table) if isinstance(tables, dict) else None
    if isinstance(table, dict) and table.get("keep", "all") != "all":
        return x.however("a table that is written by key holds one row of each key")
    return x.however("a table holds one row for each write that counts, and no further one")


def row_foreign(x: Contradiction) -> Explanation:
    """V8, V9, V20: a row that nothing accounts for."""
    if not _sources(x) and x.knows_all("id", x.anomaly.id):
        taken = [event for event in _about(x) if event["k"] == "in"]
        x.then(
            f"Record {shown(x.anomaly.id)} was accepted: {x.let(taken[0])}."
            if taken
            else f"No subtask ever took record {shown(x.anomaly.id)} in."
        )
    x.then(f"{_table(x)} holds {x.let_all(x.witnesses('row')[:_EVENTS_MAX])}; {x.anomaly.say}.")
    return x.however("every row of a table was written by an attempt whose work counts")


def row_altered(x: Contradiction) -> Explanation:
    """V8, V9, V20: a row with a wrong value, or a dead letter with a wrong error."""
    for event in x.witnesses("out", "effect", "res")[:_EVENTS_MAX]:
        field = "error" if event["k"] == "res" else "v"
        if field in event:
            x.then(f"{x.let(event)} has {shown(event[field])}.")
    for row in x.witnesses("row")[:_EVENTS_MAX]:
        field = "v" if "v" in row else "error"
        x.then(f"{_table(x)} holds {x.let(row)}, which has {shown(row.get(field))}.")
    return x.however(f"{x.anomaly.say}, and a row holds what was written")


def row_disordered(x: Contradiction) -> Explanation:
    """V8: rows written in another order than their outputs are visible."""
    rows = sorted(x.witnesses("row"), key=lambda row: int(row["seq"]))
    outs = {(out["id"], out["j"]): out for out in x.witnesses("out")}
    if len(rows) > 1 and len(outs) > 1:
        first, second = rows[0], rows[-1]
        x.then(f"{x.let(first)} was written as number {first['seq']}, {x.let(second)} as {second['seq']}.")
        earlier, later = outs[second["id"], second["j"]], outs[first["id"], first["j"]]
        x.then(f"But {x.seen(earlier, 'before', later)}.")
    return x.however(f"the rows of {_table(x, 'table')} are written in the order of the outputs")


def _table(x: Contradiction, word: str = "Table") -> str:
    return f"{word} {shown(x.anomaly.table)}"


def _about(x: Contradiction) -> Sequence[Json]:
    return x.gathered.lineage("id", x.anomaly.id).events


def _sources(x: Contradiction) -> bool:
    """Add what a row should come from; False if the anomaly cites nothing of that kind."""
    outs, effects, letters = x.witnesses("out"), x.witnesses("effect"), x.witnesses("dead")
    taken = x.witnesses("in")
    if outs:
        x.then(f"Visible in the sink's output: {x.let_all(outs[:_EVENTS_MAX])}.")
    if effects:
        x.then(f"The audit log holds {x.let_all(effects[:_EVENTS_MAX])}.")
    if letters:
        x.then(f"The record went to the dead letters: {x.let_all(letters[:_EVENTS_MAX])}.")
    if taken:
        x.then(f"Record {shown(x.anomaly.id)} was accepted: {x.let(taken[0])}.")
    return bool(outs or effects or letters or taken)


def _rows_left(x: Contradiction) -> None:
    """Add the rows that the table does hold, and the end of its reading."""
    rows, end = x.witnesses("row"), x.witness("read")
    if end is not None:
        x.then(f"{_table(x)} was read to its end, {x.let(end)}, after {end['rows']} rows.")
    if rows:
        x.then(f"Of this it holds only {x.let_all(rows[:_EVENTS_MAX])}.")
    elif x.knows_all("id", x.anomaly.id) and not any(
        event["k"] == "row"
        and event.get("table") == x.anomaly.table
        and x.anomaly.j in {None, event.get("j")}
        for event in _about(x)
    ):
        x.then(f"{_table(x)} holds no row of it.")
