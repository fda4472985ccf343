"""The lookups workload: replayed exactly by seed, subtask and position, with watermarks that are true."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.scenario.model import Workload
from harness.scenario.workloads.lookups import Lookup, LookupSource, MarkOfTime, customer_rows, expected_value


def source(*, seed: int = 7, subtask: int = 0, **workload: int | str) -> LookupSource:
    made = Workload.model_validate({"records": 40, "keys": 9, "service": "30ms", "rate": "100/s", **workload})
    return LookupSource(workload=made, seed=seed, subtask=subtask)


def elements(made: LookupSource) -> list[tuple[Lookup, int | None] | MarkOfTime]:
    return [made[position] for position in range(len(made))]


_SAY = """
from harness.scenario.model import Workload
from harness.scenario.workloads.lookups import LookupSource, customer_rows
made = LookupSource(workload=Workload(records=20), seed=11, subtask=1)
print([made[position] for position in range(len(made))], customer_rows(keys=range(5), seed=11))
"""


def test_another_process_draws_the_same_elements_and_rows_whatever_its_hash_seed() -> None:
    environment = {"PYTHONHASHSEED": "4711", "PYTHONPATH": os.pathsep.join(sys.path)}
    here = source(seed=11, subtask=1, records=20, keys=100, service="0ms")

    there = subprocess.run(
        [sys.executable, "-c", _SAY], env=environment, capture_output=True, text=True, check=True, timeout=60
    )

    assert there.stdout == f"{elements(here)} {customer_rows(keys=range(5), seed=11)}\n"


def test_another_seed_or_subtask_is_another_stream() -> None:
    keys = [
        tuple(element[0].key for element in elements(made) if isinstance(element, tuple))
        for made in (source(), source(seed=8), source(subtask=1))
    ]

    assert len(set(keys)) == 3


def test_an_element_does_not_depend_on_what_was_read_before_it() -> None:
    forwards = elements(source())
    again = source()

    assert [again[position] for position in reversed(range(len(again)))] == forwards[::-1]


def test_ids_are_unique_in_the_run_and_ascend_in_each_subtask() -> None:
    of_subtask = [
        [e[0].id for e in elements(source(subtask=s, subtasks=3)) if isinstance(e, tuple)] for s in range(3)
    ]

    assert all(ids == sorted(ids) for ids in of_subtask)
    assert sorted(id_ for ids in of_subtask for id_ in ids) == list(range(120))


@given(seed=st.integers(0, 999), every=st.integers(1, 12), records=st.integers(1, 60))
def test_a_watermark_is_true_no_record_after_it_is_as_old_as_it_says(
    seed: int, every: int, records: int
) -> None:
    mark = None
    for element in elements(source(seed=seed, watermark_every=every, records=records)):
        match element:
            case MarkOfTime(timestamp=timestamp):
                assert mark is None or timestamp > mark
                mark = timestamp
            case (_, int(timestamp)):
                assert mark is None or timestamp > mark


@given(every=st.integers(0, 12), records=st.integers(1, 60))
def test_a_watermark_stands_behind_every_so_many_records(every: int, records: int) -> None:
    made = source(watermark_every=every, records=records)

    kinds = ["w" if isinstance(element, MarkOfTime) else "r" for element in elements(made)]

    assert kinds.count("r") == records
    assert kinds.count("w") == (records // every if every else 0)
    assert all((kind == "w") == (bool(every) and (n + 1) % (every + 1) == 0) for n, kind in enumerate(kinds))


def test_records_are_due_at_the_rate_and_a_watermark_with_the_record_before_which_it_stands() -> None:
    made = source(rate="100/s", watermark_every=2)

    assert [made.due_ms(position) for position in range(7)] == [0, 10, 20, 20, 30, 40, 40]


@given(every=st.integers(0, 12), rate=st.integers(1, 5000))
def test_nothing_is_due_before_what_stands_ahead_of_it(every: int, rate: int) -> None:
    made = source(watermark_every=every, rate=f"{rate}/s")

    due = [made.due_ms(position) for position in range(len(made) + 1)]

    assert due == sorted(due)


@pytest.mark.parametrize("every", [0, 3, 10])
def test_there_is_no_element_behind_the_last(every: int) -> None:
    made = source(watermark_every=every)

    assert len(elements(made)) == 40 + (40 // every if every else 0)
    with pytest.raises(IndexError):
        made[len(made)]


def test_the_lookup_answers_are_the_rows_without_their_key() -> None:
    (row,) = customer_rows(keys=range(1), seed=3)

    assert expected_value(row) == {"name": row[1], "city": row[2], "tier": row[3]}
    assert row[0] == 0
    assert 1 <= row[3] <= 5
