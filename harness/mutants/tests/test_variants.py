"""Defects of simulated sinks: each differs from the honest sink where it is concerned, and nowhere else."""

from __future__ import annotations

import pytest

from harness.defects import DEFECTS
from harness.mutants.of_sinks import (
    checking_before,
    committing_again,
    committing_at_snapshot,
    keeping_output,
    unfenced,
    writing_at_once,
)
from harness.mutants.variants import variant_of
from harness.sim.atomic_sink import AtomicSink
from harness.sim.sinks.open_sink import AppendSink, RollbackSink
from harness.sim.sinks.two_phase import TwoPhaseSink
from harness.sut.variant import HONEST


@pytest.mark.parametrize("name", DEFECTS)
def test_a_mutant_is_not_the_reference(name: str) -> None:
    assert variant_of(name) != HONEST


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


def test_the_class_of_a_defect_is_made_once() -> None:
    assert unfenced(AtomicSink) is unfenced(AtomicSink)
