"""What all states with a time to live have in common: stamping, and what a read does.

Answers to Flink's `AbstractTtlDecorator`, as a collaborator of the states instead of their parent. Invariant: a read of
an expired value never stamps it anew; it takes it away, whether or not it shows it once more (S12, S13).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference_impl.state.ttl.state_ttl_config import StateTtlConfig, StateVisibility, UpdateType
from reference_impl.state.ttl.ttl_time_provider import TtlTimeProvider
from reference_impl.state.ttl_value import TtlValue

__all__ = ["TtlDecorator"]


class TtlDecorator:
    """The rules of one state's configuration, in its subtask's time."""

    def __init__(self, config: StateTtlConfig, time: TtlTimeProvider) -> None:
        self.updates_on_read = config.update_type is UpdateType.ON_READ_AND_WRITE
        self.returns_expired = config.state_visibility is StateVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP
        self._time_to_live_ms = config.time_to_live_ms
        self._time = time

    def stamped(self, value: Any) -> TtlValue:
        """The value as written now."""
        return TtlValue(value, self._time.current_timestamp)

    def has_expired(self, last_access_ms: int) -> bool:
        """Whether who reads it is to find it expired (S11)."""
        return self._time.has_passed(last_access_ms, self._time_to_live_ms)

    def shown(self, value: TtlValue | None) -> TtlValue | None:
        """The value if a reader may see it."""
        if value is None or (not self.returns_expired and self.has_expired(value.last_access_ms)):
            return None
        return value

    def read(
        self, value: TtlValue | None, *, update: Callable[[TtlValue], None], clear: Callable[[], None]
    ) -> TtlValue | None:
        """The value if the reader may see it; stamped anew or taken away first, as its age and the rules want it."""
        if value is None:
            return None
        if self.has_expired(value.last_access_ms):
            clear()
            return value if self.returns_expired else None
        if self.updates_on_read:
            update(self.stamped(value.value))
        return value
