"""One attempt as the screen follows it, with its failures, its snaps and the memory of its source.

Does the work of the exact checkers' `AttemptSweep` in constant time per event. Anything off the regular course
raises `Irregular`; a doubt about one invariant makes that invariant suspected. Memory grows with open elements, dead
letters, and the input after the oldest snap that may still be restored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from harness.history.event import Call, Dead, End, Failed, Id, In, Out, Owm, Res, Restore, Snap, Wm
from harness.history.policies import against_policy, is_judged
from harness.history.values import same
from harness.judge.checkers.screen.tables import Epoch
from harness.judge.checkers.screen.totals import Entry, ExpectedRows, Irregular, Segment, Sums, alike
from harness.system.json_types import JsonView


class Failures:
    """Failures and dead letters of one attempt, for V20 and for what a failed attempt excuses in V15.

    Mutable; memory grows with dead letters.
    """

    __slots__ = ("_dead", "_named", "reported_t", "unanswered_t", "untold")

    def __init__(self) -> None:
        self.untold: dict[Id, Any] = {}
        """The errors of records that failed, while no dead letter and no failure of the attempt reports them."""
        self.reported_t: int | None = None
        """When the attempt first reported that it fails."""
        self.unanswered_t: int | None = None
        """The earliest first call of a record that became a dead letter without a final answer."""
        self._dead: dict[Id, None] = {}
        self._named: dict[Id, None] = {}
        """Records that a `failed` event of the attempt named."""

    def report(self, event: Failed) -> bool:
        """The attempt fails; returns whether the record that it names is a dead letter as well."""
        self.untold.clear()
        if self.reported_t is None:
            self.reported_t = event.t
        if event.id is UNSET:
            return False
        self._named[event.id] = None
        return event.id in self._dead

    def write_dead_letter(self, record: Id) -> bool:
        """A record becomes a dead letter; returns whether a `failed` event of the attempt named it."""
        self._dead[record] = None
        return record in self._named

    def leave_unanswered(self, first: Call) -> None:
        """A record that was called becomes a dead letter before its final answer."""
        before = self.unanswered_t
        self.unanswered_t = first.t if before is None else min(before, first.t)


_KEPT_MAX = 1 << 17


class SourceMemory:
    """The input elements of one subtask that a restart may read again.

    Does the work of `history.rules.SourceIdentity` in less memory: positions from `base` up to `high` are
    remembered. An element read again must equal the first one, else the history is irregular. Mutable.
    """

    def __init__(self, note_id: Callable[[Id], None]) -> None:
        self.note_id = note_id
        """Called with the id of each record that is read for the first time."""
        self.base = 0
        self.high = 0
        """The first position that no attempt has read."""
        self.kept: list[In | Wm] = []
        self.keep = self.kept.append

    def again(self, taken: In | Wm) -> None:
        """Compare an element that is read again with the remembered one."""
        index = taken.pos - self.base
        if not 0 <= index < len(self.kept):
            raise Irregular("a position that is not remembered")
        if not _equal(self.kept[index], taken):
            raise Irregular("the source contradicts itself")

    def let_go(self, pos: int) -> None:
        """Forget positions below `pos`; reading one of them again is irregular."""
        if pos > self.base:
            del self.kept[: pos - self.base]
            self.base = pos

    def bound(self) -> None:
        """Forget the older half once the memory is full."""
        if len(self.kept) > _KEPT_MAX:
            self.let_go(self.high - _KEPT_MAX // 2)


def _equal(first: In | Wm, now: In | Wm) -> bool:
    if isinstance(first, Wm) or isinstance(now, Wm):
        return isinstance(first, Wm) and isinstance(now, Wm) and first.w == now.w
    if first.id != now.id or not same(first.key, now.key):
        return False
    if (None if first.ts is UNSET else first.ts) != (None if now.ts is UNSET else now.ts):
        return False
    return same(first.expect, now.expect)


class Saved:
    """A snap with the state of its attempt at that moment, kept for a restore (V10, V11).

    A snap must list exactly the open elements, in replay order; a restore must list exactly what was stored.
    """

    __slots__ = (
        "_sources",
        "a",
        "acknowledged",
        "before",
        "c",
        "completed",
        "elements",
        "epoch_filled",
        "filled",
        "final",
        "last_pos",
        "outs",
        "owms",
        "pos",
        "sums",
        "superseded",
    )  # fmt: skip

    def __init__(self, snap: Snap, life: AttemptScreen) -> None:
        self.a, self.c, self.pos = snap.a, snap.c, snap.pos
        self.elements = snap.elements
        self._sources = _stored(life, snap)
        """The records that it lists, as the source delivered them."""
        self.final = life.final
        self.last_pos = life.last_pos
        self.outs, self.owms = life.outs, life.owms
        self.sums = Sums() if life.rows is None else life.rows.sums
        self.filled = life.filling
        self.completed = self.acknowledged = False
        self.superseded = life.over_t is not None
        """Whether a newer attempt had started before it was taken."""
        before = life.epoch
        self.before: Saved | None = before
        """The snap before it in the chain, until this one is committed; None for non-transactional sinks."""
        self.epoch_filled = (self.outs, self.owms) != (
            (0, 0) if before is None else (before.outs, before.owms)
        )

    def replay(self, event: Restore, life: AttemptScreen) -> None:
        """Restore the stored elements into a new attempt."""
        same_segments = not life.account.ordered and _by_segment(event.elements) == _by_segment(self.elements)
        if event.elements != self.elements and not same_segments:
            raise Irregular("a restore that differs from the snap")
        tail = life.tail
        for element in event.elements:
            if "id" in element:
                life.open[element["id"]] = Entry(self._sources[element["id"]], tail)
                tail.open += 1
            else:
                tail = tail.close(element["w"], element["pos"], event.t)
        life.tail = tail
        life.restored = True
        life.reading = not self.final and not life.end


def _stored(life: AttemptScreen, snap: Snap) -> dict[Id, In]:
    """The records that a snap lists; irregular unless it lists exactly the open elements in replay order.

    It may also list records that were resolved without output; of those, `life.empties` keeps only the listed.
    """
    segment, seen, last_pos = life.head, 0, -1
    ordered = life.account.ordered
    sources: dict[Id, In] = {}
    listed: dict[Id, Entry] = {}
    for element in snap.elements:
        if "id" not in element:
            if (element["w"], element["pos"], seen) != (segment.w, segment.pos, segment.open):
                raise Irregular("a watermark is stored out of order")
            assert segment.next is not None  # the watermark that ends it has arrived
            segment, seen = segment.next, 0
            continue
        record = element["id"]
        entry = life.open.get(record)
        if entry is None:
            entry = listed[record] = life.empties[record]
        else:
            seen += 1
        pos = entry.source.pos
        if entry.segment is not segment or record in sources or (ordered and pos < last_pos):
            raise Irregular("a record is stored out of order")
        sources[record] = entry.source
        last_pos = pos
    if segment is not life.tail or seen != segment.open:
        raise Irregular("an open element is not stored")
    life.empties = listed
    return sources


def _by_segment(elements: Sequence[JsonView]) -> list[object]:
    """The stored elements as segments; order between two watermarks does not count."""
    segments: list[Any] = [Counter()]
    for element in elements:
        if "id" in element:
            segments[-1][element["id"]] += 1
        else:
            segments += ((element["w"], element["pos"]), Counter())
    return segments


if TYPE_CHECKING:
    from harness.judge.checkers.screen.account import Account


_NO_RECORD = Entry(In(n=0, t=0, s=0, a=0, pos=-1, id=""), Segment(0), wanted=[])
_EMPTIES_MAX = 1024


class AttemptScreen:
    """The state of one attempt in the screen, updated by each of its events. Mutable."""

    __slots__ = (
        "a", "account", "answers", "barrier", "called_order", "calls", "closed", "counts", "empties", "end",
        "ended", "epoch", "failures", "filling", "final", "free", "head", "last", "last_c", "last_pos", "limit_us",
        "note_nonce", "open", "ordered", "outs", "over_t", "owms", "partial", "pos", "reading", "restored", "retry",
        "rows", "settled_t", "shown_before", "source", "tail", "thread",
    )  # fmt: skip

    def __init__(self, a: int, account: Account, source: SourceMemory) -> None:
        self.a = a
        self.account = account
        self.source = source
        self.ordered = account.ordered
        self.limit_us = account.limit_us
        self.retry = account.retry
        self.counts = account.service.is_claimed
        self.note_nonce = account.nonces.pending.append
        self.pos = 0
        self.barrier: float = account.header.barrier_every or math.inf
        """The position behind the next barrier, at which it must have taken that checkpoint."""
        self.reading = True
        """Whether it may still read from its source."""
        self.final = False
        """Whether it has taken the final watermark."""
        self.open: dict[Id, Entry] = {}
        self.empties: dict[Id, Entry] = {}
        """Records resolved without output; a snap may list them or not."""
        self.head = self.tail = Segment(0)
        self.last = _NO_RECORD
        """The record taken in last; it may still wait for a slot."""
        self.partial: Entry | None = None
        """The record of which some, but not all, outputs have left."""
        self.last_pos = -1
        """In ordered mode, the position of the record whose output left last."""
        self.free = account.capacity
        self.called_order = 0
        """The highest segment with a called record: the watermarks before that segment hold slots."""
        self.settled_t = 0
        """When the last record of the segments before `head` was resolved."""
        self.thread: object = UNSET
        self.rows = ExpectedRows(account.by_row) if account.by_row else None
        self.filling = Epoch(a) if account.keeps_resolved else None
        """What it has resolved since its last snap, where tables are claimed."""
        self.outs = self.owms = 0
        """Numbers of visible results and watermarks, including the chain before this attempt."""
        self.shown_before = (0, 0)
        """Of these, the numbers before this attempt."""
        self.calls = self.answers = 0
        self.failures = Failures()
        self.over_t: int | None = None
        """When it closed, was killed or was superseded, or last acted after that; None while it runs."""
        self.end = self.ended = self.closed = False
        self.restored = True
        """Whether its state is complete; False from a start from a checkpoint until its `restore`."""
        self.last_c: int | None = None
        """The checkpoint of its last snap, or the one that it started from."""
        self.epoch: Saved | None = None
        """The snap of `last_c`."""

    def take(self, event: In) -> None:
        pos, source = event.pos, self.source
        if pos != self.pos or not self.reading:
            raise Irregular("a record at an unexpected position")
        if pos >= self.barrier:
            self.account.suspect("V18")
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
        if not self.account.asks_of_calls:
            return
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
        if self.counts:
            self.account.service.step(event)
        if event.raised is not UNSET or event.r != "ok":
            self._compare_policy(event)
        if event.r != "ok" or not event.final:
            self._settle_oddly(event, entry)
            return
        if entry.wanted is not None:
            raise Irregular("a second outcome")
        if self.account.asks_of_calls:
            self._check_answer(event, entry)
        wanted = entry.source.expect
        if wanted is UNSET:
            wanted = event.v
        if wanted:
            entry.wanted = wanted
        elif wanted is UNSET:
            raise Irregular("an outcome without known outputs")
        else:
            self._end_empty(event.id, entry, event.t)

    def _compare_policy(self, event: Res) -> None:
        """An error or a timeout must be what its call or handler ended with, and yield what is declared."""
        header = self.account.header
        if against_policy(event, header) is not None:
            self.account.suspect("V20")
        self.account.failures += is_judged(event, header)

    def _check_answer(self, event: Res, entry: Entry) -> None:
        """A final `ok` must answer the latest call, in time, and be no outcome that is retried."""
        call = entry.call
        if call is None or event.try_ != call.try_ or entry.returned == call.try_:
            raise Irregular("an unexpected outcome")
        if self.limit_us is not None and event.t - (entry.first or call).t > self.limit_us:
            self._late((entry.first or call).t, self.limit_us)
        if self.retry is not None and self.retry.retries(event):
            self.account.suspect("V15")

    def emit(self, event: Out) -> None:
        record, j = event.id, event.j
        entry = self.open[record]
        wanted, source = entry.wanted, entry.source
        if wanted is None:
            raise Irregular("a result before the outcome")
        if event.thread != self.thread:
            self.meet(event.thread)
        if j:
            if entry is not self.partial or j != entry.left:
                raise Irregular("an output number out of sequence")
        elif self.partial is not None or entry.segment is not self.head:
            raise Irregular("a result before its segment, or between outputs of another record")
        elif self.ordered:
            if source.pos < self.last_pos:
                raise Irregular("a result out of order")
            self.last_pos = source.pos
        value, due = event.v, wanted[j]
        if (value != due or type(value) is not str) and value is not due and not alike(value, due):
            raise Irregular("an unexpected value")
        if (
            event.ts is not UNSET
            and event.ts != source.ts
            and (event.ts is not None or source.ts is not UNSET)
        ):
            raise Irregular("an unexpected timestamp")
        self.outs += 1
        if j + 1 == len(wanted):
            self.partial = None
            self._resolve(record, entry, event.t)
        else:
            self.partial = entry
            entry.left = j + 1

    def mark(self, event: Wm) -> None:
        if event.pos != self.pos or not self.reading:
            raise Irregular("a watermark at an unexpected position")
        if event.pos >= self.barrier:
            self.account.suspect("V18")
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
        head, account = self.head, self.account
        if event.thread != self.thread:
            self.meet(event.thread)
        if head.next is None or head.open or head.w != event.w:
            raise Irregular("an unexpected watermark")
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

    def write_dead_letter(self, event: Dead) -> None:
        """A record becomes a dead letter."""
        failures, header = self.failures, self.account.header
        # Which policy its failure has is not kept: where they differ, or none says `dead`, the checker finds out.
        is_declared = header.operator.on_error == "dead" and header.operator.on_timeout != "fail"
        if failures.write_dead_letter(event.id) or (header.raised and not is_declared):
            self.account.suspect("V20")
        has_failed = event.id in failures.untold
        error = failures.untold.pop(event.id, UNSET)
        if self.filling is not None:
            self.filling.letters.append((event.id, error))
        if has_failed:
            return
        entry = self.open[event.id]
        if entry.wanted is not None:
            raise Irregular("a dead letter after the outcome")
        if entry.call is not None:
            entry.unclear = entry.unclear or entry.returned != entry.call.try_
            failures.leave_unanswered(entry.first or entry.call)
        self._end_empty(event.id, entry, event.t)

    def fail(self, event: Failed) -> None:
        if self.account.explained:
            self.account.ask(event, explained=self.over_t is not None)
        operator, asks = self.account.header.operator, self.account.header.raised and event.id is not UNSET
        if self.failures.report(event) or (asks and "dead" in (operator.on_error, operator.on_timeout)):
            self.account.suspect("V20")

    def pass_barrier(self, c: int) -> None:
        """Checkpoint `c` is taken; one that was passed over makes V18 suspected, and nothing is followed further."""
        every = self.account.header.barrier_every
        if every is not None:
            if c != (self.last_c or 0) + 1:
                self.account.suspect("V18")
            self.barrier = every * (c + 1)

    def exhaust(self, event: End) -> None:
        """The source reports its end."""
        del event
        if self.end:
            raise Irregular("a second end")
        self.end = True
        self.reading = False

    def drain(self, event: object) -> None:
        """The attempt reports that it has drained."""
        del event
        if not self.end or self.ended or not self.restored or self.open or self.head is not self.tail:
            raise Irregular("drained with something open")
        self.ended = True

    def meet(self, thread: object) -> None:
        """An action names a thread other than the known one, or none."""
        if thread is UNSET:
            return
        if self.thread is not UNSET:
            self.account.suspect("V21")
        self.thread = thread

    def finish(self, last_t: int) -> None:
        """Apply the checks at the end of the attempt; a called record without an outcome may be overdue (V15)."""
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
        """Forget old records without output, which a snap is unlikely to list."""
        if len(self.empties) > _EMPTIES_MAX:
            self.empties = dict(list(self.empties.items())[-_EMPTIES_MAX // 2 :])

    def _call_again(self, event: Call, entry: Entry) -> None:
        before = entry.call
        if before is None or entry.wanted is not None or entry.returned != before.try_:
            raise Irregular("an unexpected call")
        if event.try_ != before.try_ + 1:
            raise Irregular("a try number out of sequence")
        if event.try_ > self.account.max_tries:
            self.account.suspect("V15")
        entry.first = entry.first or before
        limit_us = self.account.call_limit_us
        if limit_us is not None and event.t - entry.first.t > limit_us:
            self.account.suspect("V15")

    def _settle_oddly(self, event: Res, entry: Entry) -> None:
        """Handle any outcome other than a final `ok`."""
        call, account = entry.call, self.account
        if account.retry is not None and event.r != "timeout":
            account.suspect("V15")
        if entry.wanted is not None:
            raise Irregular("a second outcome")
        first_t = None if call is None else (entry.first or call).t
        entry.unclear = entry.unclear or call is not None
        if event.r == "timeout":
            if not event.final:
                raise Irregular("a timeout that is not final")
            if not account.timeout_us or (first_t is not None and event.t - first_t < account.early_us):
                account.suspect("V15")
        elif account.asks_of_calls and (
            call is None or event.try_ != call.try_ or entry.returned == call.try_ or event.r == "ok"
        ):
            raise Irregular("an unexpected outcome")
        elif not event.final:
            entry.returned = event.try_
            return
        if self.limit_us is not None and first_t is not None and event.t - first_t > self.limit_us:
            self._late(first_t, self.limit_us)
        self._settle_finally(event, entry)

    def _settle_finally(self, event: Res, entry: Entry) -> None:
        expect = entry.source.expect
        if event.r == "fail" or (event.r == "timeout" and event.error is not UNSET):
            self.failures.untold[event.id] = event.error
            self._end_empty(event.id, entry, event.t)
            return
        wanted = event.v if expect is UNSET or event.r == "timeout" else expect
        if event.r == "timeout":
            entry.substitute = True
            wanted = [] if wanted is UNSET else wanted
        if wanted is UNSET:
            raise Irregular("an outcome without known outputs")
        if wanted:
            entry.wanted = wanted
        else:
            self._end_empty(event.id, entry, event.t)

    def _end_empty(self, record: Id, entry: Entry, t: int) -> None:
        """Resolve a record whose outcome calls for no output."""
        entry.wanted = []
        self._resolve(record, entry, t)
        self.empties[record] = entry

    def _resolve(self, record: Id, entry: Entry, t: int) -> None:
        """Close a record: free its slot and note the row that it calls for."""
        del self.open[record]
        segment = entry.segment
        segment.open -= 1
        if not segment.open:
            segment.settled_t = t
        if entry.call is not None:
            self.free += 1
        if self.rows is not None and self.over_t is None:
            self.rows.expect(entry, self.account.either)
        if self.filling is not None:
            self.filling.resolved.append(entry)

    def _admit(self, order: int) -> None:
        """A record of segment `order` is called, so the watermarks before it take slots."""
        if self.account.slots:
            self.free -= order - max(self.called_order, self.head.order)
        self.called_order = order

    def _late(self, first_t: int, limit_us: int) -> None:
        """An outcome came after its limit: suspect V15 unless a failure or a stall excuses it."""
        limit = first_t + limit_us
        reported_t = self.failures.reported_t
        excused = reported_t is not None and reported_t <= limit
        if not excused and not self.account.stalled(first_t, limit):
            self.account.suspect("V15")
