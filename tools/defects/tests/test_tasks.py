"""Planted defects of a task and its chain: each is convicted by a stated property, which acquits the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reference_impl.checkpoint_events import EndOfData, StopMode
from reference_impl.errors import CancelTaskException, SimulationStuck, StopWithSavepointFailed
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.task.operator_chain import OperatorChain
from reference_impl.task.stream_task import StreamTask
from reference_impl.task.tests.task_rig import END, HandSource, TaskRig, cut, heard, open_task, savepoint
from reference_impl.tests.rig import record
from tools.defects.tests.wrong_parts import wrong_part

DRAINED = EndOfData(mode=StopMode.DRAIN)
Parts = dict[str, Any]
"""Keywords of the rig: `chain` or `task`, with the class to use."""


def what_the_head_emits_in_finishing_reaches_the_tail_before_its_end(parts: Parts) -> None:
    """M45, FLINK-14231."""
    with open_task(*END, **parts) as rig:
        head = rig.operators["head"]
        head.on["finishes"] = lambda: head.emit(record("last words"))
        rig.task.invoke()

        assert rig.log.index("tail takes last words") < rig.log.index("tail finishes")


def deferred_mail_runs_before_the_end_of_data(parts: Parts) -> None:
    """M45, FLINK-39481, FLINK-39930."""
    with open_task(**parts) as rig:
        rig.task.restore()
        tail = rig.operators["tail"]
        tail.on["goes on"] = lambda: tail.emit(record("window"))
        tail.put("goes on", deferrable=True)
        rig.task.end_data(StopMode.DRAIN)

        assert "window" in rig.log[: rig.log.index(DRAINED)]


def no_timer_fires_behind_the_finish(parts: Parts) -> None:
    """M45, T6, FLINK-14228."""
    with open_task(**parts) as rig:
        rig.task.restore()
        head = rig.operators["head"]
        head.timers.register(5, lambda: rig.log.append("timer"))
        rig.task.end_data(StopMode.DRAIN)
        rig.loop.advance(10)
        rig.loop.run_ready()
        rig.run_mail()

        assert "timer" not in rig.log


def what_the_last_notification_emits_is_before_the_end_of_data(parts: Parts) -> None:
    """C18, FLINK-38614."""
    with open_task(*END, names=["op"], checkpoints=True, **parts) as rig:
        committer = rig.operators["op"]
        committer.emits_on_final_checkpoint = True
        committer.on["complete 1"] = lambda: committer.emit(record("committed"))
        rig.at(10, lambda: rig.task.trigger_checkpoint_async(*cut(1)))
        rig.at(20, lambda: rig.task.notify_checkpoint_complete_async(1))
        rig.task.invoke()

        assert rig.log.index("committed") < rig.log.index(DRAINED)


def what_is_emitted_in_finishing_is_in_a_complete_checkpoint(parts: Parts) -> None:
    """C18: the one that was pending at the end of data does not hold it."""
    with open_task(record(1), names=["op"], checkpoints=True, **parts) as rig:
        rig.at(10, lambda: rig.task.trigger_checkpoint_async(*cut(1)))
        rig.at(20, lambda: rig.input.arrive(*END))
        rig.at(30, lambda: rig.task.notify_checkpoint_complete_async(1))
        rig.at(40, lambda: rig.task.trigger_checkpoint_async(*cut(2)))
        rig.at(50, lambda: rig.task.notify_checkpoint_complete_async(2))
        rig.task.invoke()

        assert heard(rig) == ["op complete 1", "op complete 2"]


def each_completion_is_heard_once(parts: Parts) -> None:
    """C14."""
    with open_task(names=["op"], checkpoints=True, **parts) as rig:
        rig.task.restore()
        rig.task.notify_checkpoint_complete_async(3)
        rig.task.notify_checkpoint_abort_async(5, 3)
        rig.task.notify_checkpoint_complete_async(3)
        rig.run_mail()

        assert heard(rig) == ["op complete 3", "op aborted 5"]


def a_task_whose_savepoint_was_aborted_ends(parts: Parts) -> None:
    """C17, FLINK-23741."""
    with virtual_loop() as loop:
        rig = TaskRig(loop, HandSource(record(1)), names=["op"], checkpoints=True, **parts)
        rig.at(10, lambda: rig.task.trigger_checkpoint_async(*savepoint(4, drains=True)))
        rig.at(20, lambda: rig.task.notify_checkpoint_abort_async(4, 0))

        assert isinstance(ended(rig), StopWithSavepointFailed)


def a_task_that_is_cancelled_ends_whatever_it_waits_for(parts: Parts) -> None:
    """M49, FLINK-13124."""
    for script in ((), END):
        with open_task(*script, checkpoints=True, **parts) as rig:
            rig.at(30, rig.task.cancel)

            assert isinstance(ended(rig), CancelTaskException)


def ended(rig: TaskRig) -> Exception | None:
    """How it ended; the simulation is stuck if it hangs."""
    try:
        rig.task.invoke()
    except (StopWithSavepointFailed, CancelTaskException, SimulationStuck) as error:
        return error
    return None


CONVICTIONS: dict[str, Callable[[Parts], None]] = {
    "finishes-tail-first": what_the_head_emits_in_finishing_reaches_the_tail_before_its_end,
    "finish-leaves-deferrable-mail": deferred_mail_runs_before_the_end_of_data,
    "timers-after-finish": no_timer_fires_behind_the_finish,
    "end-of-data-overtakes": what_the_last_notification_emits_is_before_the_end_of_data,
    "any-checkpoint-is-last": what_is_emitted_in_finishing_is_in_a_complete_checkpoint,
    "hears-completion-twice": each_completion_is_heard_once,
    "waits-for-aborted-savepoint": a_task_whose_savepoint_was_aborted_ends,
    "cancel-leaves-waiting": a_task_that_is_cancelled_ends_whatever_it_waits_for,
}


def planted(name: str) -> Parts:
    """The rig's keywords with the defect `name`."""
    wrong = wrong_part(name)
    return {"chain" if issubclass(wrong, OperatorChain) else "task": wrong}


@pytest.mark.parametrize("name", CONVICTIONS)
def test_a_property_of_tasks_acquits_the_reference_and_convicts_its_defect(name: str) -> None:
    holds = CONVICTIONS[name]

    holds({"chain": OperatorChain, "task": StreamTask})
    with pytest.raises(AssertionError):
        holds(planted(name))


@pytest.mark.parametrize("name", CONVICTIONS)
def test_a_defect_of_a_task_is_acquitted_by_the_properties_of_the_others(name: str) -> None:
    for other, holds in CONVICTIONS.items():
        if other != name:
            holds(planted(name))
