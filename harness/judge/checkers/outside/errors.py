"""V20 and V23 seen from outside: records that fail show up somewhere, and every fault had an effect."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import UNSET

from harness.history.outside import OutsideExpects
from harness.history.values import shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.evidence import shortfalls_of
from harness.judge.checkers.invariant import Findings
from harness.judge.checkers.outside.finish import Finish
from harness.judge.checkers.outside.job_trace import JobFaultSpan, OutsideTrace, is_failed_exit
from harness.judge.checkers.outside.slots import RecordKey, cells, named


def find_visible_errors(trace: OutsideTrace, finish: Finish) -> Findings | str:
    """V20."""
    fails = [key for key, record in trace.records.by_key.items() if record.fails]
    if trace.header.dead_letters is None and not fails:
        return "the header names no table of dead letters, and no record fails"
    unread = trace.header.dead_letters is not None and "dead" not in trace.readings[1].read
    swallowed = [] if unread else list(_swallowed(trace, fails, finish))
    return Findings(
        anomalies=(*_of_letters(trace), *(swallowed if finish.done else ())),
        pending=() if finish.done else tuple(one.say for one in swallowed),
        unread=("the dead letters were not read to their end in reading 1",) if unread else (),
        observed=len(fails) + sum(map(len, trace.readings[1].dead.values())),
        exposed=bool(fails) or any(reading.dead for reading in trace.readings.values()),
    )


def _swallowed(trace: OutsideTrace, fails: list[RecordKey], finish: Finish) -> Iterator[Anomaly]:
    last_failure = max((one.n for one in trace.exits if is_failed_exit(one)), default=-math.inf)
    for key in fails:
        offer = trace.records.by_key[key].n
        if key not in trace.readings[1].dead and last_failure < offer:
            yield Anomaly(
                kind="swallowed",
                id=cells(key),
                events=tuple(sorted({offer, *([finish.at] if finish.done else [])})),
                say=f"{named((key, None))}, which no job can process, is neither a dead letter nor made a start fail",
            )


def _of_letters(trace: OutsideTrace) -> Iterator[Anomaly]:
    """What the dead letters of reading 1 convict of."""
    reading = trace.readings[1]
    in_table = {slot[0]: rows.n for slot, rows in reversed(reading.slots.items()) if rows.n is not None}
    repeats = trace.header.claims.delivery == "at-least-once"
    for key, events in reading.dead.items():
        told = named((key, None))
        record = trace.records.by_key.get(key)
        if record is None:
            say = f"a dead letter is of {told}, which was never offered"
            yield Anomaly(kind="row-foreign", id=cells(key), events=(events[0],), say=say)
        if len(events) > 1 and not repeats:
            say = f"{told} is {len(events)} times among the dead letters"
            yield Anomaly(kind="row-doubled", id=cells(key), events=tuple(events), say=say)
        if record is not None and key in in_table and not repeats:
            shown_by = tuple(sorted({record.n, in_table[key], events[0]}))
            say = f"{told} is a dead letter, and has a row in the table"
            yield Anomaly(kind="double-routed", id=cells(key), events=shown_by, say=say)


def _replaced(trace: OutsideTrace, fault: JobFaultSpan) -> bool:
    """Whether a start that exited by the fault was followed by another."""
    ends = (one.n for one in trace.exits if one.by == fault.begin.f and one.n > fault.begin.n)
    first, starts = min(ends, default=math.inf), trace.begun_at_end
    return any(start.n > first for start in starts)


def find_evidence(trace: OutsideTrace, finish: Finish) -> Findings | str:
    """V23."""
    if trace.header.expects is None and not trace.faults:
        return "nothing is expected, and there is no fault"
    expects = trace.header.expects or OutsideExpects()
    counts = (
        ("records offered", expects.records, len(trace.records.by_key)),
        ("starts", expects.starts, len(trace.starts)),
        ("lookups", expects.asked, trace.asked),
    )
    begins, ends = [fault.begin for fault in trace.faults], [fault.end for fault in trace.faults if fault.end]
    shortfalls = [*shortfalls_of([*begins, *ends], expects.faults, counts)]
    bitten = trace.replay.bitten()
    proven = [fault for fault in trace.faults if fault.end is not None and fault.end.evidence]
    is_followed = finish.done and any(_replaced(trace, fault) for fault in proven)
    if (
        trace.faults
        and trace.has_log
        and not is_followed
        and not any(bitten[fault.index] for fault in proven)
    ):
        shortfalls.append(
            "after no fault with evidence did the table get a row that was missing when the fault began, and none ended"
            " a start that another one followed"
        )
    return Findings(
        unread=tuple(f"the fault {shown(end.f)} itself failed" for end in ends if end.error is not UNSET),
        shortfalls=tuple(shortfalls),
        observed=len(trace.faults),
        exposed=True,
    )
