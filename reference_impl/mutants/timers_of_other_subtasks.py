"""Planted defect: a subtask restores every timer of the old subtasks that it is handed, so two of them fire it.

Answers to a restore that does not look at key groups (T15). With one subtask before and one after, the mutant is the
reference.
"""

from __future__ import annotations

from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.internal_timers import TimersHandle

__all__ = ["GreedyTimerServices"]


class GreedyTimerServices(InternalTimerServices):
    """Services that own every key group."""

    def _is_ours(self, key_group: int, handle: TimersHandle) -> bool:
        del key_group, handle
        return True
