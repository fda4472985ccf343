"""Claims about the task of one subtask, and its restart: A33, A56, A57, A59, A61, A66, C18, M3, M28, M39, B23."""

from __future__ import annotations

from typing import get_args

import pytest

from harness.database.epoch import Fenced
from harness.engine.subtask import Subtask
from harness.engine.tests.subtask_rig import ELEMENTS, ListSource, open_subtask
from reference_impl.checkpoint_events import CheckpointBarrier
from reference_impl.errors import MailboxClosed
from reference_impl.operator.build import Mode
from reference_impl.task.input_processor import Checkpoint
from reference_impl.tests.rig import record

BOTH = pytest.mark.parametrize("mode", get_args(Mode))


@BOTH
def test_all_input_is_taken_in_drained_and_committed_a66(mode: Mode) -> None:
    with open_subtask(ListSource(ELEMENTS), mode=mode, capacity=3) as rig:
        rig.subtask.run()

        assert rig.told.emitted == [1, 2, "w2", 3, 4]
        assert rig.told.log[-3:] == ["exhausted", "finishing", "drained"]
        ((_, last, emitted),) = rig.told.checkpoints
        assert (last.elements, emitted) == ((), rig.told.emitted)


@BOTH
@pytest.mark.parametrize("capacity", [1, 2, 10])
@pytest.mark.parametrize("cut", range(1, len(ELEMENTS) + 1))
def test_what_was_emitted_before_a_checkpoint_and_what_its_restore_emits_is_everything_once_a59(
    mode: Mode, capacity: int, cut: int
) -> None:
    """A56, A57, A59, A61."""
    source = ListSource(ELEMENTS, barriers=[cut], gap_ms=3)
    with open_subtask(source, mode=mode, capacity=capacity) as before:
        before.subtask.run()
        _, checkpoint, emitted = before.told.checkpoints[0]
        assert before.told.emitted == [1, 2, "w2", 3, 4], "the checkpoint disturbed nothing"
    with open_subtask(source, mode=mode, capacity=capacity) as after:
        after.subtask.run(checkpoint)

        assert [*emitted, *after.told.emitted] == [1, 2, "w2", 3, 4]
        assert [number for _, number, _ in after.told.checkpoints if number.number == cut] == []


def test_a_checkpoint_does_not_wait_for_a_slot_a33_b23() -> None:
    """A33, B23, FLINK-39835: the queue is full, its call takes a second, and the barrier comes at once."""
    with open_subtask(ListSource(ELEMENTS[:2], barriers=[1]), capacity=1, delay_ms=1000) as rig:
        rig.subtask.run()

        at_ms, checkpoint, _ = rig.told.checkpoints[0]
        assert (at_ms, checkpoint.elements, checkpoint.position) == (0, (record(1),), 1)


def test_a_full_queue_stops_the_reading_and_not_the_task_a33_m39() -> None:
    with open_subtask(ListSource(ELEMENTS[:2]), capacity=1, delay_ms=500) as rig:
        rig.at(100, lambda: rig.subtask.trigger(7))

        rig.subtask.run()

        assert rig.told.log[:2] == [(0, 1), (500, 2)]
        assert [(at_ms, one.number) for at_ms, one, _ in rig.told.checkpoints] == [(100, 7), (1000, 8)]


def test_what_was_restored_may_fill_the_queue_and_nothing_is_read_without_room_a33_a61() -> None:
    checkpoint = Checkpoint(number=1, position=1, elements=(record(1),))
    with open_subtask(ListSource(ELEMENTS[:2]), capacity=1, delay_ms=500) as rig:
        rig.at(100, rig.subtask.trigger_next)

        rig.subtask.run(checkpoint)

        at_ms, taken, _ = rig.told.checkpoints[0]
        assert (at_ms, taken.number, taken.position, taken.elements) == (100, 2, 1, (record(1),))


def test_a_source_with_nothing_due_is_idle_m39() -> None:
    with open_subtask(ListSource(ELEMENTS[:2], gap_ms=40), delay_ms=1) as rig:
        rig.subtask.run()

        assert rig.told.log[:2] == [(0, 1), (40, 2)]


def test_once_all_is_finished_the_loop_runs_no_more_m28() -> None:
    ran: list[str] = []
    with open_subtask(ListSource(ELEMENTS)) as rig:
        rig.subtask.run()

        with pytest.raises(MailboxClosed):
            rig.subtask.mailbox_processor.main_mailbox_executor.execute(lambda: ran.append("mail"), "mail")
        rig.subtask.trigger(9)
        rig.subtask.notify_complete(9)

        assert (ran, rig.told.declined) == ([], [9])


def test_a_barrier_is_no_element_of_a_source() -> None:
    source = ListSource([CheckpointBarrier(checkpoint_id=1)])  # type: ignore[list-item]  # a mistake
    with open_subtask(source) as rig, pytest.raises(TypeError, match="no input of an operator"):
        rig.subtask.run()


def test_a_mailbox_that_closes_under_a_task_is_its_end_m3() -> None:
    def close() -> None:
        rig.mailbox.close()

    with open_subtask(ListSource(ELEMENTS, gap_ms=10)) as rig:
        rig.subtask.mailbox_processor.send_control_mail(close, "close")

        with pytest.raises(MailboxClosed):
            rig.subtask.run()


# ------------------------------------------------------------------------------------- what a checkpoint raises


@pytest.mark.parametrize("how", ["barrier", "mail", "end"])
def test_an_attempt_that_is_fenced_at_a_checkpoint_fails_and_does_not_go_on(how: str) -> None:
    def fenced(checkpoint: Checkpoint) -> None:
        raise Fenced(f"at checkpoint {checkpoint.number}")

    source = ListSource(ELEMENTS, barriers=[2] if how == "barrier" else [], gap_ms=10)
    with open_subtask(source) as rig:
        rig.told.completing = fenced
        if how == "mail":
            rig.at(5, rig.subtask.trigger_next)

        with pytest.raises(Fenced):
            rig.subtask.run()

        assert "drained" not in rig.told.log
        assert rig.told.declined == []


# ----------------------------------------------------------------------------------------- hard back pressure


def _cut_while_one_waits(kind: type[Subtask] = Subtask) -> Checkpoint:
    with open_subtask(ListSource(ELEMENTS[:2]), capacity=1, delay_ms=500, is_hard=True, kind=kind) as rig:
        rig.at(100, rig.subtask.trigger_next)

        rig.subtask.run()

        at_ms, checkpoint, _ = rig.told.checkpoints[0]
        assert at_ms == 100
        return checkpoint


def test_what_waits_for_a_slot_is_in_the_snapshot_and_its_position_behind_it_flink_7949() -> None:
    checkpoint = _cut_while_one_waits()

    assert (checkpoint.elements, checkpoint.position) == ((record(1), record(2)), 2)


def test_a_checkpoint_asked_for_during_the_replay_is_declined_c16() -> None:
    restored = Checkpoint(number=3, position=2, elements=(record(1), record(2)))
    with open_subtask(ListSource(ELEMENTS[:2]), capacity=1, delay_ms=500, is_hard=True) as rig:
        rig.at(100, lambda: rig.subtask.trigger(4))

        rig.subtask.run(restored)

        assert rig.told.declined == [4]
        assert [one.number for _, one, _ in rig.told.checkpoints] == [4]


# ------------------------------------------------------------------------------ checkpoints completed elsewhere


def test_a_task_ends_once_its_last_checkpoint_is_complete_c18() -> None:
    with open_subtask(ListSource(ELEMENTS[:2], barriers=[1])) as rig:
        rig.told.is_complete_at_once = False
        rig.at(50, lambda: rig.told.notify(1))
        rig.at(90, lambda: rig.told.notify(2))

        rig.subtask.run()

        assert rig.told.completed_numbers == [1, 2]
        assert rig.loop.now_ms() == 90


def test_a_completion_is_told_once_and_in_rising_order_c14() -> None:
    with open_subtask(ListSource(ELEMENTS[:2], barriers=[1])) as rig:
        rig.told.is_complete_at_once = False
        for number in (1, 1, 2, 1):
            rig.at(50, lambda number=number: rig.told.notify(number))  # type: ignore[misc]  # its default

        rig.subtask.run()

        assert rig.told.completed_numbers == [1, 2]


def test_a_task_that_cuts_no_checkpoint_itself_waits_to_be_asked_for_the_last_one() -> None:
    with open_subtask(ListSource(ELEMENTS[:2])) as rig:
        rig.told.cuts_at_end = False
        rig.at(70, lambda: rig.subtask.trigger(5))

        rig.subtask.run()

        assert [(at_ms, one.number) for at_ms, one, _ in rig.told.checkpoints] == [(70, 5)]


def test_of_checkpoints_asked_for_by_time_one_at_most_is_on_its_way() -> None:
    with open_subtask(ListSource(ELEMENTS, gap_ms=10)) as rig:
        rig.at(5, rig.subtask.trigger_next)
        rig.at(5, rig.subtask.trigger_next)

        rig.subtask.run()

        assert [one.number for _, one, _ in rig.told.checkpoints] == [1, 2]


def test_a_checkpoint_asked_for_before_there_is_a_task_is_declined_and_the_next_one_is_taken() -> None:
    with open_subtask(ListSource(ELEMENTS)) as rig:
        rig.subtask.trigger_next()

        rig.subtask.run()

        assert rig.told.declined == [1]
        assert [one.number for _, one, _ in rig.told.checkpoints] == [1]


def test_a_subtask_that_never_ran_closes() -> None:
    with open_subtask(ListSource(ELEMENTS)) as rig:
        rig.subtask.trigger(1)

        assert rig.told.declined == [1]
