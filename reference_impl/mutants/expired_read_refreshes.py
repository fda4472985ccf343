"""Planted defect: where reads refresh, a read of the expired refreshes it too.

Answers to a stamp that is renewed before it is looked at (S12): the reader is told that there is nothing, and the next
one is told what there was. Where only writes refresh the mutant is the reference, and a list is read by other code.
"""

from __future__ import annotations

from collections.abc import Callable

from reference_impl.state.state_descriptor import StateDescriptor
from reference_impl.state.ttl_state_factory import CreateState, TtlState, TtlStateFactory
from reference_impl.state.ttl_states import TtlDecorator
from reference_impl.state.ttl_value import TtlValue

__all__ = ["create_state_with_ttl"]


class _RefreshingDecorator(TtlDecorator):
    """Stamps first, and looks at the stamp of before."""

    def read(
        self, value: TtlValue | None, *, update: Callable[[TtlValue], None], clear: Callable[[], None]
    ) -> TtlValue | None:
        if value is not None and self.updates_on_read:
            update(self.stamped(value.value))
            return self.shown(value)
        return super().read(value, update=update, clear=clear)


def create_state_with_ttl(
    descriptor: StateDescriptor, *, create_state: CreateState, now_ms: Callable[[], int]
) -> TtlState:
    """A state whose values reads bring back to life."""
    factory = TtlStateFactory(create_state=create_state, now_ms=now_ms, decorator=_RefreshingDecorator)
    return factory.create(descriptor)
