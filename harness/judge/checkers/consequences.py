"""Which violations follow from wrong results of a lookup: those that are gone once its results are taken as right.

A record of which a lookup returned nothing is missing in the table, in each snapshot and behind each watermark.
Invariant: outcomes and anomalies stay as they are. One more judgement of a history that violates V8 beside others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
from msgspec import UNSET

from harness.history.event import Event, In, Res
from harness.history.header import Header
from harness.history.outside import OUTSIDE
from harness.history.verdict import Judgement
from harness.judge.checkers.judge import judge
from harness.system.errors import FloodmarkError

_RESULTS = "V8"
"""The invariant that compares the results of lookups with what is expected."""
_EVENTS_MAX = 300_000
"""A longer history is not judged a second time."""


def with_consequences(judgement: Judgement, read: Callable[[], tuple[Header, Sequence[Event]]]) -> Judgement:
    """Sets `follows` of the verdicts. `read` gives the history, and is called only if it is needed."""
    convicted = {verdict.invariant for verdict in judgement.convicted()}
    is_long = judgement.accounting.get("events", 0) > _EVENTS_MAX
    if _RESULTS not in convicted or len(convicted) == 1 or judgement.view == OUTSIDE or is_long:
        return judgement
    try:
        header, events = read()
    except FloodmarkError:  # what cannot be read again keeps its verdict
        return judgement
    results = {
        e.id: e.v for e in events if isinstance(e, Res) and e.final and e.r == "ok" and e.v is not UNSET
    }
    as_if_right = [
        msgspec.structs.replace(e, expect=results[e.id])
        if isinstance(e, In) and e.expect is not UNSET and e.id in results
        else e
        for e in events
    ]
    left = {verdict.invariant for verdict in judge(header, as_if_right).convicted()}
    follows = convicted - left - {_RESULTS}
    invariants = (
        replace(verdict, follows=_RESULTS) if verdict.invariant in follows else verdict
        for verdict in judgement.invariants
    )
    return replace(judgement, invariants=tuple(invariants))
