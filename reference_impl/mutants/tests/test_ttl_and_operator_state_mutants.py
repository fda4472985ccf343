"""Planted defects of TTL and operator state: each is convicted by a stated property, which acquits the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from reference_impl.checkpoint_events import CheckpointOptions
from reference_impl.mutants import (
    cleanup_loses_updates,
    expired_read_refreshes,
    ttl_forgotten_on_read,
    ttl_stamp_lost_at_restore,
)
from reference_impl.mutants.broadcast_copy_missing import MiserlyRepartitioner
from reference_impl.mutants.split_loses_remainder import TruncatingRepartitioner
from reference_impl.mutants.union_without_filter import UnitingBackend
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.operator_state import OperatorStateBackend
from reference_impl.state.repartitioner import RoundRobinOperatorStateRepartitioner
from reference_impl.state.state_descriptor import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from reference_impl.state.ttl_config import CleanupStrategies, StateTtlConfig, UpdateType
from reference_impl.state.ttl_state_factory import CreateWithTtl, create_state_with_ttl

BUFFER = ListStateDescriptor(name="buffer", element_type=int)
RULES = MapStateDescriptor(name="rules", key_type=str, value_type=int)


class Subtask:
    """A value that lives for 100 ms, and a clock. Mutable."""

    def __init__(self, create: CreateWithTtl, *, update: UpdateType = UpdateType.ON_CREATE_AND_WRITE) -> None:
        self.now_ms = 0
        self._create = create
        config = StateTtlConfig(
            time_to_live_ms=100,
            update_type=update,
            cleanup_strategies=CleanupStrategies(in_background=False),
        )
        self._descriptor = ValueStateDescriptor(name="value", value_type=int, ttl=config)
        self.restore(None)

    def restore(self, handle: Any) -> None:
        """Begin anew, with what it holds."""
        self.backend = KeyedStateBackend(
            operator="op", max_parallelism=2, now_ms=lambda: self.now_ms, create_with_ttl=self._create
        )
        self.backend.restore([handle])
        self.state = self.backend.get_partitioned_state(None, self._descriptor)
        self.backend.set_current_key("k")

    def restart(self) -> None:
        """Begin anew, with a snapshot of it."""
        future = self.backend.snapshot(1)
        future.run()
        self.restore(future.result())


def the_expired_is_not_shown(create: CreateWithTtl) -> None:
    """S11, S13."""
    subtask = Subtask(create)
    subtask.state.update(7)
    subtask.now_ms = 100

    assert subtask.state.value() is None


def a_read_of_the_expired_does_not_refresh_it(create: CreateWithTtl) -> None:
    """S12."""
    subtask = Subtask(create, update=UpdateType.ON_READ_AND_WRITE)
    subtask.state.update(7)
    subtask.now_ms = 100

    assert [subtask.state.value(), subtask.state.value()] == [None, None]


def stamps_survive_a_restore(create: CreateWithTtl) -> None:
    """S17."""
    subtask = Subtask(create)
    subtask.state.update(7)
    subtask.now_ms = 60
    subtask.restart()
    subtask.now_ms = 100

    assert subtask.state.value() is None


def a_clean_up_loses_no_update(create: CreateWithTtl) -> None:
    """S16."""
    subtask = Subtask(create)
    for round_ms in (0, 100):
        subtask.now_ms = round_ms
        for key in range(6):
            subtask.backend.set_current_key(key)
            subtask.state.update(round_ms)

    found = []
    for key in range(6):
        subtask.backend.set_current_key(key)
        found.append(subtask.state.value())
    assert found == [100] * 6


def rescaled(
    backends: list[OperatorStateBackend],
    parallelism: int,
    repartitioner: RoundRobinOperatorStateRepartitioner,
) -> list[OperatorStateBackend]:
    """All of them written, and restored by so many of the same kind."""
    futures = [backend.snapshot(1, 0, CheckpointOptions()) for backend in backends]
    for future in futures:
        future.run()
    handles = repartitioner.repartition_state([one.result() for one in futures], len(futures), parallelism)
    restored = [type(backends[0])(operator="op") for _ in handles]
    for backend, handle in zip(restored, handles, strict=True):
        backend.restore(handle)
    return restored


Operator = tuple[type[OperatorStateBackend], RoundRobinOperatorStateRepartitioner]
HONEST: Operator = (OperatorStateBackend, RoundRobinOperatorStateRepartitioner())


def a_buffer_is_the_same_after_a_rescale(operator: Operator) -> None:
    """S21, S25."""
    kind, repartitioner = operator
    backends = [kind(operator="op") for _ in range(2)]
    for number in range(7):
        backends[number % 2].get_list_state(BUFFER).add(number)

    restored = rescaled(backends, 3, repartitioner)

    found = Counter(element for backend in restored for element in backend.get_list_state(BUFFER).get())
    assert found == Counter(range(7))


def all_copies_are_the_same_after_a_rescale(operator: Operator) -> None:
    """S22, S24."""
    kind, repartitioner = operator
    backends = [kind(operator="op") for _ in range(2)]
    for backend in backends:
        backend.get_broadcast_state(RULES).put("rule", 1)

    restored = rescaled(backends, 3, repartitioner)

    assert [dict(each.get_broadcast_state(RULES).entries()) for each in restored] == [{"rule": 1}] * 3


Property = Callable[[Any], None]
CONVICTIONS: list[tuple[Property, Any, Any]] = [
    (the_expired_is_not_shown, create_state_with_ttl, ttl_forgotten_on_read.create_state_with_ttl),
    (
        a_read_of_the_expired_does_not_refresh_it,
        create_state_with_ttl,
        expired_read_refreshes.create_state_with_ttl,
    ),
    (stamps_survive_a_restore, create_state_with_ttl, ttl_stamp_lost_at_restore.create_state_with_ttl),
    (a_clean_up_loses_no_update, create_state_with_ttl, cleanup_loses_updates.create_state_with_ttl),
    (
        a_buffer_is_the_same_after_a_rescale,
        HONEST,
        (OperatorStateBackend, TruncatingRepartitioner()),
    ),
    (a_buffer_is_the_same_after_a_rescale, HONEST, (UnitingBackend, HONEST[1])),
    (
        all_copies_are_the_same_after_a_rescale,
        HONEST,
        (OperatorStateBackend, MiserlyRepartitioner()),
    ),
]


@pytest.mark.parametrize("number", range(len(CONVICTIONS)))
def test_the_property_convicts_the_defect_and_acquits_the_reference(number: int) -> None:
    holds, honest, planted = CONVICTIONS[number]

    holds(honest)
    with pytest.raises(AssertionError):
        holds(planted)
