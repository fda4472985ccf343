"""Claims about a timer service: T10-T12, T16, and about the one timer of the clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.errors import WrongState
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.state.internal_timers import MIN_WATERMARK, InternalTimer
from reference_impl.state.tests.timer_bench import TimerBench
from reference_impl.tests.rig import quickly


def test_a_timer_registered_twice_fires_once_t10(bench: TimerBench) -> None:
    for _ in range(2):
        bench.event("k", 5)
        bench.clock("k", 5)

    bench.service.advance_watermark(9)
    bench.advance(9)

    assert bench.fired.timers == [(5, "k", None)] * 2


def test_key_namespace_and_instant_make_a_timer_t10(bench: TimerBench) -> None:
    for key, time, namespace in [("a", 5, "n"), ("b", 5, "n"), ("a", 6, "n"), ("a", 5, "m")]:
        bench.event(key, time, namespace)

    bench.service.advance_watermark(9)

    assert bench.fired.timers == [(5, "a", "n"), (5, "b", "n"), (5, "a", "m"), (6, "a", "n")]


def test_event_time_and_processing_time_are_kept_apart_t10(bench: TimerBench) -> None:
    bench.event("k", 5)
    bench.clock("k", 5)
    bench.service.delete_event_time_timer(None, 5)

    assert (bench.service.num_event_time_timers, bench.service.num_processing_time_timers) == (0, 1)


def test_a_deleted_timer_does_not_fire_t10(bench: TimerBench) -> None:
    bench.event("k", 5)
    bench.clock("k", 5)
    bench.service.delete_event_time_timer(None, 5)
    bench.service.delete_processing_time_timer(None, 5)

    bench.service.advance_watermark(9)
    bench.advance(9)

    assert bench.fired.timers == []


def test_to_delete_what_is_not_there_does_nothing_t10(bench: TimerBench) -> None:
    bench.event("k", 5)
    bench.keys.set_current_key("other")

    bench.service.delete_event_time_timer(None, 5)
    bench.service.delete_processing_time_timer(None, 5)

    assert bench.service.num_event_time_timers == 1


def test_the_clock_has_one_timer_that_of_the_earliest_t11(bench: TimerBench) -> None:
    for time in (30, 20, 40, 10):
        bench.clock("k", time)

    assert (len(bench.timers), bench.timers.next_due_ms()) == (1, 10)


def test_processing_timers_fire_in_the_order_of_their_instants_t11(bench: TimerBench) -> None:
    for key, time in [("a", 30), ("b", 10), ("c", 20)]:
        bench.clock(key, time)

    bench.advance(25)

    assert bench.fired.timers == [(10, "b", None), (20, "c", None)]
    assert bench.timers.next_due_ms() == 30


def test_a_timer_fires_when_its_instant_is_reached_and_not_a_millisecond_later_t1(bench: TimerBench) -> None:
    """Flink adds one, for its clock counts whole milliseconds (decision 13)."""
    bench.clock("k", 10)

    bench.advance(9)
    assert bench.fired.timers == []
    bench.advance(10)
    assert bench.fired.timers == [(10, "k", None)]


def test_a_timer_is_gone_before_its_callback_so_that_it_may_register_it_anew_t11(bench: TimerBench) -> None:
    def once_more(timer: InternalTimer) -> None:
        if len(bench.fired.timers) == 1:
            bench.service.register_event_time_timer(timer.namespace, timer.timestamp)

    bench.fired.then = once_more
    bench.event("k", 5)

    bench.service.advance_watermark(9)

    assert bench.fired.timers == [(5, "k", None)] * 2


def test_a_timer_of_the_clock_is_gone_before_its_callback_too_t11(bench: TimerBench) -> None:
    left: list[int] = []

    def once_more(timer: InternalTimer) -> None:
        left.append(bench.service.num_processing_time_timers)
        if len(left) == 1:
            bench.service.register_processing_time_timer(timer.namespace, timer.timestamp)

    bench.fired.then = once_more
    bench.clock("k", 5)

    bench.advance(5)

    assert bench.fired.timers == [(5, "k", None)] * 2
    assert left == [0, 0]
    assert len(bench.timers) == 0


def test_a_callback_that_registers_a_timer_arms_the_clock_once_t11(bench: TimerBench) -> None:
    bench.fired.then = lambda timer: bench.service.register_processing_time_timer(None, timer.timestamp + 10)
    bench.clock("k", 10)
    bench.clock("k", 50)

    bench.advance(10)

    assert (len(bench.timers), bench.timers.next_due_ms()) == (1, 20)


def test_a_late_mail_of_a_replaced_clock_timer_leaves_the_new_one_armed_t3(bench: TimerBench) -> None:
    for time in (10, 50):
        bench.clock("k", time)
    bench.advance(10, hold=True)
    bench.clock("k", 5)  # earlier than the one whose mail waits already

    bench.run_mail()
    assert bench.fired.timers == [(5, "k", None), (10, "k", None)]
    assert len(bench.timers) == 1
    bench.advance(50)

    assert bench.fired.timers[2:] == [(50, "k", None)]


def test_a_past_instant_fires_at_once_but_as_mail_t2(bench: TimerBench) -> None:
    bench.advance(100)
    bench.clock("k", 50)
    assert bench.fired.timers == []

    bench.advance(100)

    assert bench.fired.timers == [(50, "k", None)]


def test_event_timers_fire_up_to_the_watermark_in_order_with_their_key_t12(bench: TimerBench) -> None:
    for key, time in [("a", 7), ("b", 3), ("c", 8), ("d", 7)]:
        bench.event(key, time)

    bench.service.advance_watermark(7)

    assert bench.fired.timers == [(3, "b", None), (7, "a", None), (7, "d", None)]


def test_the_watermark_is_already_the_new_one_in_the_callback_t12(bench: TimerBench) -> None:
    seen = []
    bench.fired.then = lambda timer: seen.append(bench.service.current_watermark)
    bench.event("k", 5)
    assert bench.service.current_watermark == MIN_WATERMARK

    bench.service.advance_watermark(9)

    assert seen == [9]


def test_a_callback_that_fails_leaves_the_later_timers_where_they_are(bench: TimerBench) -> None:
    def fail(timer: InternalTimer) -> None:
        raise ArithmeticError

    bench.fired.then = fail
    bench.event("a", 1)
    bench.event("b", 2)

    with pytest.raises(ArithmeticError):
        bench.service.advance_watermark(9)

    assert bench.service.num_event_time_timers == 1


def test_no_timer_fires_after_the_close_t16(bench: TimerBench) -> None:
    bench.clock("a", 5)
    bench.clock("b", 50)
    bench.event("c", 5)
    bench.advance(10, hold=True)

    bench.services.close()
    bench.service.advance_watermark(9)
    bench.advance(100)

    assert bench.fired.timers == []


def test_a_callback_that_closes_is_the_last_t16(bench: TimerBench) -> None:
    bench.fired.then = lambda timer: bench.services.close()
    for key in "ab":
        bench.clock(key, 5)

    bench.advance(10)

    assert bench.fired.timers == [(5, "a", None)]


def test_a_timer_registered_while_finishing_never_fires_t16(bench: TimerBench) -> None:
    """An operator's timers are quiesced before its `finish` (M45)."""
    bench.timers.quiesce()
    bench.clock("k", 5)

    bench.advance(100)

    assert bench.fired.timers == []


def test_a_timer_for_no_key_is_refused_s1(bench: TimerBench) -> None:
    with pytest.raises(WrongState, match="no key is set for a timer at 5 ms"):
        bench.service.register_event_time_timer(None, 5)


def test_each_timer_is_visited_with_its_key(bench: TimerBench) -> None:
    bench.event("a", 7, "n")
    bench.event("b", 3)
    bench.clock("c", 4)
    seen = []

    bench.service.for_each_event_time_timer(lambda n, t: seen.append((bench.keys.current_key, n, t)))
    bench.service.for_each_processing_time_timer(lambda n, t: seen.append((bench.keys.current_key, n, t)))

    assert seen == [("a", "n", 7), ("b", None, 3), ("c", None, 4)]


@quickly
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("register"), st.sampled_from("ab"), st.integers(0, 30)),
            st.tuples(st.just("delete"), st.sampled_from("ab"), st.integers(0, 30)),
            st.tuples(st.just("advance"), st.just(""), st.integers(0, 5)),
        ),
        max_size=25,
    )
)
def test_a_set_of_processing_timers_fires_each_at_its_instant(steps: list[tuple[str, str, int]]) -> None:
    """T10 and T11 against a set: at any moment what has fired is what was due and not deleted."""
    with virtual_loop() as loop:
        bench = TimerBench(loop)
        model, expected = dict[tuple[int, str], None](), list[tuple[int, str, None]]()

        def pass_to(now: int) -> None:
            due = sorted((one for one in model if one[0] <= now), key=lambda one: one[0])
            expected.extend((time, key, None) for time, key in due)
            for one in due:
                del model[one]

        for what, key, number in steps:
            match what:
                case "register":
                    bench.clock(key, number)
                    model.setdefault((number, key))
                case "delete":
                    bench.keys.set_current_key(key)
                    bench.service.delete_processing_time_timer(None, number)
                    model.pop((number, key), None)
                case _:
                    bench.advance(loop.now_ms() + number)
                    pass_to(loop.now_ms())
        bench.advance(100)
        pass_to(100)

        assert bench.fired.timers == expected
