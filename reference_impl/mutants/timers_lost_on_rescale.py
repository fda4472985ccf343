"""Planted defect: a subtask takes only the timers of a predecessor whose key groups begin where its own do.

Answers to a restore that takes its subtask's old handle and looks at no other (T15). At the parallelism of before the
mutant is the reference; at another one, timers of key groups that changed hands never fire.
"""

from __future__ import annotations

from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.internal_timers import TimersHandle

__all__ = ["ForgetfulTimerServices"]


class ForgetfulTimerServices(InternalTimerServices):
    """Services that know one predecessor."""

    def _is_ours(self, key_group: int, handle: TimersHandle) -> bool:
        return super()._is_ours(key_group, handle) and (
            handle.key_group_range.start == self._key_group_range.start
        )
