"""Claims about the end of data and the order in which operators finish: M44, M45, T6, T16, and their bugs."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impl.checkpoint_events import EndOfData, StopMode
from reference_impl.mailbox.availability import DataInputStatus
from reference_impl.task.input_processor import MAX_WATERMARK
from reference_impl.task.tests.task_rig import END, TaskRig, cut, open_task
from reference_impl.tests.rig import record

LAST = f"w{MAX_WATERMARK.timestamp}"
STOPPED = (DataInputStatus.STOPPED, DataInputStatus.END_OF_INPUT)
DRAINED, NOT_DRAINED = EndOfData(mode=StopMode.DRAIN), EndOfData(mode=StopMode.NO_DRAIN)


def opened(rig: TaskRig) -> TaskRig:
    """The task, restored; its log, forgotten."""
    rig.task.restore()
    rig.log.clear()
    return rig


def test_a_drain_emits_the_last_watermark_and_then_finishes_head_first_m44_m45() -> None:
    """FLINK-14231: what the head emits in finishing, the tail takes in before its own end."""
    with open_task(*END) as rig:
        head = opened(rig).operators["head"]
        head.on["finishes"] = lambda: head.emit(record("last words"))

        rig.task.process_input()

        assert rig.log == [
            f"head takes {LAST}",
            f"tail takes {LAST}",
            LAST,
            "head ends",
            "head finishes",
            "tail takes last words",
            "last words",
            "tail ends",
            "tail finishes",
            DRAINED,
        ]


def test_without_a_drain_nobody_ends_or_finishes_and_no_last_watermark_comes_m44() -> None:
    with open_task(*STOPPED) as rig:
        opened(rig).task.process_input()

        assert rig.log == [NOT_DRAINED]


def test_the_data_end_once_m44() -> None:
    with open_task() as rig:
        task = opened(rig).task

        task.end_data(StopMode.DRAIN)
        task.end_data(StopMode.NO_DRAIN)

        assert [entry for entry in rig.log if isinstance(entry, EndOfData)] == [DRAINED]


def test_a_last_watermark_that_the_input_has_brought_is_not_doubled_m44() -> None:
    with open_task(MAX_WATERMARK, *END, names=["op"]) as rig:
        rig.input.current_watermark = MAX_WATERMARK.timestamp  # type: ignore[attr-defined]  # an ability

        rig.task.invoke()

        assert rig.log.count(f"op takes {LAST}") == 1


def test_what_comes_after_the_end_of_data_is_dropped_m44() -> None:
    with open_task(DataInputStatus.END_OF_DATA, record(1), DataInputStatus.END_OF_INPUT) as rig:
        rig.task.invoke()

        assert "head takes 1" not in rig.log


def test_an_operator_runs_its_mail_before_it_finishes_and_that_of_its_finish_before_the_next_m45() -> None:
    with open_task(*END) as rig:
        head = opened(rig).operators["head"]
        head.on["finishes"] = lambda: head.put("second mail")
        head.put("first mail")

        rig.task.process_input()

        assert rig.log[3:8] == [
            "head ends",
            "head first mail",
            "head finishes",
            "head second mail",
            "tail ends",
        ]


@pytest.mark.parametrize("mode", list(StopMode))
def test_deferrable_mail_is_run_before_the_end_of_data_leaves_m45(mode: StopMode) -> None:
    """M45, FLINK-39481, FLINK-39930: else a window's results would come behind the end of data, and be lost."""
    with open_task() as rig:
        tail = opened(rig).operators["tail"]
        tail.on["goes on"] = lambda: tail.emit(record("window"))
        tail.put("goes on", deferrable=True)

        rig.task.end_data(mode)

        assert rig.log.index("window") < rig.log.index(EndOfData(mode=mode))


def test_a_continuation_that_puts_itself_again_is_run_to_its_end_m45() -> None:
    """M45, FLINK-39930: an interrupted advance of a watermark is several deferrable mails, one after the other."""
    left = [5]
    with open_task() as rig:
        head = opened(rig).operators["head"]

        def go_on() -> None:
            left[0] -= 1
            if left[0]:
                head.put("goes on", deferrable=True)

        head.on["goes on"] = go_on
        head.put("goes on", deferrable=True)

        rig.task.end_data(StopMode.DRAIN)

        assert left == [0]
        assert rig.log.count("head goes on") == 5
        assert rig.log.index("head finishes") > max(
            index for index, entry in enumerate(rig.log) if entry == "head goes on"
        )


def test_a_yield_in_an_operator_never_runs_a_continuation_m8() -> None:
    """M8, FLINK-35528: it would find the same mail waiting, put itself again, and so for ever."""
    with open_task(record(1), *END) as rig:
        head = opened(rig).operators["head"]
        head.put("goes on", deferrable=True)
        tried: list[bool] = []
        head.on["takes 1"] = lambda: tried.append(head.executor.try_yield())

        rig.task.process_input()

        assert tried == [False]
        assert "head goes on" not in rig.log


def test_no_timer_fires_once_its_operator_has_begun_to_finish_m45_t6() -> None:
    """M45, T6, FLINK-14228: and the timers of the operator behind it still do."""
    with open_task() as rig:
        head, tail = opened(rig).operators.values()
        for operator in (head, tail):
            operator.timers.register(5, lambda name=operator.name: rig.log.append(f"{name} timer"))  # type: ignore[misc]
        head.on["finishes"] = lambda: wait(rig, 10)

        rig.task.end_data(StopMode.DRAIN)

        assert "head timer" not in rig.log
        assert rig.log.index("tail timer") < rig.log.index("tail ends")


def wait(rig: TaskRig, ms: int) -> None:
    """Stay in the call until `ms` have passed, as a slow user does; the mail of what falls due waits."""
    rig.loop.advance(rig.loop.now_ms() + ms)
    rig.loop.run_ready()
    rig.operators["tail"].executor.try_yield()


def test_a_timer_that_was_due_already_still_runs_before_the_finish_m45() -> None:
    with open_task() as rig:
        head = opened(rig).operators["head"]
        head.timers.register(5, lambda: rig.log.append("head timer"))
        rig.loop.advance(5)
        rig.loop.run_ready()

        rig.task.end_data(StopMode.DRAIN)

        assert rig.log.index("head timer") < rig.log.index("head finishes")


def test_a_timer_that_finish_registers_never_fires_t16() -> None:
    with open_task(*END, names=["op"]) as rig:
        operator = opened(rig).operators["op"]
        operator.on["finishes"] = lambda: operator.timers.register(0, lambda: rig.log.append("timer"))  # type: ignore[assignment]  # nobody looks

        rig.task.invoke()

        assert len(operator.timers) == 0
        assert "timer" not in rig.log


def test_the_end_of_data_waits_for_what_the_last_notification_emits_c18() -> None:
    """C18, FLINK-38614: a committer emits its last records when it hears that they are committed."""
    with open_task(*END, names=["committer"], checkpoints=True) as rig:
        committer = opened(rig).operators["committer"]
        committer.emits_on_final_checkpoint = True
        committer.on["complete 1"] = lambda: committer.emit(record("committed"))
        rig.at(10, lambda: rig.task.trigger_checkpoint_async(*cut(1)))
        rig.at(20, lambda: rig.task.notify_checkpoint_complete_async(1))

        rig.task.invoke()

        order: list[Any] = ["barrier 1", "committed", DRAINED]
        assert [entry for entry in rig.log if entry in order] == order


def test_whoever_emits_nothing_on_the_last_notification_does_not_hold_up_the_end_of_data_c18() -> None:
    with open_task(*END, names=["op"], checkpoints=True) as rig:
        opened(rig).task.process_input()

        assert rig.log[-1] == DRAINED
