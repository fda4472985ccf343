"""What a snapshot holds of an operator's timers: by service and by key group.

Answers to Flink's `InternalTimersSnapshot` and `InternalTimerServiceSerializationProxy`, which lie in the raw keyed
state. Invariant: a value of plain data that can be split and joined by key group, so that at another parallelism each
timer has exactly one owner (T15). Timers lie in it in the order in which they were registered.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from reference_impl.internal_timers.internal_timer import InternalTimer
from reference_impl.state.key_groups import KeyGroupRange
from reference_impl.state.key_identity import identity_of, value_of

__all__ = ["KeyGroupTimers", "SavedTimer", "TimersHandle"]


class SavedTimer(Struct, frozen=True, array_like=True):
    """A timer as a snapshot holds it; its key and namespace as their identities: an int, a str or bytes."""

    timestamp: int
    key: Any
    """Not declared as what it is: msgspec reads no union of str and bytes, and msgpack tells them apart without."""
    namespace: Any
    """None: there is none."""

    @classmethod
    def of(cls, timer: InternalTimer) -> SavedTimer:
        """What is saved of `timer`."""
        namespace = None if timer.namespace is None else identity_of(timer.namespace)
        return cls(timer.timestamp, identity_of(timer.key), namespace)

    def restored(self) -> InternalTimer:
        """The timer that was saved."""
        namespace = None if self.namespace is None else value_of(self.namespace)
        return InternalTimer(self.timestamp, value_of(self.key), namespace)


class KeyGroupTimers(Struct, frozen=True, kw_only=True):
    """Those of one service and one key group."""

    event_time: list[SavedTimer]
    processing_time: list[SavedTimer]


class TimersHandle(Struct, frozen=True, kw_only=True):
    """Those of one subtask, which owned `key_group_range`."""

    key_group_range: KeyGroupRange
    services: dict[str, dict[int, KeyGroupTimers]]
    """By the service's name, then by key group; only what has a timer is there."""
