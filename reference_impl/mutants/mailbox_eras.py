"""Flink's own mailboxes, era by era, with the holes that they had or have: each is a mailbox to be convicted.

Answers to `TaskMailboxImpl` before, between and after FLINK-35051 and FLINK-35796: one queue with urgent mail
reversed at its head, and a batch in a second deque. Invariant: the third era without a hole gives the same
mail in the same order as `reference_impl.mailbox.mailbox.Mailbox`, be it by takes or by whole batches; only what a
batch holds that a take, or urgent mail left in it, has touched may differ.

A loop's callback on the task's thread, while a take waits, stands for Flink's foreign thread, which alone
could put mail then.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Protocol

from reference_impl.mailbox.mailbox import MIN_PRIORITY, Deliverable, Mail, Mailbox, MailboxState, MailRunner

__all__ = ["MAILBOXES", "BuildMailbox", "Hole", "MailboxOfEra1", "MailboxOfEra2", "MailboxOfEra3"]


class BuildMailbox(Protocol):
    """Builds a mailbox, for the thread that it is called on."""

    def __call__(self, *, loop: asyncio.AbstractEventLoop) -> Mailbox: ...


class Hole(Enum):
    """What the third era gets wrong."""

    UNSEEN_TAKE_REVERSES_URGENT = "unseen-take-reverses-urgent"
    """A take that pulls urgent mail and may not see it bars later urgent mail from being put right (M17a)."""
    PARKED_TAKE_REVERSES_URGENT = "parked-take-reverses-urgent"
    """A waiting take reads the head of the queue, where urgent mail stands reversed (M17b)."""
    MAIL_BEHIND_URGENT_STARVES = "mail-behind-urgent-starves"
    """Into an empty batch comes urgent mail alone (M10, before FLINK-39898)."""
    FINISH_SKIPS_DEFERRABLE = "finish-skips-deferrable"
    """No take of an operator sees its deferrable mail (M8, before FLINK-39481)."""


class _UrgentMail(Mail):
    """In the classic structure a mail itself has to say that it is urgent."""


class _ClassicMailbox(Mailbox, ABC):
    """One queue and a batch; what an era does with urgent mail is its own. Mutable."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._current: deque[Deliverable] = deque()
        """The batch, which here is not a part of the queue."""

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
        """From the queue to the batch: all of it for a new batch, else what must not wait for one."""

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


class MailboxOfEra1(_ClassicMailbox):
    """Up to Flink 2.0: urgent mail from the task's thread is last in, first out (M17c), and none overtakes a batch."""

    def _add_urgent(self, mail: Deliverable, *, foreign: bool) -> None:
        (self._queue if foreign else self._current).appendleft(mail)

    def _pull(self, *, all_mail: bool) -> None:
        if all_mail:
            self._current.extend(self._queue)
            self._queue.clear()


class MailboxOfEra2(_ClassicMailbox):
    """With FLINK-35051: new urgent mail makes a whole new batch, so that what came in meanwhile is in it, too (M13)."""

    def _add_urgent(self, mail: Deliverable, *, foreign: bool) -> None:
        (self._queue if foreign else self._current).appendleft(mail)

    def _pull(self, *, all_mail: bool) -> None:
        if all_mail or self._new_urgent():
            while self._queue:
                mail = self._queue.popleft()
                (self._current.appendleft if isinstance(mail, _UrgentMail) else self._current.append)(mail)


class MailboxOfEra3(_ClassicMailbox):
    """With FLINK-35796: urgent mail is pulled, alone, into a batch that runs. Has the holes that it is given."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop, holes: frozenset[Hole]) -> None:
        super().__init__(loop=loop)
        self._holes = holes

    def _add_urgent(self, mail: Deliverable, *, foreign: bool) -> None:
        into_batch = (
            not foreign and self._current and not _is_urgent(self._current) and not self._new_urgent()
        )
        (self._current if into_batch else self._queue).appendleft(mail)

    def _pull(self, *, all_mail: bool) -> None:
        if _is_urgent(self._current) and Hole.UNSEEN_TAKE_REVERSES_URGENT in self._holes:
            return
        was_empty = not self._current
        if not self._new_urgent() and not (was_empty and all_mail):
            return
        self._pull_urgent()
        if all_mail or (was_empty and Hole.MAIL_BEHIND_URGENT_STARVES not in self._holes):
            self._current.extend(self._queue)
            self._queue.clear()

    def _pull_urgent(self) -> None:
        """Behind the urgent mail that is in the batch already; reversed anew, so in order of arrival."""
        place = sum(isinstance(mail, _UrgentMail) for mail in self._current)
        while self._new_urgent():
            self._current.insert(place, self._queue.popleft())

    def _take_on_waking(self, priority: int) -> Deliverable | None:
        if Hole.PARKED_TAKE_REVERSES_URGENT in self._holes:
            return super()._take_on_waking(priority)
        return self.try_take(priority)

    def try_take_ignoring_deferrable(self, priority: int) -> Deliverable | None:
        deferrable_too = Hole.FINISH_SKIPS_DEFERRABLE not in self._holes or priority == MIN_PRIORITY
        return self._take(priority, deferrable_too=deferrable_too)


def _is_urgent(mails: deque[Deliverable]) -> bool:
    return bool(mails) and isinstance(mails[0], _UrgentMail)


def _take_first(mails: deque[Deliverable], priority: int, *, deferrable_too: bool) -> Deliverable | None:
    for index, mail in enumerate(mails):
        if mail.priority >= priority and (deferrable_too or not mail.deferrable):
            del mails[index]
            return mail
    return None


MAILBOXES: Mapping[str, BuildMailbox] = MappingProxyType(
    {
        "era-1": MailboxOfEra1,
        "era-2": MailboxOfEra2,
        "era-3-unpatched": partial(MailboxOfEra3, holes=frozenset(Hole)),
        **{hole.value: partial(MailboxOfEra3, holes=frozenset({hole})) for hole in Hole},
    }
)
"""Each variant by name: the eras as they were released, then the third with one hole at a time."""
