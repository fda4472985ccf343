"""`lost_commit`, `lost_commit_reply`: drop a COMMIT before it reaches the database, or drop the reply to it.

In both cases the connection is reset, so the client cannot tell them apart. Evidence: the proxy dropped the COMMIT
(or its OK packet), and clients lost those connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from harness.faults.model.fault import PacketFault
from harness.faults.model.fields import UntilEffective
from harness.faults.real.evidence import NOTICE_US, Evidence, Seen
from harness.faults.real.fault_site import Toxic
from harness.faults.simulated.acts import cut_losses
from harness.faults.simulated.link_acts import OnReplies, OnRequests, Picks
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.database.simulated.link import Flight, LinkAct, SimulatedLink


class _LostMessage(PacketFault):
    """Drops whole messages in one direction of the link, then resets their connection."""

    picks_command = "commit"
    stream: ClassVar[str]

    lasts: UntilEffective = None

    def toxic(self) -> Toxic:
        """Counts messages from now on, on live connections too."""
        return self.messages.toxic(self.stream, "drop", then="reset")

    def evidence(self, seen: Seen) -> Evidence:
        dropped = seen.did("dropped", stream=self.stream)
        lost = [event for event in dropped if self.stream == "upstream" or event.more.get("reply") == "ok"]
        noticed = seen.over(self.link).loss_evidence(grace_us=NOTICE_US)
        if not lost or not noticed:
            return {}
        swallowed = sum(event.bytes for event in lost)
        return {**noticed, "messages_lost": len(lost), "bytes_swallowed": swallowed}


class LostCommit(_LostMessage):
    """Drops a COMMIT on its way to the database."""

    about = "A COMMIT is dropped on its way to the database, and its connection is reset."
    must_show = "The proxy dropped COMMITs; clients lost those connections, with their error codes."
    stream = "upstream"
    can = ("res",)

    do: Literal["lost_commit"]

    def on_links(self) -> LinkAct:
        return SimulatedLoss(Picks(self.messages))


class LostCommitReply(_LostMessage):
    """Drops the reply to a COMMIT."""

    about = "A COMMIT takes effect, its reply is dropped, and its connection is reset."
    must_show = "The proxy dropped the OK of COMMITs; clients lost those connections, with their error codes."
    stream = "downstream"
    can = ("res",)

    do: Literal["lost_commit_reply"]

    def on_links(self) -> LinkAct:
        return SimulatedLostReply(Picks(self.messages))


class SimulatedLoss(OnRequests):
    """Drops a COMMIT on a simulated link and ends the connection. Mutable: counts."""

    def __init__(self, picks: Picks) -> None:
        self._picks = picks
        self._lost = 0

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """The server rolls the transaction back when the connection ends."""
        if flight.is_sound and self._picks.take(flight):
            self._lost += 1
            link.breaks(flight, worked=False)

    def evidence(self) -> Json:
        return {"commits_lost": self._lost, **cut_losses(self._lost)} if self._lost else {}


class SimulatedLostReply(OnReplies):
    """Drops the reply to a COMMIT on a simulated link and ends the connection. Mutable: counts."""

    def __init__(self, picks: Picks) -> None:
        self._picks = picks
        self._swallowed: list[Flight] = []

    def on_message(self, link: SimulatedLink, flight: Flight) -> None:
        """The transaction takes effect; its client gets no reply."""
        if flight.is_sound and self._picks.take(flight):
            self._swallowed.append(flight)
            link.breaks(flight, worked=True)

    def evidence(self) -> Json:
        """Counts only replies of transactions that took effect."""
        committed = sum(flight.succeeded for flight in self._swallowed)
        if not committed:
            return {}
        return {
            "replies_swallowed": len(self._swallowed),
            "committed_all_the_same": committed,
            **cut_losses(len(self._swallowed)),
        }
