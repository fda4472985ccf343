"""Planted defect: a completed record leaves although a watermark before it is still waiting.

Answers to an unordered queue that looks for completed entries past its first segment (A20). Watermarks keep their
place behind the records before them, so whoever only asks whether a watermark came too early sees nothing. An
ordered queue has no segments: there the mutant is the reference.
"""

from __future__ import annotations

from typing import Unpack

from reference_impl.elements import Record
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import Mode, Parts, operator_around, queue_for
from reference_impl.operator.queues import Emit, UnorderedQueue

__all__ = ["build_operator"]


class _LeakingQueue(UnorderedQueue):
    def emit_completed(self, emit: Emit) -> bool:
        if not self._segments[0].completed:
            self._leak()
        return super().emit_completed(emit)

    def _leak(self) -> None:
        """Let the earliest completed record of a later segment leave with the first."""
        for segment in self._segments:
            if segment.completed and type(segment.completed[0].element) is Record:
                entry = segment.completed.popleft()
                del segment.members[entry]
                if not segment.members and segment is not self._segments[-1]:
                    self._segments.remove(segment)
                self._segments[0].members[entry] = None
                self._segments[0].completed.append(entry)
                return


def build_operator(*, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncWaitOperator:
    """An operator whose records pass watermarks."""
    queue = _LeakingQueue(capacity) if mode == "unordered" else queue_for(mode, capacity)
    return operator_around(queue, **parts)
