"""Each planted defect of a task with keyed state is convicted, by who is meant for it, in a short run with a crash."""

from __future__ import annotations

import pytest

from harness.history.verdict import Judgement, Outcome
from harness.kill_matrix.matrix import find_suspect, try_suspect
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.scenario.order import Order
from harness.sut.defects import IN_RUNS, Defect
from harness.system.clock import Deadline
from harness.tests.simulated_run import verdict_on
from tools.trials.phase_trial import killed_at, shortened

SEEDS = range(1, 7)
SHIPPED = catalogue()
OF_KEYED_TASKS = [
    defect
    for defect in IN_RUNS.values()
    if defect.tried_in
    if (scenario := load(SHIPPED[defect.tried_in])).task
    if len(scenario.faults) <= 1 and not scenario.rescales
]
"""But for those that need a second crash (`harness/levels/sim/tests/test_reached_t7.py`) or a rescale."""


@pytest.mark.parametrize("defect", OF_KEYED_TASKS, ids=lambda defect: defect.name)
def test_it_is_convicted_where_the_reference_passes(defect: Defect) -> None:
    name, meant = defect.name, defect.convicted_by
    variant = find_suspect(name).variant
    assert defect.tried_in is not None
    short = shortened(load(SHIPPED[defect.tried_in]), sink="atomic")
    runs = [Order(scenario=killed_at(short, "accept", seed=seed), level="sim", seed=seed) for seed in SEEDS]

    convicted = next(run for run in runs if _convicts(verdict_on(run, variant=variant), meant))

    assert verdict_on(convicted).outcome is Outcome.PASS


def _convicts(judgement: Judgement, meant: tuple[str, ...]) -> bool:
    return any(
        verdict.outcome is Outcome.FAIL and verdict.invariant in meant for verdict in judgement.invariants
    )


@pytest.mark.sweep
def test_one_that_no_random_scenario_can_show_is_tried_in_its_scenario() -> None:
    suspect = find_suspect("timers-lost-on-restore")

    trial = try_suspect(suspect, first_seed=1, runs=3, deadline=Deadline(60), least=1)

    assert trial.is_convicted
    assert trial.runs == 1
