"""Picks: which messages of a simulated link a fault of packets acts on, by command, statement and number.

Answers to the packet rules of our own proxy (`harness.proxy.mysql`). Invariant: messages are counted in the order in
which they are sent, since the fault began, over all connections of the link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.faults.real.packet_toxic import Messages
    from harness.levels.sim.link import Flight

__all__ = ["Picks", "picks_of"]


class Picks:
    """From the `nth` message that fits, so many `times`. Mutable: counts."""

    def __init__(self, messages: Messages, *, packets_min: int = 1) -> None:
        self._messages = messages
        self._statement = messages.statement.casefold()
        self._packets_min = packets_min
        """Of the answer: a message that has fewer does not fit."""
        self._met = 0
        self._picked = 0

    def take(self, flight: Flight) -> bool:
        """Whether it is one to act on; counts it."""
        if not self._fits(flight):
            return False
        self._met += 1
        if self._met < self._messages.nth or self._picked >= self._messages.times:
            return False
        self._picked += 1
        return True

    def _fits(self, flight: Flight) -> bool:
        statement = flight.statement
        of_command = self._messages.command == "any" or self._messages.command in statement.kinds
        is_long = len(statement.answers) >= self._packets_min
        return of_command and is_long and statement.text.casefold().lstrip().startswith(self._statement)


def picks_of(messages: Messages, *, packets_min: int = 1) -> Picks:
    """The messages that a scenario's entry picks."""
    return Picks(messages, packets_min=packets_min)
