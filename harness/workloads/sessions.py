"""Sessions: what a task with state by key should make of each record, computed without any of its code.

Answers to Elle's model of what a database should have answered. Invariant: a fold over the source's positions in
plain dicts, that knows neither checkpoints nor crashes; so a state update or a timer that was lost, or counted twice,
is a wrong value of some later record of that key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.workloads.elements import Lookup, MarkOfTime
from harness.workloads.inputs import Inputs
from harness.workloads.lookups import LookupSource

__all__ = ["Stamp", "expect_stamped", "session_stamps"]

Stamp = Mapping[str, int]
"""`nth` record of its key, `of_input` over its input; the `place`-th of the `session`-th session of its key."""


def session_stamps(source: LookupSource, inputs: Inputs, *, gap_ms: int) -> dict[int, Stamp]:
    """What each record is stamped with, by its id."""
    stamps: dict[int, Stamp] = {}
    nth, of_input = Counter[int](), Counter[tuple[int, int]]()
    ended, place = Counter[int](), Counter[int]()
    ends_ms: dict[int, int] = {}
    """Key -> when the session that it is in ends."""
    for position in range(len(source)):
        match source[position]:
            case MarkOfTime(timestamp=mark):
                now_ms = inputs.combined(mark)
                for key in [key for key, end_ms in ends_ms.items() if end_ms <= now_ms]:
                    del ends_ms[key], place[key]
                    ended[key] += 1
            case (lookup, ts):
                assert ts is not None, "each record of a keyed task has an event time"
                key, number = lookup.key, inputs.of_record(lookup)
                nth[key] += 1
                of_input[key, number] += 1
                place[key] += 1
                ends_ms[key] = max(ends_ms.get(key, ts), ts + gap_ms)
                stamps[lookup.id] = {
                    "nth": nth[key],
                    "of_input": of_input[key, number],
                    "session": ended[key] + 1,
                    "place": place[key],
                }
    return stamps


def expect_stamped(
    answers: Callable[[Lookup], Sequence[Any]], stamps: Mapping[int, Stamp]
) -> Callable[[Lookup], list[Any]]:
    """What a lookup's `answers` are once each is stamped; the stamp first, for that is what is looked at."""
    return lambda lookup: [{**stamps[lookup.id], **answer} for answer in answers(lookup)]
