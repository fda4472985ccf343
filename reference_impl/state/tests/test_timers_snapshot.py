"""Claims about saved timers: T14, T15, at the same and at another parallelism."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.state.internal_timers import TimersHandle
from reference_impl.state.key_groups import assign_to_key_group
from reference_impl.state.tests.timer_bench import MAX_PARALLELISM, Fired, TimerBench
from reference_impl.tests.rig import quickly


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with virtual_loop() as loop:
        yield loop


def snapshot_of(bench: TimerBench) -> TimersHandle:
    handle = bench.take_snapshot()
    assert handle is not None
    return handle


def test_restored_timers_fire_once_each_t15(loop: VirtualLoop) -> None:
    before = TimerBench(loop)
    before.event("k", 5, "n")
    before.event("j", 6)

    after = TimerBench(loop, handles=[snapshot_of(before)])
    after.services.advance_watermark(9)
    after.services.advance_watermark(19)

    assert after.fired.timers == [(5, "k", "n"), (6, "j", None)]


def test_the_clock_is_armed_for_the_first_restored_timer_t15(loop: VirtualLoop) -> None:
    before = TimerBench(loop)
    for time in (30, 20):
        before.clock("k", time)

    after = TimerBench(loop, handles=[snapshot_of(before)])

    assert after.timers.next_due_ms() == 20


def test_overdue_timers_fire_at_once_after_the_restore_t15(loop: VirtualLoop) -> None:
    before = TimerBench(loop)
    for time in (5, 6, 500):
        before.clock("k", time)
    handle = snapshot_of(before)
    loop.advance(100)

    after = TimerBench(loop, handles=[handle])
    assert after.fired.timers == []
    after.advance(100)

    assert after.fired.timers == [(5, "k", None), (6, "k", None)]


def test_a_snapshot_is_not_touched_by_what_comes_after_it_t14(bench: TimerBench) -> None:
    bench.event("a", 1)
    bench.event("b", 2)
    future = bench.services.snapshot()

    bench.services.advance_watermark(1)
    bench.event("c", 3)
    future.run()

    with virtual_loop() as loop:
        handle = future.result()
        assert handle is not None
        after = TimerBench(loop, handles=[handle])
        after.services.advance_watermark(9)
        assert after.fired.timers == [(1, "a", None), (2, "b", None)]


def test_no_timers_are_no_state_c10(bench: TimerBench) -> None:
    bench.event("k", 5)
    bench.services.advance_watermark(5)

    assert bench.take_snapshot() is None


def test_a_handle_is_plain_data_and_comes_back_as_it_was(bench: TimerBench) -> None:
    bench.event(("user", 7), 5, ("window", 0, 10))
    handle = snapshot_of(bench)

    again = msgspec.msgpack.decode(msgspec.msgpack.encode(handle), type=TimersHandle)
    with virtual_loop() as loop:
        after = TimerBench(loop, handles=[again])
        after.services.advance_watermark(9)
        assert after.fired.timers == [(5, ("user", 7), ("window", 0, 10))]


def test_timers_of_a_service_that_nobody_asked_for_are_kept(loop: VirtualLoop) -> None:
    before = TimerBench(loop)
    other = before.services.get_internal_timer_service("other", before.fired)
    before.keys.set_current_key("k")
    other.register_event_time_timer(None, 5)

    between = TimerBench(loop, handles=[snapshot_of(before)])
    between.services.advance_watermark(9)
    after = TimerBench(loop, handles=[snapshot_of(between)])
    late = Fired(after.keys)
    after.services.get_internal_timer_service("other", late)
    after.services.advance_watermark(9)

    assert between.fired.timers == []
    assert late.timers == [(5, "k", None)]


keys = st.one_of(st.integers(-3, 40), st.text("xyz", max_size=3), st.tuples(st.integers(0, 9), st.booleans()))
parallelisms = st.integers(1, MAX_PARALLELISM)
timer_sets = st.lists(st.tuples(keys, st.integers(0, 20), st.sampled_from([None, "n"])), max_size=30)


def owner_of(key: Any, parallelism: int) -> int:
    return assign_to_key_group(key, MAX_PARALLELISM) * parallelism // MAX_PARALLELISM


def registered(
    loop: VirtualLoop, parallelism: int, wanted: list[tuple[Any, int, Any]]
) -> list[TimersHandle | None]:
    """Subtasks with these timers, each at its owner; what a checkpoint holds of them."""
    subtasks = [TimerBench(loop, subtask=index, parallelism=parallelism) for index in range(parallelism)]
    for key, time, namespace in wanted:
        subtasks[owner_of(key, parallelism)].event(key, time, namespace)
        subtasks[owner_of(key, parallelism)].clock(key, time, namespace)
    return [subtask.take_snapshot() for subtask in subtasks]


@quickly
@given(timer_sets, parallelisms, parallelisms, st.integers(0, 20))
def test_at_any_parallelism_each_timer_fires_exactly_once_at_its_owner_t15(
    wanted: list[tuple[Any, int, Any]], old: int, new: int, now: int
) -> None:
    with virtual_loop() as loop:
        handles = [handle for handle in registered(loop, old, wanted) if handle is not None]
        loop.advance(now)
        fired = []
        for index in range(new):
            subtask = TimerBench(loop, handles=handles, subtask=index, parallelism=new)
            subtask.services.advance_watermark(100)
            subtask.run_mail()
            while (due_ms := loop.next_due_ms()) is not None:
                subtask.advance(max(due_ms, loop.now_ms()))
            fired += subtask.fired.timers
            assert all(owner_of(key, new) == index for _, key, _ in subtask.fired.timers)

        by_hand = 2 * [(time, key, namespace) for key, time, namespace in dict.fromkeys(wanted)]
        assert sorted(fired, key=repr) == sorted(by_hand, key=repr)
