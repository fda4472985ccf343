"""Claims about the planted defects at level sim: each differs from the reference, and can show somewhere."""

from __future__ import annotations

import pytest

from harness.catalogue import catalogue
from harness.engine.subtask import Subtask
from harness.engine.tests.subtask_rig import ListSource, open_subtask
from harness.mutants.of_sinks import (
    checking_before,
    committing_again,
    committing_at_snapshot,
    keeping_output,
    unfenced,
    writing_at_once,
)
from harness.mutants.of_tasks import omitting_blocked, one_early, one_late
from harness.mutants.variants import PLANTED, variant_of
from harness.scenario_file import load
from harness.sim.atomic_sink import AtomicSink
from harness.sim.sinks.open_sink import AppendSink, RollbackSink
from harness.sim.sinks.two_phase import TwoPhaseSink
from harness.sim.situation_drawing import draw_situation
from harness.sim.variant import HONEST
from harness.sut.mutants import MUTANTS
from reference_impl.elements import Record
from reference_impl.tests.rig import record

EACH = pytest.mark.parametrize("name", MUTANTS)


def test_every_mutant_that_is_named_is_planted() -> None:
    assert set(PLANTED) == set(MUTANTS)


@EACH
def test_a_mutant_is_not_the_reference(name: str) -> None:
    assert variant_of(name) != HONEST


@pytest.mark.parametrize("name", [name for name in MUTANTS if PLANTED[name].scenario is None])
def test_some_of_three_hundred_situations_lets_a_mutant_show(name: str) -> None:
    assert any(PLANTED[name].applies(draw_situation(seed)) for seed in range(300))


@pytest.mark.parametrize("name", [name for name in MUTANTS if PLANTED[name].scenario is not None])
def test_a_mutant_that_no_situation_can_show_is_named_by_the_scenario_that_does(name: str) -> None:
    scenario = PLANTED[name].scenario
    assert scenario is not None

    assert load(catalogue()[scenario]).mutant == name
    assert not any(PLANTED[name].applies(draw_situation(seed)) for seed in range(10))


@pytest.mark.parametrize(
    ("defect", "concerned"),
    [
        (unfenced, {AtomicSink, TwoPhaseSink}),
        (checking_before, {AtomicSink, TwoPhaseSink}),
        (keeping_output, {RollbackSink, AppendSink}),
        (committing_at_snapshot, {TwoPhaseSink}),
        (committing_again, {TwoPhaseSink}),
        (writing_at_once, {AtomicSink}),
    ],
)
def test_a_defect_of_a_sink_leaves_other_kinds_of_sinks_alone(defect: object, concerned: set[type]) -> None:
    assert callable(defect)
    for sink in (AtomicSink, TwoPhaseSink, RollbackSink, AppendSink):
        assert (defect(sink) is not sink) == (sink in concerned)


@pytest.mark.parametrize(
    ("kind", "positions"), [(Subtask, [2, 3]), (one_early(Subtask), [1, 2]), (one_late(Subtask), [3, 4])]
)
def test_a_shifted_offset_is_one_off(kind: type[Subtask], positions: list[int]) -> None:
    source = ListSource([record(1), record(2), record(3)], barriers=[2])
    with open_subtask(source, kind=kind) as rig:
        rig.subtask.run()

        assert [checkpoint.position for _, checkpoint, _ in rig.told.checkpoints] == positions
        assert rig.told.emitted == [1, 2, 3]


@pytest.mark.parametrize(
    ("kind", "kept"), [(Subtask, (record(1), record(2))), (omitting_blocked(Subtask), (record(1),))]
)
def test_what_waits_for_a_slot_is_omitted(kind: type[Subtask], kept: tuple[Record, ...]) -> None:
    source = ListSource([record(1), record(2)])
    with open_subtask(source, kind=kind, capacity=1, delay_ms=500, is_hard=True) as rig:
        rig.at(100, rig.subtask.trigger_next)

        rig.subtask.run()

        assert rig.told.checkpoints[0][1].elements == kept


def test_the_class_of_a_defect_is_made_once() -> None:
    assert unfenced(AtomicSink) is unfenced(AtomicSink)
