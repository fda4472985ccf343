"""`kill_query`: statements of the run are killed while they are carried out, by KILL QUERY, again and again.

Answers to an operator (or a watchdog) that ends slow statements. Which of those under way is hit is drawn from the
seed. Evidence: clients were answered 1317 for statements that the fault had killed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from harness.choices import Choices
from harness.clock import Deadline, monotonic_us, wait_until
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Count, Gap, Lasts, OnLink
from harness.faults.real.client_errors import client_errors, fact
from harness.faults.real.fault_site import Site
from harness.faults.real.repeating import repeating
from harness.faults.real.root_line import RootLine
from harness.faults.real.seen import Evidence, Seen
from harness.faults.real.sessions import Session, interrupt, sessions_of_run
from harness.faults.simulated.act import LinkAct
from harness.faults.simulated.hunt import Hunt, is_served

if TYPE_CHECKING:
    from harness.sim.link import Link

__all__ = ["KillQuery", "SimulatedKills"]

_INTERRUPTED = 1317
_LOOK_S = 0.25
"""A statement lasts a millisecond: whoever wants to meet one must look without a break."""


class KillQuery(ServerFault):
    """Kills one statement under way each `gap`, `count` in all at most (None: no limit); `link` None: any."""

    about = (
        "Statements of the run that are under way are killed (KILL QUERY), one each `gap`, `count` at most."
    )
    must_show = "Clients were answered 1317 for statements that the fault had killed."

    do: Literal["kill_query"]
    lasts: Lasts
    link: OnLink | None = None
    gap: Gap = 10
    count: Count | None = None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The connections stay usable."""
        choices = Choices(site.seed, f"fault {self.id}")
        hunt = _Hunt(site=site, choices=choices, link=self.link, count=self.count)
        with RootLine(site.server) as line:
            site.found(began_us=monotonic_us())
            with repeating(lambda: line(hunt.once), self.gap / 1000):
                yield

    def evidence(self, seen: Seen) -> Evidence:
        """Killed statements, by our count and by the clients'."""
        met, killed = client_errors(seen, (_INTERRUPTED,)), fact(seen, "killed")
        return {"killed": killed, "codes": met} if met and killed else {}

    def on_links(self) -> LinkAct:
        """See `ServerFault`."""
        return SimulatedKills(gap_ms=self.gap, count=self.count)


@dataclass(slots=True, kw_only=True)
class _Hunt:
    """One kill after the other. Mutable: it counts them."""

    site: Site
    choices: Choices
    link: str | None
    count: int | None
    killed: int = 0

    def once(self, root: Any) -> None:
        """Kill one of those that there are now."""
        if self.count is not None and self.killed >= self.count:
            return
        sessions: list[Session] = []

        def found() -> bool:
            sessions[:] = [one for one in sessions_of_run(root, self.site.server) if self._is_meant(one)]
            return bool(sessions) or self.site.over.is_set()

        wait_until(found, deadline=Deadline(_LOOK_S), every_s=0.001)
        hit = interrupt(root, [sessions[self.choices.index(len(sessions))]]) if sessions else 0
        if hit:
            self.killed += hit
            self.site.found(killed=self.killed)

    def _is_meant(self, session: Session) -> bool:
        if not session.statement:
            return False
        return self.link is None or (self.link == "lookups") == ("customer" in session.statement)


class SimulatedKills(Hunt):
    """Statements that the server works on are ended, one each time; their connections live. Mutable: counts."""

    def hits(self, links: Sequence[Link]) -> bool:
        """One that is under way."""
        under_way = [(link, flight) for link in links for flight in link.flights if is_served(link, flight)]
        if not under_way:
            return False
        link, flight = under_way[links[0].draw.index(len(under_way))]
        link.answers(flight, _INTERRUPTED)
        link.aim(flight)
        return True

    def evidence(self) -> dict[str, Any]:
        """How many statements were ended."""
        return {"killed": self.done, "codes": {str(_INTERRUPTED): self.done}} if self.done else {}
