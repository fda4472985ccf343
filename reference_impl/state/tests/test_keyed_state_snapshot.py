"""Claims about snapshots of keyed state: what was, whatever is written meanwhile."""

from __future__ import annotations

from threading import Thread

from reference_impl.state.keyed_state_backend import KeyedStateStore
from reference_impl.state.state_descriptor import ValueStateDescriptor
from reference_impl.state.tests.state_rig import (
    COUNT,
    PAGES,
    SEEN,
    backend,
    contents,
    filled,
    keyed,
    of,
    saved,
)


def test_a_snapshot_is_what_was_at_its_synchronous_part_s9() -> None:
    one = filled(range(300))
    future = one.snapshot(1)

    turn = 0
    while not future.run_slice():
        turn += 1
        for key in range(turn % 97, 300, 97):
            one.set_current_key(key)
            store = KeyedStateStore(one)
            store.get_state(COUNT).update(-1)
            store.get_list_state(SEEN).add("later")
            store.get_map_state(PAGES).put("k", "later")
            store.get_map_state(PAGES).remove((key,))
            store.get_state(ValueStateDescriptor(name="new")).update(1)

    restored = backend()
    restored.restore([future.result()])
    assert [contents(restored, key) for key in range(300)] == [of(key) for key in range(300)]
    assert list(restored.get_keys("new")) == []


def test_a_snapshot_may_be_written_on_another_thread_meanwhile_c7() -> None:
    one = filled(range(2000))
    future = one.snapshot(1)
    thread = Thread(target=future.run)
    thread.start()
    store = KeyedStateStore(one)
    for key in range(2000):
        one.set_current_key(key)
        store.get_state(COUNT).update(-1)
        store.get_list_state(SEEN).add("later")
        store.get_map_state(PAGES).remove("k")
    thread.join(60)

    restored = backend()
    restored.restore([future.result()])
    assert [contents(restored, key) for key in range(2000)] == [of(key) for key in range(2000)]


def test_what_is_restored_does_not_share_with_what_it_came_from_s9() -> None:
    one = filled(range(3))
    future = one.snapshot(1)
    future.run()
    restored = backend()
    restored.restore([future.result()])
    restored.set_current_key(1)
    KeyedStateStore(restored).get_list_state(SEEN).add("more")

    assert contents(one, 1) == of(1)
    again = backend()
    again.restore([future.result()])
    assert contents(again, 1) == of(1)


def test_a_cancelled_snapshot_leaves_the_state_as_it_is_c8() -> None:
    one = filled(range(600))
    future = one.snapshot(1)
    future.run_slice()

    future.cancel()

    assert contents(one, 599) == of(599)
    assert saved(one) is not None


def test_two_snapshots_at_once_are_each_what_was_s9() -> None:
    one, store = keyed("k")
    state = store.get_state(COUNT)
    futures = []
    for value in range(3):
        state.update(value)
        futures.append(one.snapshot(value))
    state.update(99)

    for future in reversed(futures):
        future.run()

    restored = [backend(key="k") for _ in futures]
    for another, future in zip(restored, futures, strict=True):
        another.restore([future.result()])
    found = [KeyedStateStore(another).get_state(COUNT).value() for another in restored]
    assert found == [0, 1, 2]


def test_empty_state_is_none_c10() -> None:
    one, store = keyed()
    state = store.get_state(COUNT)
    state.update(1)
    state.clear()

    assert saved(one) is None
