"""`slow_query`: every lookup takes `delay` longer in the server itself, as after the loss of an index.

One RENAME replaces the table by a view that sleeps for each row; another restores it. Evidence: the server lists
statements of the run that sleep, and the median call begun during the fault took at least `delay`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from harness.database.endpoint import MySqlConnection
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Delay, Lasts
from harness.faults.real.evidence import Evidence, Seen, fastest_ms, median_ms
from harness.faults.real.fault_site import Site, note_rises
from harness.faults.real.server_control import RootLine, repeating, sessions_of_run
from harness.faults.simulated.acts import Act, OnServer, SimulatedRun
from harness.system.clock import monotonic_us

if TYPE_CHECKING:
    from harness.database.simulated.server import SimulatedServer

_STATEMENT_S = 10.0
_LOOK_S = 0.02
_SLEEPS = "sleep"
_VIEW = """
    CREATE SQL SECURITY INVOKER VIEW floodmark_slow AS SELECT * FROM floodmark_copy WHERE SLEEP(DELAY) = 0"""
_IN_PLACE = """
    SELECT COUNT(*) FROM information_schema.TABLES
    WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'floodmark_true'"""


class SlowQuery(ServerFault):
    """Makes each lookup sleep for `delay` in the server."""

    about = "Every lookup takes `delay` longer in the database server itself."
    must_show = (
        "The server listed statements of the run that slept, and the median call took at least the delay."
    )
    not_in_jobs = "puts a view in place of Floodmark's own lookups; write `do: latency`, `link: lookups`"
    can = ("late",)

    do: Literal["slow_query"]
    lasts: Lasts
    delay: Delay

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The renames are atomic: no lookup finds the table missing."""
        server, note = site.server, note_rises(site, "asleep")

        def look(root: MySqlConnection) -> None:
            note(sum(_SLEEPS in session.state.lower() for session in sessions_of_run(root, server)))

        try:
            with server.root(server.database, limit_s=_STATEMENT_S) as connection:
                self._slow_down(connection)
            site.note_fact(began_us=monotonic_us())
            with RootLine(server) as line, repeating(lambda: line(look), _LOOK_S):
                yield
        finally:
            server.put_back(_speed_up)

    def _slow_down(self, connection: MySqlConnection) -> None:
        with connection.cursor() as cursor:
            for statement in (
                "SET SESSION lock_wait_timeout = 8",
                "CREATE TABLE floodmark_copy LIKE customer",
                "INSERT INTO floodmark_copy SELECT * FROM customer",
                _VIEW.replace("DELAY", f"{self.delay / 1000:.3f}"),
                "RENAME TABLE customer TO floodmark_true, floodmark_slow TO customer",
            ):
                cursor.execute(statement)

    def evidence(self, seen: Seen) -> Evidence:
        under_it, asleep = seen.over("lookups").during(), seen.last_fact("asleep")
        fastest, middle = fastest_ms(under_it), median_ms(under_it)
        if not asleep or fastest is None or middle is None or middle < self.delay:
            return {}
        return {
            "asleep": asleep,
            "calls_during": len(under_it),
            "median_ms": round(middle, 1),
            "fastest_ms": round(fastest, 1),
        }

    def simulated(self, run: SimulatedRun) -> Act:
        return _Slow(run, delay_ms=self.delay)


def _speed_up(connection: MySqlConnection) -> None:
    """Undoes whatever part of the change was made."""
    with connection.cursor() as cursor:
        cursor.execute(_IN_PLACE)
        if cursor.fetchone()[0]:
            cursor.execute("RENAME TABLE customer TO floodmark_slow, floodmark_true TO customer")
        cursor.execute("DROP VIEW IF EXISTS floodmark_slow")
        cursor.execute("DROP TABLE IF EXISTS floodmark_copy")


class _Slow(OnServer):
    """Slows simulated lookups; counts those that slept. Mutable: see `OnServer`."""

    def __init__(self, run: SimulatedRun, *, delay_ms: int) -> None:
        super().__init__(run, codes=(), sets=self._slow_down, puts_back=self._speed_up)
        self._delay_ms = delay_ms
        self._slept = -self.server.slept

    def _slow_down(self, server: SimulatedServer) -> None:
        self._slept = -server.slept
        server.slow_ms += self._delay_ms

    def _speed_up(self, server: SimulatedServer) -> None:
        server.slow_ms -= self._delay_ms

    def evidence(self) -> Evidence:
        slept = self._slept + self.server.slept
        return {"calls_during": slept, "slower_by_ms": self._delay_ms} if slept else {}
