"""Planted defect: what is restored is stamped with the instant of the restore.

Answers to a checkpoint that holds values without their stamps, or a migration that makes stamps up where there were
some (S17, FLINK-32955): the time before a restore does not count, and in a job that restarts often nothing expires.
Without a restore the mutant is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference_impl.state.state_descriptor import StateDescriptor
from reference_impl.state.ttl_state_factory import CreateState, TtlState, TtlStateFactory
from reference_impl.state.ttl_value import stamped

__all__ = ["create_state_with_ttl"]

_STAMP_BYTES = 8


def create_state_with_ttl(
    descriptor: StateDescriptor, *, create_state: CreateState, now_ms: Callable[[], int]
) -> TtlState:
    """A state in which all that was restored begins a new life."""
    state = TtlStateFactory(create_state=create_state, now_ms=now_ms).create(descriptor)
    for key, namespace, stored in list(state.table.lazy_entries()):
        state.table.put(key, namespace, _restamped(stored, now_ms()))
    return state


def _restamped(stored: Any, now_ms: int) -> Any:
    match stored:
        case bytes():
            return stamped(stored[_STAMP_BYTES:], now_ms)
        case list():
            return [_restamped(data, now_ms) for data in stored]
    return {key: _restamped(data, now_ms) for key, data in stored.items()}
