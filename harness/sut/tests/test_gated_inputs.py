"""Two inputs are merged in the order of positions, and their barriers are brought together (C22, W1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.sut.defects import variant_of
from harness.sut.tests.keyed_rig import KeyedRig
from reference_impl.elements import LatencyMarker, Record, Watermark, WatermarkStatus
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with virtual_loop() as made:
        yield made


def test_elements_come_in_the_order_of_their_positions_whatever_input_holds_them(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop)
    rig.open()

    rig.read_to(len(rig.elements))

    positions = [element.position for element in rig.taken if isinstance(element, Record | Watermark)]
    assert positions == list(range(len(rig.elements)))
    records = [element for element in rig.taken if isinstance(element, Record)]
    assert records == [
        element
        for element in (rig.source.read(position) for position in range(len(rig.elements)))
        if isinstance(element, Record)
    ]


def test_a_watermark_is_the_least_of_what_the_inputs_say_w1(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop)
    rig.open()

    rig.read_to(len(rig.elements))

    sent = [rig.source.read(position) for position in range(len(rig.elements))]
    least = [
        Watermark(timestamp=mark.timestamp - 15, position=mark.position)
        for mark in sent
        if isinstance(mark, Watermark)
    ]
    assert [element for element in rig.taken if isinstance(element, Watermark)] == least
    assert [element for element in rig.lookups.taken if isinstance(element, Watermark)] == least


def test_of_inputs_that_fall_idle_in_turn_every_watermark_leaves_w3_trust7(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop, lag="0ms", idle=2)
    rig.open()

    rig.read_to(len(rig.elements))

    sent = [rig.source.read(position) for position in range(len(rig.elements))]
    left = [element for element in rig.lookups.taken if isinstance(element, Watermark)]
    assert left == [mark for mark in sent if isinstance(mark, Watermark)]


@pytest.mark.parametrize("begin", [0, 25, 43, 44, 47, 49, 52])
def test_an_input_that_wakes_up_behind_holds_no_watermark_back_w2_trust7(
    loop: VirtualLoop, begin: int
) -> None:
    """Also after a restore while it is idle, from position 24 on, or behind, from that at 44 on to that at 54."""
    rig = KeyedRig(loop, lag="0ms", idle=4, catch_up=2)
    rig.open(position=begin)

    rig.read_to(len(rig.elements))

    sent = [rig.source.read(position) for position in range(begin, len(rig.elements))]
    left = [element for element in rig.lookups.taken if isinstance(element, Watermark)]
    assert left == [mark for mark in sent if isinstance(mark, Watermark)]


def test_a_status_leaves_only_when_all_inputs_are_idle_or_no_longer_w3_trust7(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop, lag="0ms", idle=4)
    rig.open()

    rig.read_to(len(rig.elements))

    left = [element.idle for element in rig.lookups.taken if isinstance(element, WatermarkStatus)]
    assert left == [True, False] * (len(left) // 2)
    assert left


def test_a_latency_marker_comes_before_its_record_over_the_same_input_a54_trust7(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop, latency_markers=9)
    rig.open()

    rig.read_to(len(rig.elements))

    entered = [element for element in rig.lookups.taken if not isinstance(element, WatermarkStatus)]
    marked = [
        (marker.id, record.position)
        for marker, record in pairwise(entered)
        if isinstance(marker, LatencyMarker) and isinstance(record, Record)
    ]
    records = [element.position for element in rig.taken if isinstance(element, Record)]
    assert marked == [
        (position, position) for position in records if position is not None and position % 9 == 0
    ]


def test_a_watermark_that_the_valve_loses_is_told_and_does_not_leave_trust7(loop: VirtualLoop) -> None:
    """So V6 finds it missing, and positions in the history have no gap."""
    rig = KeyedRig(loop, lag="0ms", idle=2, parts=variant_of("tools.defects:idle_input_counts").keyed)
    rig.open()

    rig.read_to(len(rig.elements))

    told = [element for element in rig.taken if isinstance(element, Watermark)]
    left = [element for element in rig.lookups.taken if isinstance(element, Watermark)]
    positions = [element.position for element in rig.taken if isinstance(element, Record | Watermark)]
    assert positions == list(range(len(rig.elements)))
    assert len(left) < len(told)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_a_checkpoint_begins_once_the_barriers_of_all_inputs_have_come_c22(seed: int) -> None:
    """At its position in the source, at which each of its barriers stands: nothing before it is left out."""
    with virtual_loop() as loop:
        rig = KeyedRig(loop, seed=seed)
        rig.open()

        begun = rig.read_to(len(rig.elements))

    assert begun == [(number, 10 * number) for number in range(1, 10)]
    assert [rig.gated.cut_at(number) for number, _ in begun] == [position for _, position in begun]


def test_between_the_first_barrier_and_the_last_the_phase_is_align(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop)
    rig.open()

    rig.read_to(len(rig.elements))

    assert rig.phases.reached.count("align") == 9


def test_with_one_input_there_is_nothing_to_align(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop, inputs=1, lag="0ms")
    rig.open()

    begun = rig.read_to(len(rig.elements))

    assert len(begun) == 9
    assert "align" not in rig.phases.reached


def test_a_checkpoint_that_was_restored_is_not_cut_again(loop: VirtualLoop) -> None:
    before = KeyedRig(loop)
    before.open()
    before.read_to(30)
    again = KeyedRig(loop)

    again.open(before.snapshot(), position=30)

    assert again.read_to(45) == [(4, 40)]


def test_an_element_is_due_once_it_is_due_on_every_input_over_which_it_comes(loop: VirtualLoop) -> None:
    rig = KeyedRig(loop)
    rig.open()

    for position in range(len(rig.elements)):
        lags_ms = 15 if 1 in rig.inputs.over(position) else 0
        assert rig.gated._due_ms(position) == rig.source.due_ms(position) + lags_ms
    assert rig.gated._due_ms(len(rig.elements)) == rig.source.due_ms(len(rig.elements))


@pytest.mark.parametrize("inputs", [1, 2])
def test_behind_the_last_element_every_input_ends(loop: VirtualLoop, inputs: int) -> None:
    rig = KeyedRig(loop, inputs=inputs, lag="0ms")
    rig.open()
    rig.read_to(len(rig.elements))

    rig.end()

    assert rig.has_ended
