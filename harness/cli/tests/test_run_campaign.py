"""`run` and `demo` at level sim: a verdict without a world, a table of many, exit codes that fit."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.engine.campaign import KEPT_MAX
from harness.scenario.workloads.shape import Lookup
from harness.system.errors import Exit
from tools.cases import in_sweep_after

SMALL = [
    "--set", "workload.records=20", "--set", "workload.checkpoint_every=6",
    "--set", "expects.records=40", "--set", "expects.checkpoints=3",
]  # fmt: skip
CALM = ["run", "calm", "--level", "sim", "--seed", "7", "--quiet", *SMALL]
HASTY = [*CALM, "--mutant", "watermarks-at-once"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports go to a folder of their own."""
    monkeypatch.chdir(tmp_path)


def test_one_run_passes_and_leaves_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CALM, "--report", "there"]) == Exit.HOLD

    assert "level sim" in capsys.readouterr().out
    assert (tmp_path / "there" / "index.html").exists()
    assert list((tmp_path / "there" / "runs").glob("*/history.jsonl"))


def test_a_defect_that_is_convicted_holds() -> None:
    assert main(HASTY) == Exit.HOLD


def test_a_defect_that_survives_is_a_violation() -> None:
    survivor = ["run", "calm", "--level", "sim", "--seed", "7", "--quiet", *SMALL, "--mutant", "segment-leak"]

    assert main(survivor) == Exit.VIOLATION  # it shows in unordered operators only


COLD = """
from pathlib import Path

WARM, asked = Path("warm"), 0  # the calm twin asks 38 times

async def first(record, pool):
    global asked
    asked += 1
    row = await pool.fetch_one("SELECT name FROM customer WHERE k = %s", (record.key,))
    if asked == 39 and not WARM.exists():
        WARM.touch()
        return [{"name": "?"}]
    return [{"name": row[0]}]
"""


def test_a_run_that_fails_and_passes_when_it_is_repeated_is_counted_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cold.py").write_text(COLD)
    monkeypatch.syspath_prepend(tmp_path)

    assert main([*CALM, "--sut", "cold:first", "--runs", str(KEPT_MAX + 1), "--jobs", "1"]) == Exit.VIOLATION

    assert (tmp_path / "warm").exists()
    assert f"{KEPT_MAX + 1} runs: {KEPT_MAX} as expected, 1 not, 0 undecided" in capsys.readouterr().out


def test_json_and_the_report_list_every_run_of_a_campaign(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*CALM, "--runs", "14", "--jobs", "1", "--report", "there", "--format", "json"])

    [tally] = json.loads(capsys.readouterr().out)["simulated"]
    assert (tally["scenario"], tally["runs"], tally["pass"], tally["unexpected"]) == ("calm", 14, 14, 0)
    document = json.loads((tmp_path / "there" / "run.json").read_text("utf-8"))
    page = (tmp_path / "there" / "index.html").read_text("utf-8")
    assert [run["seed"] for run in document["counted"]] == list(range(7, 21))
    assert {run["verdict"] for run in document["counted"]} == {"pass"}
    assert document["sentence"] == "14 runs: 14 as expected, 0 not, 0 undecided."
    assert "All 14 runs" in page
    assert [f"seed {seed} pass</span>" in page for seed in range(7, 21)] == [True] * 14
    assert page.count('<tr><th scope="row" class="num">') == 14


@pytest.mark.sweep
def test_markdown_has_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    main([*CALM, "--runs", "13", "--jobs", "1", "--format", "markdown"])

    told = capsys.readouterr().out
    assert "13 runs: 13 as expected, 0 not, 0 undecided" in told
    assert "| `calm` | sim | 13 | 13 | 0 | 0 | 0 | 0 | 0 |" in told


def test_a_report_that_cannot_be_written_is_one_line_and_the_code_of_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()

    assert main([*CALM, "--report", "file/there"]) == Exit.ENVIRONMENT

    said = capsys.readouterr().err
    assert "cannot write to file/there" in said
    assert "Traceback" not in said


@pytest.mark.sweep
@pytest.mark.parametrize("runs", in_sweep_after(1, ["1", "13"]))
def test_a_budget_holds_for_one_long_run_and_for_the_first_of_many(
    runs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    long = ["--set", "workload.records=3000", "--set", "budget=60m", "--budget", "0.1", "--runs", runs]

    assert main(["run", "calm", "--level", "sim", "--seed", "7", *long]) == Exit.UNDECIDED
    assert "the budget of the command is over" in capsys.readouterr().out


@pytest.mark.sweep
def test_a_violation_before_the_budget_was_over_is_in_the_report_of_many_runs_too(tmp_path: Path) -> None:
    long = ["--set", "workload.records=10000", "--set", "budget=60m", "--budget", "0.3", "--runs", "13"]

    main(["run", "calm", "--level", "sim", "--mutant", "watermarks-at-once", *long, "--report", "there"])

    document = json.loads((tmp_path / "there" / "run.json").read_text("utf-8"))
    assert [run["verdict"] for run in document["counted"]] == ["fail"]
    assert [run["verdict"] for run in document["runs"]] == ["fail"]


@pytest.mark.sweep
@pytest.mark.parametrize("jobs", in_sweep_after(1, ["2", "1"]))
def test_of_many_runs_there_is_a_table_and_a_bounded_report(
    jobs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With two jobs in two processes, for the runs are more than one share."""
    code = main([*CALM, "--runs", "18", "--jobs", jobs, "--report", "there"])

    said = capsys.readouterr().out
    assert code == Exit.HOLD
    assert "18 runs in" in said
    assert len(list((tmp_path / "there" / "runs").iterdir())) <= KEPT_MAX


@pytest.mark.sweep
def test_the_first_run_that_is_not_as_it_should_be_is_told_with_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    silent = [*CALM, "--set", "expects.records=40", "--sut", f"{__name__}:forgets", "--runs", "13"]
    sys.modules.setdefault(__name__, sys.modules[__name__])

    assert main(silent) == Exit.VIOLATION

    said = capsys.readouterr().out
    assert "first    floodmark run calm --level sim --seed 7" in said
    assert "cause    the lookup raised ValueError at " in said
    assert ": 13 of 13 runs" in said


async def forgets(record: Lookup) -> object:
    """A function that fails by itself for every second key, which V24 convicts."""
    if isinstance(record.key, int) and record.key % 2:
        raise ValueError(record.key)
    return record.key


def test_the_operator_with_a_thread_of_its_own_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CALM, "--sut", "reference-emitter"]) == Exit.USAGE

    assert "--level live" in capsys.readouterr().err


def test_a_mutant_of_level_sim_is_refused_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "calm", "--level", "live", "--mutant", "tools.defects:snapshot_omits_blocked"]

    assert main(words) == Exit.USAGE
    assert "--level sim" in capsys.readouterr().err


def test_a_simulated_world_is_refused_to_real_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "calm", "--level", "live", "--world", "simulated"]) == Exit.USAGE
    assert main(["demo", "--world", "simulated"]) == Exit.USAGE

    assert "--level sim" in capsys.readouterr().err


@pytest.mark.sweep
def test_a_budget_that_is_over_leaves_the_rest_unrun(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*CALM, "--runs", "200", "--jobs", "2", "--budget", "0.3"])

    assert code == Exit.UNDECIDED
    assert "runs did not run: the budget is over" in capsys.readouterr().err


def test_the_demo_shows_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--level", "sim", "--seed", "7", "--quiet"]) == Exit.HOLD

    said = capsys.readouterr().out
    assert "planted defect snapshot-omits-completed" in said
    assert "2 as expected" in said
