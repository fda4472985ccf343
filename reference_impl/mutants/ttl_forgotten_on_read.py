"""Planted defect: a read does not look at the stamp.

Answers to a state whose values expire only where somebody cleans up (S11, S13). Until the first value has expired, the
mutant is the reference; with an incremental clean-up it is that again some accesses later.
"""

from __future__ import annotations

from collections.abc import Callable

from reference_impl.state.state_descriptor import StateDescriptor
from reference_impl.state.ttl_state_factory import CreateState, TtlState, TtlStateFactory
from reference_impl.state.ttl_states import TtlDecorator

__all__ = ["create_state_with_ttl"]


class _ForgetfulDecorator(TtlDecorator):
    """To it nothing ever expires."""

    def has_expired(self, last_access_ms: int) -> bool:  # noqa: ARG002  # that is the defect
        return False


def create_state_with_ttl(
    descriptor: StateDescriptor, *, create_state: CreateState, now_ms: Callable[[], int]
) -> TtlState:
    """A state that shows what has expired."""
    factory = TtlStateFactory(create_state=create_state, now_ms=now_ms, decorator=_ForgetfulDecorator)
    return factory.create(descriptor)
