"""`stalled_handshake`: a new connection is accepted, and the server's greeting does not come; live connections go on.

Evidence: the proxy held greetings, and their clients gave up, or were still waiting, or got theirs only at the end.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.fault import Site
from harness.faults.kind import FaultKind
from harness.faults.network.packet_toxic import Messages, packets_on
from harness.faults.network.toxics import link_of
from harness.faults.seen import Evidence, Seen
from harness.scenario import Fault

__all__ = ["KIND", "StalledHandshake"]

_STREAM = "downstream"
_LOGINS = Messages(command="handshake", times=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledHandshake:
    """Holds every greeting on `link`."""

    name: str
    link: str

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Healing lets the greetings go on."""
        return packets_on(site.control, self.link, _LOGINS, name=self.name, stream=_STREAM, do="hold")

    def evidence(self, seen: Seen) -> Evidence:
        """How many logins were held, for how long, and how many clients gave up meanwhile."""
        of_link = seen.over(self.link)
        held = [deed for deed in seen.did("held", stream=_STREAM) if deed.command == _LOGINS.command]
        longest_ms = max((deed.ms for deed in seen.did("delayed", stream=_STREAM)), default=0)
        lost = of_link.losses_during()
        waiting = len(of_link.waiting())
        if not held or not (lost or longest_ms or waiting):
            return {}
        return {
            "logins_held": len(held),
            "connections_lost": len(lost),
            "longest_held_ms": longest_ms,
            "waiting_at_its_end": waiting,
        }


def _made(fault: Fault, _seed: int) -> StalledHandshake:
    return StalledHandshake(name=fault.id, link=link_of(fault))


KIND = FaultKind(
    name="stalled_handshake",
    about="New connections are accepted and never greeted; live ones go on.",
    evidence="The proxy held greetings; clients gave up, or had to wait until the end.",
    outside=_made,
)
