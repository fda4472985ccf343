"""One direction of a connection: from the peer that is read, through the toxics' stages, to the peer that is written.

Answers to Toxiproxy's `ToxicLink` with its chain of stubs. Invariant: the stages stand in the order in which their
toxics were created, behind the packet gate; while any of them, or the socket at the end, holds as much as it may,
the source is not read.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.proxy.peer import Peer
from harness.proxy.toxics.stage import Gate, Receiver, Stage, Stream
from harness.proxy.workshop import Holdings

__all__ = ["Direction"]

_SHARE_MIN = 65_536
"""What a direction may hold even when all together hold too much."""


class Direction:
    """Mutable: its stages come and go while bytes pass."""

    __slots__ = (
        "_counted",
        "_gate",
        "_head",
        "_holdings",
        "_reading",
        "outlet",
        "received",
        "source",
        "stages",
        "stream",
    )

    source: Peer
    """Who is read; set once it is connected."""
    outlet: Peer
    """Who is written; set once it is connected."""

    def __init__(self, stream: Stream, *, holdings: Holdings) -> None:
        self.stream = stream
        self.stages: dict[str, Stage] = {}
        """By the toxic's name, in the order of the chain."""
        self.received = 0
        """Bytes that the source sent."""
        self._gate: Gate | None = None
        self._head: Receiver
        self._holdings = holdings
        self._counted = 0
        self._reading = False

    def begin(self, *, gate: Gate | None) -> None:
        """Both peers are there: let bytes pass."""
        self._gate = gate
        self.arrange(self.stages)
        self._reading = True
        self.source.read(on=True)

    def arrange(self, names: Iterable[str]) -> None:
        """Join the stages in the order of `names` (of all toxics; those without a stage here are passed over)."""
        self.stages = {name: self.stages[name] for name in names if name in self.stages}
        after: Receiver = self.outlet
        for stage in reversed(self.stages.values()):
            stage.next = after
            after = stage
        self._head = after
        if self._gate is not None:
            self._gate.next = after

    def feed(self, chunk: bytes) -> None:
        """What the source sent."""
        self.received += len(chunk)
        gate = self._gate
        if gate is not None:
            if not gate.tracking:
                gate.data(chunk)
                self.review()
                return
            gate.track(chunk)
        self._head.data(chunk)
        if self.stages:
            self.review()

    def finished(self) -> None:
        """The source has sent its FIN."""
        self._first().eof()
        self.review()

    def lost(self) -> None:
        """The source has reset the connection."""
        self._first().reset()

    def review(self) -> None:
        """Read the source or leave it, by what is held."""
        reading = not self._full()
        if reading != self._reading:
            self._reading = reading
            self.source.read(on=reading)
        if not reading and self._holdings.too_much:
            self._holdings.wait(self)

    def dismiss(self) -> None:
        """The connection has ended: what is held is gone."""
        self.stages.clear()
        self._holdings.move(-self._counted)
        self._counted = 0

    @property
    def held(self) -> int:
        """Bytes on their way through the stages and before the socket."""
        gate_held = 0 if self._gate is None else self._gate.held
        return gate_held + sum(stage.held for stage in self.stages.values()) + self.outlet.unsent

    def counted(self) -> dict[str, int]:
        """Bytes as the control API says them; `swallowed` came and was neither sent nor is on its way."""
        passed = self.outlet.sent + self.held
        return {
            "received": self.received,
            "delivered": self.outlet.sent,
            "held": self.held,
            "swallowed": max(0, self.received - passed),
        }

    def _first(self) -> Receiver:
        return self._head if self._gate is None else self._gate

    def _full(self) -> bool:
        held = self.held
        if held != self._counted:
            self._holdings.move(held - self._counted)
            self._counted = held
        if self.outlet.unsent or (held > _SHARE_MIN and self._holdings.too_much):
            return True
        if self._gate is not None and self._gate.held >= self._gate.held_max:
            return True
        return any(stage.held >= stage.held_max for stage in self.stages.values())
