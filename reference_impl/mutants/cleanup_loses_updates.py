"""Planted defect: the incremental clean-up decides on what its walk showed, and not on what is stored by then.

Answers to a clean-up that is seen (S16): a value that was written anew after the walk had come by is taken away, for
the old one had expired. As long as no value is written again after its life, the mutant is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference_impl.state.state_descriptor import StateDescriptor
from reference_impl.state.ttl_cleanup import TtlStateSnapshotTransformer
from reference_impl.state.ttl_state_factory import CreateState, TtlState, TtlStateFactory

__all__ = ["create_state_with_ttl"]

_AT_A_TIME = 2


def create_state_with_ttl(
    descriptor: StateDescriptor, *, create_state: CreateState, now_ms: Callable[[], int]
) -> TtlState:
    """A state whose clean-up copies all entries, and goes on through the copy at each change of the key."""
    state = TtlStateFactory(create_state=create_state, now_ms=now_ms).create(descriptor)
    assert descriptor.ttl is not None
    living = TtlStateSnapshotTransformer(descriptor.ttl.time_to_live_ms, now_ms)
    table, copied = state.table, list[tuple[Any, Any, Any]]()

    def clean() -> None:
        if not copied:
            copied.extend(table.lazy_entries())
        for key, namespace, stored in copied[-_AT_A_TIME:]:
            if living(stored) is None:
                table.remove(key, namespace)
        del copied[-_AT_A_TIME:]

    table.context.on_key_selected.append(clean)
    return state
