"""The circuit breaker: when connects fail in a row, none is made for a while, then one to see.

Answers to Nygard's circuit breaker. Invariant: while it is open nobody connects; when its time is over one probe
does, whoever comes first, and only its success lets the others through: a server that restarts is not met by a herd.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.database.backoff import Backoff

__all__ = ["Circuit"]

_FAILURES_MAX = 5
_PROBE_S = 0.025
"""While somebody else probes."""


class Circuit:
    """One pool's. Mutable. `now_s` is the loop's clock; `backoff` says how long it stays open."""

    def __init__(
        self, *, now_s: Callable[[], float], backoff: Backoff, failures_max: int = _FAILURES_MAX
    ) -> None:
        self._now_s = now_s
        self._backoff = backoff
        self._failures_max = failures_max
        self._failures = 0
        self._open_until_s = 0.0
        self._is_probing = False

    @property
    def is_closed(self) -> bool:
        """Whether connects are made as usual."""
        return self._failures < self._failures_max

    def admits(self) -> bool:
        """Whether a connect may be made now; with a circuit not closed, whoever is told so is the probe."""
        if self.is_closed:
            return True
        if self._is_probing or self._now_s() < self._open_until_s:
            return False
        self._is_probing = True
        return True

    @property
    def wait_s(self) -> float:
        """How long whoever was not admitted should wait before it asks again; never nothing."""
        return max(self._open_until_s - self._now_s(), _PROBE_S)

    def succeeded(self) -> None:
        """A connect went well."""
        self._is_probing = False
        self._failures = 0
        self._backoff.reset()

    def failed(self) -> None:
        """A connect failed."""
        self._is_probing = False
        self._failures += 1
        if not self.is_closed:
            self._open_until_s = self._now_s() + self._backoff.next_ms() / 1000

    def abandoned(self) -> None:
        """A connect was given up by its caller: nothing is known; if it was the probe, another may be."""
        self._is_probing = False
