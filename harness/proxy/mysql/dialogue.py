"""One MySQL conversation: both directions' packets, and which reply answers which request. No sockets, no clock.

Answers to the two halves of a client library's connection, seen from between. Invariant: once either direction is not
understood, neither is; what could not be read yet is then let go as it came.
"""

from __future__ import annotations

from harness.proxy.mysql.frames import FrameTracker
from harness.proxy.mysql.replies import ReplyReader
from harness.proxy.mysql.requests import RequestReader
from harness.proxy.mysql.session import Session

__all__ = ["Dialogue"]


class Dialogue:
    """Follow `requests` and `replies` in the order in which the bytes came."""

    __slots__ = ("replies", "requests", "session")

    def __init__(self) -> None:
        self.session = Session()
        self.requests = FrameTracker(RequestReader(self.session))
        self.replies = FrameTracker(ReplyReader(self.session))

    @property
    def why_lost(self) -> str:
        """Why packets are not understood any more; empty while they are."""
        return self.session.why_lost

    def lose(self) -> None:
        """Tell both directions that the conversation is not understood any more."""
        self.requests.lost = self.replies.lost = True
