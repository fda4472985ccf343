"""A history that processes share by its subtasks is judged as by one process, in every form."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.history.convert import convert
from harness.history.verdict import Judgement, Outcome
from harness.judge.checkers.invariant import Invariant
from harness.judge.checkers.judge import Malformed, judge_file
from harness.judge.checkers.shares import processes
from harness.judge.checkers.shares.processes import judge_on_processes
from harness.judge.checkers.shares.tests.test_shares import CATALOGUE, KINDS
from harness.system.errors import WorldError
from tools.bench.regular_history import regular_header, regular_history, write_lines

FORMS = [".jsonl", ".arrow", ".parquet"]
FILES = sorted(CATALOGUE.rglob("*.jsonl"))
SHARES = 40
PARTS = [0, *(pytest.param(share, marks=pytest.mark.sweep) for share in range(1, SHARES, 4))]
SOAKED = 460


def shared(path: Path, jobs: int = 2) -> Judgement | Malformed:
    return judge_on_processes(path, jobs=jobs, least_bytes=0)


def regular(path: Path, events: int = 1200) -> Path:
    write_lines(path, regular_header("ordered"), regular_history("ordered", events))
    return path


def in_form(path: Path, form: str) -> Path:
    if form == ".jsonl":
        return path
    pytest.importorskip("pyarrow")
    target = path.with_suffix(form)
    convert(path, target)
    return target


@pytest.fixture
def left_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were judged whole after all."""
    judged: list[Path] = []
    whole = processes._whole

    def noted(path: Path, checkers: Sequence[Invariant]) -> Judgement | Malformed:
        judged.append(path)
        return whole(path, checkers)

    monkeypatch.setattr(processes, "_whole", noted)
    return judged


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("jobs", [2, 3])
def test_a_regular_history_is_judged_by_the_processes_alone(
    tmp_path: Path, form: str, jobs: int, left_to_the_whole: list[Path]
) -> None:
    path = in_form(regular(tmp_path / "history.jsonl"), form)

    judged = shared(path, jobs)

    assert judged == judge_file(path, exact_below=0)
    assert isinstance(judged, Judgement)
    assert judged.outcome is Outcome.PASS
    assert not left_to_the_whole


@pytest.mark.parametrize("form", FORMS)
def test_a_violation_in_one_subtask_is_examined_by_a_process(
    tmp_path: Path, form: str, left_to_the_whole: list[Path]
) -> None:
    path = regular(tmp_path / "history.jsonl")
    lines = path.read_text().splitlines()
    place = max(at for at, line in enumerate(lines) if '"k":"out"' in line and '"s":1' in line)
    lines[place] = json.dumps({**json.loads(lines[place]), "v": "another"})
    path.write_text("\n".join(lines) + "\n")
    path = in_form(path, form)

    judged = shared(path)

    assert judged == judge_file(path, exact_below=0)
    assert isinstance(judged, Judgement)
    assert judged.outcome is Outcome.FAIL
    assert not left_to_the_whole


DISORDERS: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "numbers that do not follow each other": lambda events: events[700].update(n=10**9),
    "a time that falls between subtasks": lambda events: events[700].update(t=0),
    "a record in both subtasks": lambda events: [
        event.update(id=1) for event in events if event.get("id") == 2
    ],
}


@pytest.mark.parametrize("name", DISORDERS)
@pytest.mark.parametrize("form", FORMS)
def test_what_only_the_whole_shows_is_left_to_the_whole(
    tmp_path: Path, form: str, name: str, left_to_the_whole: list[Path]
) -> None:
    path = regular(tmp_path / "history.jsonl")
    header, *events = map(json.loads, path.read_text().splitlines())
    DISORDERS[name](events)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in (header, *events)))
    path = in_form(path, form) if name == "a record in both subtasks" else path

    judged = shared(path)

    assert judged == judge_file(path, exact_below=0)
    assert left_to_the_whole


def test_a_line_whose_value_looks_like_another_subtask_is_not_lost(
    tmp_path: Path, left_to_the_whole: list[Path]
) -> None:
    """The value has the text by which the lines of subtask 0 are passed over."""
    path = regular(tmp_path / "history.jsonl")
    lines = path.read_text().splitlines()
    late = next(json.loads(line) for line in lines[900:] if '"k":"in"' in line and '"s":1' in line)
    path.write_text(path.read_text().replace(f'"v{late["id"]}.0"', '{"x":1,"s":0,"a":2}'))

    judged = shared(path)

    assert judged == judge_file(path, exact_below=0)
    assert left_to_the_whole


@pytest.mark.parametrize("share", PARTS)
def test_every_labelled_history_is_judged_alike_by_processes(tmp_path: Path, share: int) -> None:
    for path in FILES[share::SHARES]:
        assert shared(path) == judge_file(path, exact_below=0), path.name


def test_a_killed_process_is_told_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(processes, "_follow", dies)

    with pytest.raises(WorldError, match="was killed.*\n?.*fewer --jobs|was killed"):
        shared(regular(tmp_path / "history.jsonl"))


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_mutated_histories_are_judged_alike_by_processes(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "history.jsonl"
    for seed in range(SOAKED):
        path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in KINDS[kind](seed)))

        assert shared(path) == judge_file(path, exact_below=0), seed
