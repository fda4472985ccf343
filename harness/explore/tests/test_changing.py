"""Changes of scenarios: valid, drawn from their seed alone, and such that a correct operator can finish them."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.explore.changing import change, shortened
from harness.explore.drawing import draw_scenario
from harness.scenario.catalogue import catalogue
from harness.scenario.file import dump, load, loads
from harness.scenario.model import Scenario
from harness.system.choices import Draw
from tools.cases import in_sweep_after


def _changed(seed: int) -> Scenario:
    made = change(draw_scenario(seed), Draw(seed, "test"), other=draw_scenario(seed + 1))
    assert made is not None
    return made


@pytest.mark.parametrize("seed", in_sweep_after(3, range(12)))
def test_what_is_changed_can_be_written_and_read_again(seed: int) -> None:
    made = _changed(seed)

    assert made != draw_scenario(seed)
    assert loads(dump(made)) == made


def test_equal_arguments_give_equal_changes() -> None:
    assert [_changed(seed) for seed in range(6)] == [_changed(seed) for seed in range(6)]


def test_a_change_keeps_an_idempotent_sink_from_results_that_a_restart_may_alter() -> None:
    made = [_changed(seed) for seed in range(60)]

    upserts = [one for one in made if one.sink == "idempotent"]
    assert upserts
    assert all(one.operator.on_timeout == "fail" and one.operator.on_error == "fail" for one in upserts)


def test_a_shortened_scenario_keeps_its_faults_where_they_were() -> None:
    whole = load(catalogue()["between-two-outputs"])

    short = shortened(whole, records=30)

    assert short is not None
    assert short.workload.records == 30
    assert [fault.do for fault in short.faults] == [fault.do for fault in whole.faults]
    hits = [getattr(fault.when, "hit", 1) for fault in short.faults]
    assert all(1 <= hit <= 60 for hit in hits)


def test_a_changed_scenario_claims_no_bound_that_was_written_for_another() -> None:
    whole = load(catalogue()["checkpoints-beside-a-stall"])

    made = [change(whole, Draw(seed, "test")) for seed in range(8)]

    assert whole.workload.checkpoint_gap is not None
    assert all(one is None or one.workload.checkpoint_gap is None for one in made)


def test_no_change_uses_up_the_restarts_of_a_subtask() -> None:
    made = [_changed(seed) for seed in range(40)]

    crashes = [
        Counter(
            getattr(fault, "subtask", None) for fault in one.faults if fault.do in {"kill_worker", "zombie"}
        )
        for one in made
    ]
    assert max(max(of.values(), default=0) for of in crashes) == 2


def test_no_change_pauses_a_subtask_for_more_than_half_of_the_time_of_its_run() -> None:
    """The reference was stuck in a run of a minute with four pauses of 26 s."""
    pause = "{{id: p{n}, do: pause_worker, subtask: 0, when: {{phase: snap.begin}}, for: 26s}}"
    pauses = ", ".join(pause.format(n=n) for n in range(4))
    paused = loads(
        "scenario: paused\nabout: A worker stands still.\noperator: {mode: ordered}\nbudget: 1m\n"
        "workload: {records: 30, subtasks: 1, checkpoint_every: 10}\n"
        f"faults: [{pauses}]\ndecisive: [V8]\n"
    )

    made = [one for seed in range(20) if (one := change(paused, Draw(seed, "test"))) is not None]

    lasting = [[fault for fault in one.faults if fault.do == "pause_worker"] for one in made]
    assert any(lasting)
    assert all(
        2 * sum(fault.lasts_ms or 0 for fault in of) <= one.budget
        for one, of in zip(made, lasting, strict=True)
    )


def test_a_shortened_scenario_can_last_as_long_as_before() -> None:
    whole = load(catalogue()["sessions-by-clock"])

    thin = shortened(whole, records=20, keeps_time=True)

    assert thin is not None
    before, after = whole.workload, thin.workload
    lasts_s = before.records / before.rate, after.records / after.rate
    assert lasts_s[1] == pytest.approx(lasts_s[0], rel=0.1)
    assert after.keys < before.keys
