"""Defects of state with a time to live: when a value expires, what refreshes it, and what the clean-up removes.

Answers to bugs of Flink's `TtlStateFactory` and its cleanup strategies. Those that a run can show have a scenario whose
`task:` has a `ttl`. Invariant: each entry replaces a `create_state_with_ttl` as a `KeyedStateBackend` takes it, and
keeps the format of the stored values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.sut.defects.defect import NEVER, SIM_AND_LIVE, Defect
from harness.sut.rescaling import KeyedParts
from harness.sut.variant import Variant
from reference_impl.state.serializer import TtlValue, stamped
from reference_impl.state.state_descriptor import StateDescriptor
from reference_impl.state.ttl_state_factory import (
    CreateState,
    CreateWithTtl,
    TtlState,
    TtlStateFactory,
    TtlStateSnapshotTransformer,
)
from reference_impl.state.ttl_states import TtlDecorator
from tools.defects.kinds import PropertyDefect

_STAMP_BYTES = 8
_CLEANED_AT_A_TIME = 2


def _decorating(decorator: type[TtlDecorator]) -> CreateWithTtl:
    """A `create_state_with_ttl` whose states ask `decorator` about expiry."""

    def create_state_with_ttl(
        descriptor: StateDescriptor, *, create_state: CreateState, now_ms: Callable[[], int]
    ) -> TtlState:
        factory = TtlStateFactory(create_state=create_state, now_ms=now_ms, decorator=decorator)
        return factory.create(descriptor)

    return create_state_with_ttl


class _NeverExpires(TtlDecorator):
    """Always answers "not expired".

    Until the first value has expired, the defect is the reference; with an incremental clean-up it is that again some
    accesses later.
    """

    def has_expired(self, last_access_ms: int) -> bool:  # noqa: ARG002 - that is the defect
        return False


class _RefreshesExpired(TtlDecorator):
    """Stamps a value before it looks at the old stamp: the first read finds nothing, the next one the old value.

    Where only writes refresh, the defect is the reference; lists are read by other code.
    """

    def read(
        self, value: TtlValue | None, *, update: Callable[[TtlValue], None], clear: Callable[[], None]
    ) -> TtlValue | None:
        if value is not None and self.updates_on_read:
            update(self.stamped(value.value))
            return self.shown(value)
        return super().read(value, update=update, clear=clear)


def _create_restamped(
    descriptor: StateDescriptor, *, create_state: CreateState, now_ms: Callable[[], int]
) -> TtlState:
    """A state whose restored values begin a new life, so in a job that restarts often nothing expires."""
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


def _create_with_stale_cleanup(
    descriptor: StateDescriptor, *, create_state: CreateState, now_ms: Callable[[], int]
) -> TtlState:
    """A state whose clean-up copies all entries once, and goes on through the copy at each change of the key.

    It removes a value that was written anew after the copy, because the old one had expired. As long as no value is
    written again after its life, the defect is the reference.
    """
    state = TtlStateFactory(create_state=create_state, now_ms=now_ms).create(descriptor)
    assert descriptor.ttl is not None
    living = TtlStateSnapshotTransformer(descriptor.ttl.time_to_live_ms, now_ms)
    table, copied = state.table, list[tuple[Any, Any, Any]]()

    def clean() -> None:
        if not copied:
            copied.extend(table.lazy_entries())
        for key, namespace, stored in copied[-_CLEANED_AT_A_TIME:]:
            if living(stored) is None:
                table.remove(key, namespace)
        del copied[-_CLEANED_AT_A_TIME:]

    table.context.on_key_selected.append(clean)
    return state


_CREATE = "create_state_with_ttl"

OF_TTL = (
    Defect(
        name="ttl-never-ends",
        about="values are stamped with their last change, and no read looks whether they have expired",
        mirrors="values that expire only where a clean-up removes them",
        convicted_by=("V8",),
        variant=Variant(keyed=KeyedParts(create_with_ttl=_decorating(_NeverExpires))),
        where="`counts-expire`",
        applies=NEVER,
        scenario="counts-expire",
        levels=SIM_AND_LIVE,
    ),
    Defect(
        name="ttl-begins-anew-at-restore",
        about="values that are restored live as long again as if they had just been written",
        mirrors="FLINK-32955",
        convicted_by=("V8",),
        variant=Variant(keyed=KeyedParts(create_with_ttl=_create_restamped)),
        where="`counts-expire-after-crash`",
        applies=NEVER,
        scenario="counts-expire-after-crash",
        levels=SIM_AND_LIVE,
    ),
    PropertyDefect(
        name="ttl-forgotten-on-read",
        about="a read does not look at the stamp, so it returns values that have expired",
        mirrors="values that expire only where a clean-up removes them",
        replaces=_CREATE,
        statements=("S11", "S13"),
        wrong=_decorating(_NeverExpires),
    ),
    PropertyDefect(
        name="expired-read-refreshes",
        about="where reads refresh, a read of an expired value refreshes it too",
        mirrors="a stamp that is renewed before it is looked at",
        replaces=_CREATE,
        statements=("S12",),
        wrong=_decorating(_RefreshesExpired),
    ),
    PropertyDefect(
        name="ttl-stamp-lost-at-restore",
        about="restored values are stamped with the time of the restore",
        mirrors="FLINK-32955",
        replaces=_CREATE,
        statements=("S17",),
        wrong=_create_restamped,
    ),
    PropertyDefect(
        name="cleanup-loses-updates",
        about="the incremental clean-up decides by what it read earlier, not by what is stored now",
        mirrors="a clean-up that changes what a reader sees",
        replaces=_CREATE,
        statements=("S16",),
        wrong=_create_with_stale_cleanup,
    ),
)
