"""`limit_data`: closes the connection after `bytes` bytes of this direction, counted since the toxic was added.

Answers to Toxiproxy's toxic of the same name. Invariant: exactly that many bytes pass, then a FIN, then the connection
is closed; if the limit is lowered below the count, the next bytes close it.
"""

from __future__ import annotations

from harness.proxy.toxics.kind import ToxicKind
from harness.proxy.toxics.stage import Attributes, Receiver, StagePlace


class LimitDataToxic:
    """Counts the bytes that passed."""

    next: Receiver
    held = 0
    held_max = 1

    def __init__(self, place: StagePlace, attributes: Attributes) -> None:
        self._place = place
        self._passed = 0
        self._over = False
        self.update(attributes)

    def update(self, attributes: Attributes) -> None:
        self._limit = max(0, int(attributes["bytes"]))

    def data(self, chunk: bytes) -> None:
        if self._over:
            return
        left = max(0, self._limit - self._passed)
        within, beyond = chunk[:left], chunk[left:]
        if within:
            self._passed += len(within)
            self.next.data(within)
        if self._passed >= self._limit:
            self._over = True
            self._place.log_event("limited", bytes=self._passed, lost=len(beyond))
            self._place.wire.close_behind(self._place.stream)
            self.next.eof()

    def eof(self) -> None:
        if not self._over:
            self.next.eof()

    def reset(self) -> None:
        self.next.reset()

    def removed(self) -> None:
        """Holds nothing; a connection over the limit is already closing."""


LIMIT_DATA = ToxicKind(name="limit_data", attributes={"bytes": 0}, stage=LimitDataToxic)
