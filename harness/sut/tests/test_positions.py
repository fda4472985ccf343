"""Positions: barriers stand still, and what a snapshot saves comes back equal (A56)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.scenario.model import Workload
from harness.scenario.workloads.lookups import LookupSource
from harness.scenario.workloads.shape import Lookup, StampedLookup
from harness.sut.positions import (
    ChannelState,
    HeldUpstream,
    SilentSource,
    SubtaskSource,
    TaskState,
    named,
    restored,
    saved,
)
from harness.system.clock import monotonic_us
from reference_impl.elements import EndOfInput, QueueElement, Record, Watermark, WatermarkStatus

_whole = st.integers(0, 2**53)
_records = st.builds(
    Record,
    value=st.builds(Lookup, id=_whole, key=_whole, service_ms=st.integers(0, 10_000)),
    timestamp=st.none() | _whole,
    position=_whole,
)
_elements = (
    _records
    | st.builds(Watermark, timestamp=st.integers(-1, 2**53), position=_whole)
    | st.builds(WatermarkStatus, idle=st.booleans(), position=_whole)
)


def subtask_source(
    *, records: int = 20, watermark_every: int = 4, checkpoint_every: int = 6
) -> SubtaskSource:
    workload = Workload.model_validate(
        {"records": records, "watermark_every": watermark_every, "rate": "100/s"}
    )
    elements = LookupSource(workload=workload, seed=1, subtask=0)
    return SubtaskSource(elements, checkpoint_every=checkpoint_every, origin_ms=5000)


@given(_elements)
def test_what_is_saved_is_restored_equal_also_through_the_sinks_json(element: QueueElement) -> None:
    assert restored(json.loads(json.dumps(saved(element)))) == element


@given(_elements)
def test_a_saved_element_has_the_name_that_a_history_knows_it_by(element: QueueElement) -> None:
    match element:
        case Record(value=lookup):
            assert named([saved(element)]) == [{"id": lookup.id}]
        case Watermark(timestamp=timestamp, position=position):
            assert named([saved(element)]) == [{"w": timestamp, "pos": position}]


def test_state_is_saved_beside_the_elements_and_no_history_names_it() -> None:
    state = TaskState(text="what the operator in front knows")

    assert restored(json.loads(json.dumps(saved(state)))) == state
    assert named([saved(state), saved(Watermark(timestamp=9, position=3))]) == [{"w": 9, "pos": 3}]


@given(_elements)
def test_what_the_operator_in_front_holds_is_saved_and_no_history_names_it_trust7(
    element: QueueElement,
) -> None:
    held = HeldUpstream(element=element)

    assert restored(json.loads(json.dumps(saved(held)))) == held
    assert named([saved(held)]) == []


@given(st.lists(st.tuples(st.integers(0, 1), _elements), max_size=4))
def test_what_barriers_overtook_is_saved_and_no_history_names_it_trust7(
    elements: list[tuple[int, QueueElement]],
) -> None:
    state = ChannelState(until=9, elements=tuple(elements))

    assert restored(json.loads(json.dumps(saved(state)))) == state
    assert named([saved(state)]) == []


def test_what_a_record_was_stamped_with_is_saved_with_it() -> None:
    record = Record(value=StampedLookup(id=1, key=2, service_ms=3, stamp={"nth": 4}), timestamp=5, position=6)

    assert restored(saved(record)) == record


def test_what_is_no_lookup_cannot_be_saved() -> None:
    with pytest.raises(TypeError, match="cannot save"):
        saved(Record(value="something else"))


def test_barriers_stand_before_every_sixth_position_but_the_first() -> None:
    source = subtask_source()

    cuts = {
        position: barrier.checkpoint_id
        for position in range(40)
        if (barrier := source.barrier_before(position))
    }

    assert cuts == {6: 1, 12: 2, 18: 3, 24: 4}


@given(records=st.integers(1, 60), every=st.integers(1, 20), watermark_every=st.integers(0, 9))
def test_there_are_as_many_barriers_as_the_workload_promises(
    records: int, every: int, watermark_every: int
) -> None:
    workload = Workload(records=records, watermark_every=watermark_every, checkpoint_every=every)
    source = subtask_source(records=records, watermark_every=watermark_every, checkpoint_every=every)

    cuts = [position for position in range(200) if source.barrier_before(position)]

    assert len(cuts) == workload.checkpoints


def test_elements_carry_their_position_and_the_end_stands_behind_the_last() -> None:
    source = subtask_source()

    read = [source.read(position) for position in range(26)]

    assert [element.position for element in read if isinstance(element, Record | Watermark)] == list(
        range(25)
    )
    assert read[25] == EndOfInput()
    assert isinstance(read[4], Watermark)


def test_elements_are_due_since_the_first_attempt_began_and_the_end_is_due_at_a_limit() -> None:
    source = subtask_source()

    assert [source.due_ms(position) for position in (0, 1, 2)] == [5000, 5010, 5020]
    assert source.due_ms(10_000) == source.due_ms(25)


def test_a_source_that_is_behind_its_rate_is_still_silent_for_as_long_as_a_fault_asks() -> None:
    """A backlog would use up the silence, which counts from when the position before it was read."""
    source = subtask_source()  # all of it was due long ago
    silent = SilentSource(source, {7: 3_600_000})
    now_ms = monotonic_us() // 1000

    due_ms = silent.due_ms(7)

    assert due_ms - now_ms >= 3_600_000
    assert silent.due_ms(7) == due_ms
    assert silent.due_ms(8) == source.due_ms(8) < now_ms
