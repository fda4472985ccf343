"""Service: how many calls are answered before the first fault of a history and after its last one.

A part of V16, as a fold that the exact checker and the screen share.
"""

from __future__ import annotations

from fractions import Fraction

from harness.history.event import PLANTED, FaultEvent, Res
from harness.history.header import Header

_US_PER_MS = 1000
_ALLOWED_MIN = 5
"""V16 looks only at so many outcomes that the bound would allow this many failures and timeouts among them."""
_CALM_SHARE = Fraction(2, 5)
"""With more than this share of the bound before the first fault, a run says nothing about service."""


class Service:
    """Counts the final outcomes before the first fault and after the last one. Mutable: a fold over the history.

    Failures that the scenario itself plans do not count.
    """

    def __init__(self, header: Header) -> None:
        after = header.bounds.service_after
        self.percent_max = header.bounds.unserved
        self.is_claimed = after is not None
        self.grace_ms = (after or 0) + header.operator.timeout_ms
        """A timeout that comes later belongs to a call that was made after the bound."""
        self._active = 0
        self.healed: FaultEvent | None = None
        self.before = [0, 0]
        """How many outcomes, and how many of them are a failure or a timeout."""
        self.after = [0, 0]
        self.first: Res | None = None
        self.last: Res | None = None
        """The first and the last failure or timeout that was counted."""
        self._has_begun = False

    def step(self, event: FaultEvent | Res) -> None:
        """The events come in their order."""
        if isinstance(event, FaultEvent):
            self._has_begun = True
            self._active += 1 if event.phase == "begin" else -1
            self.healed = event if event.phase == "end" else None
            self.after, self.first = [0, 0], None
        elif event.final and event.by != PLANTED:
            if self._has_begun:
                healed = self.healed
                if self._active or healed is None or event.t < healed.t + self.grace_ms * _US_PER_MS:
                    return
            counts = self.after if self._has_begun else self.before
            counts[0] += 1
            if event.r in ("fail", "timeout"):
                counts[1] += 1
                self.first, self.last = self.first or event, event

    @property
    def is_gone(self) -> bool:
        """Whether calls were answered before the first fault and are not after the last one."""
        (calm, calm_unserved), (healed, unserved) = self.before, self.after
        return (
            self.is_claimed
            and min(calm, healed) * self.percent_max >= _ALLOWED_MIN * 100
            and calm_unserved * 100 <= calm * self.percent_max * _CALM_SHARE
            and unserved * 100 > healed * self.percent_max
        )
