"""A message that is lost for good on its way up or down, and the connection with it: what lost commits are made of.

Invariant: an answer counts as lost only if it was an OK, for after an error nothing was committed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.fault import Site
from harness.faults.network.packet_toxic import Messages, packets_on
from harness.faults.seen import NOTICE_US, Evidence, Seen, loss_evidence

__all__ = ["LostMessage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostMessage:
    """Takes whole messages out of `stream`, then resets their connection."""

    name: str
    link: str
    stream: str
    messages: Messages

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Messages are counted from now on, live connections' too."""
        return packets_on(
            site.control,
            self.link,
            self.messages,
            name=self.name,
            stream=self.stream,
            do="drop",
            then="reset",
        )

    def evidence(self, seen: Seen) -> Evidence:
        """How many messages were lost, how long they were, and how many clients noticed, by error code."""
        dropped = seen.did("dropped", stream=self.stream)
        lost = [deed for deed in dropped if self.stream == "upstream" or deed.more.get("reply") == "ok"]
        losses = loss_evidence(seen.over(self.link), grace_us=NOTICE_US)
        if not lost or not losses:
            return {}
        swallowed = sum(deed.bytes for deed in lost)
        return {**losses, "messages_lost": len(lost), "bytes_swallowed": swallowed}
