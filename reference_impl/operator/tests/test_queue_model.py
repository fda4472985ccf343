"""Claims about both queues under any order of calls, against models too simple to be wrong: A7-A26."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.elements import QueueElement, Record, WatermarkStatus
from reference_impl.operator.build import Mode, queue_for
from reference_impl.operator.queues import CheckedEntry, ElementQueue, Entry
from reference_impl.tests.rig import quickly, record, watermark

Step = tuple[str, int]


def key_of(value: Any) -> int:
    """Two keys, so that records of one wait for each other."""
    return int(value) % 2


class NaiveQueue:
    """One list of all elements in order of arrival; whatever is asked is searched for, every time anew."""

    def __init__(self, capacity: int, *, mode: Mode) -> None:
        self.capacity = capacity
        self.mode = mode
        self.slots: list[tuple[Entry, QueueElement]] = []
        self.completed: list[Entry] = []
        """In the order of the first completions (A21, A24); in `keyed`, of all up to it of its key."""
        self.results: dict[Entry, list[Any]] = {}

    def may_leave(self) -> Entry | None:
        """The one to leave next: nothing passes what is no record, and in order nothing passes anything."""
        if not self.slots:
            return None
        first, element = self.slots[0]
        if not isinstance(element, Record):
            return first
        if self.mode == "ordered":
            return first if first in self.results else None
        segment: list[Entry] = []
        for entry, other in self.slots:
            if not isinstance(other, Record):
                break
            segment.append(entry)
        return next((entry for entry in self.completed if entry in segment), None)

    def complete(self, entry: Entry) -> None:
        """Note a first completion, and in `keyed` those behind it that had waited for it only."""
        if self.mode != "keyed":
            self.completed.append(entry)
            return
        segment = self.segment_of(entry)
        key = next(key_of(element.value) for other, element in segment if other is entry)
        for other, element in segment:
            if key_of(element.value) != key:
                continue
            if other not in self.results:
                break
            if other not in self.completed:
                self.completed.append(other)

    def segment_of(self, entry: Entry) -> list[tuple[Entry, Record]]:
        """The records between the same two watermarks."""
        segment: list[tuple[Entry, Record]] = []
        for other, element in self.slots:
            if isinstance(element, Record):
                segment.append((other, element))
            elif any(one is entry for one, _ in segment):
                break
            else:
                segment = []
        return segment

    def emit(self) -> list[QueueElement]:
        """What leaves in one step (A10, A39, A40)."""
        entry = self.may_leave()
        if entry is None:
            return []
        element = next(element for other, element in self.slots if other is entry)
        self.slots = [slot for slot in self.slots if slot[0] is not entry]
        if not isinstance(element, Record):
            return [element]
        self.completed.remove(entry)
        return [Record(value=value, timestamp=element.timestamp) for value in self.results[entry]]


class Pair:
    """A queue and its model, given the same steps."""

    def __init__(self, capacity: int, *, mode: Mode) -> None:
        self.queue: ElementQueue = queue_for(mode, capacity, key_of)
        self.model = NaiveQueue(capacity, mode=mode)
        self.put = 0
        self.waits: list[bool] = []
        self.ended = 0

    def step(self, what: str, number: int) -> None:
        match what:
            case "record":
                self.try_put(record(self.put))
            case "watermark":
                self.try_put(watermark(self.put))
            case "status":
                self.try_put(WatermarkStatus(idle=number % 2 == 0))
            case "complete":
                self.complete(number)
            case "emit":
                self.emit()
            case _:
                self.wait()
        self.compare()

    def try_put(self, element: QueueElement) -> None:
        entry = CheckedEntry(element)
        fits = len(self.model.slots) < self.model.capacity
        self.put += 1
        assert self.queue.try_put(entry) is fits
        if fits:
            self.model.slots.append((entry, element))

    def complete(self, number: int) -> None:
        """Any record, also one that is complete already: its results are replaced (A24)."""
        entries = [entry for entry, element in self.model.slots if isinstance(element, Record)]
        if not entries:
            return
        entry = entries[number % len(entries)]
        results = [(self.put, index) for index in range(number % 3)]
        entry.complete_with(results)
        is_first = entry not in self.model.results
        self.model.results[entry] = results
        if is_first:
            self.model.complete(entry)

    def emit(self) -> None:
        emitted: list[QueueElement] = []
        was_full = len(self.model.slots) == self.model.capacity
        expected = self.model.may_leave()
        more = self.queue.emit_completed(emitted.append)
        assert emitted == self.model.emit()
        assert more is (self.model.may_leave() is not None)
        if expected is not None and was_full:
            self.waits = [True] * len(self.waits)

    def wait(self) -> None:
        """Ask for room: a wait that has begun ends with the next emission (A14)."""
        place = len(self.waits)
        self.waits.append(bool(self.queue.room))
        self.queue.room.then(lambda: self.end(place))

    def end(self, place: int) -> None:
        self.ended += 1
        assert place < len(self.waits)

    def compare(self) -> None:
        assert list(self.queue) == [element for _, element in self.model.slots]
        assert list(self.queue.entries()) == [entry for entry, _ in self.model.slots]
        assert len(self.queue) == len(self.model.slots)
        assert bool(self.queue.room) is (len(self.model.slots) < self.model.capacity)
        assert self.queue.has_completed is (self.model.may_leave() is not None)
        assert self.ended == sum(self.waits)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["record", "record", "watermark", "status", "complete", "complete", "emit", "room"]),
        st.integers(0, 7),
    ),
    max_size=50,
)


@pytest.mark.parametrize("mode", get_args(Mode))
@quickly
@given(capacity=st.integers(1, 5), steps=STEPS)
def test_after_any_steps_a_queue_is_what_its_model_is_a7_a26(
    capacity: int, steps: list[Step], mode: Mode
) -> None:
    """A7, A10-A26: each answer, each emission and each listing, step by step."""
    pair = Pair(capacity, mode=mode)

    for what, number in steps:
        pair.step(what, number)
