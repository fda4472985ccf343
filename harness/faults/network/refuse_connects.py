"""`refuse_connects`: new connections to a link are refused; those that live go on.

Evidence: connects that were refused while it lasted (2003). Nothing else shows it: a pool whose connections all live
never asks for a new one.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from harness.faults.fault import Site
from harness.faults.kind import FaultKind
from harness.faults.network.toxics import link_of, toxics_on
from harness.faults.seen import Evidence, Seen
from harness.scenario import Fault

__all__ = ["KIND", "RefuseConnects"]

_REFUSED = 2003
"""What clients call a connect that was refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseConnects:
    """Shuts the port of `link`, and nothing else."""

    name: str
    link: str

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Healing listens again on the same port."""
        return toxics_on(
            site.control, self.link, name=self.name, type="refuse", streams=("upstream",), attributes={}
        )

    def evidence(self, seen: Seen) -> Evidence:
        """How many connects were refused."""
        refused = [code for code in seen.over(self.link).losses_during() if code == _REFUSED]
        return {"connects_refused": len(refused)} if refused else {}


def _made(fault: Fault, _seed: int) -> RefuseConnects:
    return RefuseConnects(name=fault.id, link=link_of(fault))


KIND = FaultKind(
    name="refuse_connects",
    about="New connections to the link are refused; live ones go on.",
    evidence="Connects were refused while it lasted.",
    outside=_made,
)
