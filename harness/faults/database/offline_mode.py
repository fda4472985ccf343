"""`offline_mode`: the server throws every client out and lets nobody but root in, as in a maintenance window.

MySQL alone has it. Evidence: clients were answered 3032, by a server that said of itself that it was offline.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.faults.database.client_errors import GONE, client_errors, fact
from harness.faults.database.server_variables import global_variables
from harness.faults.fault import Evidence, Site
from harness.faults.kind import FaultKind
from harness.faults.seen import Seen

__all__ = ["KIND", "OfflineMode"]

_OFFLINE = 3032


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineMode:
    """Takes the server offline."""

    name: str

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Sessions of the run end, new ones are refused; the process goes on."""
        with global_variables(site, {"offline_mode": 1}):
            with site.server.root() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT @@GLOBAL.offline_mode")
                site.found(offline=int(cursor.fetchone()[0]))
            yield

    def evidence(self, seen: Seen) -> Evidence:
        """Refused and lost connections, by code; none without a refusal that says why."""
        met = client_errors(seen, (_OFFLINE, *GONE))
        return {"codes": met} if str(_OFFLINE) in met and fact(seen, "offline") == 1 else {}


KIND = FaultKind(
    name="offline_mode",
    about="The database server (MySQL alone) goes offline: sessions end, and nobody but root is let in.",
    evidence="Clients were answered 3032 while the server said of itself that it was offline.",
    outside=lambda fault, _seed: OfflineMode(name=fault.id),
)
