"""`lost_commit_reply`: the database commits, and its answer never arrives; the connection is reset.

Evidence: the proxy saw each COMMIT go on and swallowed its OK (not an error), and clients lost those connections.
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
    return LostMessage(name=fault.id, link=link_of(fault), stream="downstream", messages=messages)


KIND = FaultKind(
    name="lost_commit_reply",
    about="A COMMIT takes effect, its answer is lost, and its connection is reset.",
    evidence="The proxy swallowed the OK of COMMITs; clients lost those connections, with their error codes.",
    outside=_made,
)
