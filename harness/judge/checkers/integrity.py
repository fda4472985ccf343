"""V19 integrity: every answer belongs to the call that asked for it.

Convicts clients that cancel a query and return its rows to the next query. Invariant: over the whole history
each call has a nonce of its own, and each answer carries the nonce of its call. O(n log n) for sorting; memory
grows with calls, because an old nonce may come back at any time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from msgspec import UNSET

from harness.history.event import Call, Id, Res
from harness.history.values import identity, shown
from harness.history.verdict import Anomaly, let
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import IndexedHistory
from harness.judge.checkers.invariant import Findings, Invariant, convict


class Integrity(Invariant):
    """Checks V19 over the whole history."""

    name = "V19"
    vacuous = "no call and no answer has a nonce"

    def not_claimed(self, case: IndexedHistory) -> str:
        """It applies if any call or answer has a nonce."""
        asked = (
            isinstance(event, Call | Res) and event.nonce is not UNSET
            for attempt in _attempts(case)
            for event in attempt.events
        )
        return "" if any(asked) else self.vacuous

    def across(self, case: IndexedHistory) -> Findings:
        """Each nonce that two calls share, and each answer that carries another call's nonce."""
        calls = [e for attempt in _attempts(case) for e in attempt.events if isinstance(e, Call)]
        asked = [call for call in sorted(calls, key=lambda call: call.n) if call.nonce is not UNSET]
        first: dict[Hashable, Call] = {}
        for call in asked:
            first.setdefault(identity(call.nonce), call)
        foreign = [found for attempt in _attempts(case) for found in _foreign(attempt, first)]
        answers = sum(isinstance(e, Res) for attempt in _attempts(case) for e in attempt.events)
        return Findings(anomalies=(*_reused(asked, first), *foreign), observed=answers, exposed=True)


def _attempts(case: IndexedHistory) -> Iterator[AttemptTrace]:
    return (attempt for view in case.views for attempt in view.subtask.attempts.values())


def _reused(asked: Sequence[Call], first: dict[Hashable, Call]) -> Iterator[Anomaly]:
    for call in asked:
        if (before := first[identity(call.nonce)]) is not call:
            say = f"{_named(call)} has the nonce {shown(call.nonce)}, which {_named(before)} had before"
            then = (
                f"{let(before.n)} sent the nonce {shown(before.nonce)}.",
                f"{let(call.n)}, a later call, sent the same.",
            )
            rule = "every call has a nonce of its own, so that answers can be told apart"
            yield convict("nonce-reused", call.s, (before.n, call.n), say, then, rule, id=call.id)


def _foreign(attempt: AttemptTrace, first: dict[Hashable, Call]) -> Iterator[Anomaly]:
    own: dict[tuple[Id, int], dict[Hashable, Call]] = {}
    for call in attempt.events:
        if isinstance(call, Call) and call.nonce is not UNSET:
            own.setdefault((call.id, call.try_), {}).setdefault(identity(call.nonce), call)
    for res in attempt.events:
        if not isinstance(res, Res) or res.nonce is UNSET:
            continue
        nonce = identity(res.nonce)
        sent = own.get((res.id, res.try_), {})
        asker = first.get(nonce)
        stolen = asker is not None and asker.n < res.n
        # A call without a recorded nonce may have sent this one, unless the nonce belongs to another call.
        if nonce not in sent and (sent or stolen):
            yield _misdirected(res, next(iter(sent.values()), None), asker)


def _misdirected(res: Res, mine: Call | None, asker: Call | None) -> Anomaly:
    clauses = [f"the answer to {_named(res)} has the nonce {shown(res.nonce)}"]
    if mine is not None:
        clauses.append(f"but the call had {shown(mine.nonce)}")
    if asker is not None:
        clauses.append(f"{'and' if mine else 'but'} that is the nonce of {_named(asker)}")
    calls = {call.n: call for call in (mine, asker) if call is not None}
    then = [f"{let(res.n)} carries the nonce {shown(res.nonce)}."]
    for n, call in sorted(calls.items()):
        answered = (call.id, call.a, call.try_) == (res.id, res.a, res.try_)
        whose = "the call that it answers" if answered else "another call"
        then.append(f"{let(n)}, {whose}, had sent {shown(call.nonce)}.")
    say = ", ".join(clauses)
    rule = "an answer carries the nonce of its own call"
    return convict("foreign-response", res.s, {res.n, *calls}, say, tuple(then), rule, id=res.id)


def _named(event: Call | Res) -> str:
    return f"call {event.try_} of record {shown(event.id)} by attempt {event.a} of subtask {event.s}"
