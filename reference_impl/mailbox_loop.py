"""The loop of a task: all mail first, then the default action once, and so on.

Answers to Flink's `MailboxProcessor` with its `MailboxDefaultAction.Suspension`. Invariant: mail and default
action run on one thread, one at a time, and every mail visible at the top of a turn runs before the next
default action (M31); with the default action suspended and no mail, the loop waits and does not spin (M30).
"""

from __future__ import annotations

from collections.abc import Callable

from reference_impl.errors import MailboxClosed, WrongState
from reference_impl.mailbox import MAX_PRIORITY, Mailbox, MailboxExecutor, MailboxState

__all__ = ["EVENT_LOOP_TURN_EVERY", "MailboxLoop", "Suspension"]

EVENT_LOOP_TURN_EVERY = 32
"""Turns after which the event loop gets one of its own.

Flink's timers and clients have threads of their own; here they would starve behind a default action that
never has to wait. A turn of the event loop costs some 3 us, about a record's worth.
"""


class Suspension:
    """The default action rests until `resume`, which is idempotent and may come from any thread (M36)."""

    __slots__ = ("_resume",)

    def __init__(self, resume: Callable[[Suspension], None]) -> None:
        self._resume = resume

    def resume(self) -> None:
        """Let the default action run again; a stale suspension never ends a newer one."""
        self._resume(self)


class MailboxLoop:
    """Runs a mailbox's mail and a default action. Mutable; can be run again after `suspend`."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._control = MailboxExecutor(mailbox, MAX_PRIORITY, urgent=True)
        self._running = True
        """False for ever once all actions are finished (M28)."""
        self._suspended = False
        self._suspension: Suspension | None = None

    def run(self, default_action: Callable[[], None]) -> None:
        """Until `suspend` or `finish`. What a mail or the default action raises comes out here."""
        self._suspended = not self._running
        if self._mailbox.state is not MailboxState.OPEN:
            raise WrongState(f"the mailbox must be open to run its loop, but is {self._mailbox.state.value}")
        turns = 0
        while not self._suspended:
            self._run_mails()
            if not self._suspended:
                default_action()
            turns += 1
            if turns % EVENT_LOOP_TURN_EVERY == 0:
                self._mailbox.let_loop_turn()

    def _run_mails(self) -> None:
        """One batch, and then whatever comes while the default action cannot run (M30)."""
        if self._mailbox.create_batch():
            while not self._suspended and (mail := self._mailbox.try_take_from_batch()) is not None:
                mail.action()
        while self._suspension is not None and not self._suspended:
            self._mailbox.take().action()

    def suspend_default_action(self) -> Suspension:
        """No default action until the returned suspension is resumed; on the task's thread only (M36)."""
        if not self._mailbox.on_task_thread() or self._suspension is not None:
            raise WrongState("suspend_default_action: on the task's thread only, and not twice")
        self._suspension = Suspension(self._resume)
        return self._suspension

    def _resume(self, suspension: Suspension) -> None:
        """At once where that is seen at once; else as mail, for a parked take must wake."""

        def clear() -> None:
            if self._suspension is suspension:
                self._suspension = None

        if self._mailbox.on_task_thread() and not self._mailbox.parked:
            clear()
        else:
            self._send_control(clear, "resume the default action")

    def suspend(self) -> None:
        """Leave `run` before the next mail or default action; it may be run again (M33)."""
        self._send_control(self._leave, "suspend the mailbox loop")

    def finish(self) -> None:
        """Leave `run` for good: run again, it returns at once (M33)."""

        def end() -> None:
            self._running = False
            self._leave()

        self._send_control(end, "finish the mailbox loop")

    def _leave(self) -> None:
        self._suspended = True

    def _send_control(self, action: Callable[[], None], what: str) -> None:
        """Nothing if the mailbox is no longer open: there is no loop left to control (M34)."""
        try:
            self._control.execute(action, what)
        except MailboxClosed:
            return

    def report_error(self, error: BaseException) -> None:
        """Have `run` raise `error`, ahead of other mail; from any thread, but not once it is closed (M35)."""

        def rethrow() -> None:
            raise error

        try:
            self._control.execute(rethrow, "report an error")
        except MailboxClosed as closed:
            raise closed from error

    def drain(self) -> None:
        """Run the mails that are there now, not those that they put (M38)."""
        for mail in self._mailbox.drain():
            mail.action()
