"""A columnar file as a stranger writes it, and what both readers make of it, for the tests of columns."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.event import Event
from harness.history.header import Header, OperatorHeader, Retry
from harness.history.read import NeedsExactReader, open_history
from harness.history.strict_json import integers_of_any_length
from harness.judge.checkers.judge import Malformed, judge_file

HEADER = Header(operator=OperatorHeader(mode="ordered", capacity=2, timeout_ms=0), run={"seed": 7})
CLAIMING = Header(
    operator=OperatorHeader(
        mode="ordered", capacity=2, timeout_ms=0, retry=Retry(backoff="fixed", initial_ms=1)
    ),
    explained="alone",
    versions=True,
)
"""With every claim on which fields of old kinds depend."""
HEADER_LINE = b'{"history":1,"operator":{"mode":"ordered","capacity":2,"timeout_ms":0}}'
FORMS = [".arrow", ".parquet"]
START = {"n": 1, "t": 0, "k": "start", "s": 0, "a": 1, "pos": 0}
IN = {"n": 2, "t": 0, "k": "in", "s": 0, "a": 1, "pos": 0, "id": 1}
OUT = {"n": 3, "t": 0, "k": "out", "s": 0, "a": 1, "id": 1, "j": 0, "v": '"x"'}
RES = {"n": 3, "t": 0, "k": "res", "s": 0, "a": 1, "id": 1, "try": 1, "r": "ok", "final": True}
DONE = '{"n":2,"t":0,"k":"done","c":1}'


def fast(path: Path) -> list[Event] | int:
    try:
        return list(chain.from_iterable(open_history(path).batches()))
    except NeedsExactReader as odd:
        return odd.line


def exact_repr(value: object) -> str:
    with integers_of_any_length():
        return repr(value)


def table(
    path: Path, *rows: dict[str, Any], metadata: dict[bytes, bytes] | None = None, **types: Any
) -> Path:
    """A file as a stranger writes it: only the columns that these rows have, of the types that come to mind."""
    names = dict.fromkeys(chain.from_iterable(rows))
    columns = [pa.array([row.get(name) for row in rows], types.get(name)) for name in names]
    schema_metadata = {b"floodmark.history": HEADER_LINE} if metadata is None else metadata
    given = pa.table(columns, names=list(names)).replace_schema_metadata(schema_metadata)
    if path.suffix == ".parquet":
        pq.write_table(given, path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, given.schema) as out:
            out.write_table(given)
    return path


def breaches(path: Path) -> list[tuple[int, str]]:
    judged = judge_file(path)
    assert isinstance(judged, Malformed)
    assert fast(path) == judged.breaches[0].line
    return [(breach.line, breach.say) for breach in judged.breaches]
