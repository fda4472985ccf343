"""Claims about the operator that keeps the order of each key: FLIP-519; A20, A45, A61, A66, A77 in that mode."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reference_impl.operator.retry import FixedDelay, any_error
from reference_impl.tests.rig import (
    HandFunction,
    OpenRig,
    open_virtual,
    quickly,
    record,
    substitute,
    watermark,
)

RETRY = FixedDelay(max_retries=1, delay_ms=5, on_error=any_error)


def key_of(value: int) -> int:
    """Records 1, 11, 21, ... have one key, and 2, 12, 22, ... another."""
    return value % 10


def test_a_key_keeps_its_order_and_other_keys_pass_it(rigs: OpenRig) -> None:
    with rigs(mode="keyed", key_of=key_of) as rig:
        rig.process(record(1), record(2), record(11), record(21), record(12))

        rig.complete(21, 21)
        rig.complete(11, 11)
        rig.complete(2, 2)
        rig.run_mail()
        before = rig.values()
        rig.complete(1, 1)
        rig.run_mail()

    assert before == [2]
    assert rig.values() == [2, 1, 11, 21]


def test_a_watermark_waits_for_the_whole_line_of_a_key_a20(rigs: OpenRig) -> None:
    with rigs(mode="keyed", key_of=key_of) as rig:
        rig.process(record(1), record(11), watermark(5), record(2))

        rig.complete(11, 11)
        rig.complete(2, 2)
        rig.run_mail()
        assert rig.values() == []
        rig.complete(1, 1)
        rig.run_mail()

    assert rig.values() == [1, 11, "w5", 2]


def test_a_timeout_lets_the_line_behind_it_leave_a45() -> None:
    late = HandFunction(timeout=substitute("late"))
    with open_virtual(mode="keyed", timeout_ms=10, function=late, key_of=key_of) as rig:
        rig.process(record(1))
        rig.advance(5)
        rig.process(record(11))
        rig.complete(11, 11)
        rig.advance(10)

    assert rig.values() == ["late", 11]
    assert len(rig.operator) == 0


def test_a_record_in_its_backoff_keeps_its_turn_a77() -> None:
    with open_virtual(mode="keyed", timeout_ms=100, retry=RETRY, key_of=key_of) as rig:
        rig.process(record(1), record(11))
        rig.fail(1)
        rig.complete(11, 11)
        rig.advance(5)
        rig.complete(1, 1)
        rig.run_mail()

    assert rig.values() == [1, 11]


def test_restored_records_stand_before_new_ones_of_their_key_a61(rigs: OpenRig) -> None:
    with rigs(mode="keyed", key_of=key_of) as rig:
        rig.process(record(1), record(2), record(11))
        rig.complete(11, 11)
        rig.run_mail()
        saved = rig.operator.snapshot()
    with rigs(mode="keyed", key_of=key_of) as restored:
        restored.operator.open(saved)
        restored.process(record(21))
        for value in (21, 11, 2, 1):
            restored.complete(value, value)
            restored.run_mail()

    assert saved == (record(1), record(2), record(11))
    assert restored.values() == [2, 1, 11, 21]


def test_the_end_of_input_drains_each_key_in_its_order_a66(rigs: OpenRig) -> None:
    with rigs(mode="keyed", key_of=key_of) as rig:
        rig.process(record(1), record(11), record(2))
        rig.complete(11, 11)
        rig.complete_soon(1, 1)
        rig.complete_soon(2, 2)

        rig.operator.end_input()

    assert rig.values() == [1, 11, 2]


@quickly
@given(
    keys=st.lists(st.integers(0, 2), min_size=1, max_size=12),
    marks=st.sets(st.integers(0, 11)),
    order=st.randoms(use_true_random=False),
)
def test_whatever_the_order_of_outcomes_each_key_and_each_watermark_keeps_its_place(
    keys: list[int], marks: set[int], order: Any
) -> None:
    values = [10 * place + key for place, key in enumerate(keys)]
    with open_virtual(mode="keyed", capacity=30, key_of=key_of) as rig:
        for place, value in enumerate(values):
            rig.process(record(value), *([watermark(place)] if place in marks else []))
        for value in order.sample(values, len(values)):
            rig.complete(value, value)
            rig.run_mail()

    left = rig.values()
    for key in set(keys):
        assert [v for v in left if type(v) is int and v % 10 == key] == [v for v in values if v % 10 == key]
    for place in marks & set(range(len(keys))):
        assert set(left[: left.index(f"w{place}")]) >= set(values[: place + 1])
        assert not set(left[: left.index(f"w{place}")]) & set(values[place + 1 :])
