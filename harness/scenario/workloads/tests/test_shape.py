"""What a source sends may be shaped by a scenario; each position still holds the same element in every attempt."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.faults.hot_key import HOT_KEY
from harness.faults.model.fault import Fault
from harness.faults.registry import fault_of
from harness.scenario.model import Workload
from harness.scenario.workloads.lookups import (
    Lookup,
    LookupSource,
    MarkOfTime,
    customer_rows,
    expected_results,
    expected_value,
    nth_ids,
)


def fault(do: str, record: int, **fields: Any) -> Fault:
    return fault_of({"id": "f", "do": do, "when": {"record": record}, **fields})


def source(*faults: Fault, seed: int = 7, subtask: int = 0, **workload: int | str) -> LookupSource:
    made = Workload.model_validate({"records": 40, "keys": 50, "rate": "100/s", **workload})
    return LookupSource(workload=made, seed=seed, subtask=subtask, faults=faults)


def elements(made: LookupSource) -> list[tuple[Lookup, int | None] | MarkOfTime]:
    return [made[position] for position in range(len(made))]


def lookups(made: LookupSource) -> list[Lookup]:
    return [element[0] for element in elements(made) if isinstance(element, tuple)]


def marks(found: Sequence[tuple[Lookup, int | None] | MarkOfTime]) -> list[int]:
    return [element.timestamp for element in found if isinstance(element, MarkOfTime)]


@given(every=st.integers(0, 12), record=st.integers(1, 40), count=st.integers(1, 30))
def test_a_burst_stands_right_before_its_record_rises_and_is_true(
    every: int, record: int, count: int
) -> None:
    plain, made = (
        source(watermark_every=every),
        source(fault("watermark_burst", record, count=count), watermark_every=every),
    )

    place = made.position_of(record)

    burst = [made[position] for position in range(place - count, place)]
    assert len(marks(burst)) == count
    assert marks(burst) == sorted(marks(burst))
    assert made[place] == plain[plain.position_of(record)]
    assert elements(made)[: place - count] + elements(made)[place:] == elements(plain)
    mark = -1
    for element in elements(made):
        if isinstance(element, MarkOfTime):
            assert element.timestamp >= mark
            mark = element.timestamp
        else:
            assert element[1] is not None
            assert element[1] > mark


def test_a_burst_costs_no_time_and_what_follows_is_not_late() -> None:
    plain, made = source(), source(fault("watermark_burst", 20, count=500))

    place = made.position_of(20)
    assert {made.due_ms(position) for position in range(place - 500, place)} == {made.due_ms(place)}
    assert made.due_ms(len(made)) == plain.due_ms(len(plain))


def test_two_bursts_do_not_move_each_other() -> None:
    made = source(
        fault("watermark_burst", 10, count=3), fault("watermark_burst", 30, count=4), watermark_every=0
    )

    kinds = "".join("w" if isinstance(element, MarkOfTime) else "r" for element in elements(made))

    assert kinds == "r" * 9 + "www" + "r" * 20 + "wwww" + "r" * 11
    assert [made.position_of(record) for record in (9, 10, 29, 30)] == [8, 12, 31, 36]


def test_a_silence_delays_its_record_and_all_after_it() -> None:
    plain, made = source(), source(fault("idle_input", 20, subtask=0, **{"for": "3s"}))

    place = made.position_of(20)
    assert made.due_ms(place - 2) == plain.due_ms(place - 2)
    assert all(made.due_ms(p) == plain.due_ms(p) + 3000 for p in range(place, len(made)))
    assert elements(made) == elements(plain)


def test_a_hot_key_takes_its_share_of_the_records_that_it_may_take() -> None:
    made = source(fault("hot_key", 101, share="90%", delay="500ms", count=100), records=400)

    found = lookups(made)
    heated = [lookup for lookup in found if lookup.service_ms == 500]

    assert all(lookup.key == HOT_KEY for lookup in heated)
    assert 75 <= len(heated) <= 100
    assert {found.index(lookup) for lookup in heated} <= set(range(100, 200))
    assert [lookup.id for lookup in found] == [lookup.id for lookup in lookups(source(records=400))]


@pytest.mark.parametrize("shaped", ["watermark_burst", "hot_key"])
def test_a_fault_of_another_subtask_changes_nothing(shaped: str) -> None:
    fields = {"count": 9} if shaped == "watermark_burst" else {"share": "90%", "delay": "1s"}

    assert elements(source(fault(shaped, 5, subtask=1, **fields))) == elements(source())


def test_a_skewed_source_asks_for_one_key_more_often_and_else_as_before() -> None:
    plain, made = lookups(source(records=1000)), lookups(source(records=1000, skew="60%"))

    assert 550 <= sum(lookup.key == HOT_KEY for lookup in made) <= 680
    assert all(skewed == other for skewed, other in zip(made, plain, strict=True) if skewed.key != HOT_KEY)


def test_wild_watermarks_are_sometimes_equal_sometimes_fall_and_always_the_same() -> None:
    made = source(records=400, watermarks="wild")

    found = marks(elements(made))
    steps = [after - before for before, after in pairwise(found)]

    assert min(steps) < 0
    assert 0 in steps
    assert max(steps) > 0
    assert found == marks(elements(source(records=400, watermarks="wild")))
    assert lookups(made) == lookups(source(records=400))


def test_fanout_gives_a_key_no_row_one_or_several() -> None:
    rows = customer_rows(keys=range(60), seed=3, fanout=3)

    answers = expected_results(rows)

    assert {len(answers.get(key, [])) for key in range(60)} == {0, 1, 2, 3}
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert [value for key in range(60) for value in answers.get(key, [])] == [
        expected_value(row) for row in rows
    ]


def test_the_nth_records_of_a_subtask_are_told_by_their_ids() -> None:
    workload = Workload.model_validate({"records": 40, "subtasks": 3})
    of_subtask = [lookup.id for lookup in lookups(source(subtask=2, subtasks=3))]

    assert list(nth_ids(workload, subtask=2, first=5, count=4)) == of_subtask[4:8]


def test_a_lookup_of_wide_rows_is_saved_with_their_width() -> None:
    (wide, *_) = lookups(source(row_bytes=900))
    (plain, *_) = lookups(source())

    assert Lookup(**wide.as_json()) == wide
    assert "row_bytes" not in plain.as_json()
