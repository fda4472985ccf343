"""The trace: what a history seen from outside shows, folded from its events, before anything is judged.

The offers come from an earlier pass, because a row may stand before the offer of its record. Memory grows with the
slots, starts and faults; a slot keeps digests of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cached_property

from harness.history.outside import (
    AskedLookup,
    DeadLetterRow,
    JobExit,
    JobFault,
    JobFinished,
    JobGiveUp,
    JobStart,
    LogRow,
    Offer,
    OutsideEvent,
    OutsideHeader,
    PartRead,
    TableRow,
)
from harness.judge.checkers.outside.replay import Reading, TableReplay, differs
from harness.judge.checkers.outside.slots import RecordKey, Records, SlotKey, named


class JobFaultSpan:
    """One fault, from begin to end. Mutable: the end is set later."""

    __slots__ = ("begin", "end", "index")

    def __init__(self, begin: JobFault, index: int) -> None:
        self.begin = begin
        self.end: JobFault | None = None
        self.index = index
        """Its number in the order of the beginnings."""


def is_by_itself(exit_: JobExit) -> bool:
    """Whether the harness did not stop the start."""
    return exit_.by != "harness"


def is_failed_exit(exit_: JobExit) -> bool:
    """Whether a start exited by itself with another code than 0."""
    return is_by_itself(exit_) and isinstance(exit_.code, int) and exit_.code != 0


class OutsideTrace:
    """What the events show. Mutable while it is folded; nothing in it judges."""

    def __init__(self, header: OutsideHeader, records: Records, events: Iterable[OutsideEvent]) -> None:
        self.header = header
        self.records = records
        self.replay = TableReplay(header, self.records)
        self.readings = {number: Reading(number, self.records) for number in (1, 2)}
        self.starts: dict[int, JobStart] = {}
        self.exits: list[JobExit] = []
        self.faults: list[JobFaultSpan] = []
        self.finished: JobFinished | None = None
        self.giveup: JobGiveUp | None = None
        self.last_offer: float = -math.inf
        """The number of the last `offer`."""
        self.asked = 0
        self.events = 0
        self.begun_at_end: list[JobStart] = []
        """The starts begun before the `finished` or `giveup`."""
        self.last_disturbance: OutsideEvent | None = None
        """The last `row`, `start`, `exit` or `fault` before it."""
        self.differing: dict[int, SlotKey] = {}
        """A slot in which a reading differs from the replay, by reading."""
        self._unmatched: Reading | None = None
        for event in events:
            self.events += 1
            self._step(event)
        self._match()

    def _step(self, event: OutsideEvent) -> None:
        match event:
            case LogRow():
                self._match()
                self.replay.step(event)
            case TableRow() | DeadLetterRow() | PartRead():
                self._read(event)
            case Offer():
                self.last_offer = event.n
            case JobStart():
                self.starts[event.start] = event
            case JobExit():
                self.exits.append(event)
            case JobFault():
                self._fault(event)
            case AskedLookup():
                self.asked += 1
            case JobFinished():
                self.finished = event
                self._end()
            case JobGiveUp():
                self.giveup = event
                self._end()
        if (
            self.finished is None
            and self.giveup is None
            and isinstance(event, LogRow | JobStart | JobExit | JobFault)
        ):
            self.last_disturbance = event

    def _end(self) -> None:
        self.begun_at_end = list(self.starts.values())
        self.replay.mark()

    def _fault(self, event: JobFault) -> None:
        if event.phase == "begin":
            self.faults.append(JobFaultSpan(event, len(self.faults)))
            self.replay.begin_fault()
            return
        running = (fault for fault in self.faults if fault.end is None and fault.begin.f == event.f)
        if (oldest := next(running, None)) is not None:
            oldest.end = event

    def _read(self, event: TableRow | DeadLetterRow | PartRead) -> None:
        reading = self.readings[event.reading]
        if not reading.begun:
            self._match()
            self._unmatched = reading
            self.replay.begin_reading()
        reading.step(event, log_rows=self.replay.rows)

    def _match(self) -> None:
        """A reading is over: compare it with the replay, which has not changed since its first event."""
        reading, self._unmatched = self._unmatched, None
        if reading is not None and {"table", "log"} <= reading.read.keys():
            slot = differs(self.replay.slots, reading.slots)
            if slot is not None:
                self.differing[reading.number] = slot

    @cached_property
    def disagreement(self) -> tuple[str, ...]:
        """How log and table contradict each other, one clause each; empty: they do not."""
        said = [] if self.replay.missing_row is None else [self.replay.missing_row.say]
        said += [
            f"the log has another number of rows than reading {reading.number} counts"
            for reading in self.readings.values()
            if reading.log_differs
        ]
        said += [
            f"{named(slot, self.records.noun)} is in reading {r} not as the log leaves it"
            for r, slot in self.differing.items()
        ]
        return tuple(said)

    @property
    def has_log(self) -> bool:
        """Whether the log may show and convict."""
        return self.header.sink.changes and not self.disagreement

    def whole(self, number: int) -> bool:
        """Whether a reading is whole."""
        return not self.unread(number)

    def unread(self, number: int) -> list[str]:
        """The parts of a reading that were not read to their end."""
        sink = self.header.sink
        needed = {"table": True, "log": sink.changes, "dead": self.header.dead_letters is not None}
        return [of for of, is_needed in needed.items() if is_needed and of not in self.readings[number].read]

    @cached_property
    def excused(self) -> frozenset[RecordKey]:
        """The offered records of which nothing has to be visible."""
        records, dead = self.records.by_key, self.readings[1].dead
        return frozenset(
            key
            for key, one in records.items()
            if one.sentinel or (key in dead and (self.faults or one.fails))
        )

    @cached_property
    def highest_j(self) -> dict[RecordKey, int]:
        """The highest j that the log or a reading ever shows, by id."""
        found = dict(self.replay.highest) if self.has_log else {}
        for reading in self.readings.values():
            for key, j in reading.slots:
                if j is not None:
                    found[key] = max(j, found.get(key, 0))
        return found

    @cached_property
    def visible(self) -> frozenset[RecordKey]:
        """The ids of which a row is visible at some time."""
        logged = self.replay.highest if self.has_log else ()
        return frozenset(logged).union(
            *({slot[0] for slot in reading.slots} for reading in self.readings.values())
        )

    def slots_of(self, key: RecordKey) -> list[SlotKey]:
        """The slots of an offered record of which something can be missing."""
        return list(self.records.slots(key, highest=self.highest_j.get(key, 0)))

    def slots_wanted(self) -> Iterator[SlotKey]:
        """The slots of which something must not be missing: of each key, or of each record that is not excused."""
        if self.records.of_keys:
            yield from ((key, None) for key in self.records.due)
            return
        for key in self.records.by_key:
            if key not in self.excused:
                yield from self.slots_of(key)

    def highest_start(self) -> int:
        """The highest start begun; 0: none."""
        return max(self.starts, default=0)
