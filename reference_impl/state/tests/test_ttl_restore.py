"""Claims about a life that is switched on, off or changed at a restore, and about clocks that go back: S17, S11."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.mailbox.loops import virtual_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.state_descriptor import MapStateDescriptor, UpdateType, ValueStateDescriptor
from reference_impl.state.tests.ttl_rig import DESCRIPTORS, NEVER, ON_READ, STRATEGIES, Subtask, ttl

KINDS = pytest.mark.parametrize("kind", DESCRIPTORS)
FIRST = {"value": 7, "list": [7], "map": [(1, 7)], "reducing": 7, "aggregating": (7,)}
NOTHING: dict[str, Any] = {"value": None, "list": [], "map": [], "reducing": None, "aggregating": None}


def written_at_0(kind: str, config: Any) -> Subtask:
    """7 is in it since 0 ms."""
    subtask = Subtask(DESCRIPTORS[kind], config)
    match kind:
        case "value":
            subtask.state.update(7)
        case "map":
            subtask.state.put(1, 7)
        case _:
            subtask.state.add(7)
    return subtask


def shown(subtask: Subtask) -> Any:
    """All that it shows."""
    match subtask.descriptor.kind:
        case "value":
            return subtask.state.value()
        case "map":
            return list(subtask.state.entries())
        case _:
            return subtask.state.get()


@KINDS
def test_the_time_in_which_nothing_runs_counts_s17(kind: str) -> None:
    subtask = written_at_0(kind, ttl(100))
    handle = subtask.written()

    found = []
    for now_ms in (99, 100):
        subtask.now_ms = now_ms
        subtask.begin(ttl(100), handle)
        found.append(shown(subtask))

    assert found == [FIRST[kind], NOTHING[kind]]


@KINDS
@pytest.mark.parametrize(("time_to_live_ms", "expected"), [(50, NOTHING), (200, FIRST)])
def test_the_new_life_counts_for_stamps_of_old_s17(
    kind: str, time_to_live_ms: int, expected: dict[str, Any]
) -> None:
    subtask = written_at_0(kind, ttl(100))
    subtask.now_ms = 60

    subtask.restart(ttl(time_to_live_ms))

    assert shown(subtask) == expected[kind]


@KINDS
def test_a_longer_life_brings_back_what_had_expired_s17(kind: str) -> None:
    subtask = written_at_0(kind, ttl(100))
    subtask.now_ms = 150

    subtask.restart(ttl(200))

    assert shown(subtask) == FIRST[kind]


@KINDS
def test_switched_on_all_is_stamped_at_the_restore_s17(kind: str) -> None:
    """FLINK-32955 and those after it: it was refused, or came back without a stamp."""
    subtask = written_at_0(kind, None)
    subtask.now_ms = 1000
    subtask.restart(ttl(100))

    subtask.now_ms = 1099
    assert shown(subtask) == FIRST[kind]
    subtask.now_ms = 1100
    assert shown(subtask) == NOTHING[kind]


@KINDS
@pytest.mark.parametrize("off", [None, ttl(1, update=UpdateType.DISABLED)])
def test_switched_off_the_expired_comes_back_s17(kind: str, off: Any) -> None:
    subtask = written_at_0(kind, ttl(100))
    subtask.now_ms = 500

    subtask.restart(off)

    assert shown(subtask) == FIRST[kind]


@KINDS
def test_off_and_on_again_begins_a_new_life_s17(kind: str) -> None:
    subtask = written_at_0(kind, ttl(100))
    subtask.now_ms = 500
    subtask.restart(None)
    subtask.restart(ttl(100))

    subtask.now_ms = 599
    assert shown(subtask) == FIRST[kind]


def test_switched_on_none_in_a_map_is_stamped_too_s6_s17() -> None:
    subtask = Subtask(MapStateDescriptor(name="m", key_type=int, value_type=int | None), None)
    subtask.state.put(1, None)
    subtask.restart(ttl(100, cleanup=STRATEGIES["full snapshot"]))

    assert subtask.state.contains(1)
    subtask.now_ms = 100
    assert subtask.written() is None


def test_a_default_counts_again_when_it_is_switched_off_s15_s17() -> None:
    subtask = Subtask(ValueStateDescriptor(name="v", value_type=int, default=42), ttl(100))
    subtask.restart(None)

    assert subtask.state.value() == 42


def test_the_rules_of_reading_are_those_of_now_s17() -> None:
    subtask = written_at_0("value", ttl(100))
    subtask.restart(ttl(100, update=ON_READ))
    subtask.now_ms = 60
    subtask.state.value()
    subtask.now_ms = 120

    assert subtask.state.value() == 7


@KINDS
def test_a_clock_that_goes_back_does_not_bring_back_what_was_found_expired_s11(kind: str) -> None:
    subtask = written_at_0(kind, ttl(100))
    subtask.now_ms = 100
    assert shown(subtask) == NOTHING[kind]

    subtask.now_ms = 50
    assert shown(subtask) == NOTHING[kind]


def test_an_element_that_was_left_out_stays_out_when_the_clock_goes_back_s11_s14() -> None:
    """It is still stored, for another lives."""
    subtask = written_at_0("list", ttl(100))
    subtask.now_ms = 60
    subtask.state.add(8)
    subtask.now_ms = 120
    assert subtask.state.get() == [8]

    subtask.now_ms = 70
    assert subtask.state.get() == [8]


def test_what_lives_lives_longer_when_the_clock_goes_back_s11() -> None:
    subtask = written_at_0("value", ttl(100))
    subtask.now_ms = 80
    subtask.state.update(8)

    subtask.now_ms = 0
    assert subtask.state.value() == 8
    subtask.now_ms = 179
    assert subtask.state.value() == 8
    subtask.now_ms = 180
    assert subtask.state.value() is None


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "read", "to"]), st.integers(0, 300)), min_size=1, max_size=25
)


@given(st.sampled_from(sorted(STRATEGIES)), st.sampled_from([*UpdateType][1:]), STEPS)
def test_wherever_the_clock_goes_nothing_comes_back_s11_s14(
    strategy: str, update: UpdateType, steps: list[tuple[str, int]]
) -> None:
    """Each element has a number of its own; once it is missing, it is missing for ever."""
    config = ttl(100, update=update, visibility=NEVER, cleanup=STRATEGIES[strategy])
    subtask = Subtask(DESCRIPTORS["list"], config)
    present: list[int] = []
    for number, (what, now_ms) in enumerate(steps):
        match what:
            case "add":
                subtask.state.add(number)
                present.append(number)
            case "read":
                found = subtask.state.get()
                assert set(found) <= set(present)
                present = found
            case "to":
                subtask.now_ms = now_ms


def test_the_time_that_counts_is_the_tasks_processing_time_s11() -> None:
    with virtual_loop(start_ms=5000) as loop:
        timers = Timers(loop, MailboxExecutor(Mailbox(loop=loop), 0))
        backend = KeyedStateBackend(operator="op", max_parallelism=1, now_ms=timers.now_ms)
        descriptor = ValueStateDescriptor(name="v", value_type=int, ttl=ttl(100))
        state = backend.get_partitioned_state(None, descriptor)
        backend.set_current_key("k")
        state.update(7)

        found = []
        for now_ms in (5099, 5100):
            loop.advance(now_ms)
            found.append(state.value())

    assert found == [7, None]
