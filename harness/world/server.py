"""The database server of a world as faults control it: a `harness.faults.real.server_control.ServerControl`.

Invariants: one act at a time, from any thread; after every act the server either runs on its own port and data or was
ended by us; a change that a fault could not revert because the server was down is reverted when it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from copy import copy
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Protocol

import pymysql

from harness.database.endpoint import MySqlConnection
from harness.faults.real.server_control import (
    PairControl,
    ServerClockControl,
    ServerProcess,
    ServerState,
    Session,
    SmallDisk,
)
from harness.system.clock import Deadline, Flag, pause
from harness.system.errors import HarnessError, WorldError
from harness.world.world import DATABASE, Address, Credentials, ReplicatedServer

START_LIMIT_S = 60.0
"""How long it may take to answer after a start; crash recovery of our small data folders takes seconds."""
ROOT_LIMIT_S = 20.0
"""How long a root connection waits for a server that another fault has stopped or paused."""
SHORT_S = 1.0
BETWEEN_TRIES_S = 0.05
UNREACHABLE = frozenset({1040, 1053, 2002, 2003, 2006, 2013, 2055})
"""Error codes of a server that is down, paused, stopping or full: try again."""


class Machine(ServerProcess, SmallDisk, ServerClockControl, Protocol):
    """The server's process, in the local or the containers world."""

    def start(self) -> None:
        """Start it; returns before it is ready."""

    def look(self) -> ServerState:
        """The state of the process; `uptime_s` stays None."""

    def wait_for(self, condition: Callable[[], bool], *, what: str, limit_s: float) -> None:
        """Wait until `condition` holds. Raises WorldError with the end of its log if it ends or the limit passes."""


@dataclass(slots=True, kw_only=True)
class _Owed:
    """Changes to revert as soon as the server answers; shared by all runs' views of one server. Mutable."""

    lock: RLock = field(default_factory=RLock)
    acts: list[tuple[str, Callable[[Any], None]]] = field(default_factory=list)
    """(database, function that reverts the change)"""


class Server:
    """Implements `ServerControl` over a `Machine`."""

    def __init__(
        self,
        machine: Machine,
        *,
        flavour: str,
        address: Address,
        root: Credentials,
        user: str,
    ) -> None:
        self.flavour = flavour
        self.database = DATABASE
        self.user = user
        self._machine = machine
        self._address = address
        self._root = root
        self._owed = _Owed()
        self.replicated: ReplicatedServer | None = None
        self.own_sessions: Callable[[], list[Session]] | None = None
        """See `ServerControl`."""
        self.writers: Callable[[MySqlConnection], Mapping[int, int]] = _writers
        """See `ServerControl`."""

    def reaches_lookups(self, over: Flag) -> bool:
        return self.replicated is None or self.replicated.reaches_lookups(over)

    @property
    def pair(self) -> PairControl:
        if self.replicated is None:
            raise lacking("a replica")
        return self.replicated

    def with_pair(self, pair: ReplicatedServer) -> Server:
        """The same server, which has a replica."""
        made = copy(self)
        made.replicated = pair
        return made

    def with_sessions(
        self, sessions: Callable[[], list[Session]], writers: Callable[[MySqlConnection], Mapping[int, int]]
    ) -> Server:
        """The same server, of which somebody else tells its sessions and what their transactions have changed."""
        made = copy(self)
        made.own_sessions, made.writers = sessions, writers
        return made

    def of_run(self, database: str) -> Server:
        """The same server for a run with this database."""
        made = copy(self)
        made.database = database
        return made

    def kill(self) -> None:
        """SIGKILL."""
        with self._owed.lock:
            if self._machine.look().start is not None:
                self._machine.kill()

    def shut_down(self) -> None:
        with self._owed.lock:
            if self._machine.look().start is not None:
                self._machine.resume()  # a paused process does not react to a request to end
                self._machine.shut_down()

    def start(self) -> None:
        """Start it on the same port and data; returns when it answers."""
        with self._owed.lock:
            if self._machine.look().start is not None:
                return
            self._machine.start()
            self._machine.wait_for(
                self._answers, what="the database server to answer again", limit_s=START_LIMIT_S
            )
            self._revert_owed()

    def pause(self) -> None:
        with self._owed.lock:
            if self._machine.look().start is not None:
                self._machine.pause()

    def resume(self) -> None:
        with self._owed.lock:
            if self._machine.look().paused:
                self._machine.resume()
                self._revert_owed()

    @contextmanager
    def root(
        self, database: str = "", *, limit_s: float = 3.0, wait_s: float = ROOT_LIMIT_S
    ) -> Iterator[MySqlConnection]:
        """A root connection that bypasses the proxy."""
        deadline, opened = Deadline(wait_s), None
        while opened is None:
            # After a failover the address is that of the server which serves since.
            address = self._address if self.replicated is None else self.replicated.serving_address
            try:
                opened = open_connection(address, self._root, database=database or None, limit_s=limit_s)
            except (pymysql.MySQLError, OSError) as error:
                if deadline.passed or not _is_unreachable(error):
                    raise
                pause(BETWEEN_TRIES_S)
        with closing(opened) as connection:
            yield connection

    def state(self) -> ServerState:
        """Its state, with the uptime if it answers."""
        seen = self._machine.look()
        if seen.start is None or seen.paused:
            return seen
        uptime = self._status("SHOW GLOBAL STATUS LIKE 'Uptime'").get("Uptime")
        return ServerState(start=seen.start, paused=seen.paused, pid=seen.pid, uptime_s=uptime)

    def counters(self) -> Mapping[str, int]:
        """The numeric rows of SHOW GLOBAL STATUS; empty if it does not answer."""
        return self._status("SHOW GLOBAL STATUS")

    def put_back(self, act: Callable[[MySqlConnection], None]) -> None:
        """Revert a change, now or as soon as the server answers."""
        with self._owed.lock:
            self._owed.acts.append((self.database, act))
            seen = self._machine.look()
            if seen.start is not None and not seen.paused:
                self._revert_owed()

    def fill_disk(self) -> int:
        return self._machine.fill_disk()

    def free_disk(self) -> None:
        self._machine.free_disk()

    def shift_clock(self, shift_ms: int) -> None:
        self._machine.shift_clock(shift_ms)

    def _revert_owed(self) -> None:
        """Revert the owed changes, the newest first."""
        while self._owed.acts:
            database, act = self._owed.acts[-1]
            try:
                with self.root(database) as connection:
                    act(connection)
            except (pymysql.MySQLError, OSError) as error:
                raise WorldError(
                    f"a fault could not be undone in database {database}: {error}",
                    fix="this world cannot be used any more: start the run again",
                ) from error
            self._owed.acts.pop()

    def _answers(self) -> bool:
        try:
            with closing(open_connection(self._address, self._root, database=None, limit_s=SHORT_S)):
                return True
        except (pymysql.MySQLError, OSError):
            return False

    def _status(self, query: str) -> Mapping[str, int]:
        """The numeric rows; empty if it does not answer within a second."""
        try:
            with (
                closing(
                    open_connection(self._address, self._root, database=None, limit_s=SHORT_S)
                ) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute(query)
                return {str(name): int(value) for name, value in cursor.fetchall() if str(value).isdecimal()}
        except (pymysql.MySQLError, OSError):
            return {}


def _writers(root: MySqlConnection) -> Mapping[int, int]:
    with root.cursor() as cursor:
        cursor.execute("SELECT trx_mysql_thread_id, trx_rows_modified FROM information_schema.INNODB_TRX")
        return {int(session): int(rows) for session, rows in cursor.fetchall()}


def lacking(ability: str) -> HarnessError:
    """The error for a fault that needs what this world lacks; the run should have been refused earlier."""
    return HarnessError(f"this world was opened without {ability}, and a fault needs it")


def _is_unreachable(error: Exception) -> bool:
    return not isinstance(error, pymysql.MySQLError) or (bool(error.args) and error.args[0] in UNREACHABLE)


TRY_LIMIT_S = 2.0
"""Limit of one attempt, for the connect and for each answer."""


def open_connection(
    address: Address, who: Credentials, *, database: str | None = DATABASE, limit_s: float = TRY_LIMIT_S
) -> MySqlConnection:
    """A connection whose waits are all bounded."""
    return pymysql.connect(
        host=address.host,
        port=address.port,
        user=who.user,
        password=who.password,
        database=database,
        ssl_disabled=True,
        autocommit=True,
        connect_timeout=limit_s,
        read_timeout=limit_s,
        write_timeout=limit_s,
    )


def ask(
    address: Address, who: Credentials, *statements: str, database: str | None = DATABASE
) -> Sequence[Any]:
    """Run the statements on a new connection; returns the rows of the last one."""
    with (
        closing(open_connection(address, who, database=database)) as connection,
        connection.cursor() as cursor,
    ):
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def proof_of(ways: Mapping[str, Address], who: Credentials) -> tuple[Callable[[], bool], Callable[[], str]]:
    """A condition that holds once every path answers `SELECT 1`, and a function that says what failed last.

    An open port proves nothing: a proxy accepts before it has dialled, and a stopped server accepts too.
    """
    missing = dict(ways)
    last: list[str] = []

    def holds() -> bool:
        for way in list(missing):
            try:
                answer = ask(missing[way], who, "SELECT 1")
            except (pymysql.MySQLError, OSError) as error:
                last[:] = [f"{way} at port {missing[way].port}: {error}"]
                return False
            if [tuple(row) for row in answer] != [(1,)]:
                last[:] = [f"{way} answered {answer!r} to SELECT 1"]
                return False
            del missing[way]
        return True

    return holds, lambda: last[0] if last else "nothing was tried yet"
