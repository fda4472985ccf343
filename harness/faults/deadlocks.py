"""`deadlocks`: another transaction locks the sink's rows in the opposite order, so that the server finds a deadlock.

The rival transaction locks the gap where the next epoch row will go, waits until the sink (which holds its fence row,
in batches the row of its driver) is blocked by that lock, and then asks for these rows. The rival has changed more
rows, so InnoDB chooses the sink's transaction as the victim. Evidence: clients of the run got error 1213, and the
server's deadlock counter rose.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from harness.database.endpoint import MySqlConnection
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Count, Gap, Lasts
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.server_control import RootLine, repeating
from harness.faults.simulated.acts import Act, Hunt, SimulatedRun
from harness.system.clock import Deadline, monotonic_us, wait_until

if TYPE_CHECKING:
    from harness.database.simulated.server import SimulatedServer

_DEADLOCK = 1213
_LOST_TO_THE_SINK = frozenset({1205, _DEADLOCK})
"""Errors of the rival that end one try: it was the victim, or waited too long for the fence rows."""
_STATEMENT_S = 10.0
_MEET_S = 1.0
"""How long the rival waits for the sink before it rolls back and tries again."""
_LOOK_S = 0.005
_WEIGHT_ROWS = 4000
"""The rival changes this many rows, so that it is heavier than the sink's transaction."""
_PREPARE = "CREATE TABLE IF NOT EXISTS floodmark_weight (n INT PRIMARY KEY, m INT NOT NULL)"
_FILL = "INSERT IGNORE INTO floodmark_weight (n, m) VALUES (%s, %s)"
_SESSION = "SET SESSION innodb_lock_wait_timeout = 2, wait_timeout = 28800"
_WAITS = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"
"""`INNODB_TRX` would name the waiting transaction, but is cached for 0.1 s."""
_COUNT = "SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'"


class Deadlocks(ServerFault):
    """Causes deadlocks with the sink, one after the other, `gap` apart, at most `count` (None: no limit)."""

    about = (
        "Another transaction locks the sink's rows in the opposite order, every `gap`, at most `count` times."
    )
    must_show = "Clients got error 1213, and the server's own deadlock counter rose."
    not_in_jobs = (
        "locks rows of the tables of Floodmark's own sink; write `do: sql_error`, `link: sink`, `code: 1213`"
    )
    can = ("res",)

    do: Literal["deadlocks"]
    lasts: Lasts
    gap: Gap = 50
    count: Count | None = None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Each try ends with a rollback of the rival transaction."""
        server = site.server
        try:
            with server.root(server.database, limit_s=_STATEMENT_S) as root, root.cursor() as cursor:
                cursor.execute(_PREPARE)
                cursor.executemany(_FILL, [(n, 0) for n in range(_WEIGHT_ROWS)])
                before = _deadlocks(root)
            site.note_fact(began_us=monotonic_us())
            with (
                RootLine(server, database=server.database, limit_s=_STATEMENT_S, first=(_SESSION,)) as rival,
                RootLine(server) as prober,
            ):
                maker = _DeadlockMaker(rival=rival, prober=prober, site=site, before=before, count=self.count)
                with repeating(maker.once, self.gap / 1000):
                    yield
        finally:
            server.put_back(_remove_weight)

    def evidence(self, seen: Seen) -> Evidence:
        met, counted = seen.client_errors(_DEADLOCK), seen.last_fact("counted")
        return {"codes": met, "counted": counted} if met and counted else {}

    def simulated(self, run: SimulatedRun) -> Act:
        return _SimulatedDeadlocks(run, gap_ms=self.gap, count=self.count)


@dataclass(slots=True, kw_only=True)
class _DeadlockMaker:
    """The rival transaction, tried repeatedly. Mutable: counts deadlocks."""

    rival: RootLine
    prober: RootLine
    site: Site
    before: int
    count: int | None
    made: int = 0

    def once(self) -> None:
        """One try: wait for the sink, then ask for the rows that it holds."""
        if self.count is not None and self.made >= self.count:
            return
        self.rival(self._wait_for_sink)
        counted = (self.prober(_deadlocks) or 0) - self.before
        if counted > self.made:
            self.made = counted
            self.site.note_fact(counted=counted)

    def _wait_for_sink(self, root: MySqlConnection) -> None:
        import pymysql

        with root.cursor() as cursor:
            try:
                cursor.execute("SELECT generation FROM driver")
                in_batches = bool(cursor.fetchone()[0])
                cursor.execute("START TRANSACTION")
                cursor.execute("UPDATE floodmark_weight SET m = m + 1")
                cursor.execute("SELECT MAX(epoch) FROM epoch FOR UPDATE")
                if in_batches:
                    cursor.execute("SELECT MAX(epoch) FROM completed FOR UPDATE")
                over = self.site.over
                wait_until(
                    lambda: over.is_set() or bool(self.prober(_row_lock_waits)),
                    deadline=Deadline(_MEET_S),
                    every_s=_LOOK_S,
                )
                if not over.is_set():
                    cursor.execute("SELECT subtask FROM fence FOR UPDATE")
                    cursor.execute("SELECT generation FROM driver FOR UPDATE")
            except pymysql.MySQLError as error:
                if error.args[0] not in _LOST_TO_THE_SINK:
                    raise
            cursor.execute("ROLLBACK")


def _row_lock_waits(root: MySqlConnection) -> int:
    """How many transactions wait for a row lock now; the rival itself does not at that moment."""
    with root.cursor() as cursor:
        cursor.execute(_WAITS)
        return int(cursor.fetchone()[1])


def _deadlocks(root: MySqlConnection) -> int:
    """The server's deadlock counter."""
    with root.cursor() as cursor:
        cursor.execute(_COUNT)
        return int(cursor.fetchone()[0])


def _remove_weight(root: MySqlConnection) -> None:
    with root.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS floodmark_weight")


class _SimulatedDeadlocks(Hunt):
    """Makes the transaction that writes the next epoch the victim of a deadlock. Mutable: see `Hunt`."""

    def __init__(self, run: SimulatedRun, *, gap_ms: int, count: int | None) -> None:
        super().__init__(run, codes=(_DEADLOCK,), kill_one=self._prepare_one, gap_ms=gap_ms, count=count)

    def _prepare_one(self, server: SimulatedServer) -> bool:
        if server.deadlocks_to_make:
            return False  # the deadlock prepared before has not happened yet
        server.deadlocks_to_make = 1
        return True

    def ends(self) -> None:
        super().ends()
        self.server.deadlocks_to_make = 0

    def evidence(self) -> Evidence:
        """Counts the transactions that got the error, not the prepared deadlocks."""
        met = self.met()
        return {"codes": met, "counted": sum(met.values())} if met else {}
