"""`lost_commit`: a COMMIT never reaches the database; the connection is reset, as where a packet is lost for good.

Evidence: the COMMITs that the proxy took out of the stream, and connections that clients lost, with their error codes.
The transaction is rolled back: the client cannot tell this from a lost answer.
"""

from __future__ import annotations

from harness.faults.kind import FaultKind
from harness.faults.network.lost_message import LostMessage
from harness.faults.network.packet_toxic import messages_of
from harness.faults.network.toxics import link_of
from harness.scenario import Fault

__all__ = ["KIND"]


def _made(fault: Fault, _seed: int) -> LostMessage:
    messages = messages_of(fault, command="commit")
    return LostMessage(name=fault.id, link=link_of(fault), stream="upstream", messages=messages)


KIND = FaultKind(
    name="lost_commit",
    about="A COMMIT is lost on its way to the database, and its connection is reset.",
    evidence="The proxy took COMMITs out of the stream; clients lost those connections, with their error codes.",
    outside=_made,
)
