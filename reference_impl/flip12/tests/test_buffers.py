"""Claims about the buffers: A7, A8, A10-A12, A15-A26; and that they agree with the reference's queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.elements import OperatorInput, QueueElement, Record
from reference_impl.flip12.buffers import Buffer, BufferEntry, OrderedBuffer, UnorderedBuffer
from reference_impl.operator.queues import CheckedEntry as QueueEntry
from reference_impl.operator.queues import ElementQueue, OrderedQueue, UnorderedQueue
from reference_impl.tests.rig import quickly, record, shown, watermark

KINDS: dict[str, tuple[Callable[[int], Buffer], Callable[[int], ElementQueue]]] = {
    "ordered": (OrderedBuffer, OrderedQueue),
    "unordered": (UnorderedBuffer, UnorderedQueue),
}
EACH = pytest.mark.parametrize("kind", [OrderedBuffer, UnorderedBuffer])


def complete(buffer: Buffer, entry: BufferEntry) -> None:
    entry.results = [entry.element.value] if isinstance(entry.element, Record) else ()
    buffer.entry_completed(entry)


def emit_all(buffer: Buffer) -> list[Any]:
    emitted: list[OperatorInput] = []
    while buffer.has_completed:
        buffer.emit_next(emitted.append)
    return [shown(element) for element in emitted]


@EACH
def test_a_full_buffer_refuses_and_stays_as_it_was_a7_a8(kind: type[OrderedBuffer | UnorderedBuffer]) -> None:
    buffer = kind(2)
    assert buffer.try_put(BufferEntry(record(1)))
    assert buffer.try_put(BufferEntry(watermark(1)))

    assert not buffer.try_put(BufferEntry(record(2)))

    assert list(buffer) == [record(1), watermark(1)]


@EACH
def test_an_entry_keeps_its_slot_until_all_of_it_is_out_a11(
    kind: type[OrderedBuffer | UnorderedBuffer],
) -> None:
    buffer, entry = kind(1), BufferEntry(record(1))
    buffer.try_put(entry)
    complete(buffer, entry)
    sizes: list[int] = []

    buffer.emit_next(lambda _: sizes.append(len(buffer)))

    assert (sizes, len(buffer)) == ([1], 0)


def test_a_set_leaves_in_the_order_of_completion_also_if_it_was_not_the_first_then_a21_a23() -> None:
    buffer = UnorderedBuffer(9)
    entries = {value: BufferEntry(record(value)) for value in (1, 2, 3)}
    for entry in (entries[1], BufferEntry(watermark(1)), entries[2], entries[3]):
        buffer.try_put(entry)
    complete(buffer, entries[3])
    complete(buffer, entries[2])
    assert emit_all(buffer) == []

    complete(buffer, entries[1])

    assert emit_all(buffer) == [1, "w1", 3, 2]


def test_watermarks_alone_pass_an_empty_buffer_in_order_a19_a22() -> None:
    buffer = UnorderedBuffer(9)
    for timestamp in (1, 2, 3):
        buffer.try_put(BufferEntry(watermark(timestamp)))

    assert emit_all(buffer) == ["w1", "w2", "w3"]


@pytest.mark.parametrize("mode", KINDS)
@quickly
@given(
    steps=st.lists(st.tuples(st.sampled_from(["record", "watermark", "complete", "emit"]), st.integers(0, 5)))
)
def test_a_buffer_does_what_the_references_queue_does(mode: str, steps: list[tuple[str, int]]) -> None:
    """Written twice, so that one is the other's judge."""
    make_buffer, make_queue = KINDS[mode]
    twins = Twins(make_buffer(4), make_queue(4))
    for number, (step, which) in enumerate(steps):
        twins.take(step, number, which)

        twins.compare(in_order=mode == "ordered")


class Twins:
    """A buffer and a queue that are told the same."""

    def __init__(self, buffer: Buffer, queue: ElementQueue) -> None:
        self.buffer = buffer
        self.queue = queue
        self.emitted: tuple[list[OperatorInput], list[OperatorInput]] = ([], [])
        self.open: list[tuple[BufferEntry, QueueEntry]] = []

    def take(self, step: str, number: int, which: int) -> None:
        """One step of both."""
        match step:
            case "complete" if self.open:
                entry, queue_entry = self.open.pop(which % len(self.open))
                complete(self.buffer, entry)
                queue_entry.complete_with(entry.results or ())
            case "emit" if self.buffer.has_completed:
                self.buffer.emit_next(self.emitted[0].append)
                self.queue.emit_completed(self.emitted[1].append)
            case "record" | "watermark":
                element = record(number) if step == "record" else watermark(number)
                pair = (BufferEntry(element), QueueEntry(element))
                has_room = self.buffer.try_put(pair[0])
                assert has_room == self.queue.try_put(pair[1])
                if has_room and step == "record":
                    self.open.append(pair)

    def compare(self, *, in_order: bool) -> None:
        """Nobody can tell them apart, but for the order of a snapshot inside a segment (A25)."""
        assert self.emitted[0] == self.emitted[1]
        assert (len(self.buffer), self.buffer.has_completed) == (len(self.queue), self.queue.has_completed)
        if in_order:
            assert list(self.buffer) == list(self.queue)
        else:
            assert segments(self.buffer) == segments(self.queue)


def segments(elements: Iterable[QueueElement]) -> list[Any]:
    """Watermarks in their places, and between them the records sorted."""
    found: list[Any] = [[]]
    for element in elements:
        if isinstance(element, Record):
            found[-1] = sorted([*found[-1], element.value])
        else:
            found += [element, []]
    return found
