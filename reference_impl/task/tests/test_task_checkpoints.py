"""Claims about what a task does for checkpoints: C5, C16, C17, C18, C25, V-c, and their bugs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reference_impl.checkpoint_events import (
    AlignmentType,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
    EndOfData,
    StopMode,
)
from reference_impl.errors import StopWithSavepointFailed
from reference_impl.mailbox.availability import DataInputStatus
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.task.input_processor import MAX_WATERMARK
from reference_impl.task.tests.task_rig import END, HandSource, TaskRig, cut, heard, open_task, savepoint
from reference_impl.tests.rig import record
from tools.cases import each

SUBSUMED = CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED)


# -------------------------------------------------------------------------------------------- the trigger


def test_a_task_without_inputs_cuts_in_the_mail_of_the_trigger_v_c() -> None:
    with open_task(names=["op"], checkpoints=True) as rig:
        rig.task.restore()
        taken = rig.task.trigger_checkpoint_async(*cut(1))

        rig.run_mail()

        assert taken.result(0)
        assert rig.log[1:] == ["op prepares 1", "barrier 1"]


@pytest.mark.parametrize(("alignment", "is_first"), [("ALIGNED", False), ("UNALIGNED", True)])
def test_the_trigger_of_an_unaligned_checkpoint_overtakes_other_mail_v_c(
    alignment: str, *, is_first: bool
) -> None:
    with open_task(names=["op"], checkpoints=True) as rig:
        rig.task.restore()
        rig.operators["op"].put("other mail")
        metadata, options = cut(1)
        rig.task.trigger_checkpoint_async(metadata, replace(options, alignment=AlignmentType[alignment]))

        rig.run_mail()

        assert (rig.log.index("barrier 1") < rig.log.index("op other mail")) is is_first


def test_no_yield_of_an_operator_runs_a_trigger_c4() -> None:
    """C4, M7: a snapshot in the middle of a record would hold half of it."""
    with open_task(names=["op"], checkpoints=True) as rig:
        rig.task.restore()
        rig.task.trigger_checkpoint_async(*cut(1))

        assert not rig.operators["op"].executor.try_yield()


class HandChannels:
    """Channels before the task, of which none or all have ended."""

    def __init__(self, *, ended: bool) -> None:
        self.ended = ended
        self.injected: list[int] = []

    def inject_barrier(self, barrier: CheckpointBarrier) -> bool:
        if not self.ended:
            self.injected.append(barrier.checkpoint_id)
        return not self.ended


@pytest.mark.parametrize("ended", [True, False])
def test_a_trigger_puts_barriers_into_the_channels_that_have_not_ended_v_c(*, ended: bool) -> None:
    with open_task(names=["op"], checkpoints=True) as rig:
        rig.task._channels = channels = HandChannels(ended=ended)
        rig.task.restore()
        rig.task.trigger_checkpoint_async(*cut(1))

        rig.run_mail()

        assert channels.injected == ([] if ended else [1])
        assert ("barrier 1" in rig.log) is ended


def test_a_task_that_does_not_run_declines_and_cancels_behind_it_c16() -> None:
    with open_task(names=["op"], checkpoints=True) as rig:
        begun: list[int] = []
        rig.checkpoints.init_input_checkpoint = lambda checkpoint_id, options: begun.append(checkpoint_id)  # type: ignore[method-assign]
        taken = rig.task.trigger_checkpoint_async(*cut(1))

        rig.run_mail()

        assert begun == [], "nothing in flight is kept for it"
        assert not taken.result(0)
        assert rig.log == [CancelCheckpointMarker(checkpoint_id=1)]
        assert rig.declined == [(1, "CHECKPOINT_DECLINED_TASK_NOT_READY")]


def test_a_task_that_restores_declines_c16() -> None:
    with open_task(names=["op"], checkpoints=True, channel_io=lambda _: None) as rig:
        rig.at(5, lambda: rig.task.trigger_checkpoint_async(*cut(1)))
        rig.at(9, rig.mailbox_processor.suspend)

        with pytest.raises(Exception, match="interrupted"):
            rig.task.restore()

        assert rig.declined == [(1, "CHECKPOINT_DECLINED_TASK_NOT_READY")]


def test_a_task_whose_mailbox_is_closed_declines_at_once_c16() -> None:
    with open_task(*END) as rig:
        rig.task.invoke()

        assert not rig.task.trigger_checkpoint_async(*cut(1)).result(0)
        assert rig.declined == [(1, "CHECKPOINT_DECLINED_TASK_CLOSING")]


def test_an_error_in_the_cut_fails_the_task_and_says_where_c5() -> None:
    with open_task(names=["op"], checkpoints=True) as rig:
        rig.task.restore()
        rig.checkpoints.error = ArithmeticError("cut")
        taken = rig.task.trigger_checkpoint_async(*cut(1))

        with pytest.raises(ArithmeticError, match="cut") as raised:
            rig.task.invoke()

        assert raised.value.__notes__ == ["Could not perform checkpoint 1 for task 'task'."]
        assert taken.exception(0) is raised.value
        assert rig.declined == []


def test_a_cut_that_barriers_asked_for_fails_the_task_too_and_not_just_the_checkpoint_c5() -> None:
    """C5, C6: a CheckpointException would make the barrier handler give the checkpoint up, and the task go on."""
    with open_task(checkpoints=True) as rig:
        rig.task.restore()
        rig.checkpoints.error = SUBSUMED
        metadata, options = cut(1)

        with pytest.raises(OSError, match="checkpoint 1 could not be performed") as raised:
            rig.task.trigger_checkpoint_on_barrier(metadata, options, CheckpointMetrics())

        assert raised.value.__cause__ is SUBSUMED


def test_an_error_in_the_cut_of_a_task_that_was_cancelled_is_nobodys_c5_m49() -> None:
    with open_task(names=["op"], checkpoints=True) as rig:
        rig.task.restore()
        rig.checkpoints.error = ArithmeticError("cut")
        rig.operators["op"].on["prepares 1"] = rig.task.cancel
        metadata, options = cut(1)
        rig.task.is_running = True

        def cancel_then_burst(*_: Any, **__: Any) -> None:
            rig.task.cancel()
            raise ArithmeticError

        rig.checkpoints.checkpoint_state = cancel_then_burst  # type: ignore[method-assign]  # in the middle of it
        rig.task.trigger_checkpoint_on_barrier(metadata, options, CheckpointMetrics())

        assert rig.task.is_canceled


# --------------------------------------------------------------------------- savepoints that end a task


def open_source(loop: Any) -> TaskRig:
    """A task with a source that never ends by itself, restored."""
    rig = TaskRig(loop, HandSource(record(1)), names=["op"], checkpoints=True)
    rig.task.restore()
    rig.log.clear()
    return rig


@pytest.mark.parametrize("drains", [True, False])
def test_a_savepoint_that_ends_the_task_stops_the_source_first_and_drains_if_it_terminates_c17(
    *, drains: bool
) -> None:
    """C17, M44: with the last watermark if it drains, without if it suspends; the barrier is behind the end of data."""
    mode = StopMode.DRAIN if drains else StopMode.NO_DRAIN
    with virtual_loop() as loop:
        rig = open_source(loop)
        rig.at(10, lambda: rig.task.trigger_checkpoint_async(*savepoint(4, drains=drains)))
        rig.at(20, lambda: rig.task.notify_checkpoint_complete_async(4))

        rig.task.invoke()

        last = [f"w{MAX_WATERMARK.timestamp}"] if drains else []
        ends = [EndOfData(mode=mode), "barrier 4", "op complete 4", "op closes"]
        assert [entry for entry in rig.log if entry in [*last, *ends]] == [*last, *ends]
        assert ("op finishes" in rig.log) is drains


def test_a_savepoint_that_was_aborted_fails_the_task_that_stopped_for_it_c17() -> None:
    with virtual_loop() as loop:
        rig = open_source(loop)
        rig.at(10, lambda: rig.task.trigger_checkpoint_async(*savepoint(4, drains=False)))
        rig.at(20, lambda: rig.task.notify_checkpoint_abort_async(4, 0))

        with pytest.raises(StopWithSavepointFailed, match=r"Stop-with-savepoint failed\."):
            rig.task.invoke()


def test_a_savepoint_that_is_aborted_while_its_source_still_stops_fails_the_task_too_c17() -> None:
    """Else the cut would be skipped, since it was aborted, and the task would wait for it for ever (FLINK-23741)."""
    with virtual_loop() as loop:
        rig = open_source(loop)
        rig.at(10, lambda: rig.task.trigger_checkpoint_async(*savepoint(4, drains=False)))
        rig.at(10, lambda: rig.task.notify_checkpoint_abort_async(4, 0))
        with pytest.raises(StopWithSavepointFailed):
            rig.task.invoke()


def test_a_savepoint_whose_barriers_do_not_all_come_fails_the_task_c17() -> None:
    with virtual_loop() as loop:
        rig = open_source(loop)
        metadata, options = savepoint(4, drains=False)
        rig.task.trigger_checkpoint_on_barrier(metadata, options, CheckpointMetrics())

        with pytest.raises(StopWithSavepointFailed) as raised:
            rig.task.abort_checkpoint_on_barrier(4, SUBSUMED)

        assert raised.value.__cause__ is SUBSUMED


def test_a_savepoint_ends_a_task_whose_input_cannot_be_told_to_stop_c17() -> None:
    with open_task(record(1), names=["op"], checkpoints=True) as rig:
        rig.at(10, lambda: rig.task.trigger_checkpoint_async(*savepoint(4, drains=False)))
        rig.at(20, lambda: rig.task.notify_checkpoint_complete_async(4))

        rig.task.invoke()

        assert rig.loop.now_ms() == 20
        assert "op closes" in rig.log


def test_another_checkpoint_that_is_aborted_by_a_barrier_only_concerns_itself_c25() -> None:
    with open_task(names=["op"], checkpoints=True) as rig:
        rig.task.restore()

        rig.task.abort_checkpoint_on_barrier(4, SUBSUMED)

        assert heard(rig) == ["op aborted 4"]


def test_another_checkpoint_does_not_end_a_task_that_waits_for_its_savepoint_c17_c18() -> None:
    """C18: a savepoint that is pending is what was asked for."""
    with virtual_loop() as loop:
        rig = open_source(loop)
        rig.at(10, lambda: rig.task.trigger_checkpoint_async(*savepoint(4, drains=True)))
        rig.at(20, lambda: rig.task.trigger_checkpoint_async(*cut(5)))
        rig.at(30, lambda: rig.task.notify_checkpoint_complete_async(5))
        rig.at(40, lambda: rig.task.notify_checkpoint_abort_async(4, 5))

        with pytest.raises(StopWithSavepointFailed):
            rig.task.invoke()

        assert loop.now_ms() == 40


# -------------------------------------------------------------------------------------------- the last checkpoint


def test_only_a_checkpoint_that_began_after_the_end_of_data_is_the_last_c18() -> None:
    with open_task(record(1), names=["op"], checkpoints=True) as rig:
        rig.at(10, lambda: rig.task.trigger_checkpoint_async(*cut(1)))
        rig.at(20, lambda: rig.input.arrive(*END))
        rig.at(30, lambda: rig.task.notify_checkpoint_complete_async(1))
        rig.at(40, lambda: rig.task.trigger_checkpoint_async(*cut(2)))
        rig.at(50, lambda: rig.task.trigger_checkpoint_async(*cut(3)))
        rig.at(60, lambda: rig.task.notify_checkpoint_complete_async(3))

        rig.task.invoke()

        assert rig.loop.now_ms() == 60, "3 completed; that of 2 was lost, and is covered"
        assert heard(rig) == ["op complete 1", "op complete 3"]


def test_a_last_checkpoint_that_is_aborted_is_followed_by_another_c18() -> None:
    with open_task(*END, names=["op"], checkpoints=True) as rig:
        rig.at(10, lambda: rig.task.trigger_checkpoint_async(*cut(1)))
        rig.at(20, lambda: rig.task.notify_checkpoint_abort_async(1, 0))
        rig.at(30, lambda: rig.task.trigger_checkpoint_async(*cut(2)))
        rig.at(40, lambda: rig.task.notify_checkpoint_complete_async(2))

        rig.task.invoke()

        assert rig.loop.now_ms() == 40


def test_all_that_the_last_checkpoint_commits_came_before_the_end_of_data_c18() -> None:
    with open_task(record(1), *END, names=["op"], checkpoints=True) as rig:
        rig.at(10, lambda: rig.task.trigger_checkpoint_async(*cut(1)))
        rig.at(20, lambda: rig.task.notify_checkpoint_complete_async(1))

        rig.task.invoke()

        order = [1, EndOfData(mode=StopMode.DRAIN), "barrier 1", "op complete 1", "op closes"]
        assert [entry for entry in rig.log if entry in order] == order


@each("when_ms", [5, 10, 15])
@each("drains", [True, False])
def test_a_savepoint_races_the_end_of_the_data_and_nobody_hangs_c17_c18(
    when_ms: int, *, drains: bool
) -> None:
    """C17, C18, FLINK-23741, FLINK-23884: the trigger comes before, with or after the end of data."""
    with virtual_loop() as loop:
        rig = open_source(loop)
        rig.at(10, lambda: rig.input.arrive(*END))
        rig.at(when_ms, lambda: rig.task.trigger_checkpoint_async(*savepoint(1, drains=drains)))
        rig.at(30, lambda: rig.task.notify_checkpoint_complete_async(1))

        rig.task.invoke()

        assert loop.now_ms() == 30
        assert rig.log.count("barrier 1") == 1
        assert sum(isinstance(entry, EndOfData) for entry in rig.log) == 1


def test_a_trigger_between_the_end_of_data_and_the_end_of_input_is_taken_part_in_c18() -> None:
    """FLINK-23741: the last checkpoint may come before the loop has noticed that its input has ended."""
    with open_task(DataInputStatus.END_OF_DATA, names=["op"], checkpoints=True) as rig:
        rig.at(10, lambda: rig.task.trigger_checkpoint_async(*cut(1)))
        rig.at(20, lambda: rig.task.notify_checkpoint_complete_async(1))
        rig.at(30, lambda: rig.input.arrive(DataInputStatus.END_OF_INPUT))

        rig.task.invoke()

        assert rig.loop.now_ms() == 30


def test_a_checkpoint_carries_what_it_is_called_all_the_way() -> None:
    with open_task(names=["op"], checkpoints=True) as rig:
        rig.task.restore()
        seen: list[tuple[CheckpointMetaData, CheckpointOptions]] = []

        def note(metadata: CheckpointMetaData, options: CheckpointOptions, *_: Any, **__: Any) -> None:
            seen.append((metadata, options))

        rig.checkpoints.checkpoint_state = note  # type: ignore[method-assign]  # only looks
        asked = (CheckpointMetaData(checkpoint_id=9, timestamp=4), CheckpointOptions(aligned_timeout_ms=5))
        rig.task.trigger_checkpoint_async(*asked)
        rig.run_mail()

        assert seen == [asked]
