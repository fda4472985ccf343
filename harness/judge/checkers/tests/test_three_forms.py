"""Text, Arrow and Parquet give one verdict on every labelled history, and refuse the same lines of every malformed one.

A malformed line that has no row of cells stands in the column `line`, as its text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.history.event_fields import claims_of, well_formed
from harness.history.header import Header, OperatorHeader
from harness.history.read import open_text
from harness.history.strict_json import integers_of_any_length, strictly
from harness.history.tests.small_texts import text
from harness.history.tests.test_malformed import BAD_EVENTS, LEGAL
from harness.judge.checkers.judge import Malformed, judge_file
from harness.judge.checkers.tests.blind_mutations import mutated
from harness.judge.checkers.tests.dressed_histories import dressed_history
from harness.judge.checkers.tests.wild_histories import wild_history
from harness.system.choices import Choices

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

CATALOGUE = sorted((Path(__file__).parent / "catalogue").rglob("*.jsonl"))
SMALL = {
    **{f"malformed: {name}": text(*events) for name, (events, _) in BAD_EVENTS.items()},
    **{f"odd but legal: {name}": text(*events) for name, events in LEGAL.items()},
}
SHARES = 40
PARTS = [0, *(pytest.param(share, marks=pytest.mark.sweep) for share in range(1, SHARES))]
"""The first part of the files is judged by every run of the tests, the others at tier sweep."""
ANY = Header(operator=OperatorHeader(mode="ordered", capacity=1, timeout_ms=0))


def column_files(folder: Path, raw: bytes) -> list[Path]:
    """The same history in both columnar forms."""
    from harness.history.columnar import table_of  # noqa: PLC0415 - pyarrow may be missing

    first, *lines = raw.removesuffix(b"\n").split(b"\n")
    claims = claims_of(open_text(first).header)
    values = [strictly(line.strip()) for line in lines]
    events = [well_formed(value, claims).event if isinstance(value, dict) else None for value in values]
    packed = table_of(ANY, [event for event in events if event is not None])
    cells = iter(packed.to_pylist())
    rows: list[dict[str, Any]] = [
        {"line": line.decode("utf-8", "replace")} if event is None else next(cells)
        for line, event in zip(lines, events, strict=True)
    ]
    schema = packed.schema.with_metadata({b"floodmark.history": first})
    table = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(table, folder / "history.parquet")
    with pa.OSFile(str(folder / "history.arrow"), "wb") as file, pa.ipc.new_file(file, schema) as out:
        out.write_table(table)
    return [folder / "history.arrow", folder / "history.parquet"]


def differences(folder: Path, raw: bytes) -> list[str]:
    """How the judgements of the columns differ from that of the text; refused lines are compared by number."""
    path = folder / "history.jsonl"
    path.write_bytes(raw)
    judged = judge_file(path, exact_below=0)
    found = []
    with integers_of_any_length():
        files = column_files(folder, raw)
    for columns in files:
        other = judge_file(columns, exact_below=0)
        if isinstance(judged, Malformed) and isinstance(other, Malformed):
            alike = [breach.line for breach in judged.breaches] == [breach.line for breach in other.breaches]
        else:
            alike = judged == other
        if not alike:
            found.append(f"{columns.suffix}: {other}, but the text: {judged}")
    return found


@pytest.mark.parametrize("share", PARTS)
def test_every_labelled_history_gets_one_verdict_from_text_arrow_and_parquet(
    tmp_path: Path, share: int
) -> None:
    for path in CATALOGUE[share::SHARES]:
        assert not differences(tmp_path, path.read_bytes()), path.name


@pytest.mark.parametrize("share", PARTS)
def test_every_malformed_history_is_refused_at_the_same_lines_from_text_arrow_and_parquet(
    tmp_path: Path, share: int
) -> None:
    for name in list(SMALL)[share::SHARES]:
        assert not differences(tmp_path, SMALL[name]), name


DRAWN: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "wild": wild_history,
    "mutated": lambda seed: mutated(dressed_history(seed), Choices(seed, "blind mutations"), most=2),
}


@pytest.mark.sweep
@pytest.mark.parametrize("kind", DRAWN)
def test_drawn_histories_get_one_verdict_from_text_arrow_and_parquet(tmp_path: Path, kind: str) -> None:
    for seed in range(100):
        lines = DRAWN[kind](seed)
        raw = "".join(json.dumps(line) + "\n" for line in lines).encode()

        assert not differences(tmp_path, raw), seed
