"""A difference between two systems: the script, where it shows, and what both said up to there, side by side.

Invariant: what is printed can be pasted: each side's column holds the very lines that it was sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from harness.protocol.breach import shortened
from harness.protocol.comparison import Mismatch
from harness.protocol.driver import Command, command_line
from harness.protocol.events import Event, Snapshot
from harness.protocol.script import Script

__all__ = ["Difference", "Exchange", "report"]

WIDTH = 76
LAST_EXCHANGES = 40
"""How many commands are shown side by side; the whole script stands below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One command as both were told it, and both answers."""

    life: int
    left_command: Command
    right_command: Command
    left: Sequence[Event]
    right: Sequence[Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A script on which two systems differ."""

    script: Script
    mismatch: Mismatch
    life: int
    exchanges: Sequence[Exchange]
    """Up to the difference; a breach's last one has no answers."""


def report(difference: Difference) -> str:
    """The difference for people: what, side by side, and the lines to paste."""
    return "\n".join(_lines(difference))


def _lines(difference: Difference) -> Iterator[str]:
    mismatch = difference.mismatch
    yield f"DIFFERENCE in {mismatch.kind} ({difference.script.name}, life {difference.life + 1})"
    yield f"  {mismatch.detail}"
    for exchange in difference.exchanges[-LAST_EXCHANGES:]:
        yield from _side_by_side(exchange)
    yield "  to paste into the left system:"
    yield from (f"{_sent(exchange.left_command)}" for exchange in difference.exchanges)
    if any(exchange.left_command != exchange.right_command for exchange in difference.exchanges):
        yield "  to paste into the right system:"
        yield from (f"{_sent(exchange.right_command)}" for exchange in difference.exchanges)


def _side_by_side(exchange: Exchange) -> Iterator[str]:
    left, right = _sent(exchange.left_command), _sent(exchange.right_command)
    yield f"  > {shortened(left)}"
    if left != right:
        yield f"  > {'':{WIDTH}} > {shortened(right)}"
    for row in range(max(len(exchange.left), len(exchange.right))):
        ours = _said(exchange.left[row]) if row < len(exchange.left) else ""
        theirs = _said(exchange.right[row]) if row < len(exchange.right) else ""
        yield f"  < {ours:{WIDTH}} {' ' if ours == theirs else '!'} {theirs}"


def _sent(command: Command) -> str:
    return command_line(command).decode().rstrip()


def _said(event: Event) -> str:
    if isinstance(event, Snapshot):
        shown = msgspec.json.encode(event.elements).decode()
        return shortened(f'{{"ev":"snapshot","id":{event.id},"elements":{shown}}}')
    return shortened(msgspec.json.encode(event).decode())
