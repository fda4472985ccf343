"""Triggers by event: says by which event of a recorded run a fault that began at a time would begin.

A time depends on the machine and on every wait before it; the n-th call, record or checkpoint does not. Invariant: a
trigger is one that the fault's kind supports, and its event is the last before the fault began, or the first after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from harness.faults.model.fault import Fault
from harness.faults.parts.triggers import At, Between
from harness.history.event import Call, Done, Event, FaultEvent, In


def by_event(fault: Fault, events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """Triggers in place of the time of `fault`, the likeliest first; none if it begins by an event, or never began."""
    began = next(
        (
            index
            for index, event in enumerate(events)
            if isinstance(event, FaultEvent) and event.f == fault.id and event.phase == "begin"
        ),
        None,
    )
    if began is None or not isinstance(fault.when, At | Between):
        return
    calls, records, done = Counter[int](), Counter[int](), 0
    for event in events[:began]:
        match event:
            case Call(s=subtask):
                calls[subtask] += 1
            case In(s=subtask):
                records[subtask] += 1
            case Done(c=checkpoint):
                done = max(done, checkpoint)
    own = fault.of_subtask
    made = {"call": calls, "record": records}
    for name in ("call", "record"):
        if name not in type(fault).triggers:
            continue
        count = made[name].total() if own is None else made[name][own]
        of = {} if own is None or name == "record" else {"subtask": own}
        if name == "record" and own is None:
            count = max(made[name].values(), default=0)  # the first source that reaches it
        yield from ({name: number, **of} for number in (count, count + 1) if number)
    if done and "checkpoint" in type(fault).triggers:
        yield {"checkpoint": done}
