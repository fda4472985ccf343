"""Whether the job was finished: there is a `finished`, and what it says of how is borne out by the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from harness.history.outside import JobFinished
from harness.judge.checkers.outside.job_trace import OutsideTrace, is_by_itself
from harness.judge.checkers.outside.slots import SlotKey, named

_US_PER_MS = 1000


class Finish(NamedTuple):
    """Whether the job was finished, and why a `finished` does not count."""

    done: bool
    at: int = 0
    """The number of the `finished`."""
    why: str = ""
    """Why it is not borne out; empty: it is, or there is none."""


def finish_of(trace: OutsideTrace) -> Finish:
    """Whether the job was finished."""
    finished = trace.finished
    if finished is None:
        return Finish(done=False)
    match finished.how:
        case "exit":
            why = _not_exited(trace, finished)
        case "file":
            why = ""
        case "all-rows":
            why = _without_table(trace) or _lacking(trace)
        case "settled":
            why = _without_table(trace) or _unsettled(trace, finished)
    told = f'`finished` by "{finished.how}" (event {finished.n}) is not borne out, because {why}; it does not count'
    return Finish(done=not why, at=finished.n, why=told if why else "")


def _not_exited(trace: OutsideTrace, finished: JobFinished) -> str:
    if not trace.begun_at_end:
        return "no start had begun"
    highest = trace.begun_at_end[-1].start
    exits = [one for one in trace.exits if one.start == highest and one.n < finished.n]
    if not exits:
        return f"start {highest} had not exited"
    one = exits[0]
    if not is_by_itself(one) or one.code != 0:
        return f"start {highest} did not exit by itself with code 0 (event {one.n})"
    return (
        "" if one.n > trace.last_offer else f"start {highest} exited before the last `offer` (event {one.n})"
    )


def _without_table(trace: OutsideTrace) -> str:
    """Why nothing shows what was in the table at that moment; empty: the log does, or reading 1."""
    if trace.disagreement:
        return "log and table disagree"
    if trace.header.sink.changes or trace.whole(1):
        return ""
    return "there is no log, and reading 1 is not whole"


def _lacking(trace: OutsideTrace) -> str:
    has_log, records = trace.header.sink.changes, trace.records
    has_all = trace.replay.has_all_there if has_log else trace.readings[1].has_all
    for slot in trace.slots_wanted():
        if not has_all(slot):
            return f"not all rows of {named(slot, records.noun)} were in the table"
    if not records.of_keys:
        return ""
    there = trace.replay.slots if has_log else trace.readings[1].slots
    if (foreign := next((slot for slot in there if not has_all(slot)), None)) is not None:
        return f"a row of {named(foreign, records.noun)} was in the table, and none is expected"
    return "" if trace.replay.changed_after is None else trace.replay.changed_after.say


def _unsettled(trace: OutsideTrace, finished: JobFinished) -> str:
    if trace.records.of_keys:
        return "rows of keys do not show that the last record was taken"
    if not trace.begun_at_end:
        return "no start had begun"
    highest = trace.begun_at_end[-1].start
    if any(one.start == highest and one.n < finished.n for one in trace.exits):
        return f"start {highest} had exited"
    quiet = trace.header.bounds.quiet
    if quiet is None:
        return "the header gives no `quiet` time"
    last = trace.last_disturbance
    if last is not None and finished.t - last.t < quiet * _US_PER_MS:
        return f"event {last.n} came less than {quiet} ms before it"
    missing = trace.replay.missing_there if trace.header.sink.changes else trace.readings[1].missing
    last_of_part = {
        record.part: key
        for key, record in trace.records.by_key.items()
        if key not in trace.excused and not record.expects_nothing
    }
    passed = {
        record.part
        for key, record in trace.records.by_key.items()
        if record.sentinel and not any(map(missing, trace.slots_of(key)))
    }
    for part, key in last_of_part.items():
        for slot in trace.slots_of(key):
            if missing(slot) and part not in passed:
                return f"{named(slot)}, the last of part {part}, was not in the table, nor was a sentinel"
    return _came_later(trace, missing)


def _came_later(trace: OutsideTrace, missing: Callable[[SlotKey], int]) -> str:
    if trace.header.sink.changes and trace.replay.less_later is not None:
        return trace.replay.less_later.say
    for number, reading in trace.readings.items():
        if not trace.whole(number):
            continue
        for slot, rows in reading.slots.items():
            is_offered = slot[0] in trace.records.by_key and not trace.records.is_sentinel(slot[0])
            if is_offered and rows.missing < missing(slot):
                return f"a row of {named(slot)} that was missing then is in the table in reading {number}"
    return ""
