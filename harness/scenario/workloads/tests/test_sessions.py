"""The fold that says what a task with keyed state should make of each record, and the inputs that it stands on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.scenario.model import Task, Workload
from harness.scenario.workloads.lookups import Inputs, LookupSource
from harness.scenario.workloads.sessions import expect_stamped, session_stamps
from harness.scenario.workloads.shape import Lookup, MarkOfTime


def source(*, seed: int = 7, **workload: Any) -> LookupSource:
    made = Workload.model_validate({"records": 60, "keys": 3, "watermark_every": 5, **workload})
    return LookupSource(workload=made, seed=seed, subtask=0)


def task(**fields: Any) -> Task:
    return Task.model_validate({"gap": "50ms", **fields})


def inputs(of: LookupSource, *, seed: int = 7, **fields: Any) -> Inputs:
    return Inputs(task(**fields), of, seed=seed, subtask=0)


def records(of: LookupSource) -> list[tuple[Lookup, int | None]]:
    return [
        element for element in (of[position] for position in range(len(of))) if isinstance(element, tuple)
    ]


def test_a_record_comes_over_one_input_and_a_watermark_over_both() -> None:
    read = source()
    over = inputs(read)

    for position in range(len(read)):
        match read[position]:
            case MarkOfTime():
                assert over.over(position) == (0, 1)
            case (lookup, _):
                assert over.over(position) == (over.of_record(lookup),)


def test_both_inputs_have_records_and_another_seed_gives_others() -> None:
    read = source()

    drawn = [[inputs(read, seed=seed).of_record(lookup) for lookup, _ in records(read)] for seed in (7, 7, 8)]

    assert drawn[0] == drawn[1] != drawn[2]
    assert set(drawn[0]) == {0, 1}


def test_of_two_inputs_the_lesser_watermark_counts() -> None:
    read = source()

    assert inputs(read, lag="15ms").combined(100) == 85
    assert inputs(read, inputs=1).combined(100) == 100


def test_an_input_is_read_up_to_a_position_if_nothing_of_it_stands_before_it() -> None:
    read = source()
    over = inputs(read)
    of_input_0 = [position for position in range(len(read)) if 0 in over.over(position)]

    assert over.is_read(0, begin=of_input_0[0] + 1, end=of_input_0[1])
    assert not over.is_read(0, begin=of_input_0[0], end=of_input_0[1])


def test_the_records_of_a_key_are_counted_over_all_inputs_and_over_each() -> None:
    read = source()
    over = inputs(read)
    stamps = session_stamps(read, over, task=task())

    for key in range(3):
        mine = [lookup for lookup, _ in records(read) if lookup.key == key]
        assert [stamps[lookup.id]["nth"] for lookup in mine] == list(range(1, len(mine) + 1))
        for number in (0, 1):
            its = [lookup for lookup in mine if over.of_record(lookup) == number]
            assert [stamps[lookup.id]["of_input"] for lookup in its] == list(range(1, len(its) + 1))


@given(seed=st.integers(0, 1000), gap_ms=st.integers(1, 400))
def test_a_session_goes_on_while_no_watermark_has_passed_its_end(seed: int, gap_ms: int) -> None:
    """The same, told record by record instead of watermark by watermark."""
    read = source(seed=seed)
    stamps = session_stamps(read, inputs(read, seed=seed, lag="15ms"), task=task(gap=f"{gap_ms}ms"))

    for key in range(3):
        session, place, end_ms = 1, 0, None
        for position in range(len(read)):
            match read[position]:
                case MarkOfTime(timestamp=mark) if end_ms is not None and mark - 15 >= end_ms:
                    session, place, end_ms = session + 1, 0, None
                case (Lookup(key=asked) as lookup, int(ts)) if asked == key:
                    place, end_ms = place + 1, max(end_ms or ts, ts + gap_ms)
                    assert (stamps[lookup.id]["session"], stamps[lookup.id]["place"]) == (session, place)


def test_a_gap_that_no_key_leaves_is_one_session_for_ever() -> None:
    read = source()

    stamps = session_stamps(read, inputs(read), task=task(gap="10s"))

    assert {stamp["session"] for stamp in stamps.values()} == {1}


def test_an_answer_is_expected_with_the_stamp_of_its_record() -> None:
    lookup = Lookup(id=4, key=2, service_ms=0)

    expect = expect_stamped(lambda asked: [{"name": f"of {asked.key}"}], {4: {"nth": 3}})

    assert expect(lookup) == [{"name": "of 2", "nth": 3}]


@pytest.mark.parametrize("count", [1, 2])
def test_a_task_without_a_lag_hears_each_watermark_as_it_is(count: int) -> None:
    assert inputs(source(), inputs=count).combined(50) == 50


def test_an_input_that_wakes_up_goes_on_where_it_stopped_and_is_behind_until_it_has_caught_up_trust7() -> (
    None
):
    read = source(records=120)
    over = inputs(read, idle=3, catch_up=2)
    places = [position for position in range(len(read)) if isinstance(read[position], MarkOfTime)]

    def said(number: int) -> list[int]:
        """Of input `number`, from the first watermark that it brings after it was idle for three."""
        woke = 6 if number else 12
        return [
            over.timestamp(number, mark.timestamp, position=place)
            for place in places[woke : woke + 3]
            if isinstance(mark := read[place], MarkOfTime)
        ]

    marks = [mark.timestamp for place in places if isinstance(mark := read[place], MarkOfTime)]
    assert said(1) == [marks[4], marks[5], marks[8]]
    assert said(0) == [marks[10], marks[11], marks[14]]
    assert [place for place in places if over.late(place) is not None] == [
        places[index] for index in (6, 7, 12, 13, 18, 19)
    ]
