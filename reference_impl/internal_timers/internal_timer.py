"""A timer of one key, and who is told that its time has come.

Answers to Flink's `TimerHeapInternalTimer`, `Triggerable` and `KeyContext`. Invariant: a timer is the triple of its
instant, key and namespace; two equal triples are one timer (T10).
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

__all__ = ["InternalTimer", "KeyContext", "Triggerable"]


class InternalTimer(Struct, frozen=True):
    """At `timestamp` (ms), for `key`, in `namespace` (a window, for instance; None where there is none)."""

    timestamp: int
    key: Any
    namespace: Any = None


class Triggerable(Protocol):
    """The operator whose timers they are; the timer's key is the current one during each call."""

    def on_event_time(self, timer: InternalTimer) -> None:
        """The watermark has reached the timer."""

    def on_processing_time(self, timer: InternalTimer) -> None:
        """The clock has reached the timer."""


class KeyContext(Protocol):
    """Which key is the current one: the keyed state backend."""

    @property
    def current_key(self) -> Any:
        """The key whose record or timer is being processed; None before the first (S1)."""

    def set_current_key(self, key: Any) -> None:
        """From now on `key` is the current one."""
