"""`deadlocks`: another transaction takes the sink's rows in the opposite order, so that one of the two must give up.

Ours holds the gap in which the next epoch row will stand, lets the sink run into it with the fence's row in its
hands, and then asks for that row. Ours has changed more, so the server picks the sink's for its victim. Evidence:
clients of the run were answered 1213, and the server's own count of deadlocks has risen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from harness.clock import Deadline, monotonic_us, wait_until
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Count, Gap, Lasts
from harness.faults.real.evidence import Evidence, Seen, client_errors, fact
from harness.faults.real.fault_site import Site
from harness.faults.real.server_control import RootLine, repeating
from harness.faults.simulated.act import Act
from harness.faults.simulated.on_server import Hunt

if TYPE_CHECKING:
    from harness.levels.sim.server import SimulatedServer
    from harness.levels.sim.simulation import Simulation

__all__ = ["Deadlocks"]

_DEADLOCK = 1213
_LOST_TO_THE_SINK = frozenset({1205, _DEADLOCK})
"""Ours was the victim, or the sink held on for too long: it went its way."""
_STATEMENT_S = 10.0
_MEET_S = 1.0
"""How long ours lies in wait for the sink, before it lets go and comes again."""
_LOOK_S = 0.005
_WEIGHT_ROWS = 4000
"""So many changed rows make ours the heavier one."""
_PREPARE = "CREATE TABLE IF NOT EXISTS floodmark_weight (n INT PRIMARY KEY, m INT NOT NULL)"
_FILL = "INSERT IGNORE INTO floodmark_weight (n, m) VALUES (%s, %s)"
_SESSION = "SET SESSION innodb_lock_wait_timeout = 2, wait_timeout = 28800"
_WAITS = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"
"""The list of transactions would say whose, but is a copy that is a tenth of a second old."""
_COUNT = "SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'"


class Deadlocks(ServerFault):
    """Makes deadlocks with the sink, one after the other: `gap` between two, `count` at most (None: no limit)."""

    about = (
        "Another transaction takes the sink's rows in the opposite order, every `gap`, `count` times at most."
    )
    must_show = "Clients were answered 1213, and the server's own count of deadlocks rose."

    do: Literal["deadlocks"]
    lasts: Lasts
    gap: Gap = 50
    count: Count | None = None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Every deadlock is over, one way or the other, when its turn is."""
        server = site.server
        try:
            with server.root(server.database, limit_s=_STATEMENT_S) as root, root.cursor() as cursor:
                cursor.execute(_PREPARE)
                cursor.executemany(_FILL, [(n, 0) for n in range(_WEIGHT_ROWS)])
                before = _deadlocks(root)
            site.found(began_us=monotonic_us())
            with (
                RootLine(server, database=server.database, limit_s=_STATEMENT_S, first=(_SESSION,)) as rival,
                RootLine(server) as prober,
            ):
                ambush = _Ambush(rival=rival, prober=prober, site=site, before=before, count=self.count)
                with repeating(ambush.once, self.gap / 1000):
                    yield
        finally:
            server.put_back(_remove_weight)

    def evidence(self, seen: Seen) -> Evidence:
        """Deadlocks that clients met, and those that the server counted."""
        met, counted = client_errors(seen, (_DEADLOCK,)), fact(seen, "counted")
        return {"codes": met, "counted": counted} if met and counted else {}

    def simulated(self, run: Simulation) -> Act:
        return _SimulatedDeadlocks(run, gap_ms=self.gap, count=self.count)


@dataclass(slots=True, kw_only=True)
class _Ambush:
    """One deadlock after the other. Mutable: it counts them."""

    rival: RootLine
    prober: RootLine
    site: Site
    before: int
    count: int | None
    made: int = 0

    def once(self) -> None:
        """Lie in wait; if the sink comes, ask for what it holds."""
        if self.count is not None and self.made >= self.count:
            return
        self.rival(self._lie_in_wait)
        counted = (self.prober(_deadlocks) or 0) - self.before
        if counted > self.made:
            self.made = counted
            self.site.found(counted=counted)

    def _lie_in_wait(self, root: Any) -> None:
        import pymysql

        with root.cursor() as cursor:
            try:
                cursor.execute("START TRANSACTION")
                cursor.execute("UPDATE floodmark_weight SET m = m + 1")
                cursor.execute("SELECT MAX(epoch) FROM epoch FOR UPDATE")
                wait_until(self._is_met, deadline=Deadline(_MEET_S), every_s=_LOOK_S)
                if not self.site.over.is_set():
                    cursor.execute("SELECT subtask FROM fence FOR UPDATE")
            except pymysql.MySQLError as error:
                if error.args[0] not in _LOST_TO_THE_SINK:
                    raise
            cursor.execute("ROLLBACK")

    def _is_met(self) -> bool:
        """Whether the sink waits for ours, or the fault shall heal."""
        return self.site.over.is_set() or bool(self.prober(_row_lock_waits))


def _row_lock_waits(root: Any) -> int:
    """How many wait for a row now: ours does not, while it looks."""
    with root.cursor() as cursor:
        cursor.execute(_WAITS)
        return int(cursor.fetchone()[1])


def _deadlocks(root: Any) -> int:
    """All that the server has counted."""
    with root.cursor() as cursor:
        cursor.execute(_COUNT)
        return int(cursor.fetchone()[0])


def _remove_weight(root: Any) -> None:
    with root.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS floodmark_weight")


class _SimulatedDeadlocks(Hunt):
    """Lies in wait for the next epoch that is written, whose transaction is the victim. Mutable: see `Hunt`."""

    def __init__(self, run: Simulation, *, gap_ms: int, count: int | None) -> None:
        super().__init__(run, codes=(_DEADLOCK,), strike=self._lie_in_wait, gap_ms=gap_ms, count=count)

    def _lie_in_wait(self, server: SimulatedServer) -> bool:
        if server.deadlocks_to_make:
            return False  # nobody has come since the last time
        server.deadlocks_to_make = 1
        return True

    def ends(self) -> None:
        super().ends()
        self.server.deadlocks_to_make = 0

    def evidence(self) -> Evidence:
        """How many victims there were: an ambush that nobody walked into is none."""
        met = self.met()
        return {"codes": met, "counted": sum(met.values())} if met else {}
