"""Which instant it is for those who ask whether a value has expired.

Answers to Flink's `TtlTimeProvider`. Invariant: what has once been found expired stays so, while this runs: from then
on the time is never earlier than the instant at which it was found.

Flink takes the system's clock as it is. When that is set back, an element that a reader was already refused comes
back, if nothing has cleaned it up in between: of a list nothing does (S14). Here it does not. A clock that goes back
makes what is alive live longer and never shorter, and nothing is resurrected before it was found dead. The memory is
that of one run: after a restore the clock of the new one counts, against the old stamps (S17).
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["TIME_MAX_MS", "TtlTimeProvider", "expires_at"]

TIME_MAX_MS = 2**63 - 1
"""A value that would live beyond it lives until then (S11)."""


class TtlTimeProvider:
    """Time for one state. Mutable: it remembers the last instant at which something of it had expired."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._not_before_ms = -TIME_MAX_MS

    @property
    def current_timestamp(self) -> int:
        """The present instant (ms)."""
        return max(self._now_ms(), self._not_before_ms)

    def has_passed(self, last_access_ms: int, time_to_live_ms: int) -> bool:
        """Whether a value of that stamp has expired, said to somebody who will count on it."""
        now_ms = self.current_timestamp
        has_expired = expires_at(last_access_ms, time_to_live_ms) <= now_ms
        if has_expired:
            self._not_before_ms = now_ms
        return has_expired


def expires_at(last_access_ms: int, time_to_live_ms: int) -> int:
    """The first instant at which it is expired (S11)."""
    return min(last_access_ms + time_to_live_ms, TIME_MAX_MS)
