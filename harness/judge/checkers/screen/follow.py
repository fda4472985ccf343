"""The loop over the events of a history: the most common case of the four most common kinds, without a call.

For each it does exactly what the method of `AttemptScreen` named beside it would do, and leaves every other case to
that method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from harness.history.event import Call, Event, In, Out, Res
from harness.judge.checkers.screen.attempt import AttemptScreen
from harness.judge.checkers.screen.totals import Irregular

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
                    call is not None and not entry.returned and event.try_ == 1 and call.try_ == 1
                    and (life.limit_us is None or t - call.t <= life.limit_us) and life.retry is None
                    and (nonce is UNSET or (nonce == call.nonce and type(nonce) is int))
                )):  # fmt: skip
                    life.answers += 1
                    entry.wanted = wanted
                    continue
        elif kind is Out:  # as AttemptScreen.emit
            life, v = lives[event.s], event.v
            plain = life.partial is None and life.rows is None
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
