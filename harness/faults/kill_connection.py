"""`kill_connection`: end sessions of the run by KILL CONNECTION, one each `gap`.

The seed draws the session. Evidence: the fault ended sessions, and clients lost their connections.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Count, Gap, Lasts
from harness.faults.real.evidence import GONE, Evidence, Seen, client_errors, fact
from harness.faults.real.fault_site import Site, repeated_kills
from harness.faults.real.server_control import (
    end_sessions,
    sessions_of_run,
)
from harness.faults.simulated.act import Act, SimulatedRun
from harness.faults.simulated.on_server import Hunt
from harness.system.choices import Choices

if TYPE_CHECKING:
    from harness.database.simulated.server import SimulatedServer

_GRACE_US = 5_000_000
"""The client of an idle connection notices the loss at its next use."""


class KillConnection(ServerFault):
    """Ends one session each `gap`, at most `count` (None: no limit)."""

    about = "Sessions of the run are ended by KILL CONNECTION, one each `gap`, at most `count`."
    must_show = "The fault ended sessions of the run, and clients lost their connections."
    can = ("res",)

    do: Literal["kill_connection"]
    lasts: Lasts
    gap: Gap = 100
    count: Count | None = None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The server rolls the session's transaction back; its client notices at the next use."""
        choices = Choices(site.seed, f"fault {self.id}")
        hunt = _ConnectionHunt(site=site, choices=choices, count=self.count)
        with repeated_kills(site, hunt.once, gap_ms=self.gap):
            yield

    def evidence(self, seen: Seen) -> Evidence:
        lost, killed = client_errors(seen, GONE, grace_us=_GRACE_US), fact(seen, "killed")
        return {"killed": killed, "codes": lost} if lost and killed else {}

    def simulated(self, run: SimulatedRun) -> Act:
        def kill_one(server: SimulatedServer) -> bool:
            known = server.clients()
            return bool(known) and server.kill(known[run.draw.index(len(known))].number)

        return Hunt(
            run,
            codes=GONE,
            kill_one=kill_one,
            gap_ms=self.gap,
            count=self.count,
            settles_ms=_GRACE_US // 1000,
        )


@dataclass(slots=True, kw_only=True)
class _ConnectionHunt:
    """Repeated kills. Mutable: counts them."""

    site: Site
    choices: Choices
    count: int | None
    killed: int = 0

    def once(self, root: Any) -> None:
        """Ends one of the run's current sessions."""
        if self.count is not None and self.killed >= self.count:
            return
        sessions = sessions_of_run(root, self.site.server)
        hit = end_sessions(root, [sessions[self.choices.index(len(sessions))]]) if sessions else 0
        if hit:
            self.killed += hit
            self.site.note_fact(killed=self.killed)
