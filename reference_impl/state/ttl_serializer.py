"""Stores values with the instant of their last access, and migrates to and from those without.

Answers to Flink's `TtlStateFactory.TtlSerializer` and to what migrates state when TTL is switched on or off
(FLINK-32955, FLINK-35780, FLINK-37294). Invariant: a stamp is made up only where there was none: switched on, all is
as if accessed at the migration; with TTL before and after, the stamps stay, whatever the durations (S17).
"""

from __future__ import annotations

from collections.abc import Callable

from reference_impl.state.schema import Compatibility, Schema, compatibility, ttl_of
from reference_impl.state.serializer import TypeSerializer
from reference_impl.state.ttl_value import TtlValue, last_access_of, stamped, unstamped

__all__ = ["TtlSerializer"]


class TtlSerializer:
    """`inner` for the value, eight bytes for the stamp."""

    def __init__(self, inner: TypeSerializer, now_ms: Callable[[], int]) -> None:
        self.schema = ttl_of(inner.schema)
        self._inner = inner
        self._now_ms = now_ms

    def encode(self, value: TtlValue) -> bytes:
        """TypeError if the value itself is of another type than `inner` takes."""
        return stamped(self._inner.encode(value.value), value.last_access_ms)

    def decode(self, data: bytes) -> TtlValue:
        """A new value, equal to the one encoded."""
        return TtlValue(self._inner.decode(unstamped(data, self.schema)[0]), last_access_of(data))

    def compatibility_with(self, old: Schema) -> Compatibility:
        """As that of the values; without stamps before, after migration at best."""
        return compatibility(new=self.schema, old=old)

    def migrate(self, data: bytes, old: Schema) -> bytes:
        """The old stamp if there was one, else the present instant."""
        last_access_ms = last_access_of(data) if old.kind == "ttl" else self._now_ms()
        value, schema = unstamped(data, old)
        return stamped(self._inner.migrate(value, schema), last_access_ms)
