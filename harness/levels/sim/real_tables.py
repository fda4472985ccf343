"""The real server of level sim: its tables with the rows of a run, and the way there for a user's own client.

Invariant: each process that plays has a database of its own, filled anew before each run; nothing of one run is seen by
the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pymysql import MySQLError

from harness.database.driver import Cursor
from harness.database.endpoint import Endpoint, KeptConnection, connect
from harness.database.own_tables import OwnTableRows, fill_own_tables, read_effects, read_own_tables
from harness.database.schema import fill_customers, prepare_database, run_database
from harness.database.simulated.tables import Customers
from harness.history.event import Row, TableRead
from harness.levels.sim.bridge import Bridge
from harness.levels.sim.wire import Wire, no_real_sockets
from harness.scenario.claims import own_table
from harness.system.errors import WorldError
from harness.world.mysql_server import LOCK_WAITS
from harness.world.setup.opening import open_world
from harness.world.world import DATABASE, World

if TYPE_CHECKING:
    from harness.database.simulated.hub import Hub
    from harness.database.simulated.tape import Tape
    from harness.engine.level import Opening
    from harness.faults.parts.parts import OwnEffects
    from harness.levels.sim.simulation import Simulation
    from harness.scenario.model import Scenario
    from harness.system.errors import SutError


class RealTables:
    """One world's server, with a database for each process that plays. Mutable: knows those that it has made.

    Picklable; another process makes its databases anew.
    """

    def __init__(self, world: World) -> None:
        self.description = world.description
        self._address, self._app, self._root = world.direct, world.app, world.root
        self._made: set[tuple[int, bool]] = set()
        """The databases: the pid of their process, and whether their keys are texts."""
        self._name = ""

    def fill(self, scenario: Scenario, rows: Sequence[Sequence[object]]) -> None:
        """The database of this process holds the user's own tables, or these rows of table `customer`."""
        if scenario.own_schema is not None:
            self._name = f"{DATABASE}_sim_own__{os.getpid():010}"
            tables = read_own_tables(scenario.own_schema, scenario.data or ())
            with run_database(self._root.at(self._address, ""), name=self._name, stays=True, anew=True):
                fill_own_tables(self.at(root=True), tables)
            return
        of_texts = not all(isinstance(row[0], int) for row in rows)
        pid = os.getpid()
        self._name = (
            f"{DATABASE}_sim_{'text' if of_texts else 'ints'}_{pid:010}"  # of one length, as replies show it
        )
        if (pid, of_texts) in self._made:
            with suppress(WorldError):  # a run that ended inside `schema_change` leaves the table renamed
                fill_customers(self.at(root=True), rows)
                return
        with run_database(self._root.at(self._address, ""), name=self._name, stays=True, anew=True):
            prepare_database(self.at(root=True), subtasks=0, rows=rows)
        self._made.add((pid, of_texts))

    def at(self, *, root: bool = False) -> Endpoint:
        """The database itself."""
        return (self._root if root else self._app).at(self._address, self._name)

    @contextmanager
    def own_rows(self) -> Iterator[OwnTableRows]:
        """The rows of the user's own tables."""
        with KeptConnection(self.at(root=True)) as kept:
            yield OwnTableRows(kept.opened())

    def read_effects(self, effects: OwnEffects, tape: Tape) -> str | None:
        """The rows that the lookup wrote become events of `tape`; why they could not be read, if so."""
        name = own_table(effects)

        def take(id_: int | str) -> None:
            tape.add(Row(n=tape.n, t=tape.t, table=name, id=id_))

        try:
            with KeptConnection(self.at(root=True)) as kept:
                count = read_effects(kept, self._name, table=effects.table, column=effects.id, take=take)
        except (MySQLError, OSError) as error:
            return f"the table {name} could not be read: {error}"
        tape.add(TableRead(n=tape.n, t=tape.t, table=name, rows=count))
        return None

    @contextmanager
    def serving(self, run: Simulation, rows: Sequence[Sequence[object]]) -> Iterator[None]:
        """The lookups of `run` ask this server while the block lasts; then what they wrote is on its tape.

        Raises WorldError if the server failed meanwhile.
        """
        with ExitStack() as stack:
            if run.scenario.own_schema is None:
                customers = run.tables.customers = RealCustomers(rows, self.at(root=True), run.hub)
                stack.callback(customers.close)
            run.wire = stack.enter_context(self.wired(run.hub, refuse=run.refuse, met=run.met))
            yield
        run.wire.raise_failure()
        effects = run.scenario.effects
        if effects is not None and (unread := self.read_effects(effects, run.tape)):
            run.unread.append(unread)

    @contextmanager
    def wired(
        self,
        hub: Hub,
        *,
        refuse: Callable[[SutError], None],
        met: Callable[[int | str], None] = lambda code: None,
    ) -> Iterator[Wire]:
        """The way of a run's lookups to the server; meanwhile their process reaches nothing else.

        `refuse` is called if they try; `met` with the number of each error that a client got.
        """
        bridge = Bridge(
            self.at(), self.at(root=True), now_us=lambda: 1000 * (hub.now_ms + hub.wall_offset_ms)
        )
        wire = Wire(bridge, hub, refuse=refuse, met=met)
        try:
            with no_real_sockets(wire):
                yield wire
        finally:
            bridge.close()


class RealCustomers(Customers):
    """Table `customer` of a run: faults change its rows and rename it in the simulated server and in the real one.

    Mutable. The calm rows and the versions are the simulated server's.
    """

    def __init__(self, rows: Iterable[Sequence[object]], root: Endpoint, hub: Hub) -> None:
        super().__init__(rows)
        self.never_changes = False
        self._hub = hub
        self._real = connect(root)  # now: a fault may begin in an attempt, whose code reaches no socket
        self._away: dict[object, Sequence[Sequence[Any]]] = {}
        """Key -> its deleted rows in the real table."""

    def close(self) -> None:
        """Close the connection by which the real table is changed."""
        self._real.close()

    def change(self, keys: Iterable[object], *, version: int, deletes: bool = False) -> None:
        """See `Customers`. Raises WorldError if a lookup has locked a row."""
        keys = list(keys)
        super().change(keys, version=version, deletes=deletes)
        with self._locked_by_nobody("change_rows") as cursor:
            for key in keys:
                k, part = key if isinstance(key, tuple) else (key, None)
                if not deletes:
                    cursor.execute(_UPDATE, (version, k, part))
                elif key in self._away:
                    rows = [(*row, version) for row in self._away.pop(key)]
                    cursor.executemany(_INSERT, rows)
                else:
                    cursor.execute(_SELECT, (k, part))
                    self._away[key] = cursor.fetchall()
                    cursor.execute(_DELETE, (k, part))

    def rename(self, what: str | None) -> None:
        """See `Customers`; waits, as ALTER does, until no transaction has read the table."""
        before = self.renamed
        super().rename(what)
        if what is None:
            undone = {"table": f"RENAME TABLE {_AWAY} TO customer"}
            self._alter(undone.get(before or "", f"ALTER TABLE customer RENAME COLUMN {_AWAY} TO city"))
        elif what == "table":
            self._alter(f"RENAME TABLE customer TO {_AWAY}")
        else:
            self._alter(f"ALTER TABLE customer RENAME COLUMN city TO {_AWAY}")

    def _alter(self, sql: str) -> None:
        try:
            with self._locked_by_nobody("schema_change") as cursor:
                cursor.execute(sql)
        except WorldError:
            self._hub.at(self._hub.now_ms + _AGAIN_MS, partial(self._alter, sql))

    @contextmanager
    def _locked_by_nobody(self, fault: str) -> Iterator[Cursor]:
        connection = self._real
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 0, SESSION lock_wait_timeout = 0")
            try:
                yield cursor
                connection.commit()
            except MySQLError as error:
                connection.rollback()
                message = f"fault `{fault}` cannot act at level sim: the lookup has locked what it changes ({error})"
                raise WorldError(message, fix="run it with --level live") from error


_UPDATE: Final = "UPDATE customer SET ver = %s, tier = tier + 1 WHERE k = %s AND part <=> %s"
_SELECT: Final = "SELECT n, k, part, name, city, tier + 1 FROM customer WHERE k = %s AND part <=> %s"
_DELETE: Final = "DELETE FROM customer WHERE k = %s AND part <=> %s"
_INSERT: Final = (
    "INSERT INTO customer (n, k, part, name, city, tier, ver) VALUES (%s, %s, %s, %s, %s, %s, %s)"
)
_AWAY: Final = "floodmark_renamed"
_AGAIN_MS: Final = 10


@contextmanager
def real_tables(opening: Opening) -> Iterator[RealTables]:
    """A server while the block lasts. Raises WorldError."""
    kind = "auto" if opening.world == "simulated" else opening.world
    with open_world(kind, needs=frozenset({LOCK_WAITS}), announce=opening.announce) as world:
        make_bridgeable(world)
        yield RealTables(world)


def make_bridgeable(world: World) -> None:
    """Sets what the sessions of a bridge need."""
    with connect(world.root.at(world.direct, "")) as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 0")  # no run outlives the server
        # For `SET pseudo_thread_id`: sessions have the numbers of the simulated server.
        ability = "BINLOG REPLAY" if "MariaDB" in world.description.server else "SESSION_VARIABLES_ADMIN"
        cursor.execute(f"GRANT {ability} ON *.* TO '{world.app.user}'@'%'")
