"""`lock_rows`: another transaction holds locks that the run needs: the fence rows (sink) or the table (lookups).

Answers to a report, a backup or a forgotten session that keeps locks. A plain SELECT does not wait for row locks, so
lookups need a table lock. Evidence: the server lists statements of the run that wait for a lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

from harness.database.endpoint import MySqlConnection
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Count, Lasts, OnLink
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site, note_rises
from harness.faults.real.server_control import RootLine, repeating, sessions_of_run
from harness.faults.simulated.acts import Act, OnServer, SimulatedRun
from harness.system.clock import monotonic_us

if TYPE_CHECKING:
    from harness.database.simulated.hub import Due
    from harness.database.simulated.server import SimulatedServer, SimulatedSession

_LOCK_S = 10.0
"""Time limit for taking the lock; the run's own transactions are short."""
_LOOK_S = 0.15
"""Poll interval: the server caches `INNODB_TRX` and refreshes it only if it was not read for 0.1 s."""
_GIVEN_UP = (1205, 2013, 3024, 1969)
_WAITING = """
    SELECT COUNT(*) FROM information_schema.INNODB_TRX AS t JOIN information_schema.PROCESSLIST AS p
    ON p.ID = t.trx_mysql_thread_id WHERE t.trx_state = 'LOCK WAIT' AND p.USER = %s AND p.DB = %s"""
_TABLE_WAIT = "metadata lock"
_LOOK_MS: Final = 50


class LockRows(ServerFault):
    """Holds locks that `link` needs; for the sink, the fence rows of the first `count` subtasks (None: all)."""

    about = "Another transaction holds locks that `link` needs: the fence rows (sink) or the table (lookups)."
    must_show = (
        "The server listed statements of the run that waited for the lock; those that gave up got 1205."
    )
    not_in_jobs = "locks tables of Floodmark's own operator; write `do: sql_error` with `code: 1205`"
    can = ("res",)

    do: Literal["lock_rows"]
    lasts: Lasts
    link: OnLink = "sink"
    count: Count | None = None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The lock is held when the block begins; ending its session releases it."""
        server = site.server
        with server.root(server.database, limit_s=_LOCK_S) as holder, RootLine(server) as prober:
            began_us = monotonic_us()
            self._lock(holder)
            site.note_fact(began_us=began_us, locked=self.link)
            note = note_rises(site, "waiting")
            with repeating(lambda: prober(lambda root: note(self._waiting(root, site))), _LOOK_S):
                yield

    def _lock(self, holder: MySqlConnection) -> None:
        with holder.cursor() as cursor:
            cursor.execute(
                "SET SESSION innodb_lock_wait_timeout = 8, lock_wait_timeout = 8, wait_timeout = 28800"
            )
            if self.link == "lookups":
                cursor.execute("LOCK TABLES customer WRITE")
                return
            cursor.execute("START TRANSACTION")
            if self.count is None:
                cursor.execute("SELECT subtask FROM fence FOR UPDATE")
            else:
                cursor.execute(
                    "SELECT subtask FROM fence ORDER BY subtask LIMIT %s FOR UPDATE", (self.count,)
                )

    def _waiting(self, root: MySqlConnection, site: Site) -> int:
        if self.link == "lookups":
            return sum(_TABLE_WAIT in session.state for session in sessions_of_run(root, site.server))
        with root.cursor() as cursor:
            cursor.execute(_WAITING, (site.server.user, site.server.database))
            return int(cursor.fetchone()[0])

    def evidence(self, seen: Seen) -> Evidence:
        waiting = seen.last_fact("waiting")
        return {"waiting": waiting, "codes": seen.client_errors(*_GIVEN_UP)} if waiting else {}

    def simulated(self, run: SimulatedRun) -> Act:
        return _SimulatedLock(run, link=self.link, subtasks=self.count)


class _SimulatedLock(OnServer):
    """Another session of the simulated server holds the locks. Mutable: remembers the most waiters at once."""

    def __init__(self, run: SimulatedRun, *, link: str, subtasks: int | None) -> None:
        super().__init__(run, codes=_GIVEN_UP, sets=self._lock, puts_back=self._let_go)
        self._link = link
        self._subtasks = subtasks
        self._holder: SimulatedSession | None = None
        self._next: Due | None = None
        self._most = 0

    def _lock(self, server: SimulatedServer) -> None:
        if self._link == "lookups":
            self._holder = server.hold_customers()
        else:
            self._holder = server.hold_fences(self._subtasks)
        self._look()

    def _look(self) -> None:
        self._most = max(self._most, self.server.waiting(self._link))
        hub = self.run.hub
        self._next = hub.at(hub.now_ms + _LOOK_MS, self._look)

    def _let_go(self, server: SimulatedServer) -> None:
        self._most = max(self._most, server.waiting(self._link))
        if self._next is not None:
            self.run.hub.cancel(self._next)
        if self._holder is not None:
            self._holder.end()

    def evidence(self) -> Evidence:
        return {"waiting": self._most, "codes": self.met()} if self._most else {}
