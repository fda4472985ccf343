"""What the table shows of each record, seen from outside: V8 delivery, V1 and V3 order.

V8 seen from outside: every record's rows are in the table, each once, with the right values, and stay there.

V1 and V3 seen from outside: records appear in the table in the order of the source, or of their key in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.history.verdict import Anomaly
from harness.judge.checkers.invariant import Findings
from harness.judge.checkers.outside.finish import Finish
from harness.judge.checkers.outside.job_trace import OutsideTrace
from harness.judge.checkers.outside.replay import Reading, SlotHistory, SlotOrder
from harness.judge.checkers.outside.slots import NO_KEY, RecordKey, SlotKey, SlotRows, cells, named
from harness.judge.checkers.outside.whole_table import find_whole_table


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


_BY_VALUE = frozenset({"duplicate", "wrong-value"})


def is_without_values(trace: OutsideTrace) -> bool:
    """Whether no expected value is known."""
    records = trace.records.by_key.values()
    if trace.header.expect_from == "none" or trace.records.of_keys:
        return not trace.records.of_keys
    return bool(records) and all(record.expect is None for record in records)


def find_delivery(trace: OutsideTrace, finish: Finish) -> Findings:
    """V8."""
    if trace.records.of_keys:
        return find_whole_table(trace, finish)
    delivery = _Delivery(trace, finish)
    seen = trace.replay.effects if trace.has_log else 0
    return Findings(
        anomalies=tuple(
            Anomaly(kind=kind, id=cells(slot[0]), j=slot[1], events=one.events, say=one.say)
            for (kind, slot), one in delivery.found().items()
        ),
        unread=tuple(delivery.unknown()),
        shortfalls=("no expected value is known",) if is_without_values(trace) else (),
        observed=seen + sum(len(reading.slots) for reading in trace.readings.values()),
        exposed=bool(trace.records.by_key) and bool(trace.visible),
    )


class _Delivery:
    """The judgement of V8 on one history."""

    def __init__(self, trace: OutsideTrace, finish: Finish) -> None:
        self._trace = trace
        self._done = finish.done
        self._finished_at = finish.at
        claims, sink = trace.header.claims, trace.header.sink
        self._doubles = claims.delivery != "at-least-once"
        self._loses = claims.delivery != "at-most-once"
        self._write = sink.write
        self._first = trace.readings[1]
        self._missing = list(self._missing_at_first())

    def found(self) -> dict[tuple[str, SlotKey], SlotHistory]:
        """Everything that convicts, each class and slot once."""
        found = dict(self._trace.replay.found) if self._trace.has_log else {}
        for reading in self._trace.readings.values():
            for (kind, slot), one in reading.found.items():
                if self._convicts(reading, kind, slot):
                    found.setdefault((kind, slot), one)
        if self._done and self._trace.whole(1):
            for slot, missing in self._missing:
                for kind, one in self._gone(slot, missing):
                    found.setdefault((kind, slot), one)
        if self._done and self._trace.whole(1) and self._trace.whole(2):
            for slot, one in self._changed():
                found.setdefault(("changed-again", slot), one)
        return found

    def unknown(self) -> Iterator[str]:
        """Why a history that nothing convicts may still be wrong, one clause each."""
        trace = self._trace
        if unread := trace.unread(1):
            yield f"reading 1 is not whole: {', '.join(unread)} not read to the end"
        if trace.disagreement:
            yield f"log and table disagree: {trace.disagreement[0]}"
        if unread:
            pass
        elif self._loses and self._missing and not self._done:
            yield f"the job was not finished, and so far a row of {named(self._missing[0][0])} is missing"
        elif self._loses and (undecided := [slot for slot, _ in self._missing if not self._expects(slot[0])]):
            yield f"it is unknown whether {named(undecided[0])} should produce a row; none was observed"
        if self._started_again() and (rest := trace.unread(2)):
            yield f"the job was started once more, and reading 2 is not whole: {', '.join(rest)} not read to the end"
        if by_value := self._undecided_values():
            yield f"the job was not finished, and so far {by_value.say}"

    def _convicts(self, reading: Reading, kind: str, slot: SlotKey) -> bool:
        """Whether what a reading shows convicts under what the header claims."""
        if kind == "duplicate" and not self._doubles:
            return False
        if self._write != "upsert" or self._done or kind not in _BY_VALUE:
            return True
        return kind == "duplicate" and slot in reading.crowded

    def _undecided_values(self) -> SlotHistory | None:
        """The first value of an `upsert` that would convict if the job were finished."""
        if self._write != "upsert" or self._done:
            return None
        for reading in self._trace.readings.values():
            for (kind, slot), one in reading.found.items():
                counts = kind in _BY_VALUE and (kind != "duplicate" or self._doubles)
                if counts and not self._convicts(reading, kind, slot):
                    return one
        return None

    def _missing_at_first(self) -> Iterator[tuple[SlotKey, int]]:
        """The slots of records that are not excused of which something is missing in reading 1."""
        for slot in self._trace.slots_wanted():
            if missing := self._first.missing(slot):
                yield slot, missing

    def _expects(self, key: RecordKey) -> bool:
        """Whether it is known that a record expects a row, or some row of it was ever visible."""
        return self._trace.records.by_key[key].expect is not None or key in self._trace.visible

    def _gone(self, slot: SlotKey, missing: int) -> Iterator[tuple[str, SlotHistory]]:
        """What a finished job says of a slot of which something is missing in reading 1."""
        trace = self._trace
        least = trace.replay.least(slot) if trace.has_log else None
        had_more = least is not None and least < missing
        offer = trace.records.by_key[slot[0]].n
        ends = [self._finished_at, self._first.read["table"]]
        if had_more and self._write != "append":
            logged = trace.replay.slots[slot].rows.n
            events = tuple(sorted({offer, *([] if logged is None else [logged]), *ends}))
            yield (
                "deleted",
                SlotHistory(events, f"a row of {named(slot)} was in the table, and in the end it is not"),
            )
        elif not had_more and self._loses and self._expects(slot[0]):
            say = f"a row of {named(slot)} is missing in the table, though the job was finished"
            yield "lost", SlotHistory(tuple(sorted({offer, *ends})), say)

    def _changed(self) -> Iterator[tuple[SlotKey, SlotHistory]]:
        first, second = self._first.slots, self._trace.readings[2].slots
        for slot in {**first, **second}:
            one, other = first.get(slot), second.get(slot)
            if not self._trace.records.is_sentinel(slot[0]) and self._rows(one) != self._rows(other):
                rows = {rows.n for rows in (one, other) if rows is not None and rows.n is not None}
                reads = {reading.read["table"] for reading in self._trace.readings.values()}
                say = f"{named(slot)} has other rows in the table after the job was started once more"
                yield slot, SlotHistory(tuple(sorted({*rows, *reads})), say)

    def _started_again(self) -> bool:
        later = any(start.n > self._finished_at for start in self._trace.starts.values())
        return self._trace.readings[2].begun or (self._done and later)

    def _rows(self, rows: SlotRows | None) -> object:
        counts = {} if rows is None else rows.counts()
        return dict(counts) if self._doubles else frozenset(counts)
