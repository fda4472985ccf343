"""Planted defects of state with a time to live: each breaks a property that the reference keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.state_descriptor import (
    CleanupStrategies,
    StateTtlConfig,
    UpdateType,
    ValueStateDescriptor,
)
from reference_impl.state.ttl_state_factory import CreateWithTtl, create_state_with_ttl
from tools.defects.tests.wrong_parts import wrong_part


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
        """Begin anew, with the state in `handle`."""
        self.backend = KeyedStateBackend(
            operator="op", max_parallelism=2, now_ms=lambda: self.now_ms, create_with_ttl=self._create
        )
        self.backend.restore([handle])
        self.state = self.backend.get_partitioned_state(None, self._descriptor)
        self.backend.set_current_key("k")

    def restart(self) -> None:
        """Begin anew, with a snapshot of the present state."""
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


CONVICTIONS: dict[str, Callable[[CreateWithTtl], None]] = {
    "ttl-forgotten-on-read": the_expired_is_not_shown,
    "expired-read-refreshes": a_read_of_the_expired_does_not_refresh_it,
    "ttl-stamp-lost-at-restore": stamps_survive_a_restore,
    "cleanup-loses-updates": a_clean_up_loses_no_update,
}


@pytest.mark.parametrize("name", CONVICTIONS)
def test_the_property_acquits_the_reference_and_convicts_the_defect(name: str) -> None:
    CONVICTIONS[name](create_state_with_ttl)

    with pytest.raises(AssertionError):
        CONVICTIONS[name](wrong_part(name))
