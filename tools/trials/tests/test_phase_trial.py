"""The phase trial: which phases there are, that each is really met, and that a worker may die at any of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.faults.parts.triggers import PHASES
from harness.history.verdict import Outcome
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load, load_many
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.tests.simulated_run import verdict_on
from tools.cases import in_sweep_after
from tools.trials.phase_trial import killed_at, main, phases_of, shortened, try_phases

SHIPPED = load(catalogue()["sessions-calm"])
SHORT = {sink: shortened(SHIPPED, sink=sink) for sink in ("atomic", "two-phase", "idempotent")}
OF_THE_SINK = {"store", "ack", "notify", "commit.pre", "commit.post"}
EACH = [
    (sink, phase)
    for sink, scenario in SHORT.items()
    for phase in phases_of(scenario)
    if sink == "atomic" or phase in OF_THE_SINK
]


def with_task(**task: Any) -> Scenario:
    return Scenario.model_validate({**SHORT["atomic"].model_dump(mode="json", by_alias=True), "task": task})


@pytest.mark.parametrize(("sink", "phase"), in_sweep_after(5, EACH))
def test_a_worker_with_keyed_state_that_dies_at_any_phase_loses_nothing(sink: str, phase: Any) -> None:
    """The run is vacuous, and does not pass, if the kill met nobody."""
    killed = killed_at(SHORT[sink], phase, seed=11)

    judgement = verdict_on(Order(scenario=killed, level="sim", seed=11))

    assert judgement.outcome is Outcome.PASS, judgement


def test_all_phases_but_those_of_another_sink_are_tried() -> None:
    assert set(phases_of(SHORT["atomic"])) == {*PHASES} - {"store", "ack", "notify"}
    assert phases_of(SHORT["two-phase"]) == PHASES


def test_without_keyed_state_there_is_no_timer_and_with_one_input_no_alignment() -> None:
    plain = shortened(load(catalogue()["calm"]), sink="two-phase")

    assert {*PHASES} - {*phases_of(plain)} == {"align", "timer"}
    assert {*PHASES} - {*phases_of(with_task(inputs=1))} == {"store", "ack", "notify", "align"}


def test_the_seed_draws_which_hit_is_fatal() -> None:
    hits = {killed_at(SHORT["atomic"], "emit", seed=seed).faults[-1].when.hit for seed in range(20)}  # type: ignore[union-attr]

    assert len(hits) > 5


def test_a_phase_that_somebody_does_not_survive_is_told_with_its_seed() -> None:
    """A run whose budget is over before it is done is none that passed."""
    hopeless = SHORT["atomic"].model_copy(update={"budget": 100})

    [trial] = try_phases([hopeless], seeds=2, among=["snap.mid"])

    assert (trial.passed, trial.first, trial.holds) == (0, 1, False)


def test_the_command_prints_a_row_for_each_phase() -> None:
    asked = ["sessions-calm", "--seeds", "1", "--sink", "atomic", "--phase", "align"]

    result = CliRunner().invoke(main, asked)

    assert result.exit_code == 0
    assert "| sessions-calm | atomic | `align` | 1 of 1 |  |" in result.output
    assert "1 of 1 phases hold" in result.output


def test_what_it_writes_for_other_levels_are_sound_scenarios(tmp_path: Path) -> None:
    asked = ["--sink", "two-phase", "--phase", "restore.mid", "--phase", "notify", "--write", str(tmp_path)]

    result = CliRunner().invoke(main, asked)

    written = {scenario.scenario: len(scenario.faults) for scenario in load_many([tmp_path])}
    assert result.output == f"2 scenario files in {tmp_path}\n"
    assert written == {"sessions-calm-at-restore-mid-two-phase": 2, "sessions-calm-at-notify-two-phase": 1}
