"""Planted defects: a checkpoint says that the source resumes one position too early, or one too late.

Answers to a barrier that is handled before, or after, the element at which it stands. Too early, an element is
replayed that is in the snapshot or has left already; too late, one is never read again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from reference_impl.source_task import Checkpoint, Coordinator, SourceTask

__all__ = ["one_early", "one_late"]


@cache
def one_early(task: type[SourceTask]) -> type[SourceTask]:
    """`task`, whose checkpoints resume at the element before."""
    return _shifted(task, by=-1)


@cache
def one_late(task: type[SourceTask]) -> type[SourceTask]:
    """`task`, whose checkpoints resume at the element behind."""
    return _shifted(task, by=1)


def _shifted(task: type[SourceTask], *, by: int) -> type[SourceTask]:
    class ShiftedTask(task):  # type: ignore[misc, valid-type]  # whatever kind of task it is
        def __init__(self, *, coordinator: Coordinator, **parts: Any) -> None:
            super().__init__(coordinator=_ShiftedCoordinator(coordinator, by=by), **parts)

    return ShiftedTask


class _ShiftedCoordinator:
    """`coordinator`, who is told of each checkpoint as if it had been taken `by` positions later."""

    def __init__(self, coordinator: Coordinator, *, by: int) -> None:
        self._coordinator = coordinator
        self._by = by

    def completes(self, checkpoint: Checkpoint) -> None:
        shifted = replace(checkpoint, position=max(0, checkpoint.position + self._by))
        self._coordinator.completes(shifted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coordinator, name)
