"""Global variables of the server that a fault sets and restores, even if the server was restarted or paused meanwhile.

Invariant: the previous value is restored; sessions that began during the fault and would keep its value are ended when
it heals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from harness.database.endpoint import MySqlConnection
from harness.faults.real.fault_site import Site
from harness.faults.real.server_control import end_all_sessions, sessions_of_run
from harness.system.clock import monotonic_us

STATEMENT_S = 10.0
"""Time limit; SET GLOBAL may wait for transactions that are committing."""


@contextmanager
def global_variables(site: Site, values: Mapping[str, int]) -> Iterator[None]:
    """Sets these global variables while the block lasts."""
    with site.server.root(limit_s=STATEMENT_S) as connection:
        before = {}
        with connection.cursor() as cursor:
            for name in values:
                cursor.execute(f"SELECT @@GLOBAL.{name}")
                before[name] = int(cursor.fetchone()[0])
        try:
            site.note_fact(began_us=monotonic_us(), set=dict(values), stood=before)
            _set_all(connection, values)
            yield
        finally:
            site.server.put_back(lambda root: _set_all(root, before))


@contextmanager
def variables_of_new_sessions(site: Site, values: Mapping[str, int]) -> Iterator[None]:
    """The same for variables that a session copies when it begins: the run's sessions are ended at both ends."""
    try:
        with global_variables(site, values):
            with site.server.root() as connection:
                sessions = sessions_of_run(connection, site.server)
                end_all_sessions(connection, site.server)
                site.note_fact(ended=len(sessions), ended_us=monotonic_us())
            yield
    finally:
        site.server.put_back(lambda root: end_all_sessions(root, site.server))


def _set_all(connection: MySqlConnection, values: Mapping[str, int]) -> None:
    with connection.cursor() as cursor:
        for name, value in values.items():
            cursor.execute(f"SET GLOBAL {name} = {value:d}")
