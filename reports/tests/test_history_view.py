"""A history is read once, as far as it can be read, and what could not be read is said."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import zstandard

from reports.history_view import HistoryView, read_view
from reports.tests.sample import write_history

HEADER = {"history": 1, "operator": {"mode": "ordered", "capacity": 2, "timeout_ms": 0}}


def written(path: Path, *events: dict[str, Any], tail: str = "") -> HistoryView:
    """The view of a history of these events, numbered, with `tail` after them."""
    lines = [HEADER, *({"n": n, **event} for n, event in enumerate(events, start=1))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + tail, encoding="utf-8")
    return read_view(path)


def of(kind: str, t: int, **fields: Any) -> dict[str, Any]:
    return {"t": t, "k": kind, "s": 0, "a": 1, **fields}


def test_a_torn_last_line_is_left_out_and_said(tmp_path: Path) -> None:
    view = written(tmp_path / "h.jsonl", of("start", 5, pos=0), tail='{"n":2,"t":9,"k":"o')

    assert view.events == 1
    assert "cut off" in view.problems[0]


def test_a_broken_line_in_the_middle_ends_the_reading_and_is_said(tmp_path: Path) -> None:
    more = "nonsense\n" + json.dumps(of("out", 6)) + "\n"

    view = written(tmp_path / "h.jsonl", of("start", 5, pos=0), tail=more)

    assert view.events == 1
    assert view.problems == ["line 3 of the history does not parse; what follows is not shown"]


def test_a_missing_history_is_a_problem_of_the_report_not_an_error(tmp_path: Path) -> None:
    view = read_view(tmp_path / "gone.jsonl")

    assert view.events == 0
    assert "gone.jsonl could not be read" in view.problems[0]


def test_compressed_histories_read_the_same(tmp_path: Path) -> None:
    plain = tmp_path / "h.jsonl"
    write_history(plain, records=40)
    packed, denser = tmp_path / "h.jsonl.gz", tmp_path / "h.jsonl.zst"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    denser.write_bytes(zstandard.compress(plain.read_bytes()))

    events = [read_view(path).events for path in (plain, packed, denser)]

    assert events[0] == events[1] == events[2] > 0


def test_a_damaged_archive_is_said(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl.gz"
    path.write_bytes(gzip.compress(b"x" * 5000)[:40])

    assert read_view(path).problems


def test_a_call_ends_with_its_reply(tmp_path: Path) -> None:
    view = written(
        tmp_path / "h.jsonl",
        of("call", 10, id=1, **{"try": 1}),
        of("res", 35, id=1, r="timeout", final=True, **{"try": 1}),
    )

    (call,) = view.lanes[0].calls
    assert (call.begin_us, call.end_us, call.result) == (10, 35, "timeout")


def test_a_call_without_a_reply_ends_with_its_attempt(tmp_path: Path) -> None:
    view = written(tmp_path / "h.jsonl", of("call", 10, id=1, **{"try": 1}), of("kill", 50))

    (call,) = view.lanes[0].calls
    assert (call.end_us, call.result) == (50, "lost")


def test_a_reply_after_the_next_attempt_began_is_not_counted_again(tmp_path: Path) -> None:
    view = written(
        tmp_path / "h.jsonl",
        of("call", 10, id=1, **{"try": 1}),
        {**of("start", 40, pos=0), "a": 2},
        of("res", 60, id=1, r="ok", final=True, **{"try": 1}),
    )

    assert [call.result for call in view.lanes[0].calls] == ["lost"]


def test_commit_and_done_of_one_checkpoint_make_one_row(tmp_path: Path) -> None:
    view = written(
        tmp_path / "h.jsonl",
        of("snap", 10, c=1, pos=2, elements=[{"id": 1}, {"w": 5, "pos": 1}]),
        of("commit", 14, c=1),
        {"t": 15, "k": "done", "c": 1},
        of("snap", 30, c=2, pos=4, elements=[]),
        {"t": 39, "k": "done", "c": 2},
    )

    assert [(row.c, row.in_flight, row.completed_us, row.gap_us) for row in view.checkpoints] == [
        (1, 2, 14, None),
        (2, 0, 39, 25),
    ]


def test_a_snapshot_that_was_never_completed_has_no_row(tmp_path: Path) -> None:
    view = written(tmp_path / "h.jsonl", of("snap", 10, c=1, pos=2, elements=[]), of("kill", 12))

    assert view.checkpoints == []
