"""Claims about the operator as one with state: what its checkpoints keep, and what a restart replays."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.checkpoint_events import (
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
    CheckpointOptions,
)
from reference_impl.checkpoints.async_checkpoint import OperatorSnapshotFutures, OperatorSubtaskState
from reference_impl.checkpoints.state_handler import StateSnapshotContext, StreamOperatorStateHandler
from reference_impl.elements import WatermarkStatus
from reference_impl.errors import StateError, WrongState
from reference_impl.operator.async_wait import QUEUE_STATE, from_state
from reference_impl.operator.build import Mode
from reference_impl.state.operator_state import OperatorStateBackend, RoundRobinOperatorStateRepartitioner
from reference_impl.tests.rig import Rig, open_virtual, quickly, record, shown, watermark


class Kept:
    """An operator's state, from its start on. Mutable, as the state is."""

    def __init__(self, rig: Rig, restored: OperatorSubtaskState | None = None) -> None:
        self.backend = OperatorStateBackend(operator="lookup")
        self.backend.restore(restored.managed_operator_state if restored else None)
        self._operator = rig.operator
        self._handler = StreamOperatorStateHandler(
            operator_id="lookup",
            operator_state_backend=self.backend,
            restored_checkpoint_id=1 if restored else None,
            restored=restored,
        )
        self._handler.initialize_operator_state(rig.operator)

    def begin(self, checkpoint_id: int = 1) -> OperatorSnapshotFutures:
        """The synchronous part."""
        metadata = CheckpointMetaData(checkpoint_id=checkpoint_id)
        return self._handler.snapshot_state(self._operator, metadata, CheckpointOptions())

    def taken(self) -> OperatorSubtaskState:
        """Both parts."""
        return self.begin().finalize()

    @property
    def elements(self) -> list[Any]:
        """What the list state holds now."""
        return [shown(from_state(item)) for item in self.backend.get_list_state(QUEUE_STATE).get()]


def elements_of(state: OperatorSubtaskState) -> list[Any]:
    """What a snapshot holds."""
    backend = OperatorStateBackend(operator="lookup")
    backend.restore(state.managed_operator_state)
    return [shown(from_state(item)) for item in backend.get_list_state(QUEUE_STATE).get()]


# -------------------------------------------------------------------------------------------------- what it keeps


def test_the_state_is_the_queue_and_replaces_what_the_last_checkpoint_kept_a56() -> None:
    with open_virtual() as rig:
        kept = Kept(rig)
        rig.process(record(1), watermark(1), record(2), WatermarkStatus(idle=True))
        first = elements_of(kept.taken())
        rig.complete(1, "a")
        rig.run_mail()

        second = elements_of(kept.taken())

    assert first == [1, "w1", 2, "idle"]
    assert second == [2, "idle"]


def test_the_state_is_one_list_that_is_split_when_the_parallelism_changes_a56_a64() -> None:
    with open_virtual() as rig:
        kept = Kept(rig)
        rig.process(record(1), record(2), record(3))
        handle = kept.taken().managed_operator_state

    split = RoundRobinOperatorStateRepartitioner(operator="lookup").repartition_state([handle], 1, 2)
    parts = [elements_of(OperatorSubtaskState(managed_operator_state=part)) for part in split]

    assert sorted(parts[0] + parts[1]) == [1, 2, 3]
    assert abs(len(parts[0]) - len(parts[1])) == 1


def test_a_snapshot_waits_for_no_call_and_disturbs_none_a57() -> None:
    with open_virtual(timeout_ms=100) as rig:
        kept = Kept(rig)
        rig.process(record(1), record(2))

        kept.taken()
        calls_after = rig.calls()
        rig.complete(2, "b")
        rig.complete(1, "a")
        rig.run_mail()

    assert calls_after == [1, 2]
    assert rig.values() == ["a", "b"]


def test_a_record_whose_result_waits_to_leave_is_in_the_snapshot_and_the_result_is_not_a58_a59() -> None:
    with open_virtual() as rig:
        kept = Kept(rig)
        rig.process(record(1), record(2))
        rig.complete(2, "b")
        rig.run_mail()

        state = kept.taken()

    assert rig.values() == []
    assert elements_of(state) == [1, 2]


def test_what_has_left_is_in_no_later_snapshot_a59() -> None:
    with open_virtual(mode="unordered") as rig:
        kept = Kept(rig)
        rig.process(record(1), record(2))
        rig.complete(2, "b")
        rig.run_mail()

        state = kept.taken()

    assert rig.values() == ["b"]
    assert elements_of(state) == [1]


def test_what_happens_after_the_synchronous_part_is_not_in_the_snapshot_c7_s23() -> None:
    with open_virtual() as rig:
        kept = Kept(rig)
        rig.process(record(1))

        futures = kept.begin()
        rig.complete(1, "a")
        rig.run_mail()
        rig.process(record(2))
        kept.begin(2)

    assert elements_of(futures.finalize()) == [1]


def test_a_record_that_changes_after_the_synchronous_part_is_kept_as_it_was_c7() -> None:
    value = [1]
    with open_virtual(copy_value=list) as rig:
        kept = Kept(rig)
        rig.hand.then = None
        rig.operator.function.invoke = lambda value, handle: None  # type: ignore[method-assign]  # a list is no key
        rig.process(record(value))

        futures = kept.begin()
        value.append(2)

    assert elements_of(futures.finalize()) == [[1]]


def test_an_element_that_cannot_be_kept_clears_the_state_and_fails_the_checkpoint_a60() -> None:
    with open_virtual() as rig:
        kept = Kept(rig)
        rig.process(record(1))
        kept.taken()
        rig.process(record(object()))

        with pytest.raises(CheckpointException, match="'lookup'") as raised:
            kept.begin(2)

    assert raised.value.reason is CheckpointFailureReason.CHECKPOINT_DECLINED
    assert isinstance(raised.value.__cause__, StateError)
    assert raised.value.__cause__.state == "_async_wait_operator_state_"
    assert kept.elements == []


def test_an_operator_that_was_never_given_a_state_says_so_c45() -> None:
    with open_virtual() as rig, pytest.raises(WrongState, match="call initialize_state first"):
        rig.operator.snapshot_state(StateSnapshotContext(operator_id="lookup", checkpoint_id=1))


def test_with_an_empty_queue_the_list_is_empty_and_not_missing_a56_s18() -> None:
    with open_virtual() as rig:
        state = Kept(rig).taken()

    assert elements_of(state) == []


# ------------------------------------------------------------------------------------------------ what it replays


def restarted(state: OperatorSubtaskState, *, capacity: int = 10, mode: Mode = "ordered") -> list[Any]:
    """What an operator calls that begins with `state`, before any input."""
    with open_virtual(capacity=capacity, mode=mode) as rig:
        Kept(rig, state)
        rig.operator.open()
        return rig.calls()


def test_open_replays_what_was_restored_before_any_input_a61_c45() -> None:
    with open_virtual() as rig:
        kept = Kept(rig)
        rig.process(record(1), watermark(1), record(2))
        state = kept.taken()

    with open_virtual() as again:
        Kept(again, state)
        calls_before_open = again.calls()
        again.operator.open()
        again.process(record(3))
        for value in (3, 2, 1):
            again.complete(value, value)
            again.run_mail()

        assert calls_before_open == []
        assert again.calls() == [1, 2, 3]
        assert again.values() == [1, "w1", 2, 3]


def test_more_than_the_capacity_is_replayed_as_slots_become_free_a62() -> None:
    with open_virtual() as rig:
        kept = Kept(rig)
        rig.process(record(1), record(2), record(3))
        state = kept.taken()

    with open_virtual(capacity=1) as again:
        Kept(again, state)
        again.hand.then = lambda value, handle: handle.complete([value])
        again.operator.open()
        again.run_mail()

        assert again.values() == [1, 2, 3]


def test_a_snapshot_right_after_the_restore_holds_the_same_again_a63() -> None:
    with open_virtual() as rig:
        kept = Kept(rig)
        rig.process(record(1), watermark(1), record(2))
        state = kept.taken()

    with open_virtual() as again:
        kept_again = Kept(again, state)
        again.operator.open()

        assert elements_of(kept_again.taken()) == [1, "w1", 2]


def test_a_first_start_replays_nothing_a61() -> None:
    with open_virtual() as rig:
        Kept(rig)
        rig.operator.open()

        assert rig.calls() == []


@given(data=st.data(), mode=st.sampled_from(["ordered", "unordered"]))
@quickly
def test_every_input_leaves_exactly_once_whenever_the_task_is_cut_a59(
    data: st.DataObject, mode: Mode
) -> None:
    """What left before the cut, and what a restart from it replays, are together what went in."""
    with open_virtual(mode=mode) as rig:
        kept = Kept(rig)
        values = list(range(data.draw(st.integers(1, 6))))
        rig.process(*map(record, values))
        for value in data.draw(st.permutations(values)):
            if data.draw(st.booleans()):
                rig.complete(value, value)
                rig.run_mail()
        state = kept.taken()
        left = rig.values()

    assert sorted(left + restarted(state, mode=mode)) == values
