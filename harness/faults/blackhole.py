"""`blackhole`: the link drops all bytes; connections stay open, connects succeed, nothing answers.

Evidence: calls that began during the fault timed out or lost their connection, and none was answered; if the proxy
keeps a log, it dropped bytes. Healing cuts the affected connections, so a client without its own time limit notices
only then; losses just after healing count if a call was waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from harness.faults.model.fault import LinkFault
from harness.faults.model.fields import Direction, Lasts
from harness.faults.real.evidence import NOTICE_US, Evidence, Seen
from harness.faults.real.fault_site import Toxic
from harness.faults.simulated.link_acts import Swallowing

if TYPE_CHECKING:
    from harness.database.simulated.link import LinkAct


class Blackhole(LinkFault):
    """Drops all bytes in `streams`."""

    about = "The link drops all bytes: connections stay open and nothing answers."
    must_show = (
        "Calls that began during the fault timed out or lost their connection, and none was answered; the "
        "proxy dropped bytes."
    )
    can = ("res",)

    do: Literal["blackhole"]
    lasts: Lasts
    direction: Direction | None = None

    @property
    def streams(self) -> tuple[str, ...]:
        """The named direction; both, if none is named."""
        streams = {"up": "upstream", "down": "downstream"}
        return tuple(streams.values()) if self.direction is None else (streams[self.direction],)

    def toxic(self) -> Toxic:
        """Healing closes the affected connections, because bytes are missing from their streams."""
        return Toxic("timeout", self.streams, {"timeout": 0})

    def evidence(self, seen: Seen) -> Evidence:
        of_link = seen.over(self.link)
        during = of_link.during()
        answered = [call for call in of_link.calls_within() if call.ending == "ok"]
        timed_out = sum(1 for call in during if call.ending == "timeout")
        lost = of_link.losses_during(grace_us=NOTICE_US)
        swallowed = _swallowed(seen)
        if answered or swallowed is None or not (timed_out or (lost and of_link.waiting())):
            return {}
        return {
            "calls_during": len(during),
            "timed_out": timed_out,
            "connections_lost": len(lost),
            "waiting_at_its_end": len(of_link.waiting()),
            "answered": 0,
            **swallowed,
        }

    def on_links(self) -> LinkAct:
        return Swallowing(upward=self.direction != "down", downward=self.direction != "up")


def _swallowed(seen: Seen) -> Evidence | None:
    """The bytes dropped by the proxy's log; empty without a log, None if it dropped none."""
    if seen.log is None:
        return {}
    swallowed = sum(event.bytes for event in seen.did("swallowed"))
    return {"bytes_swallowed": swallowed} if swallowed else None
