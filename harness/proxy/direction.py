"""One direction of a connection: from the peer it reads, through the toxics' stages, to the peer it writes.

Answers to Toxiproxy's `ToxicLink` with its chain of stubs. Invariant: the packet gate comes first, then the
stages in the order in which their toxics were created; while the gate, a stage or the outgoing socket is
full, the source is not read.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.proxy.mysql.gate import Tap
from harness.proxy.peer import Peer
from harness.proxy.proxy_parts import Holdings
from harness.proxy.toxics.stage import Gate, Receiver, Stage, Stream

_SHARE_MIN = 65_536
"""Bytes that a direction may hold even while the process as a whole holds too many."""


class Direction:
    """Mutable: stages are added and removed while bytes pass."""

    __slots__ = (
        "_counted", "_gate", "_head", "_holdings", "_reading", "outlet", "received", "source", "stages", "stream",
        "tap",
    )  # fmt: skip

    source: Peer
    """The peer it reads; set once the server is connected."""
    outlet: Peer
    """The peer it writes; set once the server is connected."""

    def __init__(self, stream: Stream, *, holdings: Holdings) -> None:
        self.stream = stream
        self.stages: dict[str, Stage] = {}
        """By the toxic's name, in the order of the chain."""
        self.received = 0
        """Bytes that the source sent."""
        self.tap: Tap | None = None
        """Follows what has passed all stages; set before `begin`."""
        self._gate: Gate | None = None
        self._head: Receiver
        self._holdings = holdings
        self._counted = 0
        self._reading = False

    def begin(self, *, gate: Gate | None) -> None:
        """Start to read: both peers are connected."""
        self._gate = gate
        self.arrange(self.stages)
        self._reading = True
        self.source.read(on=True)

    def arrange(self, names: Iterable[str]) -> None:
        """Chain the stages in the order of `names`; names without a stage in this direction are skipped."""
        self.stages = {name: self.stages[name] for name in names if name in self.stages}
        after: Receiver = self.outlet
        if self.tap is not None:
            self.tap.next = after
            after = self.tap
        for stage in reversed(self.stages.values()):
            stage.next = after
            after = stage
        self._head = after
        if self._gate is not None:
            self._gate.next = after

    def feed(self, chunk: bytes) -> None:
        """Bytes that the source sent."""
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
        """Start or stop reading the source, by how many bytes are held."""
        reading = not self._full()
        if reading != self._reading:
            self._reading = reading
            self.source.read(on=reading)
        if not reading and self._holdings.too_much:
            self._holdings.wait(self)

    def dismiss(self) -> None:
        """The connection has ended: drop what is held."""
        self.stages.clear()
        self._holdings.move(-self._counted)
        self._counted = 0

    @property
    def held(self) -> int:
        """Bytes in the gate, in the stages and waiting for the outgoing socket."""
        gate_held = 0 if self._gate is None else self._gate.held
        return gate_held + sum(stage.held for stage in self.stages.values()) + self.outlet.unsent

    def counted(self) -> dict[str, int]:
        """Byte counts as the control API shows them; `swallowed`: received, not delivered and no longer held."""
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
