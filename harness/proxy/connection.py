"""A connection: an accepted client, the server dialled for it, and a `Direction` each way.

Answers to Toxiproxy's `ConnectionList` entry and its pair of links. What one peer does (FIN, RST, silence)
the other one sees, unless a toxic prevents it; a connection waits for nothing but its own two peers. A
`Station` is the `Place` of one toxic at one direction. An `ConnectionTimer` is a timer that is cancelled when
its connection ends.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import Future
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

from harness.proxy.direction import Direction
from harness.proxy.link_log import LinkLog
from harness.proxy.mysql.conversation import MySqlConversation
from harness.proxy.mysql.rules import PacketToxic, RuleAction
from harness.proxy.peer import Dial, Peer
from harness.proxy.proxy_parts import ProxyParts
from harness.proxy.toxic_kinds import TOXIC_KINDS
from harness.proxy.toxics.stage import Gate, Stream, Timer, Toxic, Wire
from harness.system.choices import Choices
from harness.system.process_identity import ProcessIdentity, owner_of_socket


class ConnectionTimer:
    """A timer, started on construction.

    Mutable: it stays in its connection's `among` until it fires or is cancelled.
    """

    __slots__ = ("_act", "_among", "_handle")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        act: Callable[[], None],
        *,
        among: dict[ConnectionTimer, None],
    ) -> None:
        self._act = act
        self._among = among
        self._handle = loop.call_later(max(0.0, seconds), self._ring)
        among[self] = None

    def cancel(self) -> None:
        self._handle.cancel()
        self._among.pop(self, None)

    def _ring(self) -> None:
        del self._among[self]
        self._act()


class Station:
    """A stage's `Place`. Mutable: the random choices are created at first use."""

    __slots__ = ("_choices", "_line", "_toxic", "eased", "later", "now", "stream", "wire")

    def __init__(self, line: Connection, *, stream: Stream, toxic: str) -> None:
        self._line = line
        self._toxic = toxic
        self._choices: Choices | None = None
        self.wire: Wire = line
        self.stream = stream
        self.now = line.now
        self.later = line.call_later
        self.eased = line.eased

    @property
    def choices(self) -> Choices:
        if self._choices is None:
            self._choices = self._line.choices(self._toxic)
        return self._choices

    def log_event(self, did: str, **numbers: int | str) -> None:
        self._line.log_event(did, stream=self.stream, toxic=self._toxic, **numbers)


Traffic = Mapping[Stream, tuple[int, int]]
"""Bytes received and bytes sent, by direction."""

_CLOSE_WAIT_S = 5.0
"""How long a close waits for a peer that does not read; then both sockets are closed at once."""


class LinkState(Protocol):
    """What a connection needs of its link."""

    @property
    def name(self) -> str: ...

    @property
    def upstream(self) -> str:
        """The address to dial."""

    @property
    def mysql(self) -> bool:
        """Whether to follow MySQL's packets from the first byte, without waiting for a packet toxic."""

    @property
    def toxics(self) -> list[Toxic]:
        """The toxics in the order in which bytes pass them."""

    @property
    def packet_toxics(self) -> dict[str, PacketToxic]:
        """The link's packet toxics, by name."""

    @property
    def log(self) -> LinkLog: ...

    def ended(self, connection: Connection) -> None:
        """Called when both sockets of `connection` are closed."""


class Connection:
    """One client's connection. Mutable. It is the `Wire` of its stages and the watcher of its peers."""

    def __init__(
        self,
        accepted: socket.socket,
        *,
        id: int,
        number: int,
        peer: str,
        link: LinkState,
        parts: ProxyParts,
    ) -> None:
        self.id = id
        self._number = number
        self._dice = parts.dice
        self.peer = peer
        """The client's address."""
        self._link = link
        self._parts = parts
        self.upstream = Direction(Stream.UPSTREAM, holdings=parts.holdings)
        self.downstream = Direction(Stream.DOWNSTREAM, holdings=parts.holdings)
        self._client = Peer(accepted, pump=parts.pump, into=self.upstream, watcher=self)
        self._server: Peer | None = None
        self._identified: Future[ProcessIdentity | None] | None = None
        self._dial: Dial | None = None
        self._conversation: MySqlConversation | None = None
        self._stations: dict[str, Station] = {}
        self._shares: dict[str, float] = {}
        self._timers: dict[ConnectionTimer, None] = {}
        self._closes_behind: dict[Stream, None] = {}
        self.ended = False
        self._told_own_end = False

    # ------------------------------------------------------------------------------ its beginning

    def begin(self) -> None:
        """Dial the server, unless a `stall` toxic acts on the connection; the client is already accepted."""
        if self._server is not None or self._dial is not None or self.ended or self._stalled():
            return
        if self._identified is None and self._parts.identifies:
            # Before it is greeted: of a session that ended after 15 ms nobody could tell any more whose it was.
            self._identified = self._parts.loop.run_in_executor(
                None, partial(owner_of_socket, port=self.client_port(), peer=self._client.port)
            )
            self._identified.add_done_callback(lambda _: self.begin())
        if self._identified is not None and not self._identified.done():
            return
        self._dial = Dial(self._link.upstream, parts=self._parts, done=self._dialled)
        self._dial.begin()

    def _stalled(self) -> bool:
        stalling = [toxic for toxic in self._link.toxics if toxic.type == "stall" and self._acts(toxic)]
        for toxic in stalling:
            self.log_event("stalled", stream=toxic.direction, toxic=toxic.name)
        return bool(stalling)

    def _dialled(self, connected: socket.socket | None) -> None:
        dial, self._dial = self._dial, None
        if connected is None:
            for noter in self._noters():
                self.log_event("undialled", stream=noter.stream, toxic=noter.name, peer=self.client_port())
            if dial is not None and dial.was_reset:
                self._client.reset()
            else:
                self._client.close(deliver=False)
            return
        self._server = Peer(connected, pump=self._parts.pump, into=self.downstream, watcher=self)
        self.upstream.source, self.upstream.outlet = self._client, self._server
        self.downstream.source, self.downstream.outlet = self._server, self._client
        gates: tuple[Gate, Gate] | tuple[None, None] = (None, None)
        if self._link.mysql or self._link.packet_toxics:
            conversation = self._conversation = MySqlConversation(self)
            gates = conversation.requests, conversation.replies
            for toxic in self._link.toxics:
                self._arm_gate(toxic)
        if self._conversation is not None and any(self._noters()):
            self._conversation.replies.tap.is_fitted = True
            self.downstream.tap = self._conversation.replies.tap
        for toxic in self._link.toxics:
            self._fit(toxic, self._direction(toxic.direction))
        self._arrange(self.upstream)
        self._arrange(self.downstream)
        self.upstream.begin(gate=gates[0])
        self.downstream.begin(gate=gates[1])

    def _noters(self) -> list[PacketToxic]:
        """The toxics that note the replies."""
        return [
            toxic
            for toxic in self._link.packet_toxics.values()
            if toxic.rule.do is RuleAction.NOTE and toxic.stream is Stream.DOWNSTREAM
        ]

    def _note_own_end(self) -> None:
        """Log, for toxics that note, that a toxic or a call of the control interface ends the connection."""
        if self._conversation is not None and not self._told_own_end and not self.ended:
            self._told_own_end = True
            for toxic in self._noters():
                left = self._conversation.unanswered()
                self.log_event("ended", stream="", toxic=toxic.name, left=left, peer=self.client_port())

    # --------------------------------------------------------------------------------- its toxics

    def change(self, toxic: Toxic) -> None:
        """A toxic of the link was added or changed."""
        if toxic.type == "stall":
            self.begin()
        elif self._server is None or self.ended:
            return  # the stages are created when the server is connected
        elif toxic.type == "packet":
            self._arm_gate(toxic)
        else:
            direction = self._direction(toxic.direction)
            self._fit(toxic, direction)
            self._arrange(direction)
            direction.review()

    def spare(self, toxic: Toxic) -> None:
        """A toxic of the link was removed."""
        if toxic.type == "stall":
            self.begin()
        elif toxic.type == "packet":
            packet = self._link.packet_toxics.get(toxic.name)
            if packet is not None and self._conversation is not None and not self.ended:
                self._conversation.remove(packet)
        else:
            self._remove(toxic.name, self._direction(toxic.direction))

    def _fit(self, toxic: Toxic, direction: Direction) -> None:
        """Create, update or remove the stage of `toxic`, by whether the toxic acts on this connection."""
        make = TOXIC_KINDS[toxic.type].stage
        stage = direction.stages.get(toxic.name)
        if make is None:
            return
        if not self._acts(toxic):
            self._remove(toxic.name, direction)
        elif stage is None:
            station = Station(self, stream=direction.stream, toxic=toxic.name)
            direction.stages[toxic.name] = make(station, toxic.attributes)
        else:
            stage.update(toxic.attributes)

    def _arrange(self, direction: Direction) -> None:
        if not self.ended:
            direction.arrange([toxic.name for toxic in self._link.toxics])

    def _remove(self, name: str, direction: Direction) -> None:
        stage = direction.stages.get(name)
        if stage is None:
            return
        stage.removed()
        direction.stages.pop(name, None)
        if not self.ended:
            self._arrange(direction)
            direction.review()

    def _arm_gate(self, toxic: Toxic) -> None:
        packet = self._link.packet_toxics.get(toxic.name)
        if packet is None or self._conversation is None:
            return
        if self._acts(toxic):
            self._conversation.add(packet)
        else:
            self._conversation.remove(packet)

    def _acts(self, toxic: Toxic) -> bool:
        """Whether the toxic acts on this connection: its toxicity is above the connection's drawn share.

        The share is drawn once for each connection and toxic, so a changed toxicity draws nothing again.
        """
        if not 0.0 < toxic.toxicity < 1.0:
            return toxic.toxicity > 0
        share = self._shares.get(toxic.name)
        if share is None:
            share = self._dice.share(self._link.name, self._number, toxic.name)
            self._shares[toxic.name] = share
            acts = "acts" if share < toxic.toxicity else "spares"
            self.log_event(
                "decided", stream=toxic.direction, toxic=toxic.name, drawn=f"{share:.6f}", outcome=acts
            )
        return share < toxic.toxicity

    def _direction(self, stream: Stream) -> Direction:
        return self.upstream if stream is Stream.UPSTREAM else self.downstream

    # ---------------------------------------------------------------------- what stages may ask for

    def reset(self) -> None:
        """RST to both ends, now; what is held is lost."""
        self._note_own_end()
        self._abandon_dial(reset=True)
        for peer in self._peers():
            peer.reset()

    def close(self, *, deliver: bool = True) -> None:
        """FIN to both ends, after what already left the stages (`deliver`) or at once; what stages hold is lost."""
        self._note_own_end()
        self._abandon_dial(reset=False)
        for peer in self._peers():
            peer.close(deliver=deliver)
        if not self.ended:
            self.call_later(_CLOSE_WAIT_S, lambda: self.close(deliver=False))

    def close_behind(self, stream: Stream) -> None:
        """FIN to both ends once this direction's FIN has passed all stages."""
        self._closes_behind[stream] = None
        if self._direction(stream).outlet.shut:
            self.close()

    def call_later(self, seconds: float, act: Callable[[], None]) -> Timer:
        """Call `act` after this many seconds, unless the connection ends first."""
        return ConnectionTimer(self._parts.loop, seconds, act, among=self._timers)

    def now(self) -> float:
        """The loop's time in seconds."""
        return self._parts.loop.time()

    def eased(self) -> None:
        """A stage holds fewer bytes: check whether a peer may be read again."""
        if self._server is not None and not self.ended:
            self.upstream.review()
            self.downstream.review()

    def choices(self, toxic: str) -> Choices:
        return self._dice.choices(self._link.name, self._number, toxic)

    def client_port(self) -> int:
        return int(self.peer.rpartition(":")[2])

    def client_pid(self) -> int:
        """The process that opened it; 0: not known, because it was not asked for or is on another machine."""
        if pid := self._parts.opened_by(self.client_port()):
            return pid
        found = (
            self._identified.result() if self._identified is not None and self._identified.done() else None
        )
        return 0 if found is None else found.pid

    def release(self, toxic: PacketToxic) -> None:
        """Send what a packet toxic holds of this connection."""
        if self._conversation is not None and not self.ended:
            self._conversation.release(toxic)

    def log_event(self, did: str, *, stream: str, toxic: str, **numbers: int | str) -> None:
        self._link.log.note(self.id, stream, toxic, did, **numbers)

    # -------------------------------------------------------------------------- news from its peers

    def congested(self, peer: Peer) -> None:
        """The peer's socket is full, or takes bytes again."""
        if self._server is not None and not self.ended:
            (self.downstream if peer is self._client else self.upstream).review()

    def lost(self, peer: Peer) -> None:
        """The peer reset the connection; the reset passes through the stages to the other peer."""
        self._abandon_dial(reset=True)
        if self._server is not None and not self.ended:
            (self.upstream if peer is self._client else self.downstream).lost()

    def told_all(self, peer: Peer) -> None:
        if (Stream.DOWNSTREAM if peer is self._client else Stream.UPSTREAM) in self._closes_behind:
            self.close()

    def gone(self, peer: Peer) -> None:
        """The peer's socket is closed; when both are, the connection has ended."""
        del peer
        if all(each.closed for each in self._peers()) and not self.ended:
            self.ended = True
            for alarm in list(self._timers):
                alarm.cancel()
            self.upstream.dismiss()
            self.downstream.dismiss()
            self._link.ended(self)

    def _abandon_dial(self, *, reset: bool) -> None:
        if self._dial is not None:
            self._dial.abandon(reset=reset)
            self._dial = None

    def _peers(self) -> Iterable[Peer]:
        return (self._client,) if self._server is None else (self._client, self._server)

    def traffic(self) -> Traffic:
        """Bytes so far."""
        sent_upstream = 0 if self._server is None else self._server.sent
        return {
            Stream.UPSTREAM: (self.upstream.received, sent_upstream),
            Stream.DOWNSTREAM: (self.downstream.received, self._client.sent),
        }

    def as_json(self) -> dict[str, object]:
        """The object that the control API shows.

        `delivered`: written to a socket; `swallowed`: received and lost to a toxic.
        """
        is_dialling = self._dial is not None or (self._identified is not None and not self._identified.done())
        state = "live" if self._server is not None else "dialling" if is_dialling else "stalled"
        shown: dict[str, object] = {"id": self.id, "peer": self.peer, "state": state}
        if self._conversation is not None and (session := self._conversation.session()):
            shown["session"] = session
        if pid := self.client_pid():
            shown["pid"] = pid
        for direction in (self.upstream, self.downstream):
            shown[str(direction.stream)] = (
                direction.counted() if self._server is not None else {"received": 0, "delivered": 0}
            )
        return shown
