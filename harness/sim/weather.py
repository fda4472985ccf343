"""The weather: what happens to each external call of a situation by chance, and to all while it is disturbed.

Answers to Jepsen's nemesis at the scale of one statement. Invariant: a record has bad luck a few times at most, so
whoever asks again gets an answer in the end; whatever a disturbance did is counted, and nothing else is.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal

import msgspec

from harness.choices import Draw
from harness.sim.situation import Disturbance, Lookups

__all__ = ["Fate", "Weather"]

_ERROR_CODES: Final = (1205, 1213, 1290)
"""Lock wait timeout, deadlock, read-only: definite, the statement took no effect."""


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """How one call goes once it has reached the server."""

    more_ms: int = 0
    """Beyond the service itself."""
    error: int | None = None
    lost: Literal["request", "reply"] | None = None
    """The connection ends: before the statement took effect, or after."""


_FAIR = Fate()


class Weather:
    """Mutable: knows how often each record had bad luck, what is going on, and what that did."""

    def __init__(self, lookups: Lookups, draw: Draw) -> None:
        self._lookups = lookups
        self._draw = draw
        self._unlucky: Counter[int] = Counter()
        self._errors: Disturbance | None = None
        self._lock: Disturbance | None = None
        self._locked_until_ms = 0
        self._touched: Counter[str] = Counter()

    def begins(self, disturbance: Disturbance, *, now_ms: int) -> None:
        """From now on the server answers errors, or a foreign transaction holds the rows."""
        if disturbance.kind == "errors":
            self._errors = disturbance
        else:
            self._lock, self._locked_until_ms = disturbance, now_ms + disturbance.lasts_ms

    def ends(self, disturbance: Disturbance) -> int:
        """It acts no more; so many calls met it."""
        if self._errors is disturbance:
            self._errors = None
        if self._lock is disturbance:
            self._lock = None
        return self._touched[disturbance.name]

    def fate(self, id: int, *, now_ms: int) -> Fate:
        """Of a call of record `id` that has arrived."""
        if self._errors is not None:
            self._touched[self._errors.name] += 1
            return Fate(error=_ERROR_CODES[0])
        if self._lock is not None:
            self._touched[self._lock.name] += 1
            return Fate(more_ms=self._locked_until_ms - now_ms)
        return self._luck(id)

    def _luck(self, id: int) -> Fate:
        lookups = self._lookups
        slow, error, loss = lookups.slow_share, lookups.error_share, lookups.loss_share
        if not (slow or error or loss) or self._unlucky[id] >= lookups.unlucky_max:
            return _FAIR
        luck = self._draw.index(100)
        if luck >= slow + error + loss:
            return _FAIR
        self._unlucky[id] += 1
        if luck < slow:
            return Fate(more_ms=lookups.slow_ms)
        if luck < slow + error:
            return Fate(error=_ERROR_CODES[luck % len(_ERROR_CODES)])
        return Fate(lost="reply" if luck % 2 else "request")
