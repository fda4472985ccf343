"""`floodmark list` by tag, level and fault: what does not exist is an error, not an empty list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.list import list_
from harness.cli.main import main


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert main(["list", *words, "--format", "json"]) == 0
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)[words[0]]
    return rows


def test_scenarios_by_tag_level_and_fault(capsys: pytest.CaptureFixture[str]) -> None:
    rows = listed(capsys, "scenarios", "--tag", "gate", "--level", "sim", "--fault", "latency")

    assert rows
    for row in rows:
        assert "gate" in str(row["tags"])
        assert "sim" in str(row["levels"])
        assert "latency" in str(row["faults"])


def test_faults_by_level(capsys: pytest.CaptureFixture[str]) -> None:
    names = {row["name"] for row in listed(capsys, "faults", "--level", "spark")}

    assert "kill_executor" in names
    assert names < {row["name"] for row in listed(capsys, "faults")}


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["scenarios", "--tag", "gat"], 4, "did you mean 'gate'?"),
        (["scenarios", "--fault", "latancy"], 4, "did you mean 'latency'?"),
        (["invariants", "--level", "sim"], 4, "--level does not go with `floodmark list invariants`"),
        (["mutants", "--tag", "gate"], 4, "--tag does not go with `floodmark list mutants`"),
        (["scenarios", "--tag", "pitfalls", "--fault", "kill_query"], 5, "leave one of them out"),
    ],
)
def test_what_lists_nothing_is_an_error(
    capsys: pytest.CaptureFixture[str], words: list[str], code: int, told: str
) -> None:
    assert main(["list", *words]) == code
    assert told in capsys.readouterr().err


def test_what_a_project_sets_for_its_runs_is_no_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.floodmark]\nlevel = "sim"\ntag = ["x"]\nfail-on = "pitfall"\n'
    )
    monkeypatch.chdir(tmp_path)

    assert main(["list", "invariants"]) == 0
    capsys.readouterr()
    assert main(["trend", "nowhere"]) == 4
    assert "nowhere does not exist" in capsys.readouterr().err


def test_the_filters_stand_in_the_help() -> None:
    assert {"--tag", "--level", "--fault"} <= {option for param in list_.params for option in param.opts}
