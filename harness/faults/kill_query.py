"""`kill_query`: interrupt running statements of the run by KILL QUERY, one each `gap`.

Answers to an administrator or watchdog that ends slow statements. The seed draws the statement. Evidence: the fault
killed statements, and clients got error 1317.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Count, Gap, Lasts, OnLink
from harness.faults.real.evidence import Evidence, Seen, client_errors, fact
from harness.faults.real.fault_site import Site, repeated_kills
from harness.faults.real.server_control import (
    Session,
    interrupt,
    sessions_of_run,
)
from harness.faults.simulated.act import Act, SimulatedRun
from harness.faults.simulated.on_server import Hunt
from harness.system.choices import Choices
from harness.system.clock import Deadline, wait_until

if TYPE_CHECKING:
    from harness.database.simulated.server import SimulatedServer

_INTERRUPTED = 1317
_LOOK_S = 0.25
"""How long to poll for a running statement, every millisecond: statements last about that long."""


class KillQuery(ServerFault):
    """Kills one running statement each `gap`, at most `count` (None: no limit), of `link` (None: any)."""

    about = "Running statements of the run are interrupted by KILL QUERY, one each `gap`, at most `count`."
    must_show = "The fault killed statements of the run, and clients got error 1317."
    can = ("res",)

    do: Literal["kill_query"]
    lasts: Lasts
    link: OnLink | None = None
    gap: Gap = 10
    count: Count | None = None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The connections stay usable."""
        choices = Choices(site.seed, f"fault {self.id}")
        hunt = _QueryHunt(site=site, choices=choices, is_meant=self._is_meant, count=self.count)
        with repeated_kills(site, hunt.once, gap_ms=self.gap):
            yield

    def evidence(self, seen: Seen) -> Evidence:
        met, killed = client_errors(seen, (_INTERRUPTED,)), fact(seen, "killed")
        return {"killed": killed, "codes": met} if met and killed else {}

    def simulated(self, run: SimulatedRun) -> Act:
        def kill_one(server: SimulatedServer) -> bool:
            meant = [one for one in server.clients() if self._is_meant(one.statement)]
            return bool(meant) and server.kill_query(meant[run.draw.index(len(meant))].number)

        return Hunt(run, codes=(_INTERRUPTED,), kill_one=kill_one, gap_ms=self.gap, count=self.count)

    def _is_meant(self, statement: str) -> bool:
        """Whether to act on a session that executes `statement` (empty: none)."""
        return bool(statement) and (
            self.link is None or (self.link == "lookups") == ("customer" in statement)
        )


@dataclass(slots=True, kw_only=True)
class _QueryHunt:
    """Repeated kills. Mutable: counts them."""

    site: Site
    choices: Choices
    is_meant: Callable[[str], bool]
    count: int | None
    killed: int = 0

    def once(self, root: Any) -> None:
        """Interrupts one of the statements that run now."""
        if self.count is not None and self.killed >= self.count:
            return
        sessions: list[Session] = []

        def found() -> bool:
            sessions[:] = [
                one for one in sessions_of_run(root, self.site.server) if self.is_meant(one.statement)
            ]
            return bool(sessions) or self.site.over.is_set()

        wait_until(found, deadline=Deadline(_LOOK_S), every_s=0.001)
        hit = interrupt(root, [sessions[self.choices.index(len(sessions))]]) if sessions else 0
        if hit:
            self.killed += hit
            self.site.note_fact(killed=self.killed)
