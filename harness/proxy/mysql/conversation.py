"""One connection's MySQL conversation: the dialogue of requests and replies, and a packet gate each way.

Invariant: an error of ours is sent where the server's would be: after the replies to earlier requests, with the next
sequence number. For a request that the server never received, no reply is awaited.
"""

from __future__ import annotations

from harness.proxy.mysql.commands import HANDSHAKE, QUERY, CommandExchange
from harness.proxy.mysql.dialogue import Dialogue
from harness.proxy.mysql.gate import Action, GateWire, PacketGate
from harness.proxy.mysql.rules import ROLLS_BACK, PacketToxic, Then, error_packet, rollback_packet
from harness.proxy.toxics.stage import Stream


class MySqlConversation:
    """One connection's packets; its gates' `GatedConversation`. Mutable.

    It must see the bytes from the first on.
    """

    def __init__(self, wire: GateWire) -> None:
        self.wire = wire
        self._dialogue = Dialogue()
        self._told = False
        self._owed: dict[CommandExchange, Then] = {}
        """Requests that our error will answer, and what happens to the connection after it."""
        self.requests = PacketGate(stream=Stream.UPSTREAM, tracker=self._dialogue.requests, table=self)
        self.replies = PacketGate(stream=Stream.DOWNSTREAM, tracker=self._dialogue.replies, table=self)

    def add(self, toxic: PacketToxic) -> None:
        """Let a packet toxic act on its direction from the next message on."""
        self._gate(toxic).add(toxic)

    def remove(self, toxic: PacketToxic) -> None:
        """Remove a packet toxic."""
        self._gate(toxic).remove(toxic)

    def _gate(self, toxic: PacketToxic) -> PacketGate:
        return self.requests if toxic.stream is Stream.UPSTREAM else self.replies

    def release(self, toxic: PacketToxic) -> None:
        """Send what the toxic holds here; it goes on acting."""
        self._gate(toxic).release(toxic.name)

    def unanswered(self) -> int:
        return len(self._dialogue.session.open)

    def session(self) -> int:
        return self._dialogue.session.number

    def owes(self) -> bool:
        return bool(self._owed)

    def error(self, action: Action, *, sequence: int) -> bytes:
        greeted = action.exchange.command != HANDSHAKE or bool(self._dialogue.session.abilities)
        return error_packet(action.rule.code, sequence=sequence, greeted=greeted)

    def failed(self, exchange: CommandExchange, action: Action, *, sequence: int) -> None:
        """See `GatedConversation`.

        For an error that rolls back on a server, sends it ROLLBACK and replaces that reply with the error.
        """
        error = self.error(action, sequence=sequence)
        self._owed[exchange] = action.ending
        if action.rule.code in ROLLS_BACK and exchange.command != HANDSHAKE:
            exchange.replaced, exchange.command = error, QUERY
            self.requests.emit(rollback_packet())
        else:
            exchange.answer = error
            self.caught_up()
        self.replies.settle()

    def forgotten(self, exchange: CommandExchange) -> None:
        waiting = self._dialogue.session.open
        if exchange.command != HANDSHAKE and exchange in waiting:
            waiting.remove(exchange)
            self.caught_up()

    def begins(self, exchange: CommandExchange) -> None:
        """See `GatedConversation`: a client that pipelines has sent requests that we answer before this one."""
        for earlier in exchange.before:
            self._send_error(earlier, earlier.answer)
        exchange.before = ()

    def passed(self, exchange: CommandExchange) -> None:
        if exchange.replaced:
            self._send_error(exchange, exchange.replaced)

    def check(self) -> None:
        if self._dialogue.session.why_lost and not self._told:
            self._told = True
            self._dialogue.lose()
            self.wire.log_event("decided", stream="", toxic="", reason=self._dialogue.session.why_lost)
            self.requests.let_go()
            self.replies.let_go()

    def caught_up(self) -> None:
        """See `GatedConversation`: all parsed replies are handled, so send our errors that are due."""
        waiting = self._dialogue.session.open
        while waiting and waiting[0].answer and self._dialogue.replies.at_boundary:
            exchange = waiting.popleft()
            self._send_error(exchange, exchange.answer)

    def _send_error(self, exchange: CommandExchange, error: bytes) -> None:
        self.replies.emit(error)
        self.replies.end(self._owed.pop(exchange))
