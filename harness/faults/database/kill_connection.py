"""`kill_connection`: sessions of the run are ended by KILL CONNECTION, again and again.

Which one is hit is drawn from the seed. Evidence: clients lost connections while the fault had ended sessions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from harness.choices import Choices
from harness.clock import monotonic_us
from harness.faults.database.client_errors import GONE, client_errors, fact
from harness.faults.database.root_line import RootLine
from harness.faults.database.sessions import end_sessions, sessions_of_run
from harness.faults.fault import Evidence, Site
from harness.faults.kind import FaultKind
from harness.faults.repeating import repeating
from harness.faults.seen import Seen

__all__ = ["KIND", "KillConnection"]

_GAP_MS = 100
_GRACE_US = 5_000_000
"""Whose connection lay idle notices at its next use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillConnection:
    """Ends one session each `gap_ms`, `count` in all at most (None: no limit)."""

    name: str
    seed: int
    gap_ms: int = _GAP_MS
    count: int | None = None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Its transaction is rolled back; its client notices at the next use, and may connect again."""
        choices = Choices(self.seed, f"fault {self.name}")
        hunt = _Hunt(site=site, choices=choices, count=self.count)
        with RootLine(site.server) as line:
            site.found(began_us=monotonic_us())
            with repeating(lambda: line(hunt.once), self.gap_ms / 1000):
                yield

    def evidence(self, seen: Seen) -> Evidence:
        """Ended sessions by our count, and the clients' losses."""
        lost, killed = client_errors(seen, GONE, grace_us=_GRACE_US), fact(seen, "killed")
        return {"killed": killed, "codes": lost} if lost and killed else {}


@dataclass(slots=True, kw_only=True)
class _Hunt:
    """One kill after the other. Mutable: it counts them."""

    site: Site
    choices: Choices
    count: int | None
    killed: int = 0

    def once(self, root: Any) -> None:
        """Kill one of those that there are now."""
        if self.count is not None and self.killed >= self.count:
            return
        sessions = sessions_of_run(root, self.site.server)
        hit = end_sessions(root, [sessions[self.choices.index(len(sessions))]]) if sessions else 0
        if hit:
            self.killed += hit
            self.site.found(killed=self.killed)


KIND = FaultKind(
    name="kill_connection",
    about="Sessions of the run are ended by the server (KILL CONNECTION), one each `gap`, `count` at most.",
    evidence="Clients lost their connections while the fault had ended sessions of theirs.",
    outside=lambda fault, seed: KillConnection(
        name=fault.id, seed=seed, gap_ms=fault.gap or _GAP_MS, count=fault.count
    ),
)
