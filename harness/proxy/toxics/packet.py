"""`packet`: acts on the messages of MySQL's protocol: loses, holds, delays or cuts them, or answers with an error.

Toxiproxy has nothing like it. Invariant: each act is one deed; a message that had begun before the toxic was added is
left alone.
"""

from __future__ import annotations

from harness.proxy.mysql.commands import ANSWERLESS, Exchange
from harness.proxy.mysql.rules import ATTRIBUTES, Act, PacketRule, Scope, refuse, rule_of
from harness.proxy.stage import Attributes, Stream

__all__ = ["ATTRIBUTES", "PacketToxic", "refuse"]


class PacketToxic:
    """One packet toxic of a link, in the gates of all its connections; mutable: it counts its matches."""

    def __init__(self, *, name: str, stream: Stream, attributes: Attributes) -> None:
        self.name = name
        self.stream = stream
        self.rule: PacketRule = rule_of(attributes)
        self._matched = 0

    def update(self, attributes: Attributes) -> None:
        """Other attributes from the next message on; the count goes on, what is held stays held."""
        self.rule = rule_of(attributes)

    def picks(self, exchange: Exchange) -> bool:
        """Whether it means such messages: no error is an answer to what has none."""
        unanswerable = self.rule.do is Act.ERROR and exchange.command in ANSWERLESS
        return not unanswerable and self.rule.picks(exchange)

    def match(self, *, matched_here: int) -> int:
        """Count one more match; which it is, from 1."""
        self._matched += 1
        return self._matched if self.rule.per is Scope.PROXY else matched_here + 1
