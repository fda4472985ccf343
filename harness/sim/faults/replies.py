"""What becomes of single messages: a COMMIT or its reply is lost, an error comes in its place, a reply is held.

Answers to our own proxy's packet rules. Invariant: a lost COMMIT took no effect, one whose reply was lost did, and
neither is known to the client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from harness.sim.faults.cuts import losses
from harness.sim.faults.picks import Picks
from harness.sim.faults.under_way import meet_all, meet_requests
from harness.sim.link import LOST_CONNECTION, Flight, Link
from harness.sim.wire import HANDSHAKE

__all__ = ["HoldReply", "LostCommit", "LostCommitReply", "SqlError"]

_ENDS_THE_CONNECTION = frozenset({1040, 1053})
"""Errors after which the server hangs up."""


class LostCommit:
    """The COMMIT never reaches the server, and the connection ends. Mutable: counts."""

    def __init__(self, picks: Picks) -> None:
        self._picks = picks
        self._lost = 0

    def begins(self, link: Link) -> None:
        """A COMMIT that is still on its way is met too."""
        meet_requests(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """What was to be committed is rolled back."""
        if flight.is_sound and self._picks.first(flight, link.hub.now_ms):
            self._lost += 1
            link.breaks(flight, worked=False)

    def ends(self, link: Link) -> None:
        """Other COMMITs pass again."""

    def evidence(self) -> dict[str, Any]:
        """How many never arrived."""
        return {"commits_lost": self._lost, **_cut(self._lost)} if self._lost else {}


class LostCommitReply:
    """The COMMIT takes effect, its OK is swallowed, and the connection ends. Mutable: counts."""

    def __init__(self, picks: Picks) -> None:
        self._picks = picks
        self._swallowed = 0
        self._committed = 0

    def begins(self, link: Link) -> None:
        """An OK that is on its way back is met too."""
        meet_all(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """Let its client not know."""
        if not flight.is_sound or self._picks.first(flight, link.hub.now_ms) is None:
            return
        self._swallowed += 1
        if flight.work is not None and flight.is_asking(link.hub.now_ms):
            flight.work = self._counting(flight.work)
        else:
            self._committed += flight.code is None
        link.breaks(flight, worked=True)

    def _counting(
        self, work: Callable[[], tuple[Any, int | None, int]]
    ) -> Callable[[], tuple[Any, int | None, int]]:
        def counted() -> tuple[Any, int | None, int]:
            value, code, more_ms = work()
            self._committed += code is None
            return value, code, more_ms

        return counted

    def ends(self, link: Link) -> None:
        """Other replies pass again."""

    def evidence(self) -> dict[str, Any]:
        """How many replies were swallowed, of transactions that had taken effect."""
        if not self._committed:
            return {}
        return {
            "replies_swallowed": self._swallowed,
            "committed_all_the_same": self._committed,
            **_cut(self._swallowed),
        }


class SqlError:
    """The proxy answers in the server's place, with an error; the server hears nothing. Mutable: counts."""

    def __init__(self, picks: Picks, *, code: int) -> None:
        self._picks = picks
        self._code = code
        self._answered: Counter[str] = Counter()

    def begins(self, link: Link) -> None:
        """What is asking already is met too."""
        meet_requests(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """What comes before the message in its transaction is rolled back with it."""
        if not flight.is_sound:
            return
        statement = self._picks.first(flight, link.hub.now_ms)
        if statement is None:
            return
        self._answered[statement.command] += 1
        if statement is HANDSHAKE or self._code in _ENDS_THE_CONNECTION:
            link.breaks(flight, worked=False, code=self._code)
        else:
            link.answers(flight, self._code)

    def ends(self, link: Link) -> None:
        """The server answers for itself again."""

    def evidence(self) -> dict[str, Any]:
        """How many messages were answered so, by their command."""
        if not self._answered:
            return {}
        return {
            "errors": self._answered.total(),
            "code": self._code,
            "synthetic": True,
            "commands": dict(sorted(self._answered.items())),
        }


class HoldReply:
    """The reply to a message is held until it heals; whatever else goes on. Mutable: counts."""

    def __init__(self, picks: Picks) -> None:
        self._picks = picks
        self._held: dict[Flight, tuple[int, int]] = {}
        self._since_ms: dict[Flight, int] = {}
        self._held_ms = 0

    def begins(self, link: Link) -> None:
        """A reply that is on its way is met too."""
        meet_all(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """Hold its reply, if it is one that is meant."""
        if flight.due_ms is None or flight.doom is not None:
            return
        statement = self._picks.first(flight, link.hub.now_ms)
        if statement is None:
            return
        now_ms = link.hub.now_ms
        self._since_ms[flight] = flight.due_ms
        if statement is flight.says[-1]:  # it works, and its answer is what is held
            self._held[flight] = (0, max(0, flight.due_ms - now_ms))
            flight.due_ms = None
        elif (
            left_ms := link.holds(flight)
        ) is not None:  # what comes after it is not sent before it is answered
            self._held[flight] = left_ms

    def ends(self, link: Link) -> None:
        """What is held flows now."""
        for flight, left_ms in self._held.items():
            if not flight.over:
                self._held_ms += max(0, link.hub.now_ms - self._since_ms[flight])
                link.goes_on(flight, left_ms if flight.held else (0, 0))

    def evidence(self) -> dict[str, Any]:
        """How many replies were held, and how long those whose clients still waited."""
        return {"replies_held": len(self._held), "held_ms": self._held_ms} if self._held else {}


def _cut(count: int) -> dict[str, Any]:
    return losses(Counter({str(LOST_CONNECTION): count}))
