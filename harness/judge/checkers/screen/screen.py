"""The screen: follows a whole history in one pass and tells which invariants certainly hold.

See decision 0018. Invariant: soundness. If the history leaves the regular course, the screen raises `Irregular`;
if one invariant is in doubt, it is suspected; in both cases the exact checkers judge. Every verdict of the screen
equals that of the exact checker. The format's rules between lines are part of the regular course. Memory: O(in
flight) plus what `Account`, `SubtaskScreen` and `SourceMemory` keep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from harness.history.event import (
    Abort,
    Ack,
    AttemptEvent,
    Call,
    Change,
    Close,
    Commit,
    Dead,
    Done,
    Effect,
    End,
    Ended,
    Event,
    Failed,
    FaultEvent,
    GiveUp,
    Held,
    In,
    Kill,
    Out,
    Owm,
    Res,
    Rescale,
    Restore,
    Retire,
    Row,
    Snap,
    Start,
    TableRead,
    Wm,
)
from harness.history.header import Header
from harness.history.rules import EVERY_KEY, AnnouncedVersions
from harness.history.values import identity
from harness.judge.checkers.screen.account import US_PER_MS, Account, ShownRows
from harness.judge.checkers.screen.attempt import AttemptScreen
from harness.judge.checkers.screen.subtask import SubtaskScreen
from harness.judge.checkers.screen.tables import ReadTables
from harness.judge.checkers.screen.totals import Irregular

_OF_A_LIFE: Mapping[type, Callable[[AttemptScreen, Any], None]] = {
    In: AttemptScreen.take,
    Call: AttemptScreen.call,
    Res: AttemptScreen.settle,
    Out: AttemptScreen.emit,
    Wm: AttemptScreen.mark,
    Owm: AttemptScreen.pass_mark,
    Dead: AttemptScreen.write_dead_letter,
    Failed: AttemptScreen.fail,
}
_FIRST = frozenset({UNSET, 0})
"""The versions of an answer from a table that has not changed."""
_ODD = (KeyError, IndexError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
"""Raised by the steps at a record, attempt or snap that is not open, and at values that have no digest."""


class Screen:
    """Takes the events in order, then `finish`; both may raise Irregular. Mutable."""

    def __init__(self, header: Header, *, asks_of_calls: bool = True) -> None:
        """Without `asks_of_calls` it says nothing certain of the invariants that depend on calls, and is faster."""
        self.account = Account(header, asks_of_calls=asks_of_calls)
        self.rows = ShownRows(self.account)
        self.tables = ReadTables(header)
        self._versions = AnnouncedVersions()
        self._has_no_values = header.expect_from is not None
        """Whether the header says where the records' expected values come from, and no record has one."""
        self.strands: dict[int, SubtaskScreen] = {}
        self._lives: dict[int, AttemptScreen] = {}
        """The latest attempt of each subtask; its number is set to 0 when it is closed or killed."""
        self.events = 0
        self._clock: Clock | None = None
        self._retired: int | None = None
        self._last_done: int | None = None
        self._done_numbers: dict[int, None] = {}
        self._aborted: dict[int, None] = {}
        self._last_done_t: int | None = None
        self._first_start_t: int | None = None
        self._last_end_t: int | None = None
        self._steps: Mapping[type, Callable[[Any], None]] = {
            Start: self._start, Restore: self._restore, Snap: self._snap, End: self._end, Ended: self._ended,
            Close: self._close, Kill: self._kill, Done: self._done, Abort: self._abort, Retire: self._retire,
            Commit: self._commit, FaultEvent: self._fault, GiveUp: self._give_up, Ack: self._ack,
            Held: self._held,
            **dict.fromkeys((Effect, Row, TableRead), self._read), Change: self._change, Rescale: self._rescale,
        }  # fmt: skip

    def feed(self, events: Sequence[Event]) -> None:
        if not events:
            return
        if self._clock is None:
            self._clock = (events[0].n - 1, 0)
        try:
            self._clock = follow(
                events, self._clock, self._lives, self._step, calls=self.account.asks_of_calls
            )
        except _ODD as error:
            raise Irregular(
                "a record, attempt or snap that is not open, or a value beyond 64 bits"
            ) from error
        # Follow what the header claims of values
        if self._has_no_values:
            self._has_no_values = not any(type(one) is In and one.expect is not UNSET for one in events)
        if self.account.header.versions and any(type(one) is Res and one.ver not in _FIRST for one in events):
            self.account.suspect("V8")  # no version is announced, or the history would be irregular
        self.events += len(events)
        self.account.ids.settle()
        self.account.nonces.settle()
        for strand in self.strands.values():
            strand.source.bound()
            strand.life.trim()

    def _step(self, event: Event) -> None:
        kind = type(event)
        if kind not in _OF_A_LIFE:
            self._steps[kind](event)
        else:
            _OF_A_LIFE[kind](self._life(event), event)  # type: ignore[arg-type]

    def finish(self) -> bool:
        """Apply the checks at the end of the history; returns whether the run finished normally."""
        account, strands = self.account, self.strands
        if self._clock is None or not strands:
            raise Irregular("nothing ever started")
        if self._has_no_values or account.header.expect_from == "none":
            raise Irregular("no record has an expected value")
        last_t = self._clock[1]
        finished = all(strand.life.ended for strand in strands.values())
        for strand in strands.values():
            strand.finish(finished=finished, last_t=last_t)
        if not account.ids.all_different():
            raise Irregular("a record is taken in twice")
        if not account.nonces.all_different():
            account.suspect("V19")
        if not finished:
            account.suspect("V6", "V8", "V16")
        if account.service.is_gone:
            account.suspect("V16")
        if account.acknowledged and account.unacknowledged:
            account.suspect("V10")
        if not self._rows_match(finished=finished):
            account.suspect("V9")
        if account.keeps_resolved:
            lives = [(s, strand.life) for s, strand in strands.items()] if finished else []
            chains = [(s, life.filling) for s, life in lives if life.filling is not None]
            account.suspect(*(self.tables.suspects(chains) if chains else ("V3", "V8", "V9", "V13", "V20")))
        self._gap(self._last_end_t if finished and self._last_end_t is not None else last_t)
        return finished

    def _rows_match(self, *, finished: bool) -> bool:
        """Whether the rows certainly equal the expected ones; without a claim, whether there is no row."""
        if self.account.by_row is None:
            return not self.rows.count
        lives = (strand.life for strand in self.strands.values())
        return finished and self.rows.match([life.rows.sums for life in lives if life.rows is not None])

    def _zombie(self, event: AttemptEvent) -> AttemptScreen:
        """The superseded attempt that performs `event`; a superseded attempt may still act until it is closed."""
        life = self.strands[event.s].lives[event.a]
        emits = type(event) is Out or type(event) is Owm
        if life.closed or (emits and self.account.append):
            raise Irregular("an attempt acts after its end")
        life.over_t = event.t
        return life

    def _life(self, event: AttemptEvent) -> AttemptScreen:
        life = self._lives[event.s]
        return life if life.a == event.a else self._zombie(event)

    def _start(self, event: Start) -> None:
        self._refuse_after_reading()
        strand = self.strands.get(event.s)
        if strand is None:
            strand = self.strands[event.s] = SubtaskScreen(self.account)
            if self._retired is not None:
                strand.forget(self._retired)
        strand.start(event)
        self._lives[event.s] = strand.life
        if self._first_start_t is None:
            self._first_start_t = event.t

    def _restore(self, event: Restore) -> None:
        self.strands[event.s].restore(self._life(event), event)

    def _snap(self, event: Snap) -> None:
        self.strands[event.s].snap(self._life(event), event)

    def _end(self, event: End) -> None:
        self._life(event).exhaust(event)
        self._last_end_t = self.strands[event.s].last_end_t = event.t

    def _ended(self, event: Ended) -> None:
        self._life(event).drain(event)

    def _close(self, event: Close) -> None:
        life = self._life(event)
        life.closed = True
        life.over_t = event.t
        life.a = 0

    def _kill(self, event: Kill) -> None:
        life = self.strands[event.s].lives.pop(event.a)
        if self.account.explained:
            reaped = life.ended or life.over_t is not None or life.failures.reported_t is not None
            self.account.ask(event, explained=reaped)
        if life.over_t is None:
            life.over_t = event.t
        life.failures.untold.clear()
        life.finish(event.t)
        life.a = 0

    def _done(self, event: Done) -> None:
        if self._last_done is not None and event.c <= self._last_done:
            raise Irregular("checkpoints are completed out of order")
        self._last_done = event.c
        self._done_numbers[event.c] = None
        if event.c in self._aborted:
            self.account.suspect("V10")
        account = self.account
        for strand in self.strands.values():
            account.completed_snaps += strand.complete(event.c)
        if account.header.sink != "atomic":
            account.completed[event.c] = None
            self._gap(event.t)

    def _abort(self, event: Abort) -> None:
        """Only a checkpoint that is also completed is in doubt: it may have two ends."""
        self._aborted[event.c] = None
        if event.c in self._done_numbers:
            self.account.suspect("V10")

    def _ack(self, event: Ack) -> None:
        self.account.acknowledged = True
        self.strands[event.s].acknowledge(event)

    def _read(self, event: Effect | Row | TableRead) -> None:
        if type(event) is Effect:
            self.rows.show(event)
        if self.account.header.tables or type(event) is not Effect:
            self.tables.take(event)
            self._lives.clear()  # whatever an attempt does from now on is irregular: the table may miss it

    def _change(self, event: Change) -> None:
        key = EVERY_KEY if event.key is UNSET else identity(event.key)
        if event.phase == "begin":
            is_legal = self._versions.begin(key, event.ver) is None
        else:
            is_legal = self._versions.end(key, event.ver)
        if not is_legal:
            raise Irregular("a change of versions that does not rise, or is not under way")
        self.account.suspect("V8")

    def _held(self, event: Held) -> None:
        if self.strands[event.s].lives[event.a].closed:
            raise Irregular("a wait after the close")
        self.account.suspect("V15")

    def _rescale(self, event: Rescale) -> None:
        del event
        raise Irregular("a rescale, which the screen does not follow")

    def _retire(self, event: Retire) -> None:
        keeps = self.account.header.keeps
        newest = list(self._done_numbers)[-keeps:] if keeps is not None else []
        of_subtasks = keeps is not None and self.account.header.sink == "atomic"
        if of_subtasks or any(c <= event.c for c in newest):
            self.account.suspect("V11")
        self._retired = event.c if self._retired is None else max(self._retired, event.c)
        for strand in self.strands.values():
            strand.forget(event.c)

    def _refuse_after_reading(self) -> None:
        if self.strands and not self._lives:
            raise Irregular("an act after a table was read")

    def _commit(self, event: Commit) -> None:
        self._refuse_after_reading()
        self.strands[event.s].commit(event)

    def _fault(self, event: FaultEvent) -> None:
        self.account.begin_or_end(event)

    def _give_up(self, event: GiveUp) -> None:
        del event
        self.account.suspect("V16", *(["V24"] if self.account.explained else []))

    def _gap(self, t: int) -> None:
        """Compare the time since the last completion, or the first start, with the bound of V18."""
        bound_ms = self.account.header.bounds.checkpoint_gap
        if bound_ms is None or self.account.header.sink == "atomic":
            return
        since = self._first_start_t if self._last_done_t is None else self._last_done_t
        if since is None or t - since > bound_ms * US_PER_MS:
            self.account.suspect("V18")
        self._last_done_t = t


Clock = tuple[int, int]
"""`n` and `t` of the last event."""
Lives = Mapping[int, AttemptScreen]
"""The latest attempt of each subtask."""
Step = Callable[[Event], None]


def follow(  # noqa: C901, PLR0912
    events: Sequence[Any], clock: Clock, lives: Lives, step: Step, *, calls: bool = True
) -> Clock:
    """Apply the next events; `step` handles those that are not inlined here. Without `calls`, calls are passed over."""
    n, t = clock
    for event in events:
        at, now, kind = event.n, event.t, type(event)
        if at <= n or now < t:
            raise Irregular("events out of order")
        n, t = at, now
        if kind is In and lives[event.s].a == event.a:
            lives[event.s].take(event)
            continue
        if kind is Call:  # as AttemptScreen.call
            life = lives[event.s]
            if not calls and life.a == event.a:
                continue
            if life.a == event.a and event.thread == life.thread and event.try_ == 1 and life.free > 0:
                entry = life.open[event.id]
                if entry.call is None and entry.wanted is None and entry.segment.order <= life.called_order:
                    life.free -= 1
                    life.calls += 1
                    entry.call = event
                    if event.nonce is not UNSET:
                        life.note_nonce(event.nonce)
                    continue
        elif kind is Res:  # as AttemptScreen.settle
            life = lives[event.s]
            if life.a == event.a and event.thread == life.thread and event.r == "ok" and event.final:
                entry = life.open[event.id]
                call, nonce, expect = entry.call, event.nonce, entry.source.expect
                wanted = event.v if expect is UNSET else expect
                if wanted and entry.wanted is None and (not calls or (
                    call is not None and not entry.returned and event.try_ == 1 and call.try_ == 1 and not life.counts
                    and (life.limit_us is None or t - call.t <= life.limit_us) and life.retry is None
                    and (nonce is UNSET or (nonce == call.nonce and type(nonce) is int)) and event.raised is UNSET
                )):  # fmt: skip
                    life.answers += 1
                    entry.wanted = wanted
                    continue
        elif kind is Out:  # as AttemptScreen.emit
            life, v = lives[event.s], event.v
            plain = life.partial is None and life.rows is None and life.filling is None
            if plain and life.a == event.a and event.thread == life.thread:
                entry = life.open[event.id]
                source, segment, due = entry.source, entry.segment, entry.wanted
                if (
                    due is not None and len(due) == 1 and event.j == 0 and segment is life.head
                    and (v is due[0] or (type(v) is str and v == due[0])) and source.pos >= life.last_pos
                    and (event.ts is UNSET or event.ts == source.ts)
                ):  # fmt: skip
                    life.last_pos = source.pos if life.ordered else -1
                    life.outs += 1
                    life.free += entry.call is not None
                    del life.open[event.id]
                    segment.open -= 1
                    segment.settled_t = t
                    continue
        step(event)
    return n, t
