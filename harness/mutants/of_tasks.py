"""Defects of a task and of its timers at level sim.

Answers to FLINK-7949, to a barrier that is handled before or after the element at which it stands, and to a task that
tells the time by the wrong clock. Invariant: but for what a checkpoint holds, or for the clock, the task is the honest
one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from harness.engine.subtask import Coordination, Subtask
from harness.sim.subtask_loop import SubtaskLoop
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.mutants.wall_clock_timers import WallClockTimers
from reference_impl.task.positioned_input import Checkpoint

__all__ = ["TimersByTheWall", "omitting_blocked", "one_early", "one_late"]


@cache
def omitting_blocked(task: type[Subtask]) -> type[Subtask]:
    """`task`, whose snapshots hold what is in the queue, and not what waits to get in."""

    class ForgetfulTask(task):  # type: ignore[misc, valid-type]  # a class made of a class
        def _blocked(self, entering: tuple[Any, ...]) -> tuple[Any, ...]:
            del entering
            return ()

    return ForgetfulTask


@cache
def one_early(task: type[Subtask]) -> type[Subtask]:
    """`task`, whose checkpoints resume at the element before: it is replayed though its results may have left."""
    return _shifted(task, by=-1)


@cache
def one_late(task: type[Subtask]) -> type[Subtask]:
    """`task`, whose checkpoints resume at the element behind: one is never read again."""
    return _shifted(task, by=1)


def _shifted(task: type[Subtask], *, by: int) -> type[Subtask]:
    class ShiftedTask(task):  # type: ignore[misc, valid-type]  # a class made of a class
        def __init__(self, *, coordination: Coordination, **parts: Any) -> None:
            super().__init__(coordination=_ShiftedCoordination(coordination, by=by), **parts)

    return ShiftedTask


class _ShiftedCoordination:
    """`coordination`, which gets each checkpoint as if it had been taken `by` positions later."""

    def __init__(self, coordination: Coordination, *, by: int) -> None:
        self._coordination = coordination
        self._by = by

    def completes(self, checkpoint: Checkpoint) -> None:
        shifted = replace(checkpoint, position=max(0, checkpoint.position + self._by))
        self._coordination.completes(shifted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coordination, name)


class TimersByTheWall(WallClockTimers):
    """Timers on the simulated wall clock, which jumps."""

    def __init__(self, loop: SubtaskLoop, executor: MailboxExecutor) -> None:
        super().__init__(loop, executor, wall_ns=loop.wall_ns)
