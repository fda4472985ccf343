"""V1 and V3 seen from outside: records appear in the table in the order of the source, or of their key in it."""

from __future__ import annotations

from harness.history.verdict import Anomaly
from harness.judge.checkers.invariant import Findings
from harness.judge.checkers.outside.job_trace import OutsideTrace
from harness.judge.checkers.outside.replay import SlotOrder
from harness.judge.checkers.outside.slots import NO_KEY, cells


def find_source_order(trace: OutsideTrace) -> Findings | str:
    """V1."""
    if trace.header.claims.order != "source":
        return "the header does not claim the order of the source"
    return _without_log(trace) or _findings(trace, trace.replay.by_source, "reordered")


def find_key_order(trace: OutsideTrace) -> Findings | str:
    """V3."""
    if trace.header.claims.order == "none":
        return "the header claims no order"
    if reason := _without_log(trace):
        return reason
    if all(record.key == NO_KEY for record in trace.records.by_key.values()):
        return "no record has a key"
    return _findings(trace, trace.replay.by_key, "key-reordered")


def log_not_read(trace: OutsideTrace) -> tuple[str, ...]:
    """Why the log may show too little of an order: log and table disagree, or it was not read to its end."""
    if trace.disagreement:
        return (f"log and table disagree: {trace.disagreement[0]}",)
    number = 2 if trace.readings[2].begun else 1
    read = "log" in trace.readings[number].read
    return () if read else (f"the log was not read to its end in reading {number}",)


def _without_log(trace: OutsideTrace) -> str:
    return "" if trace.header.sink.changes else "the database has no log of changes"


def _findings(trace: OutsideTrace, order: SlotOrder, kind: str) -> Findings:
    found = order.found if trace.has_log else {}
    return Findings(
        anomalies=tuple(
            Anomaly(kind=kind, id=cells(slot[0]), j=slot[1], events=one.events, say=one.say)
            for slot, one in found.items()
        ),
        unread=log_not_read(trace),
        observed=order.compared,
        exposed=order.compared > 0,
    )
