"""Claims about the queues: A2, A7-A26."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.elements import Barrier, QueueElement, Record, Watermark
from reference_impl.errors import WrongState
from reference_impl.queues.ordered import OrderedQueue
from reference_impl.queues.protocol import ElementQueue, Entry
from reference_impl.queues.unordered import UnorderedQueue
from reference_impl.tests.rig import quickly, record, watermark

BOTH = pytest.mark.parametrize("kind", [OrderedQueue, UnorderedQueue])
Kind = type[OrderedQueue] | type[UnorderedQueue]


def put(queue: ElementQueue, element: QueueElement) -> Entry:
    """An entry, of a queue that has room."""
    entry = queue.try_put(element)
    assert entry is not None
    return entry


def emit_all(queue: ElementQueue) -> list[Any]:
    """All that may leave: values, watermarks as `w<timestamp>`."""
    emitted: list[QueueElement] = []
    while queue.has_completed:
        queue.emit_completed(emitted.append)
    return [e.value if isinstance(e, Record) else f"w{e.timestamp}" for e in emitted]


# ------------------------------------------------------------------------------------- the contract


@BOTH
@pytest.mark.parametrize("capacity", [0, -1])
def test_a_queue_without_room_is_refused_a2(kind: Kind, capacity: int) -> None:
    with pytest.raises(ValueError, match=f"capacity is {capacity}"):
        kind(capacity)


@BOTH
def test_a_full_queue_refuses_and_is_unchanged_a7(kind: Kind) -> None:
    queue = kind(1)
    put(queue, record(1))

    assert queue.try_put(record(2)) is None
    assert queue.try_put(watermark(2)) is None
    assert list(queue) == [record(1)]


@BOTH
def test_a_watermark_takes_a_slot_a8(kind: Kind) -> None:
    queue = kind(2)
    put(queue, record(1))
    put(queue, watermark(1))

    assert queue.try_put(record(2)) is None
    assert len(queue) == 2


@BOTH
def test_only_records_and_watermarks_are_queued_a9(kind: Kind) -> None:
    with pytest.raises(TypeError, match="Cannot enqueue Barrier"):
        kind(1).try_put(Barrier(checkpoint=1))  # type: ignore[arg-type]


@BOTH
def test_one_call_emits_one_entry_a10(kind: Kind) -> None:
    queue = kind(2)
    for value in (1, 2):
        put(queue, record(value)).complete([value, value])
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
    put(queue, record(1)).complete(["a"])

    assert queue.try_put(record(2)) is None
    assert emit_all(queue) == ["a"]
    assert queue.try_put(record(2)) is not None


@BOTH
def test_a_queue_lists_its_inputs_completed_or_not_a12(kind: Kind) -> None:
    queue = kind(3)
    for element in (record(1), record(2), watermark(2)):
        put(queue, element)
    second = list(queue.entries())[1]
    second.complete(["result"])

    assert list(queue) == [record(1), record(2), watermark(2)]


@BOTH
def test_completing_a_watermark_is_illegal_a13(kind: Kind) -> None:
    entry = put(kind(1), watermark(1))

    with pytest.raises(WrongState):
        entry.complete([])


@BOTH
def test_completing_an_entry_again_replaces_and_does_not_double_a24(kind: Kind) -> None:
    queue = kind(1)
    entry = put(queue, record(1))
    entry.complete(["first"])
    entry.complete(["second"])

    assert emit_all(queue) == ["second"]
    assert len(queue) == 0


@BOTH
def test_results_carry_their_inputs_timestamp_or_none_a40(kind: Kind) -> None:
    queue = kind(2)
    put(queue, Record(value="x", timestamp=7)).complete(["a"])
    put(queue, Record(value="y")).complete(["b"])
    emitted: list[QueueElement] = []

    queue.emit_completed(emitted.append)
    queue.emit_completed(emitted.append)

    assert emitted == [Record(value="a", timestamp=7), Record(value="b")]


# -------------------------------------------------------------------------------------- the two modes


def test_a_slow_head_holds_back_all_behind_it_a17() -> None:
    queue = OrderedQueue(3)
    head, *others = [put(queue, record(value)) for value in (1, 2, 3)]
    for entry in others:
        entry.complete(["done"])

    assert emit_all(queue) == []
    head.complete([])
    assert emit_all(queue) == ["done", "done"]


def test_inside_a_segment_completion_order_is_emission_order_a21() -> None:
    queue = UnorderedQueue(3)
    one, two, three = (put(queue, record(value)) for value in (1, 2, 3))
    for entry, value in ((three, 3), (one, 1), (two, 2)):
        entry.complete([value])

    assert emit_all(queue) == [3, 1, 2]


def test_a_later_segment_is_seen_only_once_the_earlier_are_drained_a23() -> None:
    queue = UnorderedQueue(4)
    early = put(queue, record(1))
    put(queue, watermark(1))
    put(queue, record(2)).complete(["late"])

    assert not queue.has_completed
    early.complete(["early"])
    assert emit_all(queue) == ["early", "w1", "late"]


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
        put(queue, record(round_)).complete([round_])
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
        entries[index].complete(results(index))
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
        if isinstance(element, Watermark):
            parts += [[element], []]
        else:
            parts[-1].append(element.value)
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
        entries[index].complete([index])

    assert emit_all(queue) == [out for index in range(5) for out in (index, f"w{index}")]
