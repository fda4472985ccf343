"""`lock_rows`: another transaction holds what the run needs: the fence's rows (sink), or the whole table (lookups).

Answers to a report, a backup or a forgotten shell that keeps locks. A plain SELECT waits for no row, so what stands
in the way of lookups is a lock of the table. Evidence: the server itself lists statements of the run that wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from harness.clock import monotonic_us
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Count, Lasts, OnLink
from harness.faults.real.client_errors import client_errors, fact
from harness.faults.real.fault_site import Site
from harness.faults.real.repeating import repeating
from harness.faults.real.root_line import RootLine
from harness.faults.real.seen import Evidence, Seen
from harness.faults.real.sessions import sessions_of_run
from harness.faults.simulated.act import LinkAct
from harness.faults.simulated.says import is_write
from harness.faults.simulated.under_way import meet_requests

if TYPE_CHECKING:
    from harness.sim.link import Flight, Link

__all__ = ["LockRows", "SimulatedLock"]

_LOCK_S = 10.0
"""How long the lock itself may be waited for: the run's own transactions are short."""
_LOOK_S = 0.15
"""The server's list of transactions is a copy, made anew for who has not asked for a tenth of a second."""
_GIVEN_UP = (1205, 2013, 3024, 1969)
_WAITING = """
    SELECT COUNT(*) FROM information_schema.INNODB_TRX AS t JOIN information_schema.PROCESSLIST AS p
    ON p.ID = t.trx_mysql_thread_id WHERE t.trx_state = 'LOCK WAIT' AND p.USER = %s AND p.DB = %s"""
_TABLE_WAIT = "metadata lock"
_LOCK_WAIT: Final = 1205
_LOCK_WAIT_MS: Final = 2_000
"""`innodb_lock_wait_timeout` of the sinks' sessions."""


class LockRows(ServerFault):
    """Holds locks that `link` needs; of the fence, the rows of the first `count` subtasks (None: all)."""

    about = (
        "Another transaction holds the locks that `link` needs: the fence's rows (sink), the table (lookups)."
    )
    must_show = "The server lists statements of the run that wait for the lock; who gives up is told 1205."
    simulated_on = ("sink",)

    do: Literal["lock_rows"]
    lasts: Lasts
    link: OnLink = "sink"
    count: Count | None = None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The lock is had when the block begins, and given back by the end of its session."""
        server = site.server
        with server.root(server.database, limit_s=_LOCK_S) as holder, RootLine(server) as prober:
            began_us = monotonic_us()
            self._lock(holder)
            site.found(began_us=began_us, locked=self.link)
            most = [0]
            with repeating(lambda: prober(lambda root: self._look(root, site, most)), _LOOK_S):
                yield

    def _lock(self, holder: Any) -> None:
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

    def _look(self, root: Any, site: Site, most: list[int]) -> None:
        waiting = self._waiting(root, site)
        if waiting > most[0]:
            most[0] = waiting
            site.found(waiting=waiting)

    def _waiting(self, root: Any, site: Site) -> int:
        if self.link == "lookups":
            return sum(_TABLE_WAIT in session.state for session in sessions_of_run(root, site.server))
        with root.cursor() as cursor:
            cursor.execute(_WAITING, (site.server.user, site.server.database))
            return int(cursor.fetchone()[0])

    def evidence(self, seen: Seen) -> Evidence:
        """How many statements of the run waited at once, at most, and who gave up."""
        waiting = fact(seen, "waiting")
        return {"waiting": waiting, "codes": client_errors(seen, _GIVEN_UP)} if waiting else {}

    def on_links(self) -> LinkAct:
        """See `ServerFault`."""
        return SimulatedLock(self.count)


class SimulatedLock:
    """Another transaction holds what is needed: who writes waits, and gives up in time; who reads waits. Counts."""

    def __init__(self, subtasks: int | None = None) -> None:
        self._subtasks = subtasks
        """The fence's rows of so many, from the first on; None: all."""
        self._waiting: dict[Flight, tuple[int, int]] = {}
        self._met = 0
        self._gave_up = 0

    def begins(self, link: Link) -> None:
        """Open transactions wait too."""
        meet_requests(self, link)

    def meets(self, link: Link, flight: Flight) -> None:
        """It waits for the lock."""
        if is_write(flight) and self._subtasks is not None and flight.request >= self._subtasks:
            return
        left_ms = link.holds(flight)
        if left_ms is None:
            return
        self._met += 1
        self._waiting[flight] = left_ms
        if is_write(flight):
            link.hub.at(link.hub.now_ms + _LOCK_WAIT_MS, partial(self._give_up, link, flight))

    def _give_up(self, link: Link, flight: Flight) -> None:
        if self._waiting.pop(flight, None) is not None and flight.held and not flight.over:
            self._gave_up += 1
            flight.held = False
            link.answers(flight, _LOCK_WAIT)
            link.aim(flight)

    def ends(self, link: Link) -> None:
        """Who still waits has it."""
        for flight, left_ms in self._waiting.items():
            if flight.connection.link is link:
                link.goes_on(flight, left_ms)

    def evidence(self) -> dict[str, Any]:
        """How many waited for the lock, and how many in vain."""
        if not self._met:
            return {}
        return {"waited": self._met, "codes": {str(_LOCK_WAIT): self._gave_up} if self._gave_up else {}}
