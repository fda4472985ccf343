"""A primary and an asynchronous replica of it, behind one proxy: replication, promotion, and the way back.

Implements `harness.faults.real.server_control.PairControl` for MySQL and MariaDB, with positions in the primary's log,
which both have. Invariants: the replica is read-only until it is promoted; after `set_back` both servers hold the same
databases, the replica follows the primary again and every link leads where it led at first; a run that could not be
set back leaves a world that is not used again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Final

import pymysql
from pymysql.cursors import Cursor, DictCursor

from harness.database.endpoint import MySqlConnection
from harness.database.probe import OF_PROBE
from harness.faults.real.server_control import LostRows, ServerRole, Session, end_sessions, sessions_of_run
from harness.system.clock import Deadline, Flag, wait_until
from harness.system.errors import WorldError
from harness.world.server import Server, ask, open_connection
from harness.world.toxiproxy import Toxiproxy
from harness.world.world import Address, Credentials

PROBE: Final = "probe"
"""The link of the harness's own commits; it leads where the sink's does."""
REPLICA_LINK: Final = "replica"
"""The link that leads to the replica, always."""
CATCH_UP_S: Final = 30.0
_STATEMENT_S: Final = 20.0
_EVERY_S: Final = 0.01
_UNKNOWN_COMMAND: Final = 1064


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedServer:
    """One of the two."""

    server: Server
    direct: Address
    """Its own address, past the proxy."""
    upstream: str
    """Its address as the proxy dials it."""
    source: Address
    """Its address as the other server dials it."""


@dataclass(slots=True, kw_only=True)
class ServerPair:
    """Call `attach` when both answer. Mutable: replication, roles and links change.

    Statements are tried in the words of MySQL 8.4 and later (`REPLICA`), then in the older ones, which MariaDB has.
    """

    primary: PairedServer
    replica: PairedServer
    proxy: Toxiproxy
    links: Mapping[str, Address]
    """`probe` and `replica`, beside the links of the world."""
    app: Credentials
    root: Credentials
    losses: list[LostRows] = field(default_factory=list)
    """What the run's faults found to be lost."""
    _serving: ServerRole = "primary"
    _lookups: ServerRole = "primary"
    _lock: RLock = field(default_factory=RLock)

    # ---------------------------------------------------------------------------------------- standing

    @property
    def serving(self) -> ServerRole:
        return self._serving

    @property
    def serving_address(self) -> Address:
        """The direct address of the server that the sink's link leads to."""
        return self._of(self._serving).direct

    @property
    def replica_address(self) -> Address:
        """The direct address of the replica."""
        return self.replica.direct

    def standing(self) -> Mapping[str, object]:
        """See `PairControl`; also on which threads of the replica run, and why one does not."""
        end, status = self._end_of_log(), self._status()
        offsets = ("Read_Source_Log_Pos", "Read_Master_Log_Pos")
        received = _place(status, ("Source_Log_File", "Master_Log_File"), offsets)
        return {
            "primary": "{}:{}".format(*end),
            "received": "{}:{}".format(*received),
            "executed": "{}:{}".format(*_executed(status)),
            "receives": _field(status, "IO_Running") == "Yes",
            "applies": _field(status, "SQL_Running") == "Yes",
        }

    def behind(self) -> int:
        (end_file, end), (file, at) = self._end_of_log(), _executed(self._status())
        return max(0, end - at) if file == end_file else end

    def answering(self) -> int | None:
        try:
            return int(ask(self.links[PROBE], self.app, "SELECT @@server_id", database=None)[0][0])
        except (pymysql.MySQLError, OSError):
            return None

    def only_on(self, role: ServerRole, database: str, table: str) -> Sequence[Mapping[str, object]]:
        other: ServerRole = "replica" if role == "primary" else "primary"
        left = Counter(map(_identity, self._rows(other, database, table)))
        only = []
        for row in self._rows(role, database, table):
            name = _identity(row)
            if left[name]:
                left[name] -= 1
            else:
                only.append(row)
        return only

    def lose(self, lost: LostRows) -> None:
        self.losses.append(lost)

    # ------------------------------------------------------------------------------------- replication

    def attach(self) -> None:
        """The replica follows the primary from now on; what both have must be equal now."""
        with self._lock:
            file, offset = self._end_of_log()
            with self._root_of("replica") as connection, connection.cursor() as cursor:
                _say(cursor, "STOP REPLICA", "STOP SLAVE")
                _say(cursor, "RESET REPLICA ALL", "RESET SLAVE ALL")
                source = self.primary.source
                at = (source.host, source.port, self.root.user, self.root.password, file, offset)
                follow = _FOLLOW_MARIADB if self.primary.server.flavour == "mariadb" else _FOLLOW_MYSQL
                cursor.execute(follow, at)
                _say(cursor, "START REPLICA", "START SLAVE")
                cursor.execute("SET GLOBAL read_only = 1")
            self._serving = "primary"
        self.catch_up()

    def catch_up(self) -> None:
        """Waits until the replica has executed all that the primary's log holds now. Raises WorldError."""
        end, status = self._end_of_log(), dict[str, object]()

        def is_there() -> bool:
            status.update(self._status())
            return _field(status, "IO_Running") == "Yes" and _executed(status) >= end

        if not wait_until(is_there, deadline=Deadline(CATCH_UP_S), every_s=_EVERY_S):
            why = next((text for name in _TROUBLES if (text := _field(status, name))), "nothing")
            message = (
                f"the replica did not catch up with the primary within {CATCH_UP_S:g} s; its trouble: {why}"
            )
            raise WorldError(message, fix="look at the log of both servers; run it again with --keep always")

    def reaches_lookups(self, over: Flag) -> bool:
        """See `ServerControl`."""
        if self._lookups == "primary" or self._serving == "replica":
            return True
        end = self._end_of_log()
        while _executed(self._status()) < end:
            if over.wait(_EVERY_S):
                return False
        return True

    def stop_receiving(self) -> None:
        self._on_replica("STOP REPLICA IO_THREAD", "STOP SLAVE IO_THREAD")

    def stop_applying(self) -> None:
        self._on_replica("STOP REPLICA SQL_THREAD", "STOP SLAVE SQL_THREAD")

    def resume(self) -> bool:
        with self._lock:
            if self._serving == "replica":
                return False
            self._on_replica("START REPLICA", "START SLAVE")
        self.catch_up()
        return True

    def promote(self) -> None:
        with self._lock, self._root_of("replica") as connection, connection.cursor() as cursor:
            _say(cursor, "STOP REPLICA", "STOP SLAVE")
            _say(cursor, "RESET REPLICA ALL", "RESET SLAVE ALL")
            cursor.execute("SET GLOBAL read_only = 0")
            cursor.execute("FLUSH BINARY LOGS")  # a new file of its log: from here on its own sessions write
            self._serving = "replica"

    def move_links(self, *, cut: bool) -> None:
        for link in ("sink", "lookups", PROBE):
            self.proxy.lead(link, self.replica.upstream, cut=cut)

    def fence_off(self, database: str, *, read_only: bool = False) -> int:
        servers = [self.primary.server.of_run(name) for name in (database, f"{database}{OF_PROBE}")]
        with self._root_of("primary") as connection, connection.cursor() as cursor:
            if read_only:
                cursor.execute("SET GLOBAL read_only = 1")

            def sessions() -> list[Session]:
                return [one for server in servers for one in sessions_of_run(connection, server)]

            ended = end_sessions(connection, sessions())
            if not wait_until(lambda: not sessions(), deadline=Deadline(_STATEMENT_S), every_s=_EVERY_S):
                raise WorldError("a session of the run on the old primary did not end")
        return ended

    # ------------------------------------------------------------------------------------ a run's turn

    @contextmanager
    def of_run(self, *databases: str, lookups: ServerRole, stays: bool) -> Iterator[None]:
        """The links as a run wants them while the block lasts; then both servers as before it.

        `databases` are those of the run; they are removed from both servers afterwards, unless they stay.
        """
        self.losses = []
        self._lookups = lookups
        self.proxy.lead("lookups", self._of(lookups).upstream)
        try:
            yield
        finally:
            self._set_back(databases, stays=stays)

    def _set_back(self, databases: Sequence[str], *, stays: bool) -> None:
        for role in ("replica", "primary"):
            with self._root_of(role) as connection, connection.cursor() as cursor:
                if role == "replica":
                    _say(cursor, "STOP REPLICA", "STOP SLAVE")
                cursor.execute("SET SESSION sql_log_bin = 0")
                for name in () if stays else databases:
                    cursor.execute(f"DROP DATABASE IF EXISTS `{name}`")
                if role == "primary":
                    cursor.execute("SET GLOBAL read_only = 0")
        for link in ("sink", "lookups", PROBE):
            self.proxy.lead(link, self.primary.upstream)
        self.attach()

    # ---------------------------------------------------------------------------------------- questions

    def _of(self, role: ServerRole) -> PairedServer:
        return self.primary if role == "primary" else self.replica

    @contextmanager
    def _root_of(self, role: ServerRole, database: str | None = None) -> Iterator[MySqlConnection]:
        address = self._of(role).direct
        opened = open_connection(address, self.root, database=database, limit_s=_STATEMENT_S)
        with closing(opened) as connection:
            yield connection

    def _on_replica(self, *forms: str) -> None:
        with self._lock, self._root_of("replica") as connection, connection.cursor() as cursor:
            _say(cursor, *forms)

    def _end_of_log(self) -> tuple[str, int]:
        with self._root_of("primary") as connection, connection.cursor() as cursor:
            _say(cursor, "SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
            row = cursor.fetchone()
        if row is None:
            raise WorldError("the primary keeps no log of changes, which its replica needs")
        return str(row[0]), int(row[1])

    def _status(self) -> Mapping[str, object]:
        with self._root_of("replica") as connection, connection.cursor(DictCursor) as cursor:
            _say(cursor, "SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
            return cursor.fetchone() or {}

    def _rows(self, role: ServerRole, database: str, table: str) -> list[Mapping[str, object]]:
        with self._root_of(role, database) as connection, connection.cursor(DictCursor) as cursor:
            try:
                cursor.execute(f"SELECT * FROM `{table}`")  # noqa: S608 - a table of ours, or of the job file
            except pymysql.ProgrammingError:
                return []  # the table was made later than what is compared
            return list(cursor.fetchall())


_FOLLOW_MARIADB: Final = (
    "CHANGE MASTER TO MASTER_HOST = %s, MASTER_PORT = %s, MASTER_USER = %s, MASTER_PASSWORD = %s,"
    " MASTER_LOG_FILE = %s, MASTER_LOG_POS = %s, MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = no"
)
_FOLLOW_MYSQL: Final = (
    "CHANGE REPLICATION SOURCE TO SOURCE_HOST = %s, SOURCE_PORT = %s, SOURCE_USER = %s, SOURCE_PASSWORD = %s,"
    " SOURCE_LOG_FILE = %s, SOURCE_LOG_POS = %s, SOURCE_CONNECT_RETRY = 1, SOURCE_AUTO_POSITION = 0,"
    " SOURCE_SSL = 0, GET_SOURCE_PUBLIC_KEY = 1"  # TLS is off where a log of changes is kept
)
_TROUBLES: Final = ("Last_IO_Error", "Last_SQL_Error", "IO_State", "SQL_Running_State")


def _say(cursor: Cursor, *forms: str) -> None:
    """Runs the first form that the server knows."""
    *others, last = forms
    for form in others:
        try:
            cursor.execute(form)
        except pymysql.ProgrammingError as error:
            if error.args[0] != _UNKNOWN_COMMAND:
                raise
        else:
            return
    cursor.execute(last)


def _field(status: Mapping[str, object], name: str) -> Any:
    """A field of the replica's status: `Replica_IO_Running` of MySQL is `Slave_IO_Running` of MariaDB."""
    of = {"IO_Running": ("Replica", "Slave"), "SQL_Running": ("Replica", "Slave")}
    for prefix in of.get(name, ("Replica", "Slave", "")):
        full = f"{prefix}_{name}" if prefix else name
        if full in status:
            return status[full]
    return None


def _executed(status: Mapping[str, object]) -> tuple[str, int]:
    """How far the replica has executed the primary's log."""
    return _place(
        status,
        ("Relay_Source_Log_File", "Relay_Master_Log_File"),
        ("Exec_Source_Log_Pos", "Exec_Master_Log_Pos"),
    )


def _place(status: Mapping[str, object], files: Sequence[str], offsets: Sequence[str]) -> tuple[str, int]:
    file = next((status[name] for name in files if name in status), "")
    offset = next((status[name] for name in offsets if name in status), 0)
    return str(file), int(str(offset))


def _identity(row: Mapping[str, object]) -> str:
    return repr(sorted(row.items()))
