"""Claims about the queues: A2, A7-A26."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.checkpoint_events import CheckpointBarrier
from reference_impl.elements import (
    EndOfInput,
    LatencyMarker,
    QueueElement,
    Record,
    Watermark,
    WatermarkStatus,
)
from reference_impl.errors import WrongState
from reference_impl.operator.queues import CheckedEntry, ElementQueue, Entry, OrderedQueue, UnorderedQueue
from reference_impl.tests.rig import quickly, record, shown, watermark

BOTH = pytest.mark.parametrize("kind", [OrderedQueue, UnorderedQueue])
Kind = type[OrderedQueue] | type[UnorderedQueue]


def put(queue: ElementQueue, element: QueueElement) -> Entry:
    """An entry, of a queue that has room."""
    entry = CheckedEntry(element)
    assert queue.try_put(entry)
    return entry


def emit_all(queue: ElementQueue) -> list[Any]:
    """All that may leave: values, watermarks as `w<timestamp>`."""
    emitted: list[QueueElement] = []
    while queue.has_completed:
        queue.emit_completed(emitted.append)
    return [shown(element) for element in emitted]


# ------------------------------------------------------------------------------------- the contract


@BOTH
@pytest.mark.parametrize("capacity", [0, -1, True, 1.5, "3", None])
def test_a_queue_without_room_is_refused_a2(kind: Kind, capacity: Any) -> None:
    with pytest.raises(ValueError, match=f"capacity is {capacity!r}"):
        kind(capacity)


@BOTH
def test_a_full_queue_refuses_and_is_unchanged_a7(kind: Kind) -> None:
    queue = kind(1)
    put(queue, record(1))

    assert not queue.try_put(CheckedEntry(record(2)))
    assert not queue.try_put(CheckedEntry(watermark(2)))
    assert list(queue) == [record(1)]


@BOTH
def test_a_watermark_takes_a_slot_a8(kind: Kind) -> None:
    queue = kind(2)
    put(queue, record(1))
    put(queue, watermark(1))

    assert not queue.try_put(CheckedEntry(record(2)))
    assert len(queue) == 2


@BOTH
def test_a_status_takes_a_slot_and_is_born_complete_a8_a13(kind: Kind) -> None:
    queue = kind(1)
    entry = put(queue, WatermarkStatus(idle=True))

    assert not queue.try_put(CheckedEntry(record(1)))
    with pytest.raises(WrongState):
        entry.complete_with([])
    assert emit_all(queue) == ["idle"]


@pytest.mark.parametrize(
    "element", [CheckpointBarrier(checkpoint_id=1), EndOfInput(), LatencyMarker(id=1), "x", None]
)
def test_only_records_watermarks_and_their_status_are_queued_a9(element: Any) -> None:
    with pytest.raises(TypeError, match="Cannot enqueue"):
        CheckedEntry(element)


@BOTH
def test_one_call_emits_one_entry_a10(kind: Kind) -> None:
    queue = kind(2)
    for value in (1, 2):
        put(queue, record(value)).complete_with([value, value])
    emitted: list[QueueElement] = []

    queue.emit_completed(emitted.append)

    assert emitted == [record(1), record(1)]
    assert queue.has_completed


@BOTH
def test_nothing_is_emitted_where_nothing_is_emittable_a10(kind: Kind) -> None:
    queue = kind(2)
    assert not queue.has_completed
    put(queue, record(1))

    assert emit_all(queue) == []
    queue.emit_completed(lambda element: pytest.fail(str(element)))
    assert len(queue) == 1


@BOTH
def test_a_completed_entry_keeps_its_slot_until_it_is_emitted_a11(kind: Kind) -> None:
    queue = kind(1)
    put(queue, record(1)).complete_with(["a"])

    assert not queue.try_put(CheckedEntry(record(2)))
    assert emit_all(queue) == ["a"]
    assert queue.try_put(CheckedEntry(record(2)))


@BOTH
def test_a_queue_lists_its_inputs_completed_or_not_a12(kind: Kind) -> None:
    queue = kind(3)
    for element in (record(1), record(2), watermark(2)):
        put(queue, element)
    second = list(queue.entries())[1]
    second.complete_with(["result"])

    assert list(queue) == [record(1), record(2), watermark(2)]


@BOTH
def test_completing_a_watermark_is_illegal_a13(kind: Kind) -> None:
    entry = put(kind(1), watermark(1))

    with pytest.raises(WrongState):
        entry.complete_with([])


@BOTH
def test_completing_an_entry_again_replaces_and_does_not_double_a24(kind: Kind) -> None:
    queue = kind(1)
    entry = put(queue, record(1))
    entry.complete_with(["first"])
    entry.complete_with(["second"])

    assert emit_all(queue) == ["second"]
    assert len(queue) == 0


@BOTH
def test_results_carry_their_inputs_timestamp_or_none_a40(kind: Kind) -> None:
    queue = kind(2)
    put(queue, Record(value="x", timestamp=7)).complete_with(["a"])
    put(queue, Record(value="y")).complete_with(["b"])
    emitted: list[QueueElement] = []

    queue.emit_completed(emitted.append)
    queue.emit_completed(emitted.append)

    assert emitted == [Record(value="a", timestamp=7), Record(value="b")]


@BOTH
def test_room_is_a_wait_that_ends_with_the_emission_that_frees_a_slot_a14(kind: Kind) -> None:
    told: list[str] = []
    queue = kind(1)
    queue.room.then(lambda: told.append("at once"))
    entry = put(queue, record(1))
    full = queue.room
    full.then(lambda: told.append("first"))
    full.then(lambda: told.append("second"))

    entry.complete_with([])
    assert not queue.room
    assert told == ["at once"]
    emit_all(queue)

    assert told == ["at once", "first", "second"]
    assert full
    assert queue.room


@BOTH
def test_each_time_that_a_queue_is_full_is_a_wait_of_its_own_a14(kind: Kind) -> None:
    queue = kind(1)
    put(queue, record(1)).complete_with([])
    first = queue.room
    emit_all(queue)
    put(queue, record(2))

    assert first
    assert not queue.room
    assert not queue.room, "to ask twice is to wait twice"


# -------------------------------------------------------------------------------------- the two modes


def test_a_slow_head_holds_back_all_behind_it_a15_a17() -> None:
    queue = OrderedQueue(3)
    head, *others = [put(queue, record(value)) for value in (1, 2, 3)]
    for entry in others:
        entry.complete_with(["done"])

    assert emit_all(queue) == []
    head.complete_with([])
    assert emit_all(queue) == ["done", "done"]


def test_inside_a_segment_completion_order_is_emission_order_a21() -> None:
    queue = UnorderedQueue(3)
    one, two, three = (put(queue, record(value)) for value in (1, 2, 3))
    for entry, value in ((three, 3), (one, 1), (two, 2)):
        entry.complete_with([value])

    assert emit_all(queue) == [3, 1, 2]


def test_a_later_segment_is_seen_only_once_the_earlier_are_drained_a23() -> None:
    queue = UnorderedQueue(4)
    early = put(queue, record(1))
    put(queue, watermark(1))
    put(queue, record(2)).complete_with(["late"])

    assert not queue.has_completed
    early.complete_with(["early"])
    assert emit_all(queue) == ["early", "w1", "late"]


@BOTH
def test_a_status_keeps_its_place_like_a_watermark_a19_a55(kind: Kind) -> None:
    queue = kind(4)
    early = put(queue, record(1))
    put(queue, WatermarkStatus(idle=False))
    put(queue, record(2)).complete_with(["late"])
    assert emit_all(queue) == []

    early.complete_with(["early"])

    assert emit_all(queue) == ["early", "active", "late"]


def test_an_unordered_queue_lists_segments_in_order_and_each_as_it_arrived_a25() -> None:
    queue = UnorderedQueue(5)
    elements: list[QueueElement] = [record(3), record(1), watermark(3), record(2), record(0)]
    entries = [put(queue, element) for element in elements]
    for index in (4, 1):
        entries[index].complete_with([])

    assert list(queue) == elements


def test_a_record_joins_the_last_segment_a18() -> None:
    queue = UnorderedQueue(4)
    put(queue, watermark(0))
    one, two = (put(queue, record(value)) for value in (1, 2))
    two.complete_with([2])
    one.complete_with([1])

    assert emit_all(queue) == ["w0", 2, 1]


def test_watermarks_in_a_row_keep_their_order_a19_a52() -> None:
    queue = UnorderedQueue(4)
    for timestamp in (1, 1, 2):
        put(queue, watermark(timestamp))

    assert emit_all(queue) == ["w1", "w1", "w2"]


def test_a_drained_queue_takes_records_again_a22() -> None:
    queue = UnorderedQueue(1)
    for round_ in range(3):
        put(queue, watermark(round_))
        assert emit_all(queue) == [f"w{round_}"]
        put(queue, record(round_)).complete_with([round_])
        assert emit_all(queue) == [round_]


# ------------------------------------------------------------------------------- for any interleaving


@dataclass(frozen=True)
class Script:
    """Elements (True: a record), an order of completion, and after how many steps something is emitted."""

    is_record: tuple[bool, ...]
    order: tuple[int, ...]
    emissions: tuple[int, ...]


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    is_record = tuple(draw(st.lists(st.booleans(), min_size=1, max_size=12)))
    records = [index for index, its in enumerate(is_record) if its]
    order = tuple(draw(st.permutations(records)))
    emissions = tuple(draw(st.lists(st.integers(0, 3), min_size=len(order), max_size=len(order))))
    return Script(is_record, order, emissions)


def inputs(script: Script) -> list[QueueElement]:
    return [record(i) if its else watermark(i) for i, its in enumerate(script.is_record)]


def results(index: int) -> list[Any]:
    """0, 1 or 2 results."""
    return [(index, j) for j in range(index % 3)]


def play(queue: ElementQueue, script: Script) -> list[QueueElement]:
    """Put all, complete in the script's order, emit as it says; checks the listing at every step."""
    elements = inputs(script)
    entries = [put(queue, element) for element in elements]
    emitted: list[QueueElement] = []
    gone: list[QueueElement] = []
    for index, emissions in zip(script.order, script.emissions, strict=True):
        entries[index].complete_with(results(index))
        for _ in range(emissions):
            before = list(queue)
            queue.emit_completed(emitted.append)
            gone += [element for element in before if element not in list(queue)]
        assert [element for element in elements if element not in gone] == list(queue)
    while queue.has_completed:
        queue.emit_completed(emitted.append)
    assert len(queue) == 0
    return emitted


def segments(elements: Sequence[QueueElement]) -> list[list[Any]]:
    """What lies between the watermarks, and each watermark on its own."""
    parts: list[list[Any]] = [[]]
    for element in elements:
        if isinstance(element, Record):
            parts[-1].append(element.value)
        else:
            parts += [[element], []]
    return parts


def expected(script: Script) -> list[QueueElement]:
    """In order of arrival."""
    out: list[QueueElement] = []
    for index, element in enumerate(inputs(script)):
        if isinstance(element, Watermark):
            out.append(element)
        else:
            out += [Record(value=value, timestamp=index) for value in results(index)]
    return out


@quickly
@given(scripts())
def test_ordered_output_is_arrival_order_whatever_completes_first_a16(script: Script) -> None:
    queue = OrderedQueue(len(script.is_record))

    assert play(queue, script) == expected(script)


@quickly
@given(scripts())
def test_unordered_output_permutes_whole_groups_between_watermarks_only_a20_a26_a39(script: Script) -> None:
    queue = UnorderedQueue(len(script.is_record))

    got, due = segments(play(queue, script)), segments(expected(script))

    assert [sorted(part, key=repr) for part in got] == [sorted(part, key=repr) for part in due]
    for part in got:
        firsts = [value[0] for value in part if isinstance(value, tuple)]
        assert firsts == [first for first in dict.fromkeys(firsts) for _ in results(first)]


@quickly
@given(st.permutations(range(5)))
def test_with_a_watermark_behind_every_record_unordered_is_ordered_a26(order: Sequence[int]) -> None:
    queue = UnorderedQueue(10)
    entries = []
    for index in range(5):
        entries.append(put(queue, record(index)))
        put(queue, watermark(index))
    for index in order:
        entries[index].complete_with([index])

    assert emit_all(queue) == [out for index in range(5) for out in (index, f"w{index}")]
