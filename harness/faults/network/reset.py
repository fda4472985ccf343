"""`reset`: connections end with the next answer, again and again, while the link goes on listening.

With Toxiproxy, connections opened under it end by RST, those already open by FIN (`docs/references.md`,
Measured); our own proxy resets both. Evidence: connections that were lost while it lasted, with their error codes,
and in a proxy's log that it ended some.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.fault import Site
from harness.faults.kind import FaultKind
from harness.faults.network.toxics import link_of, toxics_on
from harness.faults.seen import Evidence, Seen, loss_evidence
from harness.scenario import Fault

__all__ = ["KIND", "Reset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Cuts every connection of `link` at the next bytes that flow back."""

    name: str
    link: str

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Acts on live connections at once; new ones are accepted, then cut."""
        return toxics_on(
            site.control,
            self.link,
            name=self.name,
            type="reset_peer",
            streams=("downstream",),
            attributes={"timeout": 0},
        )

    def evidence(self, seen: Seen) -> Evidence:
        """How many connections were cut, by error code; empty if the proxy's log says that it cut none."""
        lost = loss_evidence(seen.over(self.link))
        if not lost or seen.deeds is None:
            return lost
        ended = seen.did("reset", "cut")
        return {**lost, "connections_reset": len({deed.connection: None for deed in ended})} if ended else {}


def _made(fault: Fault, _seed: int) -> Reset:
    return Reset(name=fault.id, link=link_of(fault))


KIND = FaultKind(
    name="reset",
    about="The link goes on listening, and every connection is reset at its next bytes.",
    evidence="Connections were lost while it lasted, with their error codes; the proxy ended them.",
    outside=_made,
)
