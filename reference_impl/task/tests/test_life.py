"""Claims about the life of a task: M46, M47, M49, and the order of its opening and closing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from reference_impl.checkpoint_events import EndOfPartition
from reference_impl.errors import CancelTaskException, MailboxClosed, WrongState
from reference_impl.mailbox.availability import Availability, DataInputStatus
from reference_impl.mailbox.mailbox import MailboxState
from reference_impl.task.tests.task_rig import END, TaskRig, cut, open_task
from reference_impl.tests.rig import record


def burst() -> None:
    """What a user's code does at times."""
    raise ArithmeticError


# ---------------------------------------------------------------------------------------------- restore


def test_a_restore_opens_the_tail_first_m46() -> None:
    with open_task() as rig:
        rig.task.restore()

        assert rig.log == ["tail opens", "head opens"]
        assert rig.task.is_running


def test_state_is_there_before_an_operator_is_opened_c45() -> None:
    class Stateful:
        """Notes both."""

        def __init__(self) -> None:
            self.calls: list[str] = []

        def process(self, element: Any) -> None: ...

        def initialize_state(self, context: Any) -> None:
            self.calls.append(context)

        def open(self) -> None:
            self.calls.append("open")

    class Handler:
        """Hands over a context of its own."""

        def initialize_operator_state(self, operator: Any) -> None:
            operator.initialize_state("state")

    with open_task() as rig:
        operator = Stateful()
        wrapper = rig.chain._wrappers[0]
        wrapper.operator = operator
        wrapper._state_handler = Handler()  # type: ignore[assignment]  # all that is needed here

        rig.task.restore()

        assert operator.calls == ["state", "open"]


def test_mail_runs_and_nothing_is_read_until_what_was_in_flight_is_back_m46() -> None:
    later: list[Callable[[], None]] = []

    def read() -> None:
        later.pop()()

    with open_task(record(1), *END, channel_io=later.append) as rig:
        rig.operators["head"].on["opens"] = lambda: rig.operators["head"].put("reads mail")
        rig.at(50, read)

        rig.task.restore()

        assert rig.loop.now_ms() == 50
        assert rig.log == ["tail opens", "head opens", "head reads mail"]


def test_what_was_in_flight_may_be_read_on_another_thread_m46() -> None:
    read: list[int] = []

    def on_a_thread(action: Callable[[], None]) -> None:
        thread = threading.Thread(target=action)
        thread.start()
        thread.join()

    with open_task(
        *END, real=True, channel_io=on_a_thread, read_channel_state=lambda: read.append(threading.get_ident())
    ) as rig:
        rig.task.restore()

        assert read != [threading.get_ident()]
        assert rig.task.is_running


def test_what_cannot_be_read_fails_the_task_m46() -> None:
    def unreadable() -> None:
        raise OSError("torn")

    with open_task(read_channel_state=unreadable) as rig, pytest.raises(OSError, match="torn") as raised:
        rig.task.restore()

    assert "unable to read channel state" in raised.value.__notes__[0]


def test_a_loop_that_ends_before_the_recovery_is_an_error_m46() -> None:
    with open_task(channel_io=lambda _: None) as rig:
        rig.at(5, rig.mailbox_processor.suspend)

        with pytest.raises(WrongState, match="Mailbox loop interrupted before recovery was finished."):
            rig.task.restore()

        assert not rig.task.is_running


def test_an_invocation_restores_what_is_not_restored_and_nothing_twice_m46() -> None:
    with open_task(*END) as rig:
        rig.task.restore()
        rig.task.invoke()

        assert rig.log.count("head opens") == 1
    with open_task(*END) as rig:
        rig.task.invoke()

        assert rig.log.count("head opens") == 1


# ---------------------------------------------------------------------------------------------- invoke


def test_at_the_end_all_mail_runs_then_the_output_is_flushed_then_the_operators_close_m47() -> None:
    with open_task(*END, names=["op"], checkpoints=True, checkpoints_after_tasks_finish=False) as rig:
        operator = rig.operators["op"]
        operator.on["finishes"] = lambda: rig.mailbox_processor.main_mailbox_executor.execute(
            lambda: rig.log.append("last mail"), "last mail"
        )
        operator.on["closes"] = lambda: rig.log.append(f"flushed {rig.writer.flushes}")

        rig.task.invoke()

        assert rig.log[-4:] == ["last mail", "op closes", "flushed 1", EndOfPartition()]
        assert rig.mailbox.state is MailboxState.QUIESCED
        assert not rig.task.is_running


def test_mail_that_is_there_when_the_mailbox_quiesces_still_runs_m47() -> None:
    """M38, M47: it was put behind the mail that ended the loop."""
    with open_task(*END, names=["op"]) as rig:

        def end_then_put() -> None:
            rig.mailbox_processor.all_actions_completed()
            rig.operators["op"].put("late mail")

        rig.operators["op"].on["finishes"] = end_then_put
        rig.task.invoke()

        assert "op late mail" in rig.log


def test_a_task_stays_until_its_readers_have_processed_all_and_a_last_checkpoint_is_complete_m47_c18() -> (
    None
):
    with open_task(*END, checkpoints=True) as rig:
        rig.writer.all_data_processed = processed = Availability()
        rig.at(10, lambda: rig.task.trigger_checkpoint_async(*cut(7)))
        rig.at(20, lambda: rig.task.notify_checkpoint_complete_async(7))
        rig.at(70, processed.end)

        rig.task.invoke()

        assert rig.loop.now_ms() == 70
        assert "waits for pending checkpoints" in rig.log


def test_a_job_without_checkpoints_waits_for_none_m47() -> None:
    with open_task(*END) as rig:
        rig.task.invoke()

        assert rig.loop.now_ms() == 0


def test_a_task_that_ends_without_an_end_of_data_waits_for_no_checkpoint_m47() -> None:
    with open_task(DataInputStatus.END_OF_INPUT, checkpoints=True) as rig:
        rig.task.invoke()

        assert rig.loop.now_ms() == 0


# ---------------------------------------------------------------------------------------------- cancel


def cancelled(rig: TaskRig) -> list[Any]:
    """Run it to its end, which is a cancellation; clean up; what was noted since."""
    with pytest.raises(CancelTaskException, match="was cancelled") as raised:
        rig.task.invoke()
    rig.task.clean_up(raised.value)
    return rig.log


def test_a_cancellation_before_the_restore_ends_the_task_before_it_opens_anything_m49() -> None:
    with open_task(record(1), *END) as rig:
        rig.task.cancel()

        assert "head opens" not in cancelled(rig)


def test_a_cancellation_while_the_operators_open_is_heeded_behind_them_m49() -> None:
    with open_task(record(1), *END) as rig:
        rig.operators["tail"].on["opens"] = rig.task.cancel

        assert cancelled(rig) == ["tail opens", "head opens", "head closes", "tail closes"]


def test_a_cancellation_during_the_recovery_ends_it_m49() -> None:
    with open_task(channel_io=lambda _: None) as rig:
        rig.at(5, rig.task.cancel)

        assert cancelled(rig) == ["tail opens", "head opens", "head closes", "tail closes"]


def test_a_cancellation_while_the_task_works_keeps_it_from_its_next_record_m49() -> None:
    with open_task(record(1), record(2), *END, names=["op"]) as rig:
        rig.operators["op"].on["takes 1"] = rig.task.cancel

        assert cancelled(rig) == ["op opens", "op takes 1", 1, "op closes"]


def test_a_cancellation_wakes_a_task_that_waits_m49() -> None:
    with open_task() as rig:
        rig.at(30, rig.task.cancel)

        cancelled(rig)

        assert rig.loop.now_ms() == 30


def test_a_cancellation_races_the_end_of_the_task_m49() -> None:
    """M49, FLINK-13124, FLINK-13275: while the task waits for its last checkpoint, or finishes."""
    with open_task(*END, checkpoints=True) as rig:
        rig.at(30, rig.task.cancel)

        assert "cancels checkpoints" in cancelled(rig)
        assert EndOfPartition() not in rig.log
    with open_task(*END) as rig:
        rig.operators["tail"].on["finishes"] = rig.task.cancel

        assert "tail closes" in cancelled(rig)


def test_a_cancellation_after_the_end_is_harmless_m49() -> None:
    """M49, FLINK-14544: the mailbox is quiesced, then closed."""
    with open_task(*END) as rig:
        rig.task.invoke()
        rig.task.cancel()
        rig.task.clean_up()
        rig.task.cancel()

        assert rig.mailbox.state is MailboxState.CLOSED


@pytest.mark.parametrize("where", ["head opens", "head takes 1", "head ends"])
def test_a_cancellation_ends_a_yield_that_nothing_else_would_end_m49(where: str) -> None:
    """M9, M49: a call that never completes must not keep a cancelled task; Flink interrupts its thread."""

    def wait_for_ever() -> None:
        while True:
            head.executor.yield_()

    with open_task(record(1), *END) as rig:
        head = rig.operators["head"]
        head.on[where.removeprefix("head ")] = wait_for_ever
        rig.at(30, rig.task.cancel)

        assert "head closes" in cancelled(rig)


def test_a_cancellation_may_come_from_another_thread_m49() -> None:
    with open_task(real=True) as rig:
        rig.task.restore()
        thread = threading.Thread(target=rig.task.cancel)
        thread.start()
        thread.join()

        assert "head closes" in cancelled(rig)


# ---------------------------------------------------------------------------------------------- clean-up


def test_a_clean_up_closes_what_a_failed_restore_has_left_v_e() -> None:
    """M46: also operators that were never opened."""
    with open_task(checkpoints=True) as rig:
        rig.operators["tail"].on["opens"] = burst
        with pytest.raises(ArithmeticError) as raised:
            rig.task.restore()

        rig.task.clean_up(raised.value)

        assert rig.log == ["tail opens", "head closes", "tail closes", "closes checkpoints"]
        assert rig.mailbox.state is MailboxState.CLOSED


def test_an_error_in_the_clean_up_of_a_failure_is_noted_on_it_m49() -> None:
    with open_task() as rig:
        rig.operators["head"].on["closes"] = burst
        failure = ValueError("first")

        rig.task.clean_up(failure)

        assert "ArithmeticError" in failure.__notes__[0]
        assert "tail closes" in rig.log


def test_an_error_in_the_clean_up_of_a_success_is_raised_m49() -> None:
    with open_task() as rig:
        rig.operators["tail"].on["closes"] = burst

        with pytest.raises(ArithmeticError):
            rig.task.clean_up()

        assert rig.mailbox.state is MailboxState.CLOSED


def test_an_operator_is_closed_once_m47() -> None:
    with open_task(*END) as rig:
        rig.task.invoke()
        rig.task.clean_up()

        assert rig.log.count("head closes") == 1


def test_mail_that_nobody_has_run_is_cancelled_by_the_clean_up_m37() -> None:
    with open_task(checkpoints=True) as rig:
        told = rig.task.notify_checkpoint_complete_async(1)

        rig.task.clean_up()

        assert told.cancelled()


def test_a_failure_from_outside_ends_the_task_and_comes_too_late_for_one_that_is_closed_m35() -> None:
    with open_task() as rig:
        rig.at(5, lambda: rig.task.fail(ArithmeticError()))

        with pytest.raises(ArithmeticError):
            rig.task.invoke()
        rig.task.clean_up()
        rig.task.fail(ArithmeticError())

        with pytest.raises(MailboxClosed):
            rig.mailbox.take()


def test_a_failure_of_a_task_that_is_cancelled_is_nobodys_m49() -> None:
    with open_task() as rig:
        rig.task.cancel()
        rig.task.fail(ArithmeticError())

        cancelled(rig)
