"""`floodmark mutants`: exit codes, forms, and what is refused before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.system.errors import Exit
from tools.cases import each

DROPS = "tools.defects:recorder_drops"
ONE = ["mutants", "--mutant", "settles-twice", "--runs", "1"]


def test_a_mutant_that_is_convicted_beside_a_clean_reference_is_success(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(ONE) == Exit.HOLD

    told = capsys.readouterr().out
    assert "M7   settles-twice" in told
    assert "1 of 1 convicted" in told


def test_the_same_seed_prints_the_same_table(capsys: pytest.CaptureFixture[str]) -> None:
    tables = []
    for _ in range(2):
        main([*ONE, "--seed", "9", "--format", "markdown"])
        tables.append(capsys.readouterr().out)

    assert tables[0] == tables[1]
    assert "| M7 | `settles-twice` | 1 |" in tables[0]


def test_a_machine_gets_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    main([*ONE, "--format", "json"])

    told = json.loads(capsys.readouterr().out)
    assert [mutant["mutant"] for mutant in told["mutants"]] == ["settles-twice"]


def test_a_survivor_is_a_violation(capsys: pytest.CaptureFixture[str]) -> None:
    """The reference, planted as if it were a user's mutant."""
    assert main(["mutants", "--mutant", "harness.sut.variant:HONEST", "--runs", "1"]) == Exit.VIOLATION

    assert "survivor: harness.sut.variant:HONEST" in capsys.readouterr().out


def test_what_the_budget_left_no_time_for_was_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ONE, "--budget", "0.000001"]) == Exit.UNDECIDED

    assert "not tried: settles-twice, the budget was over" in capsys.readouterr().out


def test_a_run_refuses_a_defect_that_no_run_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "calm", "--level", "sim", "--mutant", DROPS]) == Exit.USAGE

    assert f"floodmark mutants --mutant {DROPS}" in capsys.readouterr().err


@each(
    ("arguments", "told"),
    [
        (["--mutant", "no-such"], "segment-leak"),
        (["--mutant", "tools.defects:era_1"], "no run shows"),
        (["--mutant", "no.such.module:variant"], "importable"),
        (["--mutant", "tools.defects:shares_records", "--level", "live"], "--level sim"),
        (["--mutant", "no-such", "--level", "live"], "segment-leak"),
    ],
)
def test_bad_usage_is_refused_with_what_to_do(
    arguments: list[str],
    told: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["mutants", *arguments]) == Exit.USAGE

    assert told in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
