"""Claims about what becomes of a subtask's part: its timer, what is heard of it, and aborts that come by barriers."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from reference_impl.checkpoint_events import (
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
)
from reference_impl.checkpoints.async_checkpoint import AsyncCheckpointRunnable, OperatorSnapshotFutures
from reference_impl.checkpoints.channels import ChannelStateWriter
from reference_impl.checkpoints.tests.checkpoint_rig import (
    SUBSUMED,
    UNALIGNED,
    WITH_TIMEOUT,
    CheckpointRig,
    CountedHandle,
    stateless,
)
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.state.snapshots import SnapshotFuture

# ------------------------------------------------------------------------------------------- the alignment timer


def test_a_barrier_that_may_overtake_does_so_after_its_timeout_c3_c26() -> None:
    with virtual_loop() as loop:
        executor = MailboxExecutor(Mailbox(loop=loop), 0)
        writer = ChannelStateWriter()
        rig = CheckpointRig({"map": stateless}, timers=Timers(loop, executor), channel_state_writer=writer)
        loop.advance(4)
        rig.coordinator.init_input_checkpoint(1, WITH_TIMEOUT)
        rig.trigger(1, WITH_TIMEOUT)  # triggered at 0, so 6 ms are left, and one more to be beyond them

        loop.advance(10)
        loop.run_ready()
        assert not executor.try_yield()
        loop.advance(11)
        loop.run_ready()
        executor.try_yield()

        assert rig.happened[-1] == ("timeout", 1)


@pytest.mark.parametrize("end", ["aborted", "barrier", "close", "newer"])
def test_the_alignment_timer_goes_with_its_checkpoint_c25_c26(end: str) -> None:
    with virtual_loop() as loop:
        executor = MailboxExecutor(Mailbox(loop=loop), 0)
        rig = CheckpointRig({"map": stateless}, timers=Timers(loop, executor))
        rig.trigger(1, WITH_TIMEOUT)

        match end:
            case "aborted":
                rig.notify("aborted", 1)
            case "barrier":
                rig.abort_on_barrier(1, SUBSUMED)
            case "close":
                rig.coordinator.close()
            case _:
                rig.trigger(2)
        loop.advance(20)
        loop.run_ready()

        assert not executor.try_yield()


def test_an_abort_of_another_checkpoint_leaves_the_alignment_timer_c25() -> None:
    with virtual_loop() as loop:
        timers = Timers(loop, MailboxExecutor(Mailbox(loop=loop), 0))
        rig = CheckpointRig({"map": stateless}, timers=timers)
        rig.trigger(2, WITH_TIMEOUT)

        rig.notify("aborted", 1)

        assert len(timers) == 1


# ------------------------------------------------------------------------------------------------- notifications


def test_an_abort_ends_the_part_that_runs_and_nothing_is_acknowledged_c12_flink_8871() -> None:
    handle = CountedHandle()
    begun = handle.futures
    rig = CheckpointRig({"map": lambda _id: begun})
    rig.trigger(1)

    rig.notify("aborted", 1)
    rig.work()

    assert begun.managed_keyed_state is not None
    assert begun.managed_keyed_state.is_cancelled
    assert rig.responder.acknowledged == {}
    assert rig.responder.declined == {}
    assert len(rig.coordinator.aborted) == 0


def test_an_abort_of_a_checkpoint_that_has_ended_leaves_no_mark_c12() -> None:
    rig = CheckpointRig({"map": stateless})
    rig.trigger(2)
    rig.work()

    rig.notify("aborted", 1)
    rig.notify("aborted", 2)

    assert len(rig.coordinator.aborted) == 0


def test_the_marks_of_aborts_are_bounded_the_oldest_goes_c12() -> None:
    rig = CheckpointRig({"map": stateless}, max_record_aborted_checkpoints=3)

    for checkpoint_id in range(1, 101):
        rig.notify("aborted", checkpoint_id)

    assert len(rig.coordinator.aborted) == 3


def test_the_operators_hear_of_an_abort_even_if_it_raises_the_store_does_too_c12_c13() -> None:
    rig = CheckpointRig({"map": stateless})
    rig.chain.raising["aborted"] = ArithmeticError("listener")

    with pytest.raises(ArithmeticError, match="listener"):
        rig.notify("aborted", 1)

    assert rig.store.last_aborted_id == 1


@pytest.mark.parametrize("what", ["complete", "aborted", "subsumed"])
def test_operators_hear_of_nothing_when_the_task_does_not_run_the_store_always_does_c13_flink_16383(
    what: str,
) -> None:
    rig = CheckpointRig({"map": stateless})
    rig.is_running = False

    rig.notify(what, 1)

    assert rig.happened == []
    assert rig.store.last_completed_id == (1 if what == "complete" else None)
    assert rig.store.last_aborted_id == (1 if what == "aborted" else None)


@pytest.mark.parametrize("what", ["complete", "subsumed"])
def test_each_notification_is_passed_on_as_what_it_is_c13(what: str) -> None:
    rig = CheckpointRig({"map": stateless})

    rig.notify(what, 4)

    assert rig.happened == [(what, 4)]


def test_a_late_notification_of_completion_changes_nothing_here_c13_c38() -> None:
    rig = CheckpointRig({"map": stateless})
    rig.trigger(2)
    rig.work()
    rig.notify("complete", 2)

    rig.notify("complete", 1)
    rig.trigger(3)
    rig.work()

    assert list(rig.responder.acknowledged) == [2, 3]


# ------------------------------------------------------------------------------------------- aborts from barriers


def test_an_abort_from_a_barrier_declines_tells_the_operators_and_sends_a_marker_c25() -> None:
    rig = CheckpointRig({"map": stateless})

    rig.abort_on_barrier(4, SUBSUMED)

    assert rig.happened == [("declined", 4), ("abort", 4), ("aborted", 4), ("cancel marker", 4)]
    assert rig.responder.declined[4] is SUBSUMED
    assert rig.coordinator.last_checkpoint_id == 4


def test_after_an_abort_from_a_barrier_its_trigger_comes_out_of_order_c25_c1() -> None:
    rig = CheckpointRig({"map": stateless})
    rig.abort_on_barrier(4, SUBSUMED)

    rig.trigger(4)
    rig.trigger(3)

    assert ("barrier", 4) not in rig.happened
    assert ("barrier", 3) not in rig.happened


def test_an_abort_from_an_older_barrier_does_not_take_the_last_id_back_c25() -> None:
    rig = CheckpointRig({"map": stateless})
    rig.trigger(9)

    rig.abort_on_barrier(4, SUBSUMED)

    assert rig.coordinator.last_checkpoint_id == 9


def test_an_abort_from_a_barrier_forgets_the_marks_below_it_c25_c12() -> None:
    rig = CheckpointRig({"map": stateless})
    for checkpoint_id in (3, 4, 5):
        rig.notify("aborted", checkpoint_id)

    rig.abort_on_barrier(4, SUBSUMED)

    assert len(rig.coordinator.aborted) == 2


def test_the_marker_leaves_even_if_an_operator_raises_c25() -> None:
    rig = CheckpointRig({"map": stateless})
    rig.chain.raising["aborted"] = ArithmeticError("listener")

    with pytest.raises(ArithmeticError):
        rig.abort_on_barrier(4, SUBSUMED)

    assert rig.happened[-1] == ("cancel marker", 4)


def test_a_checkpoint_that_waits_for_what_is_in_flight_is_declined_once_c24_flink_5285() -> None:
    writer = ChannelStateWriter()
    rig = CheckpointRig(
        {"map": stateless},
        channel_state_writer=writer,
        prepare_input_snapshot=lambda _writer, _id: Future(),
    )
    rig.coordinator.init_input_checkpoint(1, UNALIGNED)
    rig.trigger(1, UNALIGNED)

    rig.abort_on_barrier(1, SUBSUMED)
    rig.work()

    assert rig.responder.declined == {1: SUBSUMED}
    assert rig.coordinator.pending_checkpoints == []


def test_when_the_capture_of_the_input_fails_the_checkpoint_is_declined_with_its_reason_c9() -> None:
    captured: Future[None] = Future()
    rig = CheckpointRig(
        {"map": stateless},
        channel_state_writer=ChannelStateWriter(),
        prepare_input_snapshot=lambda _writer, _id: captured,
    )
    rig.coordinator.init_input_checkpoint(1, UNALIGNED)
    rig.trigger(1, UNALIGNED)

    reason = CheckpointFailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM
    captured.set_exception(CheckpointException(reason))
    rig.work()

    assert rig.responder.declined[1].reason is reason


def test_every_future_ends_when_the_task_closes_flink_28474() -> None:
    writer = ChannelStateWriter()
    parts: list[AsyncCheckpointRunnable] = []

    class Kept(AsyncCheckpointRunnable):
        def __init__(self, *args: object, **more: object) -> None:
            super().__init__(*args, **more)  # type: ignore[arg-type]  # handed on as it came
            parts.append(self)

    rig = CheckpointRig(
        {"map": stateless},
        channel_state_writer=writer,
        prepare_input_snapshot=lambda _writer, _id: Future(),
        async_part=Kept,
    )
    rig.coordinator.init_input_checkpoint(1, UNALIGNED)
    rig.trigger(1, UNALIGNED)

    rig.coordinator.close()
    rig.work()

    assert [part.finished.done() for part in parts] == [True]
    assert rig.responder.acknowledged == {}
    assert rig.responder.declined == {}


def test_what_is_in_flight_lies_with_the_head_c28() -> None:
    writer = ChannelStateWriter()
    futures = OperatorSnapshotFutures(managed_keyed_state=SnapshotFuture.of("keyed"))
    rig = CheckpointRig({"head": lambda _id: futures, "tail": stateless}, channel_state_writer=writer)
    rig.coordinator.init_input_checkpoint(1, UNALIGNED)

    rig.trigger(1, UNALIGNED)

    assert futures.input_channel_state is not None


def test_a_rig_without_operators_takes_part_and_has_no_state_c10() -> None:
    rig = CheckpointRig({})

    rig.coordinator.checkpoint_state(
        CheckpointMetaData(checkpoint_id=1),
        CheckpointOptions(),
        CheckpointMetrics(),
        operator_chain=rig.chain,
        is_task_finished=False,
        is_running=lambda: True,
    )
    rig.work()

    assert rig.responder.acknowledged == {1: None}
