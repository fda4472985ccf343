"""`floodmark trend` and `run --baseline` over reports that `run` wrote."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cli.main import main

_TEXT = """\
scenario: slow
about: A few lookups of one subtask, answered slowly.
levels: [sim]
operator: {mode: ordered}
workload: {records: 20, subtasks: 1, service: 20ms}
decisive: [V1]
"""


def _run(folder: Path, name: str, *words: str) -> int:
    (folder / "slow.yaml").write_text(_TEXT)
    report = folder / "reports" / name
    return main(
        [
            "run",
            str(folder / "slow.yaml"),
            "--level",
            "sim",
            "--report",
            str(report),
            "--seed",
            "1",
            "-q",
            *words,
        ]
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four reports, the last of them slower."""
    made = tmp_path_factory.mktemp("trend")
    for name in ("a", "b", "c"):
        assert _run(made, name) == 0
    assert _run(made, "d", "--set", "workload.service=90ms") == 0
    return made


@pytest.mark.sweep
def test_the_slower_report_is_named_on_the_terminal_in_json_and_on_the_page(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trend", str(folder / "reports"), "--page", str(folder / "trend.html")]) == 0

    assert "d is slower: latency_p50" in capsys.readouterr().out
    assert "d is slower: latency_p50" in (folder / "trend.html").read_text()
    assert main(["trend", str(folder / "reports"), "--format", "json"]) == 0
    (series,) = json.loads(capsys.readouterr().out)["series"]
    assert [point["report"] for point in series["points"] if point["departures"]] == ["d"]


def test_the_newest_report_can_fail_a_build(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trend", str(folder / "reports"), "--fail-on", "slower"]) == 1
    assert main(["trend", str(folder / "reports" / "a"), "--fail-on", "slower"]) == 0
    capsys.readouterr()


def test_markdown_is_a_table_for_each_scenario(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trend", str(folder / "reports"), "--format", "markdown"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "### slow at sim"
    assert len([line for line in lines if line.startswith("| ")]) == 5


def test_a_run_beside_its_baseline_tells_what_changed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = str(folder / "reports" / "a")

    assert _run(tmp_path, "now", "--set", "workload.service=90ms", "--baseline", baseline) == 0

    told = capsys.readouterr().out
    assert "beside a: 0 of 1 scenarios changed, 1 slower" in told
    now = tmp_path / "reports" / "now"
    assert json.loads((now / "baseline.json").read_text())["baseline"] == "a"
    assert "### beside a" in (now / "summary.md").read_text()


def test_a_baseline_that_is_none_is_refused_before_anything_runs(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tmp_path, "now", "--baseline", str(folder / "slow.yaml")) == 4
    assert not (tmp_path / "reports").exists()
    assert "is not the run.json of a report" in capsys.readouterr().err


def test_a_job_is_told_beside_its_baseline_and_its_page_opened(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: dict[str, Any] = {}

    def noted(orders: object, **options: object) -> SimpleNamespace:
        passed.update(options)
        return SimpleNamespace(exit_code=0)

    monkeypatch.setattr("harness.cli.run_campaign.run_campaign", noted)
    (tmp_path / "sink.sql").write_text("CREATE TABLE t (id BIGINT, k BIGINT);")
    sink = '[sink]\ntable = "t"\nschema = "sink.sql"\nid = ["id"]\nvalues = ["k"]\n'
    (tmp_path / "job.toml").write_text(f'[job]\ncommand = ["python", "job.py"]\n{sink}')
    words = ["--job", str(tmp_path / "job.toml"), "--baseline", str(folder / "reports" / "a"), "--open"]

    assert main(["job", "--calm-only", *words]) == 0

    assert passed["baseline"].name == "a"
    assert passed["opens"]


def test_open_starts_no_browser_under_ci(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "1")

    assert main(["trend", str(folder / "reports"), "--page", str(tmp_path / "t.html"), "--open"]) == 0
    assert "CI is set" in capsys.readouterr().err


def test_open_shows_the_page(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.delenv("CI", raising=False)

    def browser(url: str) -> bool:
        shown.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", browser)

    assert main(["trend", str(folder / "reports"), "--page", str(tmp_path / "t.html"), "--open"]) == 0
    assert shown == [(tmp_path / "t.html").as_uri()]
