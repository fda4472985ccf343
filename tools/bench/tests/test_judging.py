"""The judge's rows: the history is regular, each time is of a run that did its work, and the small bench runs whole."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from harness.history.event import Out, Res
from harness.history.verdict import Outcome
from harness.judge.checkers.judge import judge, judge_file
from tools.bench import judging
from tools.bench.answer import WrongOutput
from tools.bench.judging import Sizes, judging_rows
from tools.bench.judging_memory import main, require_clean
from tools.bench.regular_history import Mode, regular_header, regular_history, write_lines
from tools.bench.row import Row

MODES: tuple[Mode, ...] = ("ordered", "unordered")


@pytest.mark.parametrize("mode", MODES)
def test_a_regular_history_is_clean_by_the_exact_judge(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.bench.regular_history.CHECKPOINT_EVERY", 150)
    monkeypatch.setattr("tools.bench.regular_history.CRASH_EVERY", 400)
    events = list(regular_history(mode, 2400))

    judged = judge(regular_header(mode), events, screened=False)

    require_clean(judged)
    assert judged.outcome is Outcome.PASS
    assert judged.accounting["restores"] >= 4
    assert judged.accounting["checkpoints"] >= 8
    outcomes = Counter(event.r for event in events if isinstance(event, Res))
    assert outcomes["fail"]
    assert outcomes["timeout"]
    assert {event.j for event in events if isinstance(event, Out)} == {0, 1}


def test_a_regular_history_is_the_same_for_the_same_seed() -> None:
    first, again, other = (
        list(islice(regular_history("ordered", 500, seed=seed), 500)) for seed in (1, 1, 2)
    )

    assert first == again != other


def test_a_judge_that_convicts_gets_no_time(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    events = regular_history("ordered", 300)
    write_lines(path, regular_header("ordered"), (event for event in events if not isinstance(event, Out)))

    with pytest.raises(WrongOutput, match="V8"):
        require_clean(judge_file(path))
    path.write_text("{}\n")
    with pytest.raises(WrongOutput, match="malformed"):
        require_clean(judge_file(path))


def test_the_peak_of_a_process_is_a_number_of_kilobytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "h.jsonl"
    write_lines(path, regular_header("ordered"), regular_history("ordered", 100))

    assert main([str(path), "V1,V8"]) == 0
    assert int(capsys.readouterr().out) > 1000


@pytest.mark.sweep
def test_the_small_bench_fills_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        judging, "peak_mb", lambda path, invariants: float(path.stat().st_size + len(invariants))
    )
    monkeypatch.setattr(judging, "_MODES", ("unordered",))
    said: list[str] = []

    rows = list(judging_rows(sizes=Sizes(ratios=300, growth=(30, 300), rounds=1), say=said.append))

    assert len(rows) == 5
    assert all(isinstance(row, Row) and row.value != 0 for row in rows)
    assert said
