"""Planted defects of operator state and broadcast state: each breaks a property that the reference keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from reference_impl.checkpoint_events import CheckpointMetaData, CheckpointOptions
from reference_impl.checkpoints.state_handler import StreamOperatorStateHandler
from reference_impl.functions.keyed_operators import KeyedBroadcastProcessOperator
from reference_impl.functions.process_function import BroadcastContext, Collector, ProcessContext
from reference_impl.functions.tests.keyed_bench import KeyedBench
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.state.operator_state import OperatorStateBackend, RoundRobinOperatorStateRepartitioner
from reference_impl.state.state_descriptor import ListStateDescriptor, MapStateDescriptor
from reference_impl.tests.rig import record
from tools.defects.tests.wrong_parts import wrong_part

BUFFER = ListStateDescriptor(name="buffer", element_type=int)
RULES = MapStateDescriptor(name="rules", key_type=str, value_type=int)
SEEN = MapStateDescriptor(name="seen", key_type=str, value_type=int)


def operator_with(part: Any) -> tuple[type[OperatorStateBackend], RoundRobinOperatorStateRepartitioner]:
    """The class of a backend, and a repartitioner; one of them is `part`."""
    if issubclass(part, OperatorStateBackend):
        return part, RoundRobinOperatorStateRepartitioner()
    return OperatorStateBackend, part()


def rescaled(
    backends: list[OperatorStateBackend],
    parallelism: int,
    repartitioner: RoundRobinOperatorStateRepartitioner,
) -> list[OperatorStateBackend]:
    """`parallelism` backends of the same class, restored from snapshots of `backends`."""
    futures = [backend.snapshot(1, 0, CheckpointOptions()) for backend in backends]
    for future in futures:
        future.run()
    handles = repartitioner.repartition_state([one.result() for one in futures], len(futures), parallelism)
    restored = [type(backends[0])(operator="op") for _ in handles]
    for backend, handle in zip(restored, handles, strict=True):
        backend.restore(handle)
    return restored


def a_buffer_is_the_same_after_a_rescale(part: Any) -> None:
    """S21, S25."""
    kind, repartitioner = operator_with(part)
    backends = [kind(operator="op") for _ in range(2)]
    for number in range(7):
        backends[number % 2].get_list_state(BUFFER).add(number)

    restored = rescaled(backends, 3, repartitioner)

    found = Counter(element for backend in restored for element in backend.get_list_state(BUFFER).get())
    assert found == Counter(range(7))


def all_copies_are_the_same_after_a_rescale(part: Any) -> None:
    """S22, S24."""
    kind, repartitioner = operator_with(part)
    backends = [kind(operator="op") for _ in range(2)]
    for backend in backends:
        backend.get_broadcast_state(RULES).put("rule", 1)

    restored = rescaled(backends, 3, repartitioner)

    assert [dict(each.get_broadcast_state(RULES).entries()) for each in restored] == [{"rule": 1}] * 3


class Careless:
    """Writes each key of the keyed side into broadcast state, if that state can be written."""

    def process_element(self, value: Any, context: ProcessContext, out: Collector) -> None:
        put = getattr(context.get_broadcast_state(SEEN), "put", None)
        if put is not None:
            put(value, 1)

    def process_broadcast_element(self, value: Any, context: BroadcastContext, out: Collector) -> None:
        context.get_broadcast_state(SEEN).put(value, 2)


def all_copies_are_equal(kind: type[KeyedBroadcastProcessOperator]) -> None:
    """Two subtasks, the same broadcast elements, and keys of both."""
    build = partial(kind, function=Careless(), key_selector=lambda value: value, broadcast_states=[SEEN])
    with virtual_loop() as loop:
        subtasks = [KeyedBench(loop, build, subtask=index, parallelism=2) for index in range(2)]
        for one in subtasks:
            one.operator.process2(record("rule"))
            for key in ("key 1", "key 2", "key 3", "key 4"):
                if one.owns(key):
                    one.operator.process1(record(key))
        first, second = (dict(one.operator_state.get_broadcast_state(SEEN).entries()) for one in subtasks)

        assert first == second


LATE_COPY = "snapshot-sees-later-writes"
PROPERTIES: dict[str, tuple[Callable[[Any], None], Any]] = {
    "split-loses-remainder": (a_buffer_is_the_same_after_a_rescale, RoundRobinOperatorStateRepartitioner),
    "union-without-filter": (a_buffer_is_the_same_after_a_rescale, OperatorStateBackend),
    "broadcast-copy-missing": (all_copies_are_the_same_after_a_rescale, RoundRobinOperatorStateRepartitioner),
    "keyed-side-writes-broadcast": (all_copies_are_equal, KeyedBroadcastProcessOperator),
}
"""The property that convicts each defect, and the part of the reference that it acquits."""
CONVICTIONS = (*PROPERTIES, LATE_COPY)


@pytest.mark.parametrize("name", PROPERTIES)
def test_the_property_acquits_the_reference_and_convicts_the_defect_s21_s22_s24_s25(name: str) -> None:
    holds, honest = PROPERTIES[name]

    holds(honest)
    with pytest.raises(AssertionError):
        holds(wrong_part(name))


@pytest.mark.parametrize(
    ("build", "kept"),
    [(StreamOperatorStateHandler, ["before"]), (wrong_part(LATE_COPY), ["before", "behind"])],
)
def test_only_the_defect_sees_what_is_written_behind_the_barrier_c7(
    build: Callable[..., StreamOperatorStateHandler], kept: list[Any]
) -> None:
    backend = OperatorStateBackend(operator="map")
    state = backend.get_list_state(ListStateDescriptor(name="seen"))
    handler = build(operator_id="map", operator_state_backend=backend)
    state.add("before")

    futures = handler.snapshot_state(object(), CheckpointMetaData(checkpoint_id=1), CheckpointOptions())
    state.add("behind")
    restored = OperatorStateBackend(operator="map")
    restored.restore(futures.finalize().managed_operator_state)

    assert restored.get_list_state(ListStateDescriptor(name="seen")).get() == kept
