"""Defects of checkpoints, on a subtask by hand."""

from __future__ import annotations

import pytest

from harness.engine.subtask import Subtask
from harness.engine.tests.subtask_rig import HandCoordination, ListSource, open_subtask
from harness.sut.defects.checkpoints import omitting_blocked, one_early, one_late
from reference_impl.elements import Record
from reference_impl.tests.rig import record


@pytest.mark.parametrize(
    ("kind", "positions"),
    [
        (HandCoordination, [2, 3]),
        (one_early(HandCoordination), [1, 2]),
        (one_late(HandCoordination), [3, 4]),
    ],
)
def test_a_shifted_offset_is_one_off(kind: type[HandCoordination], positions: list[int]) -> None:
    source = ListSource([record(1), record(2), record(3)], barriers=[2])
    with open_subtask(source, coordination=kind) as rig:
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
