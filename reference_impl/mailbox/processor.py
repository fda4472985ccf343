"""The mailbox loop of a task: run all mail, then the default action once, and repeat.

Answers to Flink's `MailboxProcessor`, `MailboxDefaultAction.Suspension` and `PeriodTimer`. Invariant: mail and default
action run on one thread, one at a time; all mail visible at the start of a turn runs before the next default action
(M31); while the default action is suspended and there is no mail, the loop waits without spinning (M30).

Differences from Flink: a suspension starts and ends its `PeriodTimer` itself, on the task's thread; in Flink a wrapper
does so, on the thread that resumes. The latency of mail is not measured (M40).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from reference_impl.errors import MailboxClosed, WrongState
from reference_impl.mailbox.mailbox import (
    MAX_PRIORITY,
    MIN_PRIORITY,
    Deliverable,
    Mailbox,
    MailboxExecutor,
    MailboxState,
)

EVENT_LOOP_TURN_EVERY = 128
"""After this many turns the event loop gets a turn, even if the default action never waits.

Flink's timers and clients have threads of their own; here they share the task's thread. A turn of the event loop costs
about as much as three records.
"""


class PeriodTimer:
    """Measures how long the default action was suspended, for lack of input or for back pressure (M39). Mutable."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._time = loop.time
        self._began_s: float | None = None
        self.total_us = 0
        """Sum of the periods that have ended."""

    def start(self) -> None:
        """Begin a period, whether or not one is running."""
        self._began_s = self._time()

    def end(self) -> None:
        """End the running period, if there is one."""
        if self._began_s is not None:
            self.total_us += round((self._time() - self._began_s) * 1_000_000)
            self._began_s = None


class Suspension:
    """Suspends the default action until `resume`, which is idempotent; any thread may call it (M36)."""

    __slots__ = ("_resume", "period")

    def __init__(self, resume: Callable[[Suspension], None], period: PeriodTimer | None) -> None:
        self._resume = resume
        self.period = period

    def resume(self) -> None:
        """Resume the default action, unless a newer suspension has replaced this one."""
        self._resume(self)


class MailboxProcessor:
    """Runs a mailbox's mail and a default action. Mutable; after `suspend` it can run again."""

    def __init__(self, mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        self._control = MailboxExecutor(mailbox, MAX_PRIORITY, urgent=True)
        self._running = True
        """False once `all_actions_completed` has taken effect (M28)."""
        self._suspension: Suspension | None = None
        self.suspended = False
        """Whether to leave the loop before the next mail or default action."""
        self.mails_run = 0
        """Mails run by this loop; mails run by an operator's yields are not counted (M40)."""

    def run_mailbox_loop(self, default_action: Callable[[], None]) -> None:
        """Run until `suspend` or `all_actions_completed`; exceptions of mail and default action propagate."""
        self._enter()
        run_batch = self.mailbox.run_batch
        while True:
            for _ in range(EVENT_LOOP_TURN_EVERY):
                if self._suspension is None:
                    run_batch(self)
                if self._suspension is not None:
                    self._rest()
                if self.suspended:
                    return
                default_action()
            self.mailbox.let_loop_turn()

    def run_mailbox_step(self, default_action: Callable[[], None]) -> bool:
        """Run one mail or, if there is none, one default action; return whether anything ran (M32)."""
        self._enter()
        return self._run_one_mail() or self._run_available(default_action)

    def run_single_mailbox_loop(self, default_action: Callable[[], None]) -> None:
        """Run at most one mail and one default action, without waiting (M32)."""
        self._enter()
        self._run_one_mail()
        self._run_available(default_action)

    def _enter(self) -> None:
        """Refuse other threads and a mailbox that is not open (M29); a finished loop runs nothing (M33)."""
        if not self.mailbox.on_task_thread():
            raise WrongState("run the mailbox loop: only the mailbox's own thread may do that")
        if self.mailbox.state is not MailboxState.OPEN:
            raise WrongState(f"the mailbox must be open to run its loop, but is {self.mailbox.state.value}")
        self.suspended = not self._running

    def _rest(self) -> None:
        """The default action is suspended: run the mail that is there, then wait for more (M30)."""
        self._end_period()
        self.mailbox.run_batch(self)
        self._restart_period()
        while self._suspension is not None and not self.suspended:
            self._run_burst(self.mailbox.take())

    def _run_one_mail(self) -> bool:
        if self.suspended or not self.mailbox.create_batch():
            return False
        mail = self.mailbox.try_take_from_batch()
        if mail is None:
            return False
        self._run_burst(mail)
        return True

    def _run_available(self, default_action: Callable[[], None]) -> bool:
        if self.suspended or self._suspension is not None:
            return False
        default_action()
        return True

    def _run_burst(self, mail: Deliverable) -> None:
        """Run a mail; its time counts neither as idle nor as back-pressured (M39)."""
        self._end_period()
        self.mails_run += 1
        mail.action()
        self._restart_period()

    def _end_period(self) -> None:
        if self._suspension is not None and self._suspension.period is not None:
            self._suspension.period.end()

    def _restart_period(self) -> None:
        """Restart the period, unless the mail has resumed the default action."""
        if self._suspension is not None and self._suspension.period is not None:
            self._suspension.period.start()

    def is_idle(self) -> bool:
        """Whether nothing can happen until mail arrives: default action suspended, no mail, mailbox open (M27)."""
        return (
            self._suspension is not None
            and not self.mailbox.has_mail()
            and self.mailbox.state is MailboxState.OPEN
        )

    def mailbox_executor(self, priority: int, *, urgent: bool = False) -> MailboxExecutor:
        return MailboxExecutor(self.mailbox, priority, urgent=urgent)

    @property
    def main_mailbox_executor(self) -> MailboxExecutor:
        """An executor for mail that no operator's yield runs, only the loop (M7)."""
        return MailboxExecutor(self.mailbox, MIN_PRIORITY)

    def has_mail(self) -> bool:
        return self.mailbox.has_mail()

    def suspend_default_action(self, period: PeriodTimer | None = None) -> Suspension:
        """Run no default action until the returned suspension is resumed; call it on the task's thread (M36).

        `period` measures the time of the suspension, without the time in which mail runs (M39).
        """
        if not self.mailbox.on_task_thread() or self._suspension is not None:
            raise WrongState(
                "suspend_default_action: allowed on the task's thread only, and only while not suspended"
            )
        self._suspension = Suspension(self._resume, period)
        self._restart_period()
        return self._suspension

    def _resume(self, suspension: Suspension) -> None:
        """Take effect at once on the task's thread; otherwise by control mail, which also wakes a parked take."""

        def clear() -> None:
            if self._suspension is suspension:
                self._end_period()
                self._suspension = None

        if self.mailbox.on_task_thread() and not self.mailbox.parked:
            clear()
        else:
            self.send_control_mail(clear, "resume the default action")

    def suspend(self) -> None:
        """Leave `run_mailbox_loop` before the next mail or default action; it can be run again (M33)."""
        self.send_control_mail(self._leave, "suspend the mailbox loop")

    def all_actions_completed(self) -> None:
        """Leave `run_mailbox_loop` for good: later calls return at once (M33)."""

        def end() -> None:
            self._running = False
            self._leave()

        self.send_control_mail(end, "finish the mailbox loop")

    def _leave(self) -> None:
        self.suspended = True

    def send_control_mail(self, action: Callable[[], None], what: str) -> None:
        """Enqueue urgent mail; do nothing if the mailbox is no longer open (M34)."""
        try:
            self._control.execute(action, what)
        except MailboxClosed:
            return

    def report_throwable(self, error: BaseException) -> None:
        """Make the loop raise `error` before it runs other mail; any thread may call it (M35)."""

        def rethrow() -> None:
            raise error

        try:
            self._control.execute(rethrow, "report an error")
        except MailboxClosed as closed:
            raise closed from error

    def prepare_close(self) -> None:
        """Refuse further mail (M37)."""
        self.mailbox.quiesce()

    def drain(self) -> None:
        """Run the mails that are in the mailbox now, but not those that they put (M38)."""
        for mail in self.mailbox.drain():
            self.mails_run += 1
            mail.action()

    def close(self) -> None:
        """Close the mailbox and cancel each mail that was not run; raise the first error at the end (M37)."""
        first: Exception | None = None
        for mail in self.mailbox.close():
            try:
                mail.try_cancel()
            except Exception as error:  # noqa: BLE001 - raised below, after all were tried
                if first is None:
                    first = error
                else:
                    first.add_note(f"suppressed, of {mail.what!r}: {error!r}")
        if first is not None:
            raise first
