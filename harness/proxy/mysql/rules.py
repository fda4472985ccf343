"""The rule of a packet toxic: which messages it matches, where in them it acts, and what it does there.

Toxiproxy has nothing like it; its toxics see bytes only. A rule counts every message that it matches and that has the
packet it names, from when it was set, and acts on `times` of them (0: on all) from the `nth` on. Error packets that no
server sent look like a server's, with the word `synthetic` in the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from harness.proxy.mysql.commands import ANSWERLESS, WORDS, CommandExchange, MessageKind, plain
from harness.proxy.mysql.frames import framed
from harness.proxy.toxics.stage import Attributes, Stream

ERRORS: Final = {
    1040: ("08004", "Too many connections"),
    1053: ("08S01", "Server shutdown in progress"),
    1205: ("HY000", "Lock wait timeout exceeded; try restarting transaction"),
    1213: ("40001", "Deadlock found when trying to get lock; try restarting transaction"),
    1290: (
        "HY000",
        "The MySQL server is running with the --read-only option so it cannot execute this statement",
    ),
}
"""SQL state and the server's text by error code."""
ENDING: Final = frozenset({1040, 1053})
"""After these errors a server hangs up."""
ROLLS_BACK: Final = frozenset({1213})
"""The errors with which a server rolls the whole transaction back."""


def error_packet(code: int, *, sequence: int, greeted: bool = True) -> bytes:
    """The error packet; before the greeting it has no SQL state, as the client's capabilities are not known yet."""
    state, sentence = ERRORS[code]
    marked = f"{sentence} (synthetic, floodmark)"
    payload = b"\xff" + code.to_bytes(2, "little")
    payload += f"#{state}{marked}".encode() if greeted else marked.encode()
    return framed(payload, sequence=sequence)


def rollback_packet() -> bytes:
    """A COM_QUERY packet with ROLLBACK."""
    return framed(b"\x03ROLLBACK", sequence=0)


class RuleAction(StrEnum):
    """What the rule does at its point."""

    DROP = "drop"
    HOLD = "hold"
    DELAY = "delay"
    RESET = "reset"
    CLOSE = "close"
    ERROR = "error"
    NOTE = "note"
    """Only log it; other toxics act on the same message as if this one were not there."""


class Then(StrEnum):
    """What happens to the connection after the act."""

    NONE = "none"
    RESET = "reset"
    CLOSE = "close"


class Scope(StrEnum):
    """Which messages are counted together."""

    PROXY = "proxy"
    CONNECTION = "connection"


ATTRIBUTES: Final[Attributes] = {
    "on": "any",
    "statement": "",
    "table": "",
    "nth": 1,
    "per": "proxy",
    "times": 1,
    "packet": 0,
    "byte": -1,
    "do": "drop",
    "ms": 0,
    "code": 0,
    "then": "none",
}
"""Every attribute of a packet toxic with its default."""

_CHOICES: Final = {
    "on": sorted(WORDS),
    "per": [scope.value for scope in Scope],
    "do": [act.value for act in RuleAction],
    "then": [then.value for then in Then],
}
_OF_STATEMENTS: Final = frozenset({MessageKind.COMMIT, MessageKind.ROLLBACK, MessageKind.WRITE})
_LEAST: Final = {"nth": 1, "times": 0, "packet": 0, "byte": -1, "ms": 0, "code": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketRule:
    """The parsed attributes of a packet toxic."""

    on: MessageKind
    statement: str
    """Normalised prefix of the statements to match; empty: any statement."""
    table: str
    """The table whose rows the message must change or commit a change of; `*`: any table; empty: it need not."""
    nth: int
    per: Scope
    times: int
    """0: every match from the `nth` on."""
    packet: int
    """0: the whole message."""
    byte: int
    """-1: at the packet's beginning."""
    do: RuleAction
    ms: int
    code: int
    then: Then

    def counts(self, exchange: CommandExchange) -> int:
        """How often it matches: once at most, but COMMITs, ROLLBACKs and writes of one query are counted each."""
        found = sum(map(self._picks, exchange.parts or (exchange,)))
        return found if self.on in _OF_STATEMENTS else min(found, 1)

    def _picks(self, exchange: CommandExchange) -> bool:
        """Whether a request of one statement has this kind and this prefix."""
        if self.on is not MessageKind.ANY and self.on not in exchange.kinds():
            return False
        if self.table and not exchange.changes(self.table):
            return False
        return not self.statement or exchange.statement().startswith(self.statement)

    def acts_on(self, matches: range) -> int:
        """The first of these matches to act on; 0: on none."""
        ends = self.nth + self.times if self.times else matches.stop
        return next(iter(range(max(matches.start, self.nth), min(matches.stop, ends))), 0)


def rule_of(attributes: Attributes) -> PacketRule:
    """The rule for complete, valid attributes."""
    words = {name: str(attributes[name]) for name in (*_CHOICES, "statement", "table")}
    numbers = {name: int(attributes[name]) for name in _LEAST}
    return PacketRule(
        on=MessageKind(words["on"]),
        statement=plain(words["statement"].encode()),
        table=words["table"].lower(),
        nth=numbers["nth"],
        per=Scope(words["per"]),
        times=numbers["times"],
        packet=numbers["packet"],
        byte=numbers["byte"],
        do=RuleAction(words["do"]),
        ms=numbers["ms"],
        code=numbers["code"],
        then=Then(words["then"]),
    )


def refuse(attributes: Attributes) -> str:
    """Why these attributes make no rule (one sentence); empty if they do."""
    for name, choices in _CHOICES.items():
        if attributes[name] not in choices:
            return f"`{name}` must be one of {', '.join(choices)}, not {attributes[name]!r}"
    for name, least in _LEAST.items():
        if int(attributes[name]) < least:
            return f"`{name}` must be at least {least}, not {attributes[name]}"
    return _contradiction(rule_of(attributes))


def _contradiction(rule: PacketRule) -> str:
    if (rule.do is RuleAction.ERROR) != bool(rule.code):
        return "`code` goes with `do: error`, and `do: error` needs a `code`"
    if rule.do is RuleAction.ERROR and rule.code not in ERRORS:
        return f"`code` must be one of {', '.join(map(str, ERRORS))}, not {rule.code}"
    if rule.do is RuleAction.ERROR and rule.byte >= 0:
        return "`do: error` replaces whole packets: leave `byte` out"
    if (rule.do is RuleAction.DELAY) != bool(rule.ms):
        return "`ms` goes with `do: delay`, and `do: delay` needs an `ms` of at least 1"
    if rule.do is RuleAction.NOTE and (rule.packet or rule.byte >= 0):
        return "`do: note` is of whole messages: leave `packet` and `byte` out"
    if rule.do is RuleAction.NOTE and rule.then is not Then.NONE:
        return "`do: note` lets the connection go on: leave `then` out"
    if rule.do in {RuleAction.RESET, RuleAction.CLOSE} and rule.then is not Then.NONE:
        return f"`do: {rule.do}` ends the connection itself: leave `then` out"
    return ""


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

    def picks(self, exchange: CommandExchange) -> bool:
        """Whether it means such messages: no error is an answer to what has none."""
        unanswerable = self.rule.do is RuleAction.ERROR and exchange.command in ANSWERLESS
        return not unanswerable and bool(self.rule.counts(exchange))

    def match(self, exchange: CommandExchange, *, matched_here: int) -> range:
        """Count what it means of the message; which matches these are, from 1."""
        count = self.rule.counts(exchange)
        self._matched += count
        first = self._matched - count if self.rule.per is Scope.PROXY else matched_here
        return range(first + 1, first + count + 1)
