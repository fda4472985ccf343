"""The backoff: how long to wait before the next try, longer each time, and not all clients alike.

Answers to Flink's `ExponentialDelayRestartBackoffTimeStrategy`, for one client. Invariant: equal choices give equal
waits, and no wait is longer than the longest.
"""

from __future__ import annotations

from harness.choices import Choices

__all__ = ["Backoff"]

_FIRST_MS = 25
_LONGEST_MS = 400


class Backoff:
    """The waits of one series of tries. Mutable: counts them."""

    def __init__(self, choices: Choices, *, first_ms: int = _FIRST_MS, longest_ms: int = _LONGEST_MS) -> None:
        self._choices = choices
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self._up_to_ms = first_ms

    def next_ms(self) -> int:
        """The next wait: between half and all of a bound that doubles up to the longest."""
        up_to_ms = self._up_to_ms
        self._up_to_ms = min(2 * up_to_ms, self._longest_ms)
        return self._choices.between(up_to_ms // 2, up_to_ms)

    def reset(self) -> None:
        """It went well: the next series begins anew."""
        self._up_to_ms = self._first_ms
