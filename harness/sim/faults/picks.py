"""Picks: which messages of a link a fault of packets acts on, by command, by how they begin, and by number.

Answers to the packet rules of our own proxy (`harness.proxy.mysql`). Invariant: messages are counted in the order in
which they are sent, since the fault began, over all connections of the link.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.scenario import Fault
from harness.sim.link import Flight
from harness.sim.wire import HANDSHAKE, Statement

__all__ = ["Picks", "picks_of"]


class Picks:
    """Mutable: counts. From the `nth` message that fits, so many `times`."""

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
        """Of the answer: a message that has fewer is none of those that are meant."""
        self._times = times
        self._met = 0
        self.picked = 0

    def first(self, flight: Flight, now_ms: int) -> Statement | None:
        """The first message of `flight` to act on; once it was asked, all but its last answer has passed by."""
        says: Sequence[Statement] = flight.says if flight.is_asking(now_ms) else flight.says[-1:]
        if flight.connection.fresh:
            says = (HANDSHAKE, *says)
        for statement in says:
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


def picks_of(fault: Fault, *, usual: str = "query") -> Picks:
    """As a scenario's entry has it; `usual`: the command that is meant if it names none."""
    return Picks(
        command=fault.command or usual,
        statement=fault.statement or "",
        nth=fault.nth or 1,
        times=fault.times or 1,
        packets_min=1 if fault.direction == "up" else fault.packet or 1,
    )
