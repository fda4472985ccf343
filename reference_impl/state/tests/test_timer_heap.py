"""Claims about the heap of timers: a set, in the order of instants."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reference_impl.state.internal_timers import InternalTimer, TimerHeap
from reference_impl.tests.rig import quickly


def popped(heap: TimerHeap) -> list[InternalTimer]:
    order = []
    while (timer := heap.peek()) is not None:
        order.append(timer)
        assert heap.pop_until(timer.timestamp) is timer
    return order


def test_a_timer_is_in_it_once_t10() -> None:
    heap = TimerHeap()

    assert heap.add(InternalTimer(5, "k"))
    assert not heap.add(InternalTimer(5, "k"))
    assert heap.add(InternalTimer(5, "k", "namespace"))
    assert len(heap) == 2


def test_timers_of_one_instant_come_in_the_order_in_which_they_were_added() -> None:
    heap = TimerHeap()
    for key in "cab":
        heap.add(InternalTimer(1, key))

    assert [timer.key for timer in popped(heap)] == ["c", "a", "b"]


def test_a_timer_that_is_removed_and_added_again_comes_where_it_was_added_last() -> None:
    heap = TimerHeap()
    for key in "ab":
        heap.add(InternalTimer(1, key))
    heap.remove(InternalTimer(1, "a"))
    heap.add(InternalTimer(1, "a"))

    assert [timer.key for timer in popped(heap)] == ["b", "a"]


def test_keys_are_told_apart_by_type_as_in_keyed_state() -> None:
    heap = TimerHeap()
    for key in (1, True, 1.0, ("a", 1), ("a", True)):
        assert heap.add(InternalTimer(5, key))

    assert len(heap) == 5


def test_removed_timers_do_not_pile_up() -> None:
    heap = TimerHeap()
    heap.add(InternalTimer(0, "first"))
    for instant in range(1, 1_000):
        heap.add(InternalTimer(instant, "k"))
        heap.remove(InternalTimer(instant, "k"))

    assert len(heap._heap) < 100


@quickly
@given(
    st.lists(st.tuples(st.sampled_from(["add", "remove", "pop"]), st.integers(0, 3), st.sampled_from("ab")))
)
def test_it_is_a_set_sorted_by_instant(steps: list[tuple[str, int, str]]) -> None:
    heap, model = TimerHeap(), dict[InternalTimer, None]()
    for what, instant, key in steps:
        timer = InternalTimer(instant, key)
        match what:
            case "add":
                assert heap.add(timer) == (timer not in model)
                model.setdefault(timer)
            case "remove":
                assert heap.remove(timer) == (timer in model)
                model.pop(timer, None)
            case _:
                first = heap.peek()
                assert first == min(model, key=lambda one: one.timestamp, default=None)
                if first is not None:
                    assert heap.pop_until(first.timestamp - 1) is None
                    assert heap.pop_until(first.timestamp) == first
                    del model[first]

    assert popped(heap) == sorted(model, key=lambda one: one.timestamp)
