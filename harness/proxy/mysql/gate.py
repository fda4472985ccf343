"""The packet gate of one direction: it applies the link's packet toxics to messages of MySQL's protocol.

Toxiproxy has nothing like it; its toxics see bytes only. Without a packet toxic the bytes pass untouched and
undelayed; with one, every message that it does not act on passes, in order. Where an `Action` begins depends on
packets alone, never on how their bytes arrived. Nothing overtakes a `Barrier`, FIN and RST included.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Protocol, assert_never

from harness.proxy.mysql.commands import HANDSHAKE, CommandExchange, MessageKind
from harness.proxy.mysql.dialogue import reply_word
from harness.proxy.mysql.frames import HEADER_BYTES, FrameTracker, Packet, PacketPart
from harness.proxy.mysql.rules import ENDING, PacketRule, PacketToxic, RuleAction, Then
from harness.proxy.toxics.stage import Receiver, Stream, Timer


class Action:
    """One packet toxic acting on one message. Mutable: counts what it takes out of the stream."""

    __slots__ = (
        "beside", "bytes", "command", "done", "exchange", "match", "offset", "packet", "packets", "reached", "reply",
        "rule", "sequence", "statement", "toxic",
    )  # fmt: skip

    def __init__(self, *, toxic: str, rule: PacketRule, exchange: CommandExchange, match: int) -> None:
        self.toxic = toxic
        self.rule = rule
        self.exchange = exchange
        self.match = match
        self.command = exchange.kinds()[0].value
        self.statement = exchange.first_word()
        self.beside: list[Action] = []
        """Further toxics that hold the message at the same point: it goes on when all of them let it go."""
        self.offset = 0
        """Offset in the direction's bytes at which it began to act."""
        self.packet = 0
        """The number of the packet at which it began to act."""
        self.sequence = 0
        """That packet's sequence number."""
        self.reply = ""
        """`ok`, `error` or `result`, where it acts on a reply from its first byte on; else empty."""
        self.bytes = 0
        self.packets = 0
        self.reached = False
        self.done = False

    @property
    def takes(self) -> bool:
        """Whether it takes bytes out of the stream."""
        return self.rule.do in {RuleAction.DROP, RuleAction.ERROR}

    @property
    def whole(self) -> bool:
        """Whether it covers the rest of the message from its point on, not one packet."""
        return self.rule.packet == 0 or self.rule.do is not RuleAction.DROP

    @property
    def ending(self) -> Then:
        """What happens to the connection after its error: after some errors a server hangs up, too."""
        if self.rule.then is not Then.NONE:
            return self.rule.then
        return Then.CLOSE if self.rule.code in ENDING or self.exchange.command == HANDSHAKE else Then.NONE

    def point(self, position: int, size: int, *, ends: bool) -> int | None:
        """Offset in the next `size` bytes at which it begins to act; None: not in these bytes.

        The bytes belong to the packet that the rule names and start at `position` in it; `ends`: they reach the
        packet's end.
        """
        cut = max(self.rule.byte, 0)
        if position <= cut < position + size:
            return cut - position
        return size if ends and cut >= position + size else None

    @property
    def is_several(self) -> bool:
        """Whether it is of several replies in one, of which the first one says nothing of the others."""
        return bool(self.exchange.parts) and not self.rule.packet and self.rule.byte < 0

    def begin(self, packet: Packet, *, offset: int, reply: str = "") -> None:
        """The point at which it acts was reached."""
        self.reached = True
        self.offset, self.packet, self.sequence, self.reply = offset, packet.number, packet.sequence, reply
        for other in self.beside:
            other.begin(packet, offset=offset, reply=reply)

    def is_held_with(self, rule: PacketRule) -> bool:
        """Whether this action and `rule` hold the message at the same point."""
        points = {(one.do, one.packet, one.byte) for one in (self.rule, rule)}
        return len(points) == 1 and rule.do is RuleAction.HOLD

    def complete_with(self, packet: Packet) -> bool:
        """Whether the action has all that it needs of the message after this packet.

        For a login any packet completes it: if the greeting is lost, no last packet comes.
        """
        return not self.whole or packet.last or self.exchange.command == HANDSHAKE

    def numbers(self) -> dict[str, int | str]:
        """The fields of its log entries that say where it acted."""
        said: dict[str, int | str] = {
            "match": self.match,
            "command": self.command,
            "statement": self.statement,
            "packet": self.packet,
            "offset": self.offset,
        }
        return {**said, "reply": self.reply} if self.reply else said


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A message that is only logged."""

    toxic: str
    match: int
    reply: str = ""
    code: int = 0
    """The number of the server's error; 0: the reply is none."""

    def numbers(self, exchange: CommandExchange) -> dict[str, int | str]:
        """The fields of its log entry."""
        said: dict[str, int | str] = {
            "match": self.match,
            "command": exchange.kinds()[0].value,
            "statement": exchange.first_word(),
            "table": exchange.table(),
        }
        if exchange.tables:
            said["tables"] = ",".join(exchange.tables)
        if self.reply:
            said["reply"] = self.reply
        for name, kind in (("writes", MessageKind.WRITE), ("commits", MessageKind.COMMIT)):
            if count := sum(kind in one.kinds() for one in exchange.parts or (exchange,)):
                said[name] = count
        return {**said, "code": self.code} if self.code else said


class _Ending(Enum):
    EOF = "eof"
    RESET = "reset"


@dataclass(slots=True, kw_only=True, eq=False)
class Barrier:
    """Holds back everything after it until it is lifted. Mutable."""

    owner: object
    since: float
    gone: Callable[[float, int], None]
    """Called when it lets go, with the seconds it stood and the bytes that waited behind it."""
    lifted: bool = False
    bytes: int = 0


class Tap:
    """The end of a direction's chain: calls back when so many bytes have passed all toxics. Mutable."""

    __slots__ = ("_passed", "_waiting", "is_fitted", "next")

    next: Receiver
    """The socket; set by the direction."""

    def __init__(self) -> None:
        self._passed = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self.is_fitted = False
        """Whether bytes pass it, from the connection's first on; else calls are made at once."""

    def call_after(self, count: int, act: Callable[[], None]) -> None:
        """Call `act` when `count` bytes of the whole direction have passed."""
        if self.is_fitted and self._passed < count:
            self._waiting.append((count, act))
        else:
            act()

    def data(self, chunk: bytes) -> None:
        self.next.data(chunk)
        self._passed += len(chunk)
        while self._waiting and self._waiting[0][0] <= self._passed:
            self._waiting.popleft()[1]()

    def eof(self) -> None:
        self.next.eof()

    def reset(self) -> None:
        self.next.reset()


class Outflow:
    """A queue that is empty unless a barrier stands. Mutable."""

    __slots__ = ("_now", "_outlet", "_queue", "held")

    def __init__(self, outlet: PacketGate, *, now: Callable[[], float]) -> None:
        self._outlet = outlet
        self._now = now
        self.held = 0
        """Bytes behind barriers."""
        self._queue: deque[bytes | _Ending | Barrier | Callable[[], None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._queue)

    def data(self, chunk: bytes) -> None:
        if not self._queue:
            self._outlet.next.data(chunk)
            return
        self._queue.append(chunk)
        self.held += len(chunk)
        last = next((item for item in reversed(self._queue) if isinstance(item, Barrier)), None)
        if last is not None:
            last.bytes += len(chunk)

    def eof(self) -> None:
        """FIN, after what is queued."""
        self._put(_Ending.EOF)

    def reset(self) -> None:
        """RST, after what is queued."""
        self._put(_Ending.RESET)

    def call(self, act: Callable[[], None]) -> None:
        """Call `act` when everything queued before it has been sent."""
        self._put(act)

    def bar(self, barrier: Barrier) -> None:
        """Add a barrier."""
        self._queue.append(barrier)

    def lift(self, barrier: Barrier) -> None:
        """Lift the barrier; what it holds flows once earlier barriers are lifted too."""
        barrier.lifted = True
        self._flow()

    def lift_all_of(self, owner: object) -> None:
        """Lift every barrier of `owner`."""
        for item in self._queue:
            if isinstance(item, Barrier) and item.owner is owner:
                item.lifted = True
        self._flow()

    def clear(self) -> None:
        """Drop what is queued, at the connection's end."""
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
"""While this many bytes or more wait behind barriers, the source is not read."""


class GateWire(Protocol):
    """What a gate needs of its connection."""

    def reset(self) -> None: ...

    def close(self) -> None:
        """FIN to both ends, after what was delivered."""

    def call_later(self, seconds: float, act: Callable[[], None]) -> Timer:
        """Call `act` after this many seconds, unless the connection ends first."""

    def now(self) -> float:
        """The loop's time in seconds."""

    def eased(self) -> None:
        """Fewer bytes are held than before."""

    def client_port(self) -> int:
        """The port of the client's end."""

    def client_pid(self) -> int:
        """The process that opened the connection; 0: not known."""

    def log_event(self, did: str, *, stream: str, toxic: str, **numbers: int | str) -> None:
        """Add an entry to the link's log."""


class GatedConversation(Protocol):
    """What a gate needs of its conversation."""

    @property
    def wire(self) -> GateWire: ...

    def session(self) -> int:
        """The server's number of the session; 0: it has not greeted."""

    def unanswered(self) -> int:
        """How many requests have no complete reply yet; a login is one."""

    def owes(self) -> bool:
        """Whether an error of ours waits to be sent among the replies."""

    def failed(self, exchange: CommandExchange, action: Action, *, sequence: int) -> None:
        """A request was taken out of the stream; our error will answer it."""

    def forgotten(self, exchange: CommandExchange) -> None:
        """A request was taken out of the stream; the server will not reply to it."""

    def begins(self, exchange: CommandExchange) -> None:
        """A reply begins: errors of ours that precede it are sent now."""

    def passed(self, exchange: CommandExchange) -> None:
        """A reply has ended, delivered or not."""

    def caught_up(self) -> None:
        """Everything that the server sent so far has been handled."""

    def error(self, action: Action, *, sequence: int) -> bytes: ...

    def check(self) -> None:
        """Handle a stream that has stopped being understood."""


class PacketGate:
    """One direction's gate. Mutable. It has a `Receiver`'s methods and a stage's `held`."""

    next: Receiver
    """The next element of the chain; set by the direction."""
    held_max = HELD_MAX

    def __init__(self, *, stream: Stream, tracker: FrameTracker, table: GatedConversation) -> None:
        self.stream = stream
        self.tracking = True
        """Whether the direction may call `track` and pass the bytes on itself."""
        self.out = Outflow(self, now=table.wire.now)
        self.tap = Tap()
        """At the end of the direction's chain, once `is_fitted`."""
        self._sent = 0
        """Bytes that were given to `out` by the gate itself."""
        self._table = table
        self._tracker = tracker
        self._delivered: list[bytes] = []
        """Parts to be sent together when a chunk has been processed or something else is sent."""
        self._toxics: dict[str, PacketToxic] = {}
        self._matched: dict[str, int] = {}
        self._picked: tuple[CommandExchange | None, list[PacketToxic]] = None, []
        """The current message and the toxics that match it; only toxics that were there when it began."""
        self._notes: list[Note] = []
        """What is to be logged of the current message."""
        self._action: Action | None = None
        self._silenced_by = ""
        self._over = False
        self._ended = False
        """Whether the source has sent its FIN or RST."""
        self._offset = 0
        """Bytes of this direction before the part that is being processed."""
        self._position = 0
        """Bytes of the packet before that part."""

    # --------------------------------------------------------------------------- what its direction calls

    @property
    def held(self) -> int:
        return self.out.held

    def track(self, chunk: bytes) -> None:
        """Follow bytes that the caller passes on itself; only while `tracking`."""
        self._offset += len(chunk)
        if not self._tracker.track(chunk):
            self._table.check()

    def data(self, chunk: bytes) -> None:
        """Bytes from the source."""
        for part in self._tracker.parts(chunk):
            self._part(part)
        if self.stream is Stream.DOWNSTREAM:
            self._table.caught_up()
        self._flush()
        self._table.check()
        self.settle()

    def eof(self) -> None:
        """The source's FIN."""
        self._note_end()
        if not self._deaf:
            self.let_go()
            self.out.eof()

    def reset(self) -> None:
        """The source's RST."""
        self._note_end()
        if not self._deaf:
            self.out.reset()

    # -------------------------------------------------------------------------------------- its toxics

    def add(self, toxic: PacketToxic) -> None:
        """Let a toxic act here; a message that has begun is not matched."""
        self._toxics[toxic.name] = toxic
        self.settle()

    def remove(self, toxic: PacketToxic) -> None:
        """Remove a toxic: what it held flows on; a direction that it silenced is reset."""
        if self._toxics.pop(toxic.name, None) is None:
            return
        if self._silenced_by == toxic.name:
            self._table.wire.reset()
        else:
            self.out.lift_all_of(toxic.name)
            self._table.wire.eased()
        self.settle()

    def release(self, toxic: str) -> None:
        """Send what `toxic` holds here; it goes on acting on later messages."""
        self.out.lift_all_of(toxic)
        self._table.wire.eased()
        self.settle()

    def settle(self) -> None:
        """Update `tracking`: whether bytes may bypass the gate again."""
        busy = self._toxics or self.out or self._action or self._deaf
        self.tracking = not (busy or (self.stream is Stream.DOWNSTREAM and self._table.owes()))
        if self.tracking:
            self.let_go()

    def let_go(self) -> None:
        """Send the kept beginning of a packet."""
        kept = self._tracker.release()
        if kept:
            self._offset += len(kept)
            self.emit(kept)

    def emit(self, data: bytes) -> None:
        """Send bytes to the far end, after what was delivered."""
        self._flush()
        self._sent += len(data)
        self.out.data(data)

    @property
    def _deaf(self) -> bool:
        return self._over or bool(self._silenced_by)

    # ----------------------------------------------------------------------------------------- packets

    def _part(self, part: PacketPart) -> None:
        packet = part.packet
        if self._deaf:
            return
        if packet is None:
            self._deliver(part.data)
            return
        exchange = packet.message
        assert isinstance(exchange, CommandExchange)
        if part.starts and not self._starts(packet, exchange):
            return
        action = self._action
        is_taken = action is not None and action.exchange is exchange and action.takes
        if self.stream is Stream.DOWNSTREAM and exchange.replaced:
            self._offset += len(part.data)
        elif self._action is None or self._action.exchange is not exchange:
            self._deliver(part.data)
        else:
            self._act(self._action, packet, part)
        self._position += len(part.data)
        if self._notes:
            self._take_notes(packet, part, is_taken=is_taken)
        if self.stream is Stream.DOWNSTREAM and packet.last and part.ends:
            self._table.passed(exchange)

    def _starts(self, packet: Packet, exchange: CommandExchange) -> bool:
        """A packet starts; returns whether the direction still delivers after errors that precede the packet."""
        self._position = 0
        if self.stream is Stream.DOWNSTREAM and packet.number == 1:
            self._table.begins(exchange)
        if self._deaf:
            return False
        self._choose(packet.number, exchange)
        return True

    def _choose(self, number: int, exchange: CommandExchange) -> None:
        """Match the packet against the toxics that name its number; the first one whose rule acts on its match wins.

        Several that hold the message at the same point all act.
        """
        if number == 1:
            self._action = None
            self._notes = []
            self._picked = exchange, [each for each in self._toxics.values() if each.picks(exchange)]
        message, toxics = self._picked
        if message is not exchange:
            return
        for toxic in toxics:
            name, rule = toxic.name, toxic.rule
            if max(rule.packet, 1) != number or name not in self._toxics:
                continue
            matches = toxic.match(exchange, matched_here=self._matched.get(name, 0))
            self._matched[name] = self._matched.get(name, 0) + len(matches)
            match = rule.acts_on(matches)
            if match and rule.do is RuleAction.NOTE:
                self._notes.append(Note(toxic=name, match=match))
            elif match:
                action = Action(toxic=name, rule=rule, exchange=exchange, match=match)
                if self._action is None:
                    self._action = action
                elif self._action.is_held_with(rule):
                    self._action.beside.append(action)

    def _take_notes(self, packet: Packet, part: PacketPart, *, is_taken: bool) -> None:
        """Log a request at its first bytes, and a reply when all of it has passed every toxic on its way to the client.

        `is_taken`: a toxic takes the message out of the stream, so the client gets no such reply.
        """
        payload = part.data[HEADER_BYTES:]
        is_end = (
            packet.last and payload[:1] == b"\xff"
        )  # of several statements, the one that fails is the last one
        if part.starts and (packet.number == 1 or is_end) and self.stream is Stream.DOWNSTREAM:
            word = reply_word(payload)
            code = int.from_bytes(payload[1:3], "little") if word == "error" else 0
            self._notes = [replace(note, reply=word, code=code) for note in self._notes]
        if self.stream is Stream.UPSTREAM or (packet.last and part.ends):
            exchange = packet.message
            assert isinstance(exchange, CommandExchange)
            for note in self._notes:
                if self.stream is Stream.UPSTREAM:
                    self._log_note(note, exchange)
                elif not is_taken and not exchange.replaced:
                    waiting = sum(map(len, self._delivered))
                    self.tap.call_after(self._sent + waiting, partial(self._log_note, note, exchange))
            self._notes = []

    def _log_note(self, note: Note, exchange: CommandExchange) -> None:
        wire = self._table.wire
        wire.log_event(
            "noted",
            stream=self.stream.value,
            toxic=note.toxic,
            **note.numbers(exchange),
            peer=wire.client_port(),
            session=self._table.session(),
            pid=wire.client_pid(),
        )

    def _note_end(self) -> None:
        """Log once, for each toxic that notes, that the source has ended the connection."""
        for toxic in self._toxics.values():
            if toxic.rule.do is RuleAction.NOTE and not self._ended:
                left, wire = self._table.unanswered(), self._table.wire
                wire.log_event(
                    "ended",
                    stream=self.stream.value,
                    toxic=toxic.name,
                    left=left,
                    peer=wire.client_port(),
                )
        self._ended = True

    def _deliver(self, data: bytes) -> None:
        if data:
            self._offset += len(data)
            self._delivered.append(data)

    def _flush(self) -> None:
        if self._delivered:
            data = b"".join(self._delivered)
            self._delivered.clear()
            self._sent += len(data)
            self.out.data(data)

    # ----------------------------------------------------------------------------------------- acting

    def _act(self, action: Action, packet: Packet, part: PacketPart) -> None:
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
        """Start to act."""
        rule, wire = action.rule, self._table.wire
        self._flush()
        if rule.do is RuleAction.RESET:
            self._over = True
            self._log_action("reset", action)
            wire.reset()
        elif rule.do is RuleAction.CLOSE:
            self._over = True
            self._log_action("cut", action)
            wire.close()
        elif rule.do is RuleAction.DROP and rule.byte >= 0:
            # Bytes are missing inside a packet, so nothing more of this direction is delivered.
            self._silenced_by = action.toxic
            self._log_action("cut", action)
            self.end(rule.then)
        elif rule.do is RuleAction.DROP:
            self._log_action("dropping", action)  # the message may never end
        elif rule.do in {RuleAction.HOLD, RuleAction.DELAY}:
            for one in (action, *action.beside):
                self._bar(one)

    def _bar(self, action: Action) -> None:
        wire, delays = self._table.wire, action.rule.do is RuleAction.DELAY

        def gone(seconds: float, held: int) -> None:
            self._log_action("delayed", action, ms=round(seconds * 1000), bytes=held)

        barrier = Barrier(owner=action.toxic, since=wire.now(), gone=gone)
        self.out.bar(barrier)
        if delays:
            wire.call_later(action.rule.ms / 1000, lambda: self._lift(barrier))
        elif self.stream is Stream.UPSTREAM or not action.is_several:
            self._log_held(action)

    def _log_held(self, action: Action) -> None:
        self._log_action(
            "held",
            action,
            table=action.exchange.table(),
            tables=",".join(action.exchange.tables),
            peer=self._table.wire.client_port(),
            session=self._table.session(),
        )

    def _lift(self, barrier: Barrier) -> None:
        self.out.lift(barrier)
        self.settle()
        self._table.wire.eased()

    def _complete(self, action: Action) -> None:
        """Note that all bytes that the action takes or holds of this message have arrived."""
        action.done = True
        goes_on = action.exchange.command == HANDSHAKE and action.takes and action.whole
        if not goes_on:
            self._action = None
        if self.stream is Stream.DOWNSTREAM and action.is_several and action.rule.do is RuleAction.HOLD:
            for one in (action, *action.beside):  # only now has the server carried out all of it
                self._log_held(one)
        if action.rule.do is RuleAction.DROP:
            self._log_action("dropped", action, bytes=action.bytes, packets=action.packets)
            if self.stream is Stream.UPSTREAM and action.packet == 1:
                self._table.forgotten(action.exchange)
        if action.rule.do is not RuleAction.ERROR:
            self.end(action.rule.then)
            return
        self._log_action("error", action, code=action.rule.code, bytes=action.bytes, packets=action.packets)
        if self.stream is Stream.UPSTREAM:
            self._table.failed(action.exchange, action, sequence=action.sequence + 1)
        else:
            self.emit(self._table.error(action, sequence=action.sequence))
            self.end(action.ending)

    def end(self, then: Then) -> None:
        """End the connection as a rule of this or of the other direction says, after what is held."""
        if then is Then.NONE:
            return

        def end_now() -> None:
            self._over = True
            wire = self._table.wire
            (wire.reset if then is Then.RESET else wire.close)()

        self._flush()
        self.out.call(end_now)

    def _log_action(self, did: str, action: Action, **numbers: int | str) -> None:
        self._table.wire.log_event(
            did, stream=self.stream.value, toxic=action.toxic, **action.numbers(), **numbers
        )
