"""Picks: which messages of a simulated link a fault of packets acts on, by command, statement and number.

Answers to the packet rules of our own proxy (`harness.proxy.mysql`). Invariant: messages are counted in the order in
which they are sent, since the fault began, over all connections of the link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.faults.simulated.says import still_said

if TYPE_CHECKING:
    from harness.faults.real.packet_toxic import Messages
    from harness.sim.link import Flight
    from harness.sim.wire import Statement

__all__ = ["Picks", "picks_of"]


class Picks:
    """From the `nth` message that fits, so many `times`. Mutable: counts."""

    def __init__(
        self,
        *,
        command: str = "any",
        statement: str = "",
        nth: int = 1,
        times: int = 1,
        packets_min: int = 1,
    ) -> None:
        self._command = command
        self._statement = statement.casefold()
        self._nth = nth
        self._packets_min = packets_min
        """Of the answer: a message that has fewer does not fit."""
        self._times = times
        self._met = 0
        self.picked = 0

    def first(self, flight: Flight, now_ms: int) -> Statement | None:
        """The first message of `flight` to act on."""
        for statement in still_said(flight, now_ms):
            if self._fits(statement):
                self._met += 1
                if self._met >= self._nth and self.picked < self._times:
                    self.picked += 1
                    return statement
        return None

    def _fits(self, statement: Statement) -> bool:
        of_command = self._command in ("any", statement.command)
        is_long = len(statement.answers) >= self._packets_min
        return of_command and is_long and statement.text.casefold().startswith(self._statement)


def picks_of(messages: Messages, *, packets_min: int = 1) -> Picks:
    """The messages that a scenario's entry picks."""
    return Picks(
        command=messages.command,
        statement=messages.statement,
        nth=messages.nth,
        times=messages.times,
        packets_min=packets_min,
    )
