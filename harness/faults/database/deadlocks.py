"""`deadlocks`: another transaction takes the sink's rows in the opposite order, so that one of the two must give up.

Ours holds the gap in which the next epoch row will stand, lets the sink run into it with the fence's row in its
hands, and then asks for that row. Ours has changed more, so the server picks the sink's for its victim. Evidence:
clients of the run were answered 1213, and the server's own count of deadlocks has risen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pymysql

from harness.clock import Deadline, monotonic_us, wait_until
from harness.faults.database.client_errors import client_errors, fact
from harness.faults.database.root_line import RootLine
from harness.faults.fault import Evidence, Site
from harness.faults.kind import FaultKind
from harness.faults.repeating import repeating
from harness.faults.seen import Seen

__all__ = ["KIND", "Deadlocks"]

_DEADLOCK = 1213
_LOST_TO_THE_SINK = frozenset({1205, _DEADLOCK})
"""Ours was the victim, or the sink held on for too long: it went its way."""
_GAP_MS = 50
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlocks:
    """Makes deadlocks with the sink, one after the other: `gap_ms` between two, `count` at most (None: no limit)."""

    name: str
    gap_ms: int = _GAP_MS
    count: int | None = None

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
                with repeating(ambush.once, self.gap_ms / 1000):
                    yield
        finally:
            server.put_back(_remove_weight)

    def evidence(self, seen: Seen) -> Evidence:
        """Deadlocks that clients met, and those that the server counted."""
        met, counted = client_errors(seen, (_DEADLOCK,)), fact(seen, "counted")
        return {"codes": met, "counted": counted} if met and counted else {}


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


KIND = FaultKind(
    name="deadlocks",
    about="Another transaction takes the sink's rows in the opposite order, every `gap`, `count` times at most.",
    evidence="Clients were answered 1213, and the server's own count of deadlocks rose.",
    outside=lambda fault, _seed: Deadlocks(name=fault.id, gap_ms=fault.gap or _GAP_MS, count=fault.count),
)
