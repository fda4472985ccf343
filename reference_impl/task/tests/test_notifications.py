"""Claims about what operators hear of checkpoints: C12, C13, C14, C15."""

from __future__ import annotations

import pytest

from reference_impl.elements import OperatorInput
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.mailbox.mailbox import Mailbox
from reference_impl.mailbox.timers import Timers
from reference_impl.task.operator_chain import LocalRecordWriter, OperatorChain, OperatorLink
from reference_impl.task.tests.task_rig import END, heard, open_task


def test_a_completion_is_heard_once_and_an_abort_brings_one_that_was_lost_c14() -> None:
    with open_task(names=["op"], checkpoints=True) as rig:
        rig.task.restore()
        rig.task.notify_checkpoint_complete_async(3)
        rig.task.notify_checkpoint_abort_async(5, 3)
        rig.task.notify_checkpoint_abort_async(10, 8)
        rig.task.notify_checkpoint_complete_async(8)

        rig.run_mail()

        assert heard(rig) == ["op complete 3", "op aborted 5", "op complete 8", "op aborted 10"]


def test_the_completion_of_what_was_restored_is_no_news_c14() -> None:
    with open_task(names=["op"], checkpoints=True, restored_checkpoint_id=7) as rig:
        rig.task.restore()
        rig.task.notify_checkpoint_complete_async(7)
        rig.task.notify_checkpoint_complete_async(6)
        rig.task.notify_checkpoint_abort_async(8, 0)

        rig.run_mail()

        assert heard(rig) == ["op aborted 8"]


def test_notifications_are_heard_in_the_order_of_their_arrival_and_by_every_yield_c15() -> None:
    with open_task(names=["op"], checkpoints=True) as rig:
        rig.task.restore()
        for checkpoint_id in (1, 2, 3):
            rig.task.notify_checkpoint_complete_async(checkpoint_id)

        while rig.operators["op"].executor.try_yield():
            pass

        assert heard(rig) == ["op complete 1", "op complete 2", "op complete 3"]


def test_an_error_in_a_notification_fails_the_task_and_is_the_futures_too_c15() -> None:
    def burst() -> None:
        raise ArithmeticError

    with open_task(names=["op"], checkpoints=True) as rig:
        rig.task.restore()
        rig.operators["op"].on["complete 1"] = burst
        told = rig.task.notify_checkpoint_complete_async(1)

        with pytest.raises(ArithmeticError):
            rig.task.invoke()

        assert isinstance(told.exception(0), ArithmeticError)


def test_a_subsumed_checkpoint_is_no_news_to_an_operator_c13() -> None:
    with open_task(names=["op"], checkpoints=True) as rig:
        rig.task.restore()
        told = rig.task.notify_checkpoint_subsumed_async(1)

        rig.run_mail()

        assert told.done()
        assert heard(rig) == []


def test_every_operator_hears_tail_first_whatever_another_raises_c12() -> None:
    def burst() -> None:
        raise ArithmeticError

    with open_task(checkpoints=True) as rig:
        rig.operators["tail"].on["aborted 1"] = burst

        with pytest.raises(ArithmeticError):
            rig.chain.notify_checkpoint_aborted(1)

        assert rig.log == ["tail aborted 1", "head aborted 1"]


def test_a_closed_operator_hears_of_an_abort_and_of_no_completion_c13() -> None:
    """C13, FLINK-16383."""
    with open_task(names=["op"], checkpoints=True) as rig:
        rig.chain.close_all_operators()

        rig.chain.notify_checkpoint_complete(1)
        rig.chain.notify_checkpoint_aborted(2)

        assert heard(rig) == ["op aborted 2"]


def test_a_notification_for_a_task_that_is_over_is_harmless_c15() -> None:
    with open_task(*END) as rig:
        rig.task.invoke()
        rig.task.clean_up()

        assert rig.task.notify_checkpoint_complete_async(1).cancelled()


def test_an_operator_that_hears_of_completions_alone_is_told_of_those_c13() -> None:
    """Flink gives the other method a default that does nothing."""
    told: list[int] = []

    class Completions:
        def process(self, element: OperatorInput) -> None: ...

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            told.append(checkpoint_id)

    with virtual_loop() as loop:
        chain = OperatorChain(
            [OperatorLink(operator_id="op", build=lambda **_: Completions())],
            mailbox=Mailbox(loop=loop),
            timers=lambda executor: Timers(loop, executor),
            record_writer=LocalRecordWriter(lambda element: None),
            fail=lambda error: None,
        )
        chain.notify_checkpoint_aborted(1)
        chain.notify_checkpoint_complete(2)

    assert told == [2]
