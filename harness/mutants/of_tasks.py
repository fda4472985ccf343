"""Defects of a task and of its timers at level sim.

Answers to FLINK-7949, and to a task that tells the time by the wrong clock. Invariant: but for what a snapshot holds,
or for the clock, the task is the honest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from harness.levels.sim.subtask_loop import SubtaskLoop
from harness.sim.mail_task import MailTask
from reference_impl.elements import QueueElement
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.mutants.wall_clock_timers import WallClockTimers
from reference_impl.source_task import SourceTask

__all__ = ["TimersByTheWall", "omitting_blocked"]


@cache
def omitting_blocked(task: type[SourceTask]) -> type[SourceTask]:
    """`task`, whose snapshots hold what is in the queue, and not what waits to get in."""
    if not issubclass(task, MailTask):
        return task  # it takes nothing from the source before there is room

    class ForgetfulTask(task):  # type: ignore[misc, valid-type]  # whatever kind of it it is
        def _blocked(self) -> Sequence[QueueElement]:
            return ()

    forgetful: type[Any] = ForgetfulTask
    return forgetful


class TimersByTheWall(WallClockTimers):
    """Timers on the simulated wall clock, which jumps."""

    def __init__(self, loop: SubtaskLoop, executor: MailboxExecutor) -> None:
        super().__init__(loop, executor, wall_ns=loop.wall_ns)
