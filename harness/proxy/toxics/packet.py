"""`packet`: drops, holds, delays or cuts messages of MySQL's protocol, or answers a request with an error.

Toxiproxy has no such toxic. Invariant: each act is one log entry; a message that began before the toxic was added is
left alone.
"""

from __future__ import annotations

from harness.proxy.mysql.commands import ANSWERLESS, Exchange
from harness.proxy.mysql.rules import ATTRIBUTES, Act, PacketRule, Scope, refuse, rule_of
from harness.proxy.stage import Attributes, Stream

__all__ = ["ATTRIBUTES", "PacketToxic", "refuse"]


class PacketToxic:
    """One packet toxic of a link, shared by the gates of its connections. Mutable: it counts matches."""

    def __init__(self, *, name: str, stream: Stream, attributes: Attributes) -> None:
        self.name = name
        self.stream = stream
        self.rule: PacketRule = rule_of(attributes)
        self._matched = 0

    def update(self, attributes: Attributes) -> None:
        """Use these attributes from the next message on; the count continues and held messages stay held."""
        self.rule = rule_of(attributes)

    def picks(self, exchange: Exchange) -> bool:
        """Whether it matches the message; `error` never matches a command that has no reply."""
        unanswerable = self.rule.do is Act.ERROR and exchange.command in ANSWERLESS
        return not unanswerable and self.rule.picks(exchange)

    def match(self, *, matched_here: int) -> int:
        """Count a match and return its number, from 1."""
        self._matched += 1
        return self._matched if self.rule.per is Scope.PROXY else matched_here + 1
