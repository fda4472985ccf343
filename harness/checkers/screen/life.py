"""A life: one attempt as the screen follows it, from its `start` through what it takes, calls, settles and emits.

Answers to the sweep of an attempt by the exact checkers, in constant time an event. Invariant: whatever is not
plainly the regular course raises `Irregular`; what is only one invariant's matter makes that one suspected. What
has left is forgotten; memory grows with what is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from harness.checkers.screen.failures import Failures
from harness.checkers.screen.irregular import Irregular
from harness.checkers.screen.queue_entry import Entry, Segment
from harness.checkers.screen.rows import Rows
from harness.history.event import Call, Dead, End, Failed, Id, In, Out, Owm, Res, Wm
from harness.history.values import same

if TYPE_CHECKING:
    from harness.checkers.screen.account import Account
    from harness.checkers.screen.saved import Saved
    from harness.checkers.screen.source_memory import SourceMemory

__all__ = ["Life", "alike"]

_PLAIN = frozenset({str, int, type(None), bool})
"""Of these, one type and `==` is all that equality takes."""
_NO_RECORD = Entry(In(n=0, t=0, s=0, a=0, pos=-1, id=""), Segment(0), wanted=[])
_EMPTIES_MAX = 1024
_encode = msgspec.json.encode


def alike(left: Any, right: Any) -> bool:
    """Whether two values are equal in the sense of the page; sooner than `same`, where they are."""
    if type(left) is not type(right) or left != right:
        return False
    if type(left) in _PLAIN:
        return True
    try:
        written_alike = _encode(left) == _encode(right)
    except (ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        written_alike = False
    return written_alike or same(left, right)


class Life:
    """Feed it the attempt's events in order. Mutable."""

    __slots__ = (
        "a", "account", "answers", "called_order", "calls", "closed", "empties", "end", "ended", "epoch",
        "failures", "final", "free", "head", "last", "last_c", "last_pos", "limit_us", "note_nonce", "open",
        "ordered", "outs", "over_t", "owms", "partial", "pos", "reading", "restored", "rows", "settled_t",
        "shown_before", "source", "tail", "thread",
    )  # fmt: skip

    def __init__(self, a: int, account: Account, source: SourceMemory) -> None:  # noqa: PLR0915  (one a field)
        self.a = a
        self.account = account
        self.source = source
        self.ordered = account.ordered
        self.limit_us = account.limit_us
        self.note_nonce = account.nonces.pending.append
        self.pos = 0
        self.reading = True
        """It may take from its source."""
        self.final = False
        """It has taken the final watermark."""
        self.open: dict[Id, Entry] = {}
        self.empties: dict[Id, Entry] = {}
        """Resolved without any output; a snap may list them or not."""
        self.head = self.tail = Segment(0)
        self.last = _NO_RECORD
        """The record taken last; it may still wait to be called."""
        self.partial: Entry | None = None
        """Of several outputs some have left."""
        self.last_pos = -1
        """In ordered mode, of the record whose output left last."""
        self.free = account.capacity
        self.called_order = 0
        """Of the highest segment of which a record was called: the watermarks before it hold slots."""
        self.settled_t = 0
        """When the last record was resolved in segments that have left."""
        self.thread: object = UNSET
        self.rows = Rows(account.by_row) if account.by_row else None
        self.outs = self.owms = 0
        """Visible ones, with those of the chain before this attempt."""
        self.shown_before = (0, 0)
        """Of these, what left before this attempt."""
        self.calls = self.answers = 0
        self.failures = Failures()
        self.over_t: int | None = None
        """Not before its last event; None while it lives."""
        self.end = self.ended = self.closed = False
        self.restored = True
        """It stands where its `start` says; False till its `restore`."""
        self.last_c: int | None = None
        """The checkpoint that it snapped last, or starts from."""
        self.epoch: Saved | None = None
        """That snap."""

    def take(self, event: In) -> None:
        """A record comes from the source."""
        pos, source = event.pos, self.source
        if pos != self.pos or not self.reading:
            raise Irregular("a record at another position")
        last, record = self.last, event.id
        if last.call is None and last.wanted is None:
            self.account.suspect("V14")
        if pos == source.high:
            source.high = pos + 1
            source.keep(event)
            source.note_id(record)
            if event.key is not UNSET:
                self.account.keyed = True
        else:
            source.again(event)
        self.pos = pos + 1
        segment = self.tail
        segment.open += 1
        self.last = self.open[record] = Entry(event, segment)

    def call(self, event: Call) -> None:
        """An external call begins."""
        entry = self.open[event.id]
        if event.thread != self.thread:
            self.meet(event.thread)
        if entry.call is not None or entry.wanted is not None or event.try_ != 1:
            self._call_again(event, entry)
        else:
            self.free -= 1
            if entry.segment.order > self.called_order:
                self._admit(entry.segment.order)
            if self.free < 0:
                self.account.suspect("V14")
        entry.call = event
        self.calls += 1
        if event.nonce is not UNSET:
            self.note_nonce(event.nonce)

    def settle(self, event: Res) -> None:
        """An outcome is accepted."""
        entry = self.open[event.id]
        call = entry.call
        if event.thread != self.thread:
            self.meet(event.thread)
        self.answers += 1
        if event.nonce is not UNSET and (
            call is None
            or event.nonce != call.nonce
            or event.try_ != call.try_
            or type(event.nonce) is not type(call.nonce)
        ):
            self.account.suspect("V19")
        if event.r != "ok" or not event.final:
            self._settle_oddly(event, entry)
            return
        if call is None or entry.wanted is not None or event.try_ != call.try_ or entry.returned == call.try_:
            raise Irregular("an outcome out of its place")
        if self.limit_us is not None and event.t - (entry.first or call).t > self.limit_us:
            self._late((entry.first or call).t, self.limit_us)
        wanted = entry.source.expect
        if wanted is UNSET:
            wanted = event.v
        if wanted:
            entry.wanted = wanted
        elif wanted is UNSET:
            raise Irregular("nobody knows what the record must yield")
        else:
            self._end_empty(event.id, entry, event.t)

    def emit(self, event: Out) -> None:
        """A result leaves."""
        record, j = event.id, event.j
        entry = self.open[record]
        wanted, source = entry.wanted, entry.source
        if wanted is None:
            raise Irregular("a result before the outcome")
        if event.thread != self.thread:
            self.meet(event.thread)
        if j:
            if entry is not self.partial or j != entry.left:
                raise Irregular("a result out of its number")
        elif self.partial is not None or entry.segment is not self.head:
            raise Irregular("a result out of its place")
        elif self.ordered:
            if source.pos < self.last_pos:
                raise Irregular("a result out of order")
            self.last_pos = source.pos
        value, due = event.v, wanted[j]
        if (value != due or type(value) is not str) and value is not due and not alike(value, due):
            raise Irregular("another value")
        if (
            event.ts is not UNSET
            and event.ts != source.ts
            and (event.ts is not None or source.ts is not UNSET)
        ):
            raise Irregular("another timestamp")
        self.outs += 1
        if j + 1 == len(wanted):
            self.partial = None
            self._resolve(record, entry, event.t)
        else:
            self.partial = entry
            entry.left = j + 1

    def mark(self, event: Wm) -> None:
        """A watermark comes from the source."""
        if event.pos != self.pos or not self.reading:
            raise Irregular("a watermark at another position")
        if event.pos == self.source.high:
            self.source.high += 1
            self.source.keep(event)
            self.account.watermarks += 1
        else:
            self.source.again(event)
        self.pos += 1
        self.tail = self.tail.close(event.w, event.pos, event.t)
        if event.w == "end":
            self.final = True
            self.reading = False

    def pass_mark(self, event: Owm) -> None:
        """A watermark leaves."""
        head, account = self.head, self.account
        if event.thread != self.thread:
            self.meet(event.thread)
        if head.next is None or head.open or head.w != event.w:
            raise Irregular("a watermark out of its place")
        self.settled_t = max(self.settled_t, head.settled_t)
        ready_t = max(self.settled_t, head.came_t)
        waited_us = event.t - ready_t
        if (
            account.hold_us is not None
            and waited_us > account.hold_us
            and not account.stalled(ready_t, event.t)
        ):
            account.suspect("V6")
        if account.slots and self.called_order > head.order:
            self.free += 1
        self.head = head.next
        self.owms += 1
        if self.empties:
            self.empties = {name: entry for name, entry in self.empties.items() if entry.segment is not head}

    def bury(self, event: Dead) -> None:
        """A record goes to the dead letters."""
        failures = self.failures
        if failures.bury(event.id):
            self.account.suspect("V20")
        if event.id in failures.untold:
            del failures.untold[event.id]
            return
        entry = self.open[event.id]
        if entry.wanted is not None:
            raise Irregular("a dead letter after the outcome")
        if entry.call is not None:
            entry.unclear = entry.unclear or entry.returned != entry.call.try_
            failures.leave_unanswered(entry.first or entry.call)
        self._end_empty(event.id, entry, event.t)

    def fail(self, event: Failed) -> None:
        """The attempt reports its failure."""
        if self.failures.report(event):
            self.account.suspect("V20")

    def exhaust(self, event: End) -> None:
        """The source is exhausted."""
        del event
        if self.end:
            raise Irregular("a second end")
        self.end = True
        self.reading = False

    def drain(self, event: object) -> None:
        """All that was taken has left."""
        del event
        if not self.end or self.ended or not self.restored or self.open or self.head is not self.tail:
            raise Irregular("drained with something open")
        self.ended = True

    def meet(self, thread: object) -> None:
        """An act comes from another thread than the acts before, or does not say from which."""
        if thread is UNSET:
            return
        if self.thread is not UNSET:
            self.account.suspect("V21")
        self.thread = thread

    def finish(self, last_t: int) -> None:
        """It is over, at the latest by then: whoever was called and has no outcome should have had it."""
        account = self.account
        over_t = last_t if self.over_t is None else self.over_t
        if self.failures.untold:
            account.suspect("V20")
        account.calls += self.calls
        account.answers += self.answers
        account.outs += self.outs - self.shown_before[0]
        account.owms += self.owms - self.shown_before[1]
        limit_us = self.limit_us
        if limit_us is None:
            return
        reported_t, unanswered_t = self.failures.reported_t, self.failures.unanswered_t
        over_t = over_t if reported_t is None else min(over_t, reported_t)
        for entry in self.open.values():
            if entry.call is not None and entry.wanted is None:
                first_t = (entry.first or entry.call).t
                limit = first_t + limit_us
                if over_t > limit and not account.stalled(first_t, limit):
                    account.suspect("V15")
        if unanswered_t is not None and over_t > unanswered_t + limit_us:
            account.suspect("V15")

    def trim(self) -> None:
        """Forget what a snap is not likely to list any more."""
        if len(self.empties) > _EMPTIES_MAX:
            self.empties = dict(list(self.empties.items())[-_EMPTIES_MAX // 2 :])

    def _call_again(self, event: Call, entry: Entry) -> None:
        before = entry.call
        if before is None or entry.wanted is not None or entry.returned != before.try_:
            raise Irregular("a call out of its place")
        if event.try_ != before.try_ + 1:
            raise Irregular("a try out of its number")
        if event.try_ > self.account.max_tries:
            self.account.suspect("V15")
        entry.first = entry.first or before

    def _settle_oddly(self, event: Res, entry: Entry) -> None:
        """Whatever is not the final `ok`."""
        call, account = entry.call, self.account
        if entry.wanted is not None:
            raise Irregular("a second outcome")
        first_t = None if call is None else (entry.first or call).t
        entry.unclear = entry.unclear or call is not None
        if event.r == "timeout":
            if not event.final:
                raise Irregular("a timeout after which another try follows")
            if not account.timeout_us or (first_t is not None and event.t - first_t < account.early_us):
                account.suspect("V15")
        elif call is None or event.try_ != call.try_ or entry.returned == call.try_ or event.r == "ok":
            raise Irregular("an outcome out of its place")
        elif not event.final:
            entry.returned = event.try_
            return
        if self.limit_us is not None and first_t is not None and event.t - first_t > self.limit_us:
            self._late(first_t, self.limit_us)
        self._settle_finally(event, entry)

    def _settle_finally(self, event: Res, entry: Entry) -> None:
        expect = entry.source.expect
        if event.r == "fail" or (event.r == "timeout" and event.error is not UNSET):
            self.failures.untold[event.id] = None
            self.account.failures += 1
            self._end_empty(event.id, entry, event.t)
            return
        wanted = event.v if expect is UNSET or event.r == "timeout" else expect
        if event.r == "timeout":
            entry.substitute = True
            wanted = [] if wanted is UNSET else wanted
        if wanted is UNSET:
            raise Irregular("nobody knows what the record must yield")
        if wanted:
            entry.wanted = wanted
        else:
            self._end_empty(event.id, entry, event.t)

    def _end_empty(self, record: Id, entry: Entry, t: int) -> None:
        """Its outcome calls for no output."""
        entry.wanted = []
        self._resolve(record, entry, t)
        self.empties[record] = entry

    def _resolve(self, record: Id, entry: Entry, t: int) -> None:
        """Nothing of it is open any more."""
        del self.open[record]
        segment = entry.segment
        segment.open -= 1
        if not segment.open:
            segment.settled_t = t
        if entry.call is not None:
            self.free += 1
        if self.rows is not None and self.over_t is None:
            self.rows.expect(entry, self.account.either)

    def _admit(self, order: int) -> None:
        """The watermarks before this segment have been admitted, for a record of it is called."""
        if self.account.slots:
            self.free -= order - max(self.called_order, self.head.order)
        self.called_order = order

    def _late(self, first_t: int, limit_us: int) -> None:
        """An outcome came after its limit."""
        limit = first_t + limit_us
        reported_t = self.failures.reported_t
        excused = reported_t is not None and reported_t <= limit
        if not excused and not self.account.stalled(first_t, limit):
            self.account.suspect("V15")
