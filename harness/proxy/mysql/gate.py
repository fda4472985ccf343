"""The packet gate of one direction: it sees whole packets, and does to them what the packet toxics of the link say.

Answers to no toxic of Toxiproxy, which only knows bytes. Invariant: without a toxic the bytes go by untouched and
undelayed; with one, all but the messages that it acts on do, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from harness.proxy.mysql.action import Action
from harness.proxy.mysql.commands import HANDSHAKE, Exchange
from harness.proxy.mysql.frames import HEADER_BYTES, FrameTracker, Packet, Part
from harness.proxy.mysql.outflow import Barrier, Outflow
from harness.proxy.mysql.replies import reply_word
from harness.proxy.mysql.rules import Act, PacketRule, Then
from harness.proxy.stage import Receiver, Stream, Timer

__all__ = ["HELD_MAX", "GateToxic", "GateWire", "PacketGate", "Table"]

HELD_MAX = 1 << 20
"""From so many bytes behind a barrier on, the peer is not read."""


class GateToxic(Protocol):
    """A packet toxic of the link, as its gates see it."""

    name: str
    stream: Stream
    rule: PacketRule

    def picks(self, exchange: Exchange) -> bool:
        """Whether it means such messages."""

    def match(self, *, matched_here: int) -> int:
        """Count one more match; which it is, from 1."""


class GateWire(Protocol):
    """What a gate needs of its connection."""

    def reset(self) -> None:
        """RST to both ends, now."""

    def close(self) -> None:
        """FIN to both ends, behind what was delivered."""

    def call_later(self, seconds: float, act: Callable[[], None]) -> Timer:
        """Run `act` after so many seconds, unless the connection has ended by then."""

    def now(self) -> float:
        """The loop's time in seconds."""

    def eased(self) -> None:
        """Less is held than before."""

    def deed(self, did: str, *, stream: str, toxic: str, **numbers: int | str) -> None:
        """Write down that a toxic did something."""


class Table(Protocol):
    """The conversation, as its two gates see it."""

    @property
    def wire(self) -> GateWire:
        """The connection."""

    def owes(self) -> bool:
        """Whether an error of ours waits for its turn among the replies."""

    def failed(self, exchange: Exchange, action: Action, *, sequence: int) -> None:
        """A request was taken out that shall be answered by an error of ours."""

    def forgotten(self, exchange: Exchange) -> None:
        """A request was taken out: the server will not answer it."""

    def passed(self, exchange: Exchange) -> None:
        """A reply has ended, delivered or not."""

    def error(self, action: Action, *, sequence: int) -> bytes:
        """The action's error packet."""

    def check(self) -> None:
        """Notice that packets are not understood any more."""


class PacketGate:
    """One direction's gate; mutable. It answers to `Receiver` and to A stage's `held`."""

    next: Receiver
    """Whom it pushes on to; set by the chain."""
    held_max = HELD_MAX

    def __init__(self, *, stream: Stream, tracker: FrameTracker, table: Table) -> None:
        self.stream = stream
        self.tracking = True
        """Whether bytes may go by with `track` alone."""
        self.out = Outflow(self, now=table.wire.now)
        self._table = table
        self._tracker = tracker
        self._delivered: list[bytes] = []
        """Parts that go on together, once all of a chunk was looked at or something else is sent."""
        self._toxics: dict[str, GateToxic] = {}
        self._matched: dict[str, int] = {}
        self._picked: tuple[Exchange | None, list[GateToxic]] = None, []
        """The message that passes, and the toxics that mean it; they were there when it began."""
        self._action: Action | None = None
        self._silenced_by = ""
        self._over = False
        self._offset = 0
        """Bytes of this direction that were seen, up to the part that is looked at."""
        self._position = 0
        """Bytes of the packet before that part."""

    # --------------------------------------------------------------------------- what its direction calls

    @property
    def held(self) -> int:
        """The bytes behind barriers."""
        return self.out.held

    def track(self, chunk: bytes) -> None:
        """Follow bytes that the caller passes on; only while `tracking`."""
        self._offset += len(chunk)
        if not self._tracker.track(chunk):
            self._table.check()

    def data(self, chunk: bytes) -> None:
        """Bytes of the peer."""
        for part in self._tracker.parts(chunk):
            self._part(part)
        self._flush()
        self._table.check()
        self.settle()

    def eof(self) -> None:
        """The peer's FIN."""
        if not self._deaf:
            self.let_go()
            self.out.eof()

    def reset(self) -> None:
        """The peer's RST."""
        if not self._deaf:
            self.out.reset()

    # -------------------------------------------------------------------------------------- its toxics

    def add(self, toxic: GateToxic) -> None:
        """Let a toxic act here; messages that have begun are not counted."""
        self._toxics[toxic.name] = toxic
        self.settle()

    def remove(self, toxic: GateToxic) -> None:
        """Take it away: what it held goes on, a direction that it silenced ends by RST."""
        if self._toxics.pop(toxic.name, None) is None:
            return
        if self._silenced_by == toxic.name:
            self._table.wire.reset()
        else:
            self.out.lift_all_of(toxic.name)
            self._table.wire.eased()
        self.settle()

    def settle(self) -> None:
        """Find out whether bytes may go by again."""
        busy = self._toxics or self.out or self._action or self._deaf
        self.tracking = not (busy or (self.stream is Stream.DOWNSTREAM and self._table.owes()))
        if self.tracking:
            self.let_go()

    def let_go(self) -> None:
        """Pass on the beginning of a packet that is too short to be read."""
        kept = self._tracker.release()
        if kept:
            self._offset += len(kept)
            self.emit(kept)

    def emit(self, data: bytes) -> None:
        """Bytes for the far end, behind what was delivered."""
        self._flush()
        self.out.data(data)

    @property
    def _deaf(self) -> bool:
        return self._over or bool(self._silenced_by)

    # ----------------------------------------------------------------------------------------- packets

    def _part(self, part: Part) -> None:
        packet = part.packet
        if self._deaf:
            return
        if packet is None:
            self._deliver(part.data)
            return
        exchange = packet.message
        assert isinstance(exchange, Exchange)
        if part.starts:
            self._position = 0
            self._choose(packet.number, exchange)
        if self.stream is Stream.DOWNSTREAM and exchange.replaced:
            self._offset += len(part.data)
        elif self._action is None or self._action.exchange is not exchange:
            self._deliver(part.data)
        else:
            self._act(self._action, packet, part)
        self._position += len(part.data)
        if self.stream is Stream.DOWNSTREAM and packet.last and part.ends:
            self._table.passed(exchange)

    def _choose(self, number: int, exchange: Exchange) -> None:
        """At the packet that a toxic names it counts the message; the first of those that act on it does."""
        if number == 1:
            self._action = None
            self._picked = exchange, [each for each in self._toxics.values() if each.picks(exchange)]
        message, toxics = self._picked
        if message is not exchange:
            return
        for toxic in toxics:
            name, rule = toxic.name, toxic.rule
            if max(rule.packet, 1) != number or name not in self._toxics:
                continue
            match = toxic.match(matched_here=self._matched.get(name, 0))
            self._matched[name] = self._matched.get(name, 0) + 1
            if self._action is None and rule.acts_on(match):
                self._action = Action(toxic=name, rule=rule, exchange=exchange, match=match)

    def _deliver(self, data: bytes) -> None:
        if data:
            self._offset += len(data)
            self._delivered.append(data)

    def _flush(self) -> None:
        if self._delivered:
            self.out.data(b"".join(self._delivered))
            self._delivered.clear()

    # ----------------------------------------------------------------------------------------- acting

    def _act(self, action: Action, packet: Packet, part: Part) -> None:
        data = part.data
        if not action.reached:
            point = action.point(self._position, len(data), ends=part.ends)
            if point is None:
                self._deliver(data)
                return
            self._deliver(data[:point])
            data = data[point:]
            whole = self.stream is Stream.DOWNSTREAM and packet.number == 1 and not point
            reply = reply_word(data[HEADER_BYTES:]) if whole else ""
            action.begin(packet, offset=self._offset, reply=reply)
            self._reach(action)
        if self._deaf:
            return
        if action.takes:
            self._offset += len(data)
            action.bytes += len(data)
            action.packets += part.ends
        else:
            self._deliver(data)
        if part.ends and not action.done and action.complete_with(packet):
            self._complete(action)

    def _reach(self, action: Action) -> None:
        """The point has come at which it acts."""
        rule, wire = action.rule, self._table.wire
        self._flush()
        if rule.do is Act.RESET:
            self._over = True
            self._deed("reset", action)
            wire.reset()
        elif rule.do is Act.CLOSE:
            self._over = True
            self._deed("cut", action)
            wire.close()
        elif rule.do is Act.DROP and rule.byte >= 0:
            self._silence(action)
        elif rule.do in {Act.HOLD, Act.DELAY}:
            self._bar(action)

    def _silence(self, action: Action) -> None:
        """A stream with a hole in the middle of a packet cannot go on: nothing more of it gets through."""
        self._silenced_by = action.toxic
        self._deed("cut", action)
        self._then(action.rule.then)

    def _bar(self, action: Action) -> None:
        wire, delays = self._table.wire, action.rule.do is Act.DELAY

        def gone(seconds: float, held: int) -> None:
            self._deed("delayed", action, ms=round(seconds * 1000), bytes=held)

        barrier = Barrier(owner=action.toxic, since=wire.now(), gone=gone)
        self.out.bar(barrier)
        if delays:
            wire.call_later(action.rule.ms / 1000, lambda: self._lift(barrier))
        else:
            self._deed("held", action)

    def _lift(self, barrier: Barrier) -> None:
        self.out.lift(barrier)
        self.settle()
        self._table.wire.eased()

    def _complete(self, action: Action) -> None:
        """All that it takes or holds back of this message has come."""
        action.done = True
        goes_on = action.exchange.command == HANDSHAKE and action.takes and action.whole
        if not goes_on:
            self._action = None
        if action.rule.do is Act.DROP:
            self._deed("dropped", action, bytes=action.bytes, packets=action.packets)
            if self.stream is Stream.UPSTREAM and action.packet == 1:
                self._table.forgotten(action.exchange)
        if action.rule.do is not Act.ERROR:
            self._then(action.rule.then)
            return
        self._deed("error", action, code=action.rule.code, bytes=action.bytes, packets=action.packets)
        if self.stream is Stream.UPSTREAM:
            self._table.failed(action.exchange, action, sequence=action.sequence + 1)
        else:
            self.emit(self._table.error(action, sequence=action.sequence))
            self._then(action.ending)

    def _then(self, then: Then) -> None:
        """End the connection as asked, behind what is held."""
        if then is Then.NONE:
            return

        def end() -> None:
            self._over = True
            wire = self._table.wire
            (wire.reset if then is Then.RESET else wire.close)()

        self._flush()
        self.out.call(end)

    def end(self, then: Then) -> None:
        """The other direction's action ends the connection."""
        self._then(then)

    def _deed(self, did: str, action: Action, **numbers: int | str) -> None:
        self._table.wire.deed(
            did, stream=self.stream.value, toxic=action.toxic, **action.numbers(), **numbers
        )
