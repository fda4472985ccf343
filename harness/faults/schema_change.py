"""`schema_change`: rename a column that the lookups read, or their table, for a while.

Answers to a migration that was rolled out before its readers. Evidence: the server's catalogue showed the new name, and
clients got the error for an unknown column (1054) or table (1146).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

from harness.database.endpoint import MySqlConnection
from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Lasts, Way
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.simulated.acts import Act, OnServer, SimulatedRun
from harness.system.clock import monotonic_us

_NO_COLUMN, _NO_TABLE = 1054, 1146
_STATEMENT_S = 10.0
_TABLE, _COLUMN = "customer", "city"
_AWAY = "floodmark_renamed"
_COLUMN_THERE = """
    SELECT COUNT(*) FROM information_schema.COLUMNS
    WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s AND COLUMN_NAME = %s"""
_TABLE_THERE = """
    SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s"""


class SchemaChange(ServerFault):
    """Renames a column (`how: column`) or the table (`how: table`)."""

    about = "A column that the lookups read, or (`how: table`) their table, is renamed for a while."
    must_show = "Clients got error 1054 or 1146 while the server's catalogue showed the new name."
    not_in_jobs = (
        "renames parts of Floodmark's own lookups; write `do: sql_error`, or end the server by `db_kill`"
    )
    can = ("res",)

    do: Literal["schema_change"]
    lasts: Lasts
    how: Annotated[Literal["column", "table"], Way] = "column"

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The server lets running statements end before it renames."""
        server = site.server
        try:
            with server.root(server.database, limit_s=_STATEMENT_S) as connection:
                site.note_fact(began_us=monotonic_us())
                self._rename(connection)
                site.note_fact(renamed=self._is_renamed(connection))
            yield
        finally:
            server.put_back(self._rename_back)

    def _rename(self, connection: MySqlConnection) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION lock_wait_timeout = 8")
            if self.how == "table":
                cursor.execute(f"RENAME TABLE {_TABLE} TO {_AWAY}")
            else:
                cursor.execute(f"ALTER TABLE {_TABLE} RENAME COLUMN {_COLUMN} TO {_AWAY}")

    def _rename_back(self, connection: MySqlConnection) -> None:
        if not self._is_renamed(connection):
            return
        with connection.cursor() as cursor:
            if self.how == "table":
                cursor.execute(f"RENAME TABLE {_AWAY} TO {_TABLE}")
            else:
                cursor.execute(f"ALTER TABLE {_TABLE} RENAME COLUMN {_AWAY} TO {_COLUMN}")

    def _is_renamed(self, connection: MySqlConnection) -> bool:
        with connection.cursor() as cursor:
            if self.how == "table":
                cursor.execute(_TABLE_THERE, (_AWAY,))
            else:
                cursor.execute(_COLUMN_THERE, (_TABLE, _AWAY))
            return bool(cursor.fetchone()[0])

    def evidence(self, seen: Seen) -> Evidence:
        met = seen.client_errors(_NO_COLUMN, _NO_TABLE)
        return {"codes": met} if met and seen.last_fact("renamed") else {}

    def simulated(self, run: SimulatedRun) -> Act:
        return OnServer(
            run,
            codes=(_NO_COLUMN, _NO_TABLE),
            sets=lambda server: server.tables.customers.rename(self.how),
            puts_back=lambda server: server.tables.customers.rename(None),
        )
