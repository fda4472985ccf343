"""Planted defect: the rest of an interrupted advance is ordinary mail, which every yield of the operator runs.

Answers to FLINK-35528: an operator that yields for room downstream runs the continuation, which finds mail, fires
one timer and puts itself back; timers fire, and emit, in the middle of another emission. Where nobody yields, the
mutant is the reference.
"""

from __future__ import annotations

from collections.abc import Callable

from reference_impl.elements import Watermark
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.state.internal_timer_services import (
    AdvancingTimers,
    MailboxWatermarkProcessor,
)

__all__ = ["EagerWatermarkProcessor"]


class EagerWatermarkProcessor(MailboxWatermarkProcessor):
    """Its continuations can be yielded to."""

    def __init__(
        self, *, timers: AdvancingTimers, executor: MailboxExecutor, emit: Callable[[Watermark], None]
    ) -> None:
        super().__init__(timers=timers, executor=executor, emit=emit)
        self._continuations = executor
