"""Claims about the stateful source: number and offset are one step, under the lock."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from threading import RLock, Thread
from typing import Any

import pytest

from reference_impl.errors import StateError
from reference_impl.functions.tests.examples import CounterSource, SourceContext
from reference_impl.functions.tests.state_bench import StateBench, redistributed


class Watchful:
    """A lock that lets somebody in whenever nobody has it, as another thread might come in."""

    def __init__(self, come_in: Callable[[], None]) -> None:
        self._come_in = come_in
        self._held = 0

    def __enter__(self) -> None:
        self.pause()
        self._held += 1

    def __exit__(self, *raised: object) -> None:
        self._held -= 1
        self.pause()

    def pause(self) -> None:
        if not self._held:
            self._come_in()


def restored_from(bench: StateBench) -> list[int]:
    """The numbers that a source emits which is restored from what `bench` would save now."""
    emitted: list[int] = []
    source = CounterSource(end=5)
    StateBench(source, bench.save())
    source.run(SourceContext(collect=emitted.append, checkpoint_lock=nullcontext()))
    return emitted


def test_it_goes_on_where_its_snapshot_was() -> None:
    emitted: list[int] = []
    source = CounterSource(end=3)
    bench = StateBench(source)
    source.run(SourceContext(collect=emitted.append, checkpoint_lock=nullcontext()))

    assert (emitted, restored_from(bench)) == ([0, 1, 2], [3, 4])


def test_a_checkpoint_at_whatever_moment_loses_and_repeats_nothing_s25() -> None:
    emitted: list[int] = []
    source = CounterSource(end=5)
    bench = StateBench(source)
    looks = []

    def checkpoint() -> None:
        looks.append(emitted + restored_from(bench))

    lock = Watchful(checkpoint)

    def collect(number: int) -> None:
        lock.pause()
        emitted.append(number)
        lock.pause()

    source.run(SourceContext(collect=collect, checkpoint_lock=lock))

    assert len(looks) == 10
    assert all(look == [0, 1, 2, 3, 4] for look in looks)


def test_without_the_lock_a_checkpoint_between_number_and_offset_repeats_one() -> None:
    """What the lock is for: the same moments, but nobody is kept out."""
    emitted: list[int] = []
    source = CounterSource(end=5)
    bench = StateBench(source)
    looks = []

    def collect(number: int) -> None:
        emitted.append(number)
        looks.append(emitted + restored_from(bench))

    source.run(SourceContext(collect=collect, checkpoint_lock=nullcontext()))

    assert looks[0] == [0, 0, 1, 2, 3, 4]


def test_on_a_thread_of_its_own_offset_and_emission_agree_under_the_lock() -> None:
    emitted: list[int] = []
    source, lock = CounterSource(end=2_000), RLock()
    bench = StateBench(source)
    thread = Thread(
        target=source.run, args=[SourceContext(collect=emitted.append, checkpoint_lock=lock)], daemon=True
    )
    thread.start()
    seen = []
    while thread.is_alive():
        with lock:
            bench.save()
            seen.append((len(emitted), source._offset))
    thread.join()

    assert len(emitted) == 2_000
    assert all(count == offset for count, offset in seen)


def test_a_cancelled_source_ends() -> None:
    source = CounterSource()
    source.run(SourceContext(collect=lambda number: source.cancel(), checkpoint_lock=nullcontext()))

    assert source._offset == 1


def test_the_sequences_of_several_instances_are_not_thrown_together() -> None:
    handles = [StateBench(CounterSource()).save() for _ in range(2)]
    (part,) = redistributed(handles, 1)

    with pytest.raises(StateError, match="restored with 2 offsets, .0, 0.; restore it at the parallelism"):
        StateBench(CounterSource(), part)


def test_a_new_instance_without_a_part_begins_at_the_beginning() -> None:
    parts: list[Any] = redistributed([StateBench(CounterSource()).save()], 2)
    source = CounterSource(end=1)
    StateBench(source, parts[1], restored=True)
    emitted: list[int] = []
    source.run(SourceContext(collect=emitted.append, checkpoint_lock=nullcontext()))

    assert emitted == [0]
