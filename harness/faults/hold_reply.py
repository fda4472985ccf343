"""`hold_reply`: hold the reply to selected messages, whole or from a packet on; other connections are served.

Evidence: the proxy held replies, and calls were still waiting when it healed, had timed out, or lost their connection.
In a job another lookup must have been answered meanwhile: nobody else shows there that the order was at stake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import MessageFault
from harness.faults.model.fields import Lasts, Packet
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Toxic
from harness.faults.simulated.link_acts import OnReplies, Picks
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, LinkAct, SimulatedLink

_STREAM = "downstream"


class HoldReply(MessageFault):
    """Holds the replies to `messages`, from packet `packet` on (absent: the whole reply)."""

    about = (
        "The reply to a selected message is held, whole or from a packet on; other connections are served."
    )
    must_show = (
        "The proxy held replies; calls were waiting when it healed, timed out, or lost their connection; in a job "
        "another lookup was answered meanwhile, or one timed out or lost its connection."
    )
    can = ("late",)

    do: Literal["hold_reply"]
    lasts: Lasts
    packet: Packet | None = None

    def toxic(self) -> Toxic:
        """Healing releases the held replies in order."""
        return self.messages.toxic(_STREAM, "hold", packet=self.packet or 0)

    def evidence(self, seen: Seen) -> Evidence:
        of_link = seen.over(self.link)
        held = seen.did("held", stream=_STREAM)
        waiting = len(of_link.waiting())
        timed_out = of_link.timed_out()
        lost = len(of_link.losses_during())
        since_us = min((event.t_us for event in held), default=seen.healed_us)
        answered = sum(
            call.ending == "ok" and since_us < (call.ended_us or 0) < seen.healed_us for call in of_link.calls
        )
        if not held or not (waiting or timed_out or lost):
            return {}
        longest_ms = max((event.ms for event in seen.did("delayed", stream=_STREAM)), default=0)
        return {
            "answers_held": len(held),
            "longest_held_ms": longest_ms,
            "waiting_at_its_end": waiting,
            "answered_meanwhile": answered,
            "timed_out": timed_out,
            "connections_lost": lost,
        }

    def why_not_of_job(self, evidence: Evidence) -> str:
        alone = not any(
            evidence.get(name) for name in ("answered_meanwhile", "timed_out", "connections_lost")
        )
        return "no other lookup was answered while one was held" if self.link == "lookups" and alone else ""

    def on_links(self) -> LinkAct:
        return SimulatedHold(Picks(self.messages, packets_min=self.packet or 1))


class SimulatedHold(OnReplies):
    """Holds replies on a simulated link until it heals. Mutable: counts."""

    def __init__(self, picks: Picks) -> None:
        self._picks = picks
        self._held: dict[Flight, tuple[int, int]] = {}
        self._since_ms: dict[Flight, int] = {}
        self._held_ms = 0
        self._answered = 0
        """Those whose clients had the reply before it healed, so that nothing held it."""

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """Holds the reply if the message is selected."""
        due_ms = flight.due_ms
        if due_ms is None or flight.doom is not None or not self._picks.take(flight):
            return
        self._since_ms[flight] = due_ms
        if flight.is_handshake:  # the greeting is held, so the login waits too
            self._held[flight] = link.holds(flight) or (0, 0)
        else:  # the server executes the request; only its reply is held
            self._held[flight] = (0, max(0, due_ms - link.hub.now_ms))
            flight.kept, flight.due_ms = True, None

    def ends(self, link: SimulatedLink) -> None:
        for flight, left_ms in self._held.items():
            self._answered += flight.answered
            if not flight.over:
                self._held_ms += max(0, link.hub.now_ms - self._since_ms[flight])
                link.goes_on(flight, left_ms if flight.held else (0, 0))

    def evidence(self) -> Json:
        held = len(self._held) - self._answered
        return {"replies_held": held, "held_ms": self._held_ms} if held else {}
