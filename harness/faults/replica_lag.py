"""`replica_lag`: the replica stops applying what it receives, so reads from it return old rows.

Answers to a replica whose SQL thread stands still behind a long statement. When it heals, the replica catches up.

Evidence: the replica's applying thread stood, and the replica was behind the primary's log, by bytes of that log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.server_control import repeating
from harness.system.clock import monotonic_us

_LOOK_S = 0.2


class ReplicaLag(ServerFault):
    """Stops the replica's applying thread."""

    about = "The replica gets the primary's changes and applies none, so it falls behind; then it catches up."
    must_show = "The replica's applying thread stood, and the replica was behind the primary's log."
    levels = ("live", "spark")
    abilities = ("replica",)
    can = ()

    do: Literal["replica_lag"]
    lasts: Lasts

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        pair = site.server.pair
        looks = _Looks(site=site)
        try:
            pair.stop_applying()
            site.note_fact(began_us=monotonic_us(), **pair.standing())
            with repeating(looks.once, _LOOK_S):
                yield
            looks.once()
        finally:
            site.note_fact(caught_up=pair.resume(), promoted=pair.serving == "replica")

    def evidence(self, seen: Seen) -> Evidence:
        behind = seen.last_fact("behind_bytes")
        if not behind or seen.last_fact("applies"):
            return {}
        return {
            "behind_bytes": behind,
            "primary": seen.last_fact("primary"),
            "executed": seen.last_fact("executed"),
        }


@dataclass(slots=True, kw_only=True)
class _Looks:
    """Notes how far behind the replica is, each time that has doubled. Mutable: remembers it."""

    site: Site
    noted: int = 0

    def once(self) -> None:
        """Look at both servers, unless the replica was promoted: then it replicates nothing."""
        pair = self.site.server.pair
        if pair.serving == "replica":
            return
        behind, standing = pair.behind(), pair.standing()
        if behind > 2 * self.noted:
            self.noted = behind
            self.site.note_fact(behind_bytes=behind, **standing)
