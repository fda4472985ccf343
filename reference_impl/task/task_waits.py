"""Why a task does not work: no room behind it, nothing before it, or its changelog is busy.

Answers to the end of Flink's `StreamTask.processInput` and to the three timers of its `TaskIOMetricGroup`.
Invariant: a wait has one reason, the first that holds in this order: output, input, changelog (M42); so the three
times never overlap, and mail that runs during a wait counts to none of them (M39, M43).
"""

from __future__ import annotations

import asyncio

from reference_impl.mailbox_processor import MailboxProcessor, PeriodTimer
from reference_impl.queues.availability import Availability

__all__ = ["TaskWaits"]


class TaskWaits:
    """The waits of one task. Mutable: its timers count."""

    def __init__(self, mailbox_processor: MailboxProcessor, *, loop: asyncio.AbstractEventLoop) -> None:
        self._mailbox_processor = mailbox_processor
        self.soft_back_pressured = PeriodTimer(loop)
        """How long what follows the task had no room (M42)."""
        self.idle = PeriodTimer(loop)
        """How long there was nothing to read (M42)."""
        self.changelog_busy = PeriodTimer(loop)
        """How long the changelog took no further change (M42, FLINK-26592)."""

    def wait(self, output: Availability, task_input: Availability, changelog: Availability) -> None:
        """Suspend the default action until the first of them that is unavailable is not; else try again at once.

        Whoever is woken looks again: that one reason is gone does not say that there is no other.
        """
        if not output:
            self._rest(output, self.soft_back_pressured)
        elif not task_input:
            self._rest(task_input, self.idle)
        elif not changelog:
            self._rest(changelog, self.changelog_busy)

    def _rest(self, reason: Availability, period: PeriodTimer) -> None:
        suspension = self._mailbox_processor.suspend_default_action(period)
        reason.then(suspension.resume)
