"""What a run recorded, compared with what the harness itself knows: expectations that were claimed, the seed's source.

Answers to a second signature on a form. Invariant: a contradiction is a defect of the harness, never a result; it is
looked for in what the attempts recorded, with a source that is drawn anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from harness.errors import HarnessError
from harness.history.event import Event, In, Wm
from harness.history.header import Header
from harness.history.values import identity, told_watermark
from harness.runs.order import Order
from harness.workloads.keys import told_key
from harness.workloads.lookups import LookupSource, MarkOfTime

__all__ = ["refuse_other_source", "refuse_untold_expectation"]

_REPORT = "please report it, with the run's history"


def refuse_untold_expectation(header: Header, events: Sequence[Event]) -> None:
    """Raises HarnessError if a record has no expected results although the header claims them for all.

    With `versions` the records of a key whose rows change have none; of a key either all have some, or none has.
    """
    if header.expect_from != "given":
        return
    taken = [event for event in events if type(event) is In]
    told = {identity(event.key) for event in taken if event.expect is not UNSET}
    for event in taken:
        may_change = header.versions and bool(told) and identity(event.key) not in told
        if event.expect is UNSET and not may_change:
            message = f"record {event.id} has no expected results, though the run has them for every record"
            raise HarnessError(message, fix=_REPORT)


def refuse_other_source(order: Order, events: Sequence[Event]) -> None:
    """Raises HarnessError if a record or watermark is not the one that the order's seed gives at its position.

    Not with a planted defect, which may be one of the source, and not with two inputs, which are read in any order.
    """
    scenario = order.scenario
    if order.mutant is not None or scenario.task is not None:
        return
    sources: dict[int, LookupSource] = {}
    for event in events:
        if type(event) is not In and type(event) is not Wm:
            continue
        source = sources.get(event.s)
        if source is None:
            source = sources[event.s] = LookupSource(
                workload=scenario.workload, seed=order.seed, subtask=event.s, faults=scenario.faults
            )
        if not _is_of(source, event):
            message = (
                f"subtask {event.s} took at position {event.pos} what the source of seed {order.seed}"
                " does not have there"
            )
            raise HarnessError(message, fix=_REPORT)


def _is_of(source: LookupSource, event: In | Wm) -> bool:
    if not 0 <= event.pos < len(source):
        return False
    element = source[event.pos]
    if isinstance(element, MarkOfTime):
        return type(event) is Wm and event.w == told_watermark(element.timestamp)
    lookup, timestamp = element
    return type(event) is In and (event.id, event.key, event.ts) == (
        lookup.id,
        told_key(lookup.key),
        timestamp,
    )
