"""Takes what has expired out of a stored value, whatever the kind of state.

Answers to Flink's `TtlStateSnapshotTransformer` and to `getUnexpiredOrNull`. Invariant: it looks at the stamps alone
and changes nothing: what it gives back is new where something had to go, and the very same object where nothing had.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference_impl.state.ttl.ttl_time_provider import expires_at
from reference_impl.state.ttl_value import last_access_of

__all__ = ["TtlStateSnapshotTransformer"]


class TtlStateSnapshotTransformer:
    """A filter of stored values; called with one, it gives what lives of it, None for nothing (S16).

    Stored is one value, a list of values or a dict of them, each in bytes with its stamp in front.
    """

    def __init__(self, time_to_live_ms: int, now_ms: Callable[[], int]) -> None:
        self._time_to_live_ms = time_to_live_ms
        self._now_ms = now_ms

    def __call__(self, stored: Any) -> Any:
        now_ms = self._now_ms()
        match stored:
            case bytes():
                return stored if self._lives(stored, now_ms) else None
            case list():
                living: Any = [element for element in stored if self._lives(element, now_ms)]
            case dict():
                living = {key: value for key, value in stored.items() if self._lives(value, now_ms)}
            case _:
                raise TypeError(
                    f"a state stores a {type(stored).__name__}; this filter knows bytes, lists and dicts"
                )
        return stored if len(living) == len(stored) else living or None

    def _lives(self, data: bytes, now_ms: int) -> bool:
        return expires_at(last_access_of(data), self._time_to_live_ms) > now_ms
