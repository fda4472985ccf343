"""A planted defect of broadcast state: convicted by copies that differ (S24)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from reference_impl.functions.keyed_operators import KeyedBroadcastProcessOperator
from reference_impl.functions.process_function import BroadcastContext, Collector, ProcessContext
from reference_impl.functions.tests.keyed_bench import KeyedBench
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.mutants.keyed_side_writes_broadcast import TrustingBroadcastOperator
from reference_impl.state.state_descriptor import MapStateDescriptor
from reference_impl.tests.rig import record

SEEN = MapStateDescriptor(name="seen", key_type=str, value_type=int)


class Careless:
    """Notes each key of its own in what is broadcast, if it is let."""

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


def test_the_copies_acquit_the_reference_and_convict_the_mutant_s24() -> None:
    all_copies_are_equal(KeyedBroadcastProcessOperator)

    with pytest.raises(AssertionError):
        all_copies_are_equal(TrustingBroadcastOperator)
