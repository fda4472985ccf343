"""An action: one packet toxic at work on one message, from its first packet to its last.

Invariant: where it begins to act depends on packets alone, never on how their bytes came in pieces.
"""

from __future__ import annotations

from harness.proxy.mysql.commands import HANDSHAKE, Exchange
from harness.proxy.mysql.error_packets import ENDING
from harness.proxy.mysql.frames import Packet
from harness.proxy.mysql.rules import Act, PacketRule, Then

__all__ = ["Action"]


class Action:
    """Mutable: it counts what it takes out of the stream."""

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
