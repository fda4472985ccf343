"""The packet gate of one direction: it applies the packet toxics of the link to whole packets.

Answers to no toxic of Toxiproxy, which only knows bytes. Without a toxic the bytes go by untouched and
undelayed; with one, all but the messages that it acts on do, in order. Where an `Action` begins depends on
packets alone, never on how their bytes came in pieces. Behind a `Barrier` nothing overtakes, FIN and RST
included.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, assert_never

from harness.proxy.mysql.commands import HANDSHAKE, Exchange
from harness.proxy.mysql.dialogue import reply_word
from harness.proxy.mysql.frames import HEADER_BYTES, FrameTracker, Packet, Part
from harness.proxy.mysql.rules import ENDING, Act, PacketRule, Then
from harness.proxy.toxics.stage import Receiver, Stream, Timer

__all__ = [
    "HELD_MAX",
    "Action",
    "Barrier",
    "GateToxic",
    "GateWire",
    "Outflow",
    "Outlet",
    "PacketGate",
    "Table",
]


class Action:
    """One packet toxic at work on one message. Mutable: it counts what it takes out of the stream."""

    __slots__ = (
        "bytes", "command", "done", "exchange", "match", "offset", "packet", "packets", "reached", "reply", "rule",
        "sequence", "statement", "toxic",
    )  # fmt: skip

    def __init__(self, *, toxic: str, rule: PacketRule, exchange: Exchange, match: int) -> None:
        self.toxic = toxic
        self.rule = rule
        self.exchange = exchange
        self.match = match
        self.command = exchange.kinds()[0].value
        self.statement = exchange.first_word()
        self.offset = 0
        """Where in the direction's bytes it began to act."""
        self.packet = 0
        """The packet of the message at which it began to act."""
        self.sequence = 0
        """That packet's number in its exchange."""
        self.reply = ""
        """What the reply begins with, where all of it is acted on: `ok`, `error` or `result`."""
        self.bytes = 0
        self.packets = 0
        self.reached = False
        self.done = False

    @property
    def takes(self) -> bool:
        """Whether bytes are taken out of the stream."""
        return self.rule.do in {Act.DROP, Act.ERROR}

    @property
    def whole(self) -> bool:
        """Whether it means all of the message from its point on, not one packet."""
        return self.rule.packet == 0 or self.rule.do is not Act.DROP

    @property
    def ending(self) -> Then:
        """What becomes of the connection after its error: a server hangs up too."""
        if self.rule.then is not Then.NONE:
            return self.rule.then
        return Then.CLOSE if self.rule.code in ENDING or self.exchange.command == HANDSHAKE else Then.NONE

    def point(self, position: int, size: int, *, ends: bool) -> int | None:
        """Where in the next `size` bytes it begins to act; None: not in them.

        They are of the packet that its rule names, begin at the packet's byte `position`, and may hold its end.
        """
        cut = max(self.rule.byte, 0)
        if position <= cut < position + size:
            return cut - position
        return size if ends and cut >= position + size else None

    def begin(self, packet: Packet, *, offset: int, reply: str = "") -> None:
        """Its point has come."""
        self.reached = True
        self.offset, self.packet, self.sequence, self.reply = offset, packet.number, packet.sequence, reply

    def complete_with(self, packet: Packet) -> bool:
        """Whether nothing more of the message concerns it after this packet.

        A login has no last packet if its greeting is lost, so its first will do.
        """
        return not self.whole or packet.last or self.exchange.command == HANDSHAKE

    def numbers(self) -> dict[str, int | str]:
        """What its deeds say of the place where it acts."""
        said: dict[str, int | str] = {
            "match": self.match,
            "command": self.command,
            "statement": self.statement,
            "packet": self.packet,
            "offset": self.offset,
        }
        return {**said, "reply": self.reply} if self.reply else said


class Outlet(Protocol):
    """Whose next receiver is fed."""

    @property
    def next(self) -> Receiver:
        """As of a stage."""


class _Ending(Enum):
    EOF = "eof"
    RESET = "reset"


@dataclass(slots=True, kw_only=True, eq=False)
class Barrier:
    """Holds back what comes after it. Mutable: it is lifted, and counts what gathers behind it."""

    owner: object
    since: float
    gone: Callable[[float, int], None]
    """Told, when it lets go, for how many seconds it stood and how many bytes had gathered."""
    lifted: bool = False
    bytes: int = 0


class Outflow:
    """A queue that is empty unless a barrier stands; mutable."""

    __slots__ = ("_now", "_outlet", "_queue", "held")

    def __init__(self, outlet: Outlet, *, now: Callable[[], float]) -> None:
        self._outlet = outlet
        self._now = now
        self.held = 0
        """Bytes that wait behind barriers."""
        self._queue: deque[bytes | _Ending | Barrier | Callable[[], None]] = deque()

    def __bool__(self) -> bool:
        """Whether anything is held back."""
        return bool(self._queue)

    def data(self, chunk: bytes) -> None:
        """Bytes for the peer."""
        if not self._queue:
            self._outlet.next.data(chunk)
            return
        self._queue.append(chunk)
        self.held += len(chunk)
        last = next((item for item in reversed(self._queue) if isinstance(item, Barrier)), None)
        if last is not None:
            last.bytes += len(chunk)

    def eof(self) -> None:
        """FIN, in its turn."""
        self._put(_Ending.EOF)

    def reset(self) -> None:
        """RST, in its turn."""
        self._put(_Ending.RESET)

    def call(self, act: Callable[[], None]) -> None:
        """Do something when all that came before has gone."""
        self._put(act)

    def bar(self, barrier: Barrier) -> None:
        """Hold back what comes from now on."""
        self._queue.append(barrier)

    def lift(self, barrier: Barrier) -> None:
        """Let go of what the barrier holds, once those before it are lifted too."""
        barrier.lifted = True
        self._flow()

    def lift_all_of(self, owner: object) -> None:
        """Lift every barrier that `owner` has put up."""
        for item in self._queue:
            if isinstance(item, Barrier) and item.owner is owner:
                item.lifted = True
        self._flow()

    def clear(self) -> None:
        """Forget what is held: the connection ends here."""
        self._queue.clear()
        self.held = 0

    def _put(self, item: _Ending | Callable[[], None]) -> None:
        self._queue.append(item)
        if len(self._queue) == 1:
            self._flow()

    def _flow(self) -> None:
        while self._queue:
            item = self._queue[0]
            if isinstance(item, Barrier) and not item.lifted:
                return
            self._queue.popleft()
            match item:
                case Barrier():
                    item.gone(self._now() - item.since, item.bytes)
                case bytes():
                    self.held -= len(item)
                    self._outlet.next.data(item)
                case _Ending.EOF:
                    self._outlet.next.eof()
                case _Ending.RESET:
                    self._outlet.next.reset()
                case _ if callable(item):
                    item()
                case _:
                    assert_never(item)


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
