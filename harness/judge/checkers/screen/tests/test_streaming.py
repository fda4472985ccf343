"""A file is judged as it streams by, with the answer of the exact reading, its breaches and its warnings."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from harness.history.read import open_history
from harness.history.verdict import Judgement
from harness.judge.checkers.judge import Malformed, judge_file, judge_reader
from harness.judge.checkers.screen.screen import Screen
from harness.judge.checkers.tests.legal_histories import legal_history
from harness.judge.checkers.tests.small_histories import (
    ended,
    event,
    history,
    settled,
    stall,
    start,
    text,
    took,
)
from tools.cases import each

REGULAR = history(start(), took("a", 0), settled("a"), ended())
SUSPECTED = history(start(), took("a", 0), took("b", 1), settled("a"), settled("b"), ended())
IRREGULAR = history(start(), took("a", 0), settled("a")[:2], ended())
MALFORMED = history(start(), took("a", 1), stall("end"), settled("a"), ended())
UNFINISHED = history(start(), took("a", 0), settled("a")[:1])
ALL = {
    "regular": text(REGULAR) + b"\n",
    "suspected": text(SUSPECTED) + b"\n",
    "irregular": text(IRREGULAR) + b"\n",
    "unfinished": text(UNFINISHED) + b"\n",
    "malformed": text(MALFORMED) + b"\n",
    "cut": text(REGULAR) + b'\n{"n":9,"t"',
    "no events": text(REGULAR[:1]) + b"\n",
    "no header": b"{}\n",
    "empty": b"",
    "a blank line": text(REGULAR) + b"\n\n",
    "twice the same key": text(REGULAR).replace(b'"t": 0', b'"t": 0, "t": 0') + b"\n",
    "values beyond 64 bits": text(
        history(start(), took(7**99, 0, expect=[8**99]), settled(7**99)[0], event("dead", id=7**99), ended())
    ),
}


@each("name", ALL)
@each("suffix", [".jsonl", ".jsonl.gz"])
def test_a_file_is_judged_as_its_exact_reading_is(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / f"history{suffix}"
    path.write_bytes(gzip.compress(ALL[name]) if suffix.endswith("gz") else ALL[name])

    assert judge_file(path, exact_below=0) == judge_reader(open_history(path))


@pytest.mark.parametrize("name", ["regular", "irregular", "malformed"])
def test_progress_is_told_up_to_the_last_byte(tmp_path: Path, name: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(ALL[name])
    told: list[tuple[int, int]] = []

    judge_file(path, exact_below=0, progress=lambda done, size: told.append((done, size)))

    assert told[-1] == (len(ALL[name]), len(ALL[name]))


def test_a_malformed_file_is_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(ALL["malformed"])

    judged = judge_file(path, exact_below=0)

    assert isinstance(judged, Malformed)
    assert [breach.line for breach in judged.breaches] == [3, 4]


@each("seed", range(6))
def test_a_legal_history_is_judged_alike_from_its_file(tmp_path: Path, seed: int) -> None:
    lines: list[dict[str, Any]] = legal_history(seed)
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    judged = judge_file(path, exact_below=0)

    assert isinstance(judged, Judgement)
    assert judged == judge_reader(open_history(path))


def test_a_small_file_is_not_screened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(ALL["suspected"])
    honest = judge_file(path, exact_below=0)
    monkeypatch.delattr(Screen, "feed")

    assert judge_file(path) == honest


def test_a_defect_of_the_screen_costs_time_and_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bool:
        raise ZeroDivisionError("planted")

    path = tmp_path / "history.jsonl"
    path.write_bytes(ALL["suspected"])
    honest = judge_file(path, exact_below=0)
    monkeypatch.setattr(Screen, "finish", broken)

    judged = judge_file(path, exact_below=0)

    assert isinstance(judged, Judgement)
    assert isinstance(honest, Judgement)
    assert judged.invariants == honest.invariants
    assert judged.outcome is honest.outcome
    assert "ZeroDivisionError: planted" in judged.warnings[-1]
