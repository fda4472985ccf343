"""A defect of the harness itself ends `floodmark run` with an error of the harness, never with a verdict (T9)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.cli.main import main
from harness.engine.canaries_in_world import refuse_blind_files
from harness.engine.findings import refuse_blind_faults
from harness.explore import trial
from harness.judge.canaries.canary import canaries
from harness.levels.sim import level as sim_level
from harness.levels.sim.canaries import refuse_blind_simulation
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load_many
from harness.scenario.order import Order
from harness.system.errors import Exit, HarnessError
from harness.testing.running import refuse_blind_judge
from harness.tests.harness_defects import (
    IN_FILES,
    IN_SIMULATION,
    acquits_everything,
    counts_what_was_before,
)
from harness.tests.report_defects import IN_THE_REPORT
from tools.cases import in_sweep_after
from tools.trials.catalogue_trial import try_catalogue

RUN = [
    "run", "calm", "--level", "sim", "--seed", "7", "--quiet",
    "--set", "workload.records=20", "--set", "workload.checkpoint_every=6",
    "--set", "expects.records=40", "--set", "expects.checkpoints=3",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refuse_blind_simulation.cache_clear()


def test_an_honest_harness_sees_every_canary_trust9(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(RUN) == Exit.HOLD
    refuse_blind_files(level="live")


@pytest.mark.parametrize("part", in_sweep_after(4, IN_SIMULATION))
def test_a_defect_of_the_harness_ends_a_simulated_run_with_3_trust9(
    part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant, says = IN_SIMULATION[part]
    plant(monkeypatch)

    code = main(RUN)

    assert code == Exit.INTERNAL
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("jobs", in_sweep_after(1, ["2", "1"]))
def test_a_defect_of_the_harness_ends_many_simulated_runs_with_3_trust9(
    jobs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each process that judges begins with the canaries."""
    plant, says = IN_SIMULATION["screen"]
    plant(monkeypatch)

    code = main([*RUN, "--runs", "17", "--jobs", jobs])

    assert code == Exit.INTERNAL
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("part", in_sweep_after(1, IN_FILES))
def test_a_defect_on_the_way_through_files_is_found_before_a_run_trust9(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, says = IN_FILES[part]
    plant(monkeypatch)

    with pytest.raises(HarnessError, match=says):
        refuse_blind_files(level="live")


@pytest.mark.parametrize("part", in_sweep_after(2, IN_THE_REPORT))
def test_a_report_that_contradicts_its_run_ends_with_3_trust9(
    part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The planted defect does not show in this run, which is not as expected."""
    plant, says = IN_THE_REPORT[part]
    plant(monkeypatch)

    code = main([*RUN, "--mutant", "tools.defects:stale_cache"])

    assert code == Exit.INTERNAL
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("form", in_sweep_after(1, ["json", "pretty"]))
@pytest.mark.parametrize("mutant", ["tools.defects:stale_cache", "unordered-emission"])
def test_an_honest_report_of_a_wrong_operator_holds_together_trust9(mutant: str, form: str) -> None:
    expected = Exit.HOLD if mutant == "unordered-emission" else Exit.VIOLATION

    assert main([*RUN, "--mutant", mutant, "--format", form]) == expected


def test_evidence_of_what_was_before_a_fault_is_found_before_a_run_trust9(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (scenario,) = load_many(["connections-cut"])
    refuse_blind_faults(scenario)
    counts_what_was_before(monkeypatch)

    with pytest.raises(HarnessError, match="before it has acted"):
        refuse_blind_faults(scenario)


def test_a_judge_that_acquits_everything_checks_no_history_trust9(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (honest,) = (canary for canary in canaries("operator") if canary.name == "honest stream")
    (tmp_path / "honest.jsonl").write_bytes(honest.path.read_bytes())
    assert main(["check", "honest.jsonl"]) == Exit.HOLD
    refuse_blind_judge.cache_clear()
    acquits_everything(monkeypatch)

    code = main(["check", "honest.jsonl"])

    assert code == Exit.INTERNAL
    assert "V9 double-effect without tables" in capsys.readouterr().err
    refuse_blind_judge.cache_clear()


def breaks(which: Callable[[Order], bool], patch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Runs of such orders end in an error that nobody expects."""
    honest = module.simulate_scenario

    def simulate(order: Order, **parts: Any) -> Any:
        if which(order):
            raise KeyError("planted")
        return honest(order, **parts)

    patch.setattr(module, "simulate_scenario", simulate)


@pytest.mark.parametrize("runs", ["3", "17"])
def test_an_internal_error_of_one_run_leaves_the_other_runs_reported_trust19(
    runs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three runs are kept whole, seventeen are counted in two processes."""
    breaks(lambda order: order.seed == 8, monkeypatch, sim_level)

    code = main([*RUN, "--runs", runs, "--jobs", "2", "--report", "page", "--format", "json"])
    document, told = capsys.readouterr()

    (tally,) = json.loads(document)["simulated"]
    assert code == Exit.INTERNAL
    assert tally["pass"] == int(runs) - 1
    assert "floodmark: in calm with seed 8: internal error (KeyError" in told
    assert "internal error" in Path("page/run.json").read_text()


def test_a_trial_of_the_catalogue_does_not_count_a_broken_run_trust19(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    breaks(lambda order: order.seed == 1, monkeypatch, sim_level)

    with pytest.raises(HarnessError, match="in calm with seed 1: internal error"):
        try_catalogue([catalogue()["calm"]], seeds=2)


def test_the_demo_ends_with_3_if_one_of_its_runs_broke_floodmark_trust19(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    breaks(lambda order: order.mutant is not None, monkeypatch, sim_level)

    assert main(["demo", "--level", "sim", "--seed", "7", "--quiet"]) == Exit.INTERNAL


def test_an_internal_error_of_one_trial_leaves_an_exploration_its_result_trust19(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    breaks(lambda order: order.seed == 9, monkeypatch, trial)

    code = main(["explore", "--seed", "7", "--runs", "12", "--jobs", "1", "--format", "json", "--quiet"])
    document = json.loads(capsys.readouterr().out)

    assert code == Exit.INTERNAL
    assert document["runs"] == 12
    assert sum(document["outcomes"].values()) == 11
    (broken,) = document["broken"]
    assert "with seed 9: internal error (KeyError" in broken
