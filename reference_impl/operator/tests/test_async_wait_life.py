"""Claims about the operator's life: A5, A38, A50, A56-A59, A61-A63, A66-A70."""

from __future__ import annotations

from typing import Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.checkpoint_events import CheckpointBarrier
from reference_impl.elements import LatencyMarker, QueueElement, Record, WatermarkStatus
from reference_impl.errors import SimulationStuck
from reference_impl.operator.build import Mode
from reference_impl.operator.result import ResultHandle
from reference_impl.tests.rig import (
    HandFunction,
    OpenRig,
    open_rig,
    open_virtual,
    quickly,
    record,
    substitute,
    watermark,
)

BOTH = pytest.mark.parametrize("mode", get_args(Mode))


# ----------------------------------------------------------------------------------- snapshot, restore


@BOTH
def test_a_snapshot_holds_what_has_not_left_and_disturbs_nothing_a56_a57_a58_a59(
    rigs: OpenRig, mode: Mode
) -> None:
    with rigs(mode=mode) as rig:
        rig.process(record(1), record(2), watermark(2), record(3))
        rig.complete(3, "c")
        rig.run_mail()
        assert rig.operator.snapshot() == (record(1), record(2), watermark(2), record(3))

        rig.complete(1, "a")
        rig.complete(2, "b")
        assert len(rig.operator.snapshot()) == 4  # their mail has not run, so nothing has left
        rig.run_mail()

        assert rig.operator.snapshot() == ()
    assert rig.values() == ["a", "b", "w2", "c"]


@BOTH
def test_a_snapshot_is_a_value_that_later_events_do_not_reach_a56(rigs: OpenRig, mode: Mode) -> None:
    with rigs(mode=mode) as rig:
        rig.process(record(1), record(2))
        taken = rig.operator.snapshot()
        rig.complete(1)
        rig.operator.process(record(3))
        rig.run_mail()

        assert taken == (record(1), record(2))
        assert rig.operator.snapshot() == (record(2), record(3))


@BOTH
def test_a_snapshot_right_after_a_restore_is_the_one_restored_a63(rigs: OpenRig, mode: Mode) -> None:
    restored = (record(1), watermark(1), record(2))
    with rigs(mode=mode) as rig:
        rig.operator.open(restored)

        assert rig.operator.snapshot() == restored
    assert rig.happened == [("called", 1), ("called", 2)]


ELEMENTS: st.SearchStrategy[QueueElement] = st.one_of(
    st.builds(record, st.integers(0, 99)),
    st.builds(watermark, st.integers(0, 99)),
    st.builds(WatermarkStatus, idle=st.booleans()),
    st.builds(Record, value=st.text(max_size=3), timestamp=st.none(), position=st.integers(0, 9)),
)


@BOTH
@quickly
@given(restored=st.lists(ELEMENTS, max_size=8), more=st.integers(0, 2))
def test_restore_then_snapshot_is_identity_a63_b22(
    mode: Mode, restored: list[QueueElement], more: int
) -> None:
    """A63, B22, FLINK-7495: but for what stands before the first record, which leaves at once (A51)."""
    first = next(
        (index for index, element in enumerate(restored) if isinstance(element, Record)), len(restored)
    )
    with open_virtual(mode=mode, capacity=len(restored) + more or 1) as rig:
        rig.operator.open(restored)
        assert rig.operator.snapshot() == tuple(restored[first:])

        rig.run_mail()

        assert rig.operator.snapshot() == tuple(restored[first:])
        assert rig.emitted == restored[:first]


@BOTH
@pytest.mark.parametrize("stored", [0, 1, 2, 3, 20])
def test_any_number_of_elements_restores_into_a_smaller_capacity_a62(
    rigs: OpenRig, mode: Mode, stored: int
) -> None:
    """A62, B4, FLINK-7949: capacity + 1 of them, and ten times as many."""

    def prompt(value: Any, handle: ResultHandle) -> None:
        sizes.append(len(rig.operator))
        rig.loop.call_soon(handle.complete, [value])

    sizes: list[int] = []
    with rigs(mode=mode, capacity=2, function=HandFunction(invoke=prompt)) as rig:
        rig.operator.open([record(value) for value in range(stored)])
        rig.operator.end_input()

    assert rig.values() == list(range(stored))
    assert max(sizes, default=0) <= 2


@BOTH
@pytest.mark.parametrize("other", get_args(Mode))
@pytest.mark.parametrize("capacity", [1, 2, 4, 5, 50])
def test_a_snapshot_restores_in_any_mode_and_at_any_capacity_a5_a62(
    mode: Mode, other: Mode, capacity: int
) -> None:
    """A5, A59, A62: what left before and what leaves after are together each input's results, once."""

    def prompt(value: Any, handle: ResultHandle) -> None:
        rig.loop.call_soon(handle.complete, [value])

    with open_virtual(mode=mode, capacity=4) as before:
        before.process(record(1), record(2), watermark(2), record(3))
        before.complete(3, 3)
        before.complete(1, 1)
        before.run_mail()
        stored = before.operator.snapshot()
    with open_virtual(mode=other, capacity=capacity, function=HandFunction(invoke=prompt)) as rig:
        rig.operator.open(stored)
        rig.process(record(4))
        rig.operator.end_input()

    assert [*before.values(), *rig.values()] == [1, 2, "w2", 3, 4]


def test_a_replay_that_waits_for_a_slot_emits_and_blocks_like_any_input_a62() -> None:
    with open_virtual(capacity=1) as rig, pytest.raises(SimulationStuck) as stuck:
        rig.operator.open([record(1), record(2)])

    assert "waits for a slot, with 1 in flight" in stuck.value.__notes__[0]


def test_each_restored_record_gets_a_whole_timeout_of_its_own_a50() -> None:
    function = HandFunction(timeout=substitute("s"))
    with open_virtual(timeout_ms=10, function=function) as before:
        before.process(record(1))
        before.advance(9)
        stored = before.operator.snapshot()
    with open_virtual(timeout_ms=10, function=HandFunction(timeout=substitute("s"))) as rig:
        rig.operator.open(stored)
        rig.advance(9)
        assert rig.emitted == []

        rig.advance(10)

    assert rig.values() == ["s"]


@pytest.mark.parametrize("element", [CheckpointBarrier(checkpoint_id=1), "text"])
def test_what_no_snapshot_holds_is_refused_by_the_restore_a61(rigs: OpenRig, element: Any) -> None:
    with rigs() as rig, pytest.raises(TypeError, match="Cannot process"):
        rig.operator.open([element])


def test_the_function_is_opened_before_anything_is_replayed_a61_a70_b22(rigs: OpenRig) -> None:
    class Opened(HandFunction):
        def open(self) -> None:
            rig.happened.append(("opened", None))

    with rigs(function=Opened()) as rig:
        rig.operator.open([record(1)])
        rig.process(record(2))

    assert rig.happened == [("opened", None), ("called", 1), ("called", 2)]


def test_a_marker_is_in_no_snapshot_a54_a56(rigs: OpenRig) -> None:
    with rigs() as rig:
        rig.process(record(1), LatencyMarker(id=1))

        assert rig.operator.snapshot() == (record(1),)


# ----------------------------------------------------------------------------------------- end, close


@BOTH
def test_the_end_of_input_drains_a66(rigs: OpenRig, mode: Mode) -> None:
    with rigs(mode=mode) as rig:
        rig.process(record(1), watermark(1), record(2))
        for value in (2, 1):
            rig.complete_soon(value, value)

        rig.operator.end_input()

    assert rig.values() == [1, "w1", 2]


def test_the_end_of_input_of_an_empty_queue_returns_at_once_a67(rigs: OpenRig) -> None:
    with rigs() as rig:
        rig.operator.end_input()

        assert rig.happened == []


@BOTH
def test_a_call_that_never_ends_and_has_no_timeout_blocks_the_drain_a67(mode: Mode) -> None:
    """A67, B31: for ever in Flink; in virtual time it is seen at once, and the record is named."""
    with open_virtual(mode=mode) as rig:
        rig.process(record(5))

        with pytest.raises(SimulationStuck) as stuck:
            rig.operator.end_input()

    assert "waits for the end of input, with 1 in flight, first Record(value=5" in stuck.value.__notes__[0]


def test_after_the_close_no_outcome_and_no_timer_does_anything_a68_a69(rigs: OpenRig) -> None:
    with rigs(timeout_ms=1) as rig:
        rig.process(record(1), record(2), watermark(2))
        timer_mail = rig.mailbox.take()
        rig.complete(2, "b")

        rig.operator.close()
        timer_mail.action()
        rig.fail(1)
        rig.run_mail()

    assert rig.happened == [("called", 1), ("called", 2)]
    assert rig.failures == []


@pytest.mark.parametrize("end", ["quiesce", "close"])
def test_outcomes_after_the_mailbox_has_ended_neither_raise_nor_emit_a38(
    end: Literal["quiesce", "close"],
) -> None:
    """FLINK-24846, B27: the first completion's mail is in; the emission that it would put is refused."""
    with open_rig() as rig:
        rig.process(record(1), record(2), record(3))
        rig.complete(2, "b")
        rig.run_mail()
        rig.complete(1, "a")
        first = rig.mailbox.take()
        rig.mailbox.quiesce() if end == "quiesce" else rig.mailbox.close()

        first.action()
        rig.complete(3, "c")

        assert rig.values() == ["a"]
        assert rig.operator.snapshot() == (record(2), record(3))


def test_a_timer_that_fires_after_the_mailbox_was_quiesced_is_harmless_a69_b28() -> None:
    """A69, B28, FLINK-35810; `close` itself cancels no timer."""
    with open_virtual(timeout_ms=5) as rig:
        rig.process(record(1))
        rig.operator.close()
        assert len(rig.timers) == 1
        rig.mailbox.quiesce()

        rig.advance(5)

    assert (rig.failures, rig.hand.timeouts) == ([], {})


def test_the_function_is_closed_once_a69_a70(rigs: OpenRig) -> None:
    with rigs() as rig:
        rig.operator.close()
        rig.operator.close()

    assert rig.hand.closed == 1


def test_the_function_is_closed_after_a_failure_too_a69_a70(rigs: OpenRig) -> None:
    def burst(_: Any, __: ResultHandle) -> None:
        raise ArithmeticError

    with rigs(function=HandFunction(invoke=burst)) as rig:
        with pytest.raises(Exception, match="invoke"):
            rig.process(record(1))

        rig.operator.close()

    assert rig.hand.closed == 1
