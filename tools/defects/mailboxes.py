"""Flink's own mailboxes, era by era, with the holes that they had or have.

Answers to `TaskMailboxImpl` before, between and after FLINK-35051 and FLINK-35796: one queue with urgent mail reversed
at its head, and a batch in a second deque. Invariant: the third era without a hole gives the same mail in the same
order as `reference_impl.mailbox.mailbox.Mailbox`, by takes and by whole batches; only what a batch holds after a take,
or after urgent mail was left in it, may differ.

In Flink, another thread can put mail while a take waits. Here a callback of the event loop does that, on the task's
thread. No run of the harness can convict these mailboxes (`equivalents.py`); property tests do.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from enum import Enum
from functools import partial

from reference_impl.mailbox.mailbox import MIN_PRIORITY, Deliverable, Mail, Mailbox, MailboxState, MailRunner
from tools.defects.kinds import PropertyDefect


class MailboxDefect(Enum):
    """The wrong decisions of the third era, each of which can be switched on alone."""

    UNSEEN_TAKE_REVERSES_URGENT = "unseen-take-reverses-urgent"
    """A take that pulls urgent mail and may not take it: later urgent mail is then no longer put in order (M17a)."""
    PARKED_TAKE_REVERSES_URGENT = "parked-take-reverses-urgent"
    """A waiting take reads the head of the queue, where urgent mail stands reversed (M17b)."""
    MAIL_BEHIND_URGENT_STARVES = "mail-behind-urgent-starves"
    """An empty batch gets urgent mail alone, so the mail behind it waits (M10, before FLINK-39898)."""
    FINISH_SKIPS_DEFERRABLE = "finish-skips-deferrable"
    """No take by an operator returns its deferrable mail, not even when it finishes (M8, before FLINK-39481)."""


class _UrgentMail(Mail):
    """Urgent mail, which the classic structure tells from other mail by its class."""


class _ClassicMailbox(Mailbox, ABC):
    """One queue and a batch; each era adds and pulls urgent mail in its own way. Mutable."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._current: deque[Deliverable] = deque()
        """The batch, which is not part of the queue as in the reference."""

    def __len__(self) -> int:
        return len(self._current) + super().__len__()

    def has_mail(self) -> bool:
        return super().has_mail() or bool(self._current)

    def _add(self, mail: Deliverable, *, urgent: bool, foreign: bool) -> None:
        if urgent:
            urgent_mail = _UrgentMail(mail.action, mail.priority, mail.what, mail.deferrable)
            self._add_urgent(urgent_mail, foreign=foreign or self._parked)
        else:
            self._queue.append(mail)

    @abstractmethod
    def _add_urgent(self, mail: Deliverable, *, foreign: bool) -> None: ...

    @abstractmethod
    def _pull(self, *, all_mail: bool) -> None:
        """Move mail from the queue to the batch: all of it for a new batch, else only what must not wait."""

    def take(self, priority: int = MIN_PRIORITY) -> Deliverable:
        mail = self.try_take(priority)
        while mail is None:
            self._wait()
            mail = self._take_on_waking(priority)
        return mail

    def _take_on_waking(self, priority: int) -> Deliverable | None:
        return _take_first(self._queue, priority, deferrable_too=priority == MIN_PRIORITY)

    def try_take(self, priority: int = MIN_PRIORITY) -> Deliverable | None:
        return self._take(priority, deferrable_too=priority == MIN_PRIORITY)

    def try_take_ignoring_deferrable(self, priority: int) -> Deliverable | None:
        return self.try_take(priority)  # before FLINK-39481 nothing could ignore it

    def _take(self, priority: int, *, deferrable_too: bool) -> Deliverable | None:
        self._require_may_take()
        self._pull(all_mail=False)
        for mails in (self._current, self._queue):
            mail = _take_first(mails, priority, deferrable_too=deferrable_too)
            if mail is not None:
                return mail
        return None

    def create_batch(self) -> bool:
        self._require_task_thread("create a batch")
        self._pull(all_mail=True)
        return bool(self._current)

    def try_take_from_batch(self) -> Deliverable | None:
        self._require_may_take()
        self._pull(all_mail=False)
        return self._current.popleft() if self._current else None

    def run_batch(self, runner: MailRunner) -> None:
        self.create_batch()
        while not runner.suspended and (mail := self.try_take_from_batch()) is not None:
            runner.mails_run += 1
            mail.action()

    def drain(self) -> list[Deliverable]:
        self._collect()
        mails = [*self._current, *super().drain()]
        self._current.clear()
        return mails

    def _require_may_take(self) -> None:
        if not self.on_task_thread() or self._state is MailboxState.CLOSED:
            self._refuse_take()

    def _new_urgent(self) -> bool:
        return _is_urgent(self._queue)


class _MailboxOfEra1(_ClassicMailbox):
    """Up to Flink 2.0: urgent mail of the task's thread is last in, first out (M17c), and none overtakes a batch."""

    def _add_urgent(self, mail: Deliverable, *, foreign: bool) -> None:
        (self._queue if foreign else self._current).appendleft(mail)

    def _pull(self, *, all_mail: bool) -> None:
        if all_mail:
            self._current.extend(self._queue)
            self._queue.clear()


class _MailboxOfEra2(_ClassicMailbox):
    """With FLINK-35051: new urgent mail makes a whole new batch, with the mail that came in meanwhile (M13)."""

    def _add_urgent(self, mail: Deliverable, *, foreign: bool) -> None:
        (self._queue if foreign else self._current).appendleft(mail)

    def _pull(self, *, all_mail: bool) -> None:
        if all_mail or self._new_urgent():
            while self._queue:
                mail = self._queue.popleft()
                (self._current.appendleft if isinstance(mail, _UrgentMail) else self._current.append)(mail)


class MailboxOfEra3(_ClassicMailbox):
    """With FLINK-35796: urgent mail alone is pulled into a batch that runs. It has the holes in `holes`."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop, holes: frozenset[MailboxDefect]) -> None:
        super().__init__(loop=loop)
        self._holes = holes

    def _add_urgent(self, mail: Deliverable, *, foreign: bool) -> None:
        into_batch = (
            not foreign and self._current and not _is_urgent(self._current) and not self._new_urgent()
        )
        (self._current if into_batch else self._queue).appendleft(mail)

    def _pull(self, *, all_mail: bool) -> None:
        if _is_urgent(self._current) and MailboxDefect.UNSEEN_TAKE_REVERSES_URGENT in self._holes:
            return
        was_empty = not self._current
        if not self._new_urgent() and not (was_empty and all_mail):
            return
        self._pull_urgent()
        if all_mail or (was_empty and MailboxDefect.MAIL_BEHIND_URGENT_STARVES not in self._holes):
            self._current.extend(self._queue)
            self._queue.clear()

    def _pull_urgent(self) -> None:
        """Behind the urgent mail in the batch; reversed once more, so in order of arrival."""
        place = sum(isinstance(mail, _UrgentMail) for mail in self._current)
        while self._new_urgent():
            self._current.insert(place, self._queue.popleft())

    def _take_on_waking(self, priority: int) -> Deliverable | None:
        if MailboxDefect.PARKED_TAKE_REVERSES_URGENT in self._holes:
            return super()._take_on_waking(priority)
        return self.try_take(priority)

    def try_take_ignoring_deferrable(self, priority: int) -> Deliverable | None:
        deferrable_too = MailboxDefect.FINISH_SKIPS_DEFERRABLE not in self._holes or priority == MIN_PRIORITY
        return self._take(priority, deferrable_too=deferrable_too)


def _is_urgent(mails: deque[Deliverable]) -> bool:
    return bool(mails) and isinstance(mails[0], _UrgentMail)


def _take_first(mails: deque[Deliverable], priority: int, *, deferrable_too: bool) -> Deliverable | None:
    for index, mail in enumerate(mails):
        if mail.priority >= priority and (deferrable_too or not mail.deferrable):
            del mails[index]
            return mail
    return None


def _with_hole(
    hole: MailboxDefect, *, about: str, mirrors: str, statements: tuple[str, ...]
) -> PropertyDefect:
    """The third era with one hole, under the hole's name."""
    return PropertyDefect(
        name=hole.value,
        about=about,
        mirrors=mirrors,
        replaces="Mailbox",
        statements=statements,
        wrong=partial(MailboxOfEra3, holes=frozenset({hole})),
    )


OF_MAILBOXES = (
    PropertyDefect(
        name="era-1",
        about="urgent mail of the task's thread is last in, first out, and none overtakes a batch",
        mirrors="Flink up to 2.0",
        replaces="Mailbox",
        statements=("M10", "M16", "M17"),
        wrong=_MailboxOfEra1,
    ),
    PropertyDefect(
        name="era-2",
        about="new urgent mail makes a whole new batch",
        mirrors="Flink with FLINK-35051",
        replaces="Mailbox",
        statements=("M13", "M16", "M17"),
        wrong=_MailboxOfEra2,
    ),
    PropertyDefect(
        name="era-3-unpatched",
        about="all holes of the third era at once",
        mirrors="Flink with FLINK-35796",
        replaces="Mailbox",
        statements=("M8", "M10", "M16", "M17"),
        wrong=partial(MailboxOfEra3, holes=frozenset(MailboxDefect)),
    ),
    _with_hole(
        MailboxDefect.UNSEEN_TAKE_REVERSES_URGENT,
        about="after a take that may not take the urgent mail that it pulls, later urgent mail is reversed",
        mirrors="a hole of FLINK-35796",
        statements=("M16", "M17"),
    ),
    _with_hole(
        MailboxDefect.PARKED_TAKE_REVERSES_URGENT,
        about="a waiting take reads the head of the queue, where urgent mail stands reversed",
        mirrors="a hole of FLINK-35796",
        statements=("M16", "M17"),
    ),
    _with_hole(
        MailboxDefect.MAIL_BEHIND_URGENT_STARVES,
        about="an empty batch gets urgent mail alone, and the mail behind it waits",
        mirrors="FLINK-39898",
        statements=("M10",),
    ),
    _with_hole(
        MailboxDefect.FINISH_SKIPS_DEFERRABLE,
        about="no take by an operator returns its deferrable mail, not even when it finishes",
        mirrors="FLINK-39481",
        statements=("M8",),
    ),
)
