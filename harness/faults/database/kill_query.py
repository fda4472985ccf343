"""`kill_query`: statements of the run are killed while they are carried out, by KILL QUERY, again and again.

Answers to an operator (or a watchdog) that ends slow statements. Which of those under way is hit is drawn from the
seed. Evidence: clients were answered 1317 for statements that the fault had killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from harness.choices import Choices
from harness.clock import Deadline, monotonic_us, wait_until
from harness.faults.database.client_errors import client_errors, fact
from harness.faults.database.root_line import RootLine
from harness.faults.database.sessions import Session, interrupt, sessions_of_run
from harness.faults.fault import Evidence, Site
from harness.faults.kind import FaultKind
from harness.faults.repeating import repeating
from harness.faults.seen import Seen

__all__ = ["KIND", "KillQuery"]

_INTERRUPTED = 1317
_GAP_MS = 10
_LOOK_S = 0.25
"""A statement lasts a millisecond: whoever wants to meet one must look without a break."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillQuery:
    """Kills one statement under way each `gap_ms`, `count` in all at most (None: no limit); `link` None: any."""

    name: str
    seed: int
    link: str | None = None
    gap_ms: int = _GAP_MS
    count: int | None = None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The connections stay usable."""
        choices = Choices(self.seed, f"fault {self.name}")
        hunt = _Hunt(site=site, choices=choices, link=self.link, count=self.count)
        with RootLine(site.server) as line:
            site.found(began_us=monotonic_us())
            with repeating(lambda: line(hunt.once), self.gap_ms / 1000):
                yield

    def evidence(self, seen: Seen) -> Evidence:
        """Killed statements, by our count and by the clients'."""
        met, killed = client_errors(seen, (_INTERRUPTED,)), fact(seen, "killed")
        return {"killed": killed, "codes": met} if met and killed else {}


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


KIND = FaultKind(
    name="kill_query",
    about="Statements of the run that are under way are killed (KILL QUERY), one each `gap`, `count` at most.",
    evidence="Clients were answered 1317 for statements that the fault had killed.",
    outside=lambda fault, seed: KillQuery(
        name=fault.id, seed=seed, link=fault.link, gap_ms=fault.gap or _GAP_MS, count=fault.count
    ),
)
