"""`down`: the link stops listening; live connections are cut, new ones refused, until it heals.

Evidence: connections that were lost when it began or refused while it lasted, with their error codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.faults.fault import Site
from harness.faults.kind import FaultKind
from harness.faults.network.toxics import link_of
from harness.faults.seen import Evidence, Seen, loss_evidence
from harness.scenario import Fault

__all__ = ["KIND", "Down"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Down:
    """Takes `link` down."""

    name: str
    link: str

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The port stays the same when it listens again."""
        try:
            site.control.disable(self.link)
            yield
        finally:
            site.control.enable(self.link)

    def evidence(self, seen: Seen) -> Evidence:
        """How many connections were lost or refused, by error code."""
        return loss_evidence(seen.over(self.link))


def _made(fault: Fault, _seed: int) -> Down:
    return Down(name=fault.id, link=link_of(fault))


KIND = FaultKind(
    name="down",
    about="The link stops listening: live connections are cut, new ones refused.",
    evidence="Connections were lost when it began, or refused while it lasted, with their error codes.",
    outside=_made,
)
