"""Thresholds of a scenario file decide the exit code of `run`, of one run and of many that are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.main import main
from tools.cases import each, in_sweep_after

_TEXT = """\
scenario: slow
about: A few lookups of one subtask, answered slowly.
levels: [sim]
operator: {{mode: ordered}}
workload: {{records: 8, subtasks: 1, service: 20ms}}
thresholds:
  {thresholds}
decisive: [V1]
"""
RUNS_COUNTED = 14
"""More than a report shows in full."""


def _run(tmp_path: Path, thresholds: str, *words: str) -> int:
    file = tmp_path / "slow.yaml"
    file.write_text(_TEXT.format(thresholds=thresholds))
    report = tmp_path / "report"
    return main(["run", str(file), *words, "--level", "sim", "--seed", "1", "--report", str(report)])


@pytest.mark.sweep
@each(
    ("thresholds", "code"),
    [
        ("calls_per_record: 1", 0),
        ("latency_p95: 1ms", 1),
        ("recovery_p95: 2s", 10),
    ],
)
@pytest.mark.parametrize("runs", in_sweep_after(1, [RUNS_COUNTED, 1]))
def test_the_exit_code_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], thresholds: str, code: int, runs: int
) -> None:
    assert _run(tmp_path, thresholds, "--runs", str(runs), "--jobs", "1") == code
    capsys.readouterr()
    told = json.loads((tmp_path / "report" / "run.json").read_text())
    verdict = {0: "holds", 1: "crossed", 10: "unknown"}[code]
    assert {threshold["verdict"] for run in told["runs"] for threshold in run["thresholds"]} == {verdict}
    assert all(run["measures"]["calls_per_record"] == 1 for run in (*told["runs"], *told["counted"]))


def test_a_name_that_does_not_exist_is_refused_at_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tmp_path, "call_per_record: 1.2") == 4

    told = capsys.readouterr().err
    assert "slow.yaml:7:3: unknown field `call_per_record`" in told
    assert "did you mean `calls_per_record`?" in told


@pytest.mark.parametrize("value", ["fast", "true", "-1", "1s"])
def test_calls_are_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str) -> None:
    assert _run(tmp_path, f"calls_per_record: {value}") == 4
    assert "write a number: 1 or 1.2" in capsys.readouterr().err


def test_a_time_needs_its_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(tmp_path, "latency_p95: 5") == 4
    assert "5 is not a duration" in capsys.readouterr().err
