"""Claims about functions with operator state: S25, and its legacy form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.checkpoints.state_handler import FunctionInitializationContext
from reference_impl.functions.sink import SinkContext
from reference_impl.functions.tests.examples import BufferingSink
from reference_impl.functions.tests.state_bench import StateBench, redistributed
from reference_impl.state.state_descriptor import ListStateDescriptor
from reference_impl.tests.rig import quickly

CONTEXT = SinkContext(current_processing_time=0, current_watermark=0, timestamp=None)


class Buffering(StateBench):
    """A buffering sink and what it has sent."""

    def __init__(self, threshold: int, handle: Any = None, **more: Any) -> None:
        self.sent: list[list[Any]] = []
        self.sink = BufferingSink(threshold=threshold, send=self.sent.append)
        super().__init__(self.sink, handle, **more)

    def take(self, *values: Any) -> Buffering:
        for value in values:
            self.sink.invoke(value, CONTEXT)
        return self


def test_so_many_elements_are_sent_at_a_time() -> None:
    assert Buffering(2).take(1, 2, 3).sent == [[1, 2]]


def test_what_is_in_the_buffer_comes_back_in_its_order_s25() -> None:
    handle = Buffering(3).take(1, 2).save()

    assert Buffering(3, handle).take(3).sent == [[1, 2, 3]]


def test_a_snapshot_holds_the_buffer_and_not_what_the_last_one_held_s25() -> None:
    before = Buffering(2).take(1)
    before.save()
    handle = before.take(2, 3).save()

    assert Buffering(2, handle).take(4).sent == [[3, 4]]


def test_state_is_registered_on_each_start_and_read_after_a_restore_only_s25() -> None:
    handle = Buffering(9).take(1).save()

    fresh = Buffering(1, handle, restored=False)

    assert fresh.backend.registered_state_names == ["buffered-elements"]
    assert fresh.take(2).sent == [[2]]


@quickly
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=6), min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_after_a_rescale_the_buffers_are_together_what_they_were_s25(
    taken: list[list[int]], threshold: int, parallelism: int
) -> None:
    before = [Buffering(threshold).take(*values) for values in taken]
    handles = [one.save() for one in before]

    after = [Buffering(threshold, part, restored=True) for part in redistributed(handles, parallelism)]

    sent = Counter(value for one in before for batch in one.sent for value in batch)
    kept = Counter(value for one in after for value in one.sink._buffered)
    assert sent + kept == Counter(value for values in taken for value in values)


# -------------------------------------------------------------------------------------------------- the legacy form


class Legacy:
    """Keeps its state by itself."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)
        self.asked: list[tuple[int, int]] = []
        self.restores = 0

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> Sequence[int]:
        self.asked.append((checkpoint_id, timestamp))
        return self.numbers

    def restore_state(self, state: Sequence[int]) -> None:
        self.restores += 1
        self.numbers += state


def test_the_legacy_form_hands_its_state_over_and_gets_it_back() -> None:
    function = Legacy(1, 2)
    handle = StateBench(function).save(7, 1_000)

    after = Legacy()
    StateBench(after, handle)

    assert (function.asked, after.numbers, after.restores) == ([(7, 1_000)], [1, 2], 1)


def test_the_legacy_form_is_not_told_of_a_start_without_a_restore() -> None:
    function = Legacy()
    StateBench(function)

    assert function.restores == 0


def test_a_legacy_function_that_hands_over_none_has_no_state_s25() -> None:
    class Silent(Legacy):
        def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:  # type: ignore[override]
            """As Flink's may."""

    after = Legacy()
    StateBench(after, StateBench(Silent(1)).save(), restored=True)

    assert after.numbers == []


def test_the_legacy_form_is_split_evenly_at_another_parallelism_s20() -> None:
    handles = [StateBench(Legacy(1, 2, 3)).save(), StateBench(Legacy(4)).save()]

    after = [Legacy() for _ in range(2)]
    for function, part in zip(after, redistributed(handles, 2), strict=True):
        StateBench(function, part, restored=True)
    thirds = [Legacy() for _ in range(3)]
    for function, part in zip(thirds, redistributed(handles, 3), strict=True):
        StateBench(function, part, restored=True)

    assert [function.numbers for function in after] == [[1, 2, 3], [4]]
    assert [function.numbers for function in thirds] == [[1, 2], [3], [4]]


def test_a_function_of_both_forms_is_refused() -> None:
    class Both(Legacy):
        def initialize_state(self, context: Any) -> None: ...

    with pytest.raises(TypeError, match="Both has both initialize_state and restore_state"):
        StateBench(Both())


def test_notifications_reach_a_function_that_wants_them() -> None:
    class Listening:
        def __init__(self) -> None:
            self.heard: list[tuple[str, int]] = []

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            self.heard.append(("complete", checkpoint_id))

        def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
            self.heard.append(("aborted", checkpoint_id))

    function = Listening()
    for one in (StateBench(function), StateBench(Legacy())):
        one.state.notify_checkpoint_complete(1)
        one.state.notify_checkpoint_aborted(2)

    assert function.heard == [("complete", 1), ("aborted", 2)]


# ----------------------------------------------------------------------------------------- functions by halves


def test_a_function_that_adds_to_its_state_at_once_needs_no_snapshot_method_s25() -> None:
    class Adding:
        def initialize_state(self, context: FunctionInitializationContext) -> None:
            self.seen = context.operator_state_store.get_list_state(ListStateDescriptor(name="seen"))

    before, after = Adding(), Adding()
    bench = StateBench(before)
    before.seen.add("a")
    StateBench(after, bench.save())

    assert after.seen.get() == ["a"]


def test_a_function_that_hears_of_completions_alone_is_told_of_those_c38() -> None:
    """Flink gives the other method a default that does nothing."""

    class Completions:
        def __init__(self) -> None:
            self.heard: list[int] = []

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            self.heard.append(checkpoint_id)

    function = Completions()
    state = StateBench(function).state

    state.notify_checkpoint_aborted(1)
    state.notify_checkpoint_complete(2)

    assert function.heard == [2]
