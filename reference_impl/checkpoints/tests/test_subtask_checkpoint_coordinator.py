"""Claims about a subtask's part in a checkpoint: whether it takes it, in what order, and what is written behind it."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future

import pytest

from reference_impl.checkpoint_events import AlignmentType, CheckpointOptions, SnapshotType
from reference_impl.checkpoints.async_checkpoint import OperatorSnapshotFutures
from reference_impl.checkpoints.channels import ChannelStateWriter
from reference_impl.checkpoints.tests.checkpoint_rig import (
    SUBSUMED,
    UNALIGNED,
    WITH_TIMEOUT,
    CheckpointRig,
    CountedHandle,
    refused,
    stateless,
)
from reference_impl.errors import WrongState
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.state.snapshots import SnapshotFuture

FORCED_ALIGNED = CheckpointOptions(alignment=AlignmentType.FORCED_ALIGNED)
SAVEPOINT = CheckpointOptions(snapshot_type=SnapshotType.SAVEPOINT)


# ------------------------------------------------------------------------------------------- whether it is taken


def test_an_id_not_above_the_last_is_passed_over_in_silence_c1() -> None:
    rig = CheckpointRig({"map": stateless})
    rig.trigger(5)
    rig.work()
    before = list(rig.happened)

    rig.trigger(5)
    rig.trigger(4)
    rig.work()

    assert rig.happened == before


def test_an_out_of_order_id_ends_what_was_being_written_of_it_c1_flink_17869() -> None:
    writer = ChannelStateWriter()
    rig = CheckpointRig({"map": stateless}, channel_state_writer=writer)
    rig.abort_on_barrier(7, SUBSUMED)
    writer.start(7, UNALIGNED)
    result = writer.get_and_remove_write_result(7)

    rig.trigger(7, UNALIGNED)

    assert result.is_done
    assert ("barrier", 7) not in rig.happened


def test_an_out_of_order_id_uses_up_its_abort_mark_c1() -> None:
    rig = CheckpointRig({"map": stateless})
    rig.notify("aborted", 3)
    rig.coordinator.last_checkpoint_id = 3

    rig.trigger(3)

    assert len(rig.coordinator.aborted) == 0


def test_an_aborted_id_sends_a_cancel_marker_and_takes_no_snapshot_c2_flink_18238() -> None:
    rig = CheckpointRig({"map": stateless})
    rig.notify("aborted", 3)

    rig.trigger(3)
    rig.work()

    assert rig.happened == [("aborted", 3), ("cancel marker", 3)]


def test_an_abort_before_the_start_leaves_nothing_in_flight_open_c2_flink_17218() -> None:
    writer = ChannelStateWriter()
    rig = CheckpointRig({"map": stateless}, channel_state_writer=writer)
    rig.notify("aborted", 3)
    rig.coordinator.init_input_checkpoint(3, UNALIGNED)

    rig.trigger(3, UNALIGNED)
    with pytest.raises(WrongState, match="no in-flight data are collected for checkpoint 3"):
        writer.get_and_remove_write_result(3)
    rig.coordinator.init_input_checkpoint(4, UNALIGNED)
    rig.trigger(4, UNALIGNED)
    rig.work()

    assert ("barrier", 3) not in rig.happened
    assert list(rig.responder.acknowledged) == [4]


def test_an_id_behind_so_many_aborts_that_its_mark_may_be_gone_counts_as_aborted_c12() -> None:
    rig = CheckpointRig({"map": stateless}, max_record_aborted_checkpoints=2)
    for checkpoint_id in (1, 2, 3, 4):
        rig.notify("aborted", checkpoint_id)

    rig.trigger(1)

    assert ("cancel marker", 1) in rig.happened


# ------------------------------------------------------------------------------------------------------- the cut


def test_the_barrier_leaves_before_the_operators_are_asked_tail_first_c3() -> None:
    rig = CheckpointRig({"head": stateless, "tail": stateless})

    rig.trigger(1)

    assert rig.happened == [("prepare", 1), ("barrier", 1), ("snapshot tail", 1), ("snapshot head", 1)]


@pytest.mark.parametrize(
    ("options", "is_priority"),
    [(UNALIGNED, True), (CheckpointOptions(), False), (FORCED_ALIGNED, False), (SAVEPOINT, False)],
)
def test_only_an_unaligned_barrier_has_priority_c3_c29(
    options: CheckpointOptions,
    is_priority: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    rig = CheckpointRig({"map": stateless}, channel_state_writer=ChannelStateWriter())
    rig.coordinator.init_input_checkpoint(1, options)

    rig.trigger(1, options)

    assert rig.chain.priorities == [is_priority]


@pytest.mark.parametrize("options", [FORCED_ALIGNED, SAVEPOINT, CheckpointOptions()])
def test_what_never_overtakes_captures_nothing_in_flight_c29_flink_18136(options: CheckpointOptions) -> None:
    writer = ChannelStateWriter()
    rig = CheckpointRig({"map": stateless}, channel_state_writer=writer)

    rig.coordinator.init_input_checkpoint(1, options)
    rig.trigger(1, options)
    rig.work()

    assert rig.responder.acknowledged == {1: None}


def test_nothing_of_the_mailbox_runs_during_the_synchronous_part_c4() -> None:
    with virtual_loop() as loop:
        executor = MailboxExecutor(Mailbox(loop=loop), 0)
        rig = CheckpointRig({"head": stateless, "tail": stateless}, timers=Timers(loop, executor))
        executor.execute(lambda: rig.happened.append("mail"), "a mail that waits")

        rig.trigger(1, WITH_TIMEOUT)

        assert "mail" not in rig.happened


def test_an_error_in_the_synchronous_part_cancels_what_was_begun_and_fails_the_task_c5() -> None:
    handle = CountedHandle()
    begun = handle.futures
    rig = CheckpointRig({"head": refused(ArithmeticError("full")), "tail": lambda _id: begun})

    with pytest.raises(ArithmeticError, match="full"):
        rig.trigger(1)
    rig.work()

    assert begun.managed_keyed_state is not None
    assert begun.managed_keyed_state.is_cancelled
    assert rig.responder.acknowledged == {}
    assert rig.responder.declined == {}


def test_an_error_in_the_synchronous_part_ends_what_is_written_of_the_channels_c5_flink_28474() -> None:
    writer = ChannelStateWriter()
    rig = CheckpointRig({"head": refused(ArithmeticError("full"))}, channel_state_writer=writer)
    captured: Future[None] = Future()
    rig.coordinator._prepare_input_snapshot = lambda _writer, _id: captured
    rig.coordinator.init_input_checkpoint(1, UNALIGNED)
    result = writer._writing[1].result

    with pytest.raises(ArithmeticError):
        rig.trigger(1, UNALIGNED)

    assert result.is_done


# ----------------------------------------------------------------------------------------- the asynchronous part


def test_the_asynchronous_part_waits_for_what_is_in_flight_and_holds_no_thread_c3() -> None:
    writer, captured = ChannelStateWriter(), Future[None]()
    rig = CheckpointRig(
        {"map": stateless},
        channel_state_writer=writer,
        prepare_input_snapshot=lambda _writer, _id: captured,
    )
    rig.coordinator.init_input_checkpoint(1, UNALIGNED)

    rig.trigger(1, UNALIGNED)
    is_behind_before = bool(rig.behind)
    captured.set_result(None)
    rig.work()

    assert not is_behind_before
    assert rig.responder.acknowledged == {1: None}


def test_a_second_asynchronous_part_of_an_id_is_an_io_error_c11() -> None:
    rig = CheckpointRig({"map": stateless})
    rig.trigger(1)
    rig.coordinator.last_checkpoint_id = 0

    with pytest.raises(OSError, match="checkpoint 1 of map"):
        rig.trigger(1)


def test_what_begins_after_the_close_is_closed_at_once_c11() -> None:
    handle = CountedHandle()
    begun = handle.futures
    rig = CheckpointRig({"map": lambda _id: begun})
    rig.coordinator.close()

    rig.trigger(1)
    rig.work()

    assert begun.managed_keyed_state is not None
    assert begun.managed_keyed_state.is_cancelled
    assert rig.responder.acknowledged == {}
    assert rig.coordinator.pending_checkpoints == []


def test_an_executor_that_refuses_ends_the_part_and_fails_the_task_c8() -> None:
    rig = CheckpointRig({"map": stateless})

    def refuse(_action: object) -> None:
        raise RuntimeError("the pool is shut down")

    rig.coordinator._executor = refuse

    rig.trigger(1)

    assert [str(failure) for failure in rig.failures] == ["the pool is shut down"]
    assert rig.coordinator.pending_checkpoints == []


def test_the_end_of_the_task_waits_for_what_is_being_written_m47() -> None:
    rig = CheckpointRig({"map": stateless})
    rig.trigger(1)
    rig.trigger(2)

    rig.coordinator.wait_for_pending_checkpoints()

    assert list(rig.responder.acknowledged) == [1, 2]
    assert rig.coordinator.pending_checkpoints == []


def three_slices(_checkpoint_id: int) -> OperatorSnapshotFutures:
    """An operator whose asynchronous part takes three slices."""

    def slices() -> Generator[None, None, str]:
        yield
        yield
        return "written"

    return OperatorSnapshotFutures(managed_keyed_state=SnapshotFuture(slices()))


def test_in_slices_other_work_gets_its_turn_while_the_part_is_written_c7() -> None:
    rig = CheckpointRig({"map": three_slices, "other": three_slices}, in_slices=True)
    rig.trigger(1)
    turns = 0

    while rig.behind:
        rig.behind.pop(0)()
        turns += 1

    acknowledged = rig.responder.acknowledged[1]
    assert turns > 6
    assert acknowledged is not None
    assert [state.managed_keyed_state for state in acknowledged.operator_states.values()] == ["written"] * 2


def test_an_abort_between_two_slices_ends_the_part_c12() -> None:
    rig = CheckpointRig({"map": three_slices}, in_slices=True)
    rig.trigger(1)
    rig.behind.pop(0)()

    rig.notify("aborted", 1)
    rig.work()

    assert rig.responder.acknowledged == {}
    assert rig.responder.declined == {}


def test_a_slice_that_fails_declines_c9() -> None:
    def broken() -> Generator[None, None, str]:
        yield
        raise OSError("disk full")

    futures = OperatorSnapshotFutures(managed_keyed_state=SnapshotFuture(broken()))
    rig = CheckpointRig({"map": lambda _id: futures}, in_slices=True)
    rig.trigger(1)

    rig.work()

    assert list(rig.responder.declined) == [1]
