"""The loop of a task: all mail first, then the default action once, and so on.

Answers to Flink's `MailboxProcessor` with its `MailboxDefaultAction.Suspension` and `PeriodTimer`. Invariant:
mail and default action run on one thread, one at a time, and every mail visible at the top of a turn runs
before the next default action (M31); with the default action suspended and no mail, the loop waits and does
not spin (M30).

Deviations. A suspension starts and ends its period itself, on the task's thread; in Flink a wrapper around it
does, on whichever thread resumes. Latency of mail is not measured (M40): no reader here asks for it.
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

__all__ = ["EVENT_LOOP_TURN_EVERY", "MailboxProcessor", "PeriodTimer", "Suspension"]

EVENT_LOOP_TURN_EVERY = 128
"""Turns after which the event loop gets one of its own.

Flink's timers and clients have threads of their own; here they would starve behind a default action that
never has to wait. A turn of the event loop costs as much as some three records.
"""


class PeriodTimer:
    """Adds up how long the default action rested for one reason: idle, or back pressure (M39). Mutable."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._time = loop.time
        self._began_s: float | None = None
        self.total_us = 0
        """Of the periods that have ended."""

    def start(self) -> None:
        """A period begins now, whether or not one was under way."""
        self._began_s = self._time()

    def end(self) -> None:
        """The period ends; of no effect if none is under way."""
        if self._began_s is not None:
            self.total_us += round((self._time() - self._began_s) * 1_000_000)
            self._began_s = None


class Suspension:
    """The default action rests until `resume`, which is idempotent and may come from any thread (M36)."""

    __slots__ = ("_resume", "period")

    def __init__(self, resume: Callable[[Suspension], None], period: PeriodTimer | None) -> None:
        self._resume = resume
        self.period = period

    def resume(self) -> None:
        """Let the default action run again; a stale suspension never ends a newer one."""
        self._resume(self)


class MailboxProcessor:
    """Runs a mailbox's mail and a default action. Mutable; can be run again after `suspend`."""

    def __init__(self, mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        self._control = MailboxExecutor(mailbox, MAX_PRIORITY, urgent=True)
        self._running = True
        """False for ever once all actions are finished (M28)."""
        self._suspension: Suspension | None = None
        self.suspended = False
        """No further mail or default action in this run."""
        self.mails_run = 0
        """By this loop; what an operator runs in a yield is not among them (M40)."""

    def run_mailbox_loop(self, default_action: Callable[[], None]) -> None:
        """Until `suspend` or `all_actions_completed`. What a mail or the default action raises comes out here."""
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
        """One mail or, if there is none, one default action; whether there was either (M32)."""
        self._enter()
        return self._run_one_mail() or self._run_available(default_action)

    def run_single_mailbox_loop(self, default_action: Callable[[], None]) -> None:
        """At most one mail and one default action; waits for neither (M32)."""
        self._enter()
        self._run_one_mail()
        self._run_available(default_action)

    def _enter(self) -> None:
        """Nothing runs in a finished loop (M33), nor on a foreign thread, nor in a mailbox that ends (M29)."""
        if not self.mailbox.on_task_thread():
            raise WrongState("run the mailbox loop: only the mailbox's own thread may do that")
        if self.mailbox.state is not MailboxState.OPEN:
            raise WrongState(f"the mailbox must be open to run its loop, but is {self.mailbox.state.value}")
        self.suspended = not self._running

    def _rest(self) -> None:
        """Mail only, while the default action cannot run: what is there, then whatever comes (M30)."""
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
        """A mail whose time counts neither as idle nor as back pressure (M39)."""
        self._end_period()
        self.mails_run += 1
        mail.action()
        self._restart_period()

    def _end_period(self) -> None:
        if self._suspension is not None and self._suspension.period is not None:
            self._suspension.period.end()

    def _restart_period(self) -> None:
        """Unless a mail has resumed the default action."""
        if self._suspension is not None and self._suspension.period is not None:
            self._suspension.period.start()

    def is_idle(self) -> bool:
        """Whether nothing will happen until mail comes: the default action rests, no mail, and open (M27)."""
        return (
            self._suspension is not None
            and not self.mailbox.has_mail()
            and self.mailbox.state is MailboxState.OPEN
        )

    # ------------------------------------------------------------------------------------- its mailbox

    def mailbox_executor(self, priority: int, *, urgent: bool = False) -> MailboxExecutor:
        """The mailbox through that priority."""
        return MailboxExecutor(self.mailbox, priority, urgent=urgent)

    @property
    def main_mailbox_executor(self) -> MailboxExecutor:
        """For mail that no operator's yield may run: it waits for the loop itself (M7)."""
        return MailboxExecutor(self.mailbox, MIN_PRIORITY)

    def has_mail(self) -> bool:
        """Whether mail waits; on the task's thread only."""
        return self.mailbox.has_mail()

    # -------------------------------------------------------------------------------------- suspending

    def suspend_default_action(self, period: PeriodTimer | None = None) -> Suspension:
        """No default action until the returned suspension is resumed; on the task's thread only (M36).

        `period` runs meanwhile, but not while mail does (M39).
        """
        if not self.mailbox.on_task_thread() or self._suspension is not None:
            raise WrongState("suspend_default_action: on the task's thread only, and not twice")
        self._suspension = Suspension(self._resume, period)
        self._restart_period()
        return self._suspension

    def _resume(self, suspension: Suspension) -> None:
        """At once where that is seen at once; else as mail, for a parked take must wake."""

        def clear() -> None:
            if self._suspension is suspension:
                self._end_period()
                self._suspension = None

        if self.mailbox.on_task_thread() and not self.mailbox.parked:
            clear()
        else:
            self.send_control_mail(clear, "resume the default action")

    # ----------------------------------------------------------------------------------------- control

    def suspend(self) -> None:
        """Leave `run_mailbox_loop` before the next mail or default action; it may be run again (M33)."""
        self.send_control_mail(self._leave, "suspend the mailbox loop")

    def all_actions_completed(self) -> None:
        """Leave `run_mailbox_loop` for good: run again, it returns at once (M33)."""

        def end() -> None:
            self._running = False
            self._leave()

        self.send_control_mail(end, "finish the mailbox loop")

    def _leave(self) -> None:
        self.suspended = True

    def send_control_mail(self, action: Callable[[], None], what: str) -> None:
        """Nothing if the mailbox is no longer open: there is no loop left to control (M34)."""
        try:
            self._control.execute(action, what)
        except MailboxClosed:
            return

    def report_throwable(self, error: BaseException) -> None:
        """Have the loop raise `error`, ahead of other mail; from any thread, but not once it is closed (M35)."""

        def rethrow() -> None:
            raise error

        try:
            self._control.execute(rethrow, "report an error")
        except MailboxClosed as closed:
            raise closed from error

    # ------------------------------------------------------------------------------------------ its end

    def prepare_close(self) -> None:
        """Take in no more mail (M37)."""
        self.mailbox.quiesce()

    def drain(self) -> None:
        """Run the mails that are there now, not those that they put (M38)."""
        for mail in self.mailbox.drain():
            self.mails_run += 1
            mail.action()

    def close(self) -> None:
        """Close the mailbox and cancel each mail that was not run; all are tried, the first error counts (M37)."""
        first: Exception | None = None
        for mail in self.mailbox.close():
            try:
                mail.try_cancel()
            except Exception as error:  # noqa: BLE001 - raised below, once all were tried
                if first is None:
                    first = error
                else:
                    first.add_note(f"suppressed, of {mail.what!r}: {error!r}")
        if first is not None:
            raise first
