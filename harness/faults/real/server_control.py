"""The database servers of a run as faults use them: one, or a primary with its replica.

One server: its process, the run's sessions, and repeated acts.

Answers to Jepsen's `db/Process` and `db/Pause`, and to `stagger` over a nemesis. Invariants: every act has a time
limit and may be repeated; the server keeps its ports and data; facts about it come over direct connections, so that
faults of the proxy cannot distort them; only sessions of the run's user in the run's database are ended. Repeated acts
run in a thread that ends with its block, and the block raises their errors.

Two servers: a primary and its replica, and which of them the links lead to.

Answers to a cluster manager (Orchestrator, MHA) that promotes a replica. Invariants: facts about a server come over a
direct connection to it; the links lead to the serving server, and the lookups' to the replica where the scenario says
so; what was lost is what SQL reads on one server and not on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self, TypeVar

from harness.database.endpoint import OWN, MySqlConnection
from harness.system.clock import Flag, beside, flag
from harness.system.errors import WorldError
from harness.system.json_types import Json

EPOCHS: Final = "epoch"
"""The table of our own sinks in which each epoch that is visible has a row."""
OUTPUTS: Final = "output"
ServerRole = Literal["primary", "replica"]
"""What a server was when the run began; a promoted replica is still called `replica`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRows:
    """The rows of a table that one server has committed and the serving one does not have."""

    table: str
    rows: Sequence[Mapping[str, Any]]
    """Each row by column."""


class PairControl(Protocol):
    """A primary and an asynchronous replica of it; every method may be called from any thread, and has a limit."""

    @property
    def serving(self) -> ServerRole:
        """The server that the links of the sink lead to."""

    def stop_receiving(self) -> None:
        """The replica gets nothing more from the primary; what it got it still applies."""

    def stop_applying(self) -> None:
        """The replica applies nothing more of what it gets."""

    def resume(self) -> bool:
        """Undoes both; returns whether the replica then caught up, and does nothing once it was promoted."""

    def standing(self) -> Mapping[str, object]:
        """Where both servers are: `primary` (its log's end), `executed` (how far the replica is in it), and so on."""

    def behind(self) -> int:
        """How many bytes of the primary's log the replica has not executed; whole files in between count 0."""

    def promote(self) -> None:
        """Make the replica a primary: it stops replicating, and takes writes."""

    def move_links(self, *, cut: bool) -> None:
        """All links lead to the replica from now on; `cut`: live connections end, otherwise they stay."""

    def fence_off(self, database: str, *, read_only: bool = False) -> int:
        """Ends all sessions of the run on the old primary; returns how many. `read_only`: it takes no more writes."""

    def answering(self) -> int | None:
        """The id of the server that answers behind the links now; None: no server answers."""

    def only_on(self, role: ServerRole, database: str, table: str) -> Sequence[Mapping[str, object]]:
        """The rows of `table` that this server has and the other one has not, by column; empty: there is no table."""

    def lose(self, lost: LostRows) -> None:
        """Remembers what a fault of the run found to be lost."""


def find_lost(pair: PairControl, database: str, *, table: str) -> Json:
    """What the old primary has committed and the promoted one has not, as facts of a fault; the pair remembers it.

    `table`: the one that a job writes to; empty: the run is one of our own sinks, whose epochs are told.
    """
    rows = pair.only_on("primary", database, table or EPOCHS)
    pair.lose(LostRows(table=table or EPOCHS, rows=rows))
    if table:
        return {"lost": len(rows)}
    pair.lose(LostRows(table=OUTPUTS, rows=pair.only_on("primary", database, OUTPUTS)))
    return {
        "lost": len(rows),
        "lost_epochs": [[row["subtask"], row["epoch"], row["token"]] for row in rows],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The server's state at one moment, observed without the proxy."""

    start: str | None
    """Identifies one start of the server (process and start time); None: it does not run."""
    paused: bool
    """Whether it runs but is stopped (SIGSTOP)."""
    pid: int | None
    """Its process id on this machine; None: it does not run."""
    uptime_s: int | None
    """Its own uptime counter; None: it did not answer."""


class ServerProcess(Protocol):
    """The server as a process."""

    def kill(self) -> None:
        """Kills it (SIGKILL); returns when it is gone. One that is already gone is no error."""

    def shut_down(self) -> None:
        """Shuts it down cleanly, within a limit; returns when it is gone."""

    def start(self) -> None:
        """Starts it on the same port and data, unless it runs; returns when it answers `SELECT 1`."""

    def pause(self) -> None:
        """Stops all its threads (SIGSTOP); returns when it has stopped. The kernel still accepts connections."""

    def resume(self) -> None:
        """Resumes it (SIGCONT), if it is stopped."""


class SmallDisk(Protocol):
    """The server's disk, if small enough to be filled; else the world lacks the ability `small-disk`."""

    def fill_disk(self) -> int:
        """Takes all free bytes; returns how many."""

    def free_disk(self) -> None:
        """Frees the bytes that `fill_disk` took."""


class ServerClockControl(Protocol):
    """The server's wall clock, if it can be shifted; else the world lacks the ability `server-clock`."""

    def shift_clock(self, shift_ms: int) -> None:
        """Sets the server's wall clock `shift_ms` ahead of ours (0: the same)."""


class ServerControl(ServerProcess, SmallDisk, ServerClockControl, Protocol):
    """The server of a run: its process, its state, and changes that must be undone."""

    @property
    def flavour(self) -> str:
        """`mysql` or `mariadb`."""

    @property
    def database(self) -> str:
        """The run's database."""

    @property
    def user(self) -> str:
        """The database user of the run's clients."""

    @property
    def pair(self) -> PairControl:
        """This server and its replica; raises HarnessError in a world without the ability `replica`."""

    def reaches_lookups(self, over: Flag) -> bool:
        """Waits until lookups can see what is committed now; False: `over` was set first.

        At once, unless they ask a replica.
        """

    def root(
        self, database: str = "", *, limit_s: float = 3.0, wait_s: float = 20.0
    ) -> AbstractContextManager[MySqlConnection]:
        """A direct pymysql connection as root with autocommit, on which every wait has a limit.

        Waits up to `wait_s` for a server that another fault has stopped or paused; then raises pymysql's error.
        """

    @property
    def own_sessions(self) -> Callable[[], list[Session]] | None:
        """Gives the run's sessions where the server itself does not know them; None: it does."""

    def writers(self, root: MySqlConnection) -> Mapping[int, int]:
        """How many rows the open transaction of each session has changed, by the session's number."""

    def state(self) -> ServerState:
        """Its present state; waits at most one second for an answer."""

    def counters(self) -> Mapping[str, int]:
        """Its counters from `SHOW GLOBAL STATUS`; empty if it does not answer."""

    def put_back(self, act: Callable[[MySqlConnection], None]) -> None:
        """Undoes a change: calls `act` with a root connection, now or as soon as the server answers again.

        So a fault is undone even if it heals while another fault has the server stopped. `act` must check whether there
        is anything to undo, because a restart may have undone it.
        """

    def of_run(self, database: str) -> ServerControl:
        """The same server for a run with this database."""


_NO_SUCH_SESSION = 1094
_SESSIONS = """
    SELECT ID, COMMAND, COALESCE(STATE, ''), COALESCE(INFO, '') FROM information_schema.PROCESSLIST
    WHERE USER = %s AND DB IN (%s, %s) ORDER BY ID"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session of the run."""

    id: int
    command: str
    """`Sleep` while it waits for its client."""
    state: str
    """The state of its running statement."""
    statement: str
    """Its running statement; empty: none."""

    def kill(self, connection: MySqlConnection, what: str) -> bool:
        """KILL CONNECTION or QUERY; False: it is gone."""
        import pymysql

        try:
            with connection.cursor() as cursor:
                cursor.execute(f"KILL {what} {self.id}")
        except pymysql.MySQLError as error:
            if error.args and error.args[0] == _NO_SUCH_SESSION:
                return False
            raise
        return True


def sessions_of_run(connection: MySqlConnection, server: ServerControl) -> list[Session]:
    """The run's current sessions, the oldest first."""
    if server.own_sessions is not None:
        return server.own_sessions()
    with connection.cursor() as cursor:
        cursor.execute(_SESSIONS, (server.user, server.database, f"{server.database}{OWN}"))
        rows = cursor.fetchall()
    return [
        Session(id=int(number), command=str(command), state=str(state), statement=str(statement))
        for number, command, state, statement in rows
    ]


def end_sessions(connection: MySqlConnection, sessions: Iterable[Session]) -> int:
    """KILL CONNECTION for each; returns how many still existed."""
    return sum(session.kill(connection, "CONNECTION") for session in sessions)


def interrupt(connection: MySqlConnection, sessions: Iterable[Session]) -> int:
    """KILL QUERY for each; returns how many still existed."""
    return sum(session.kill(connection, "QUERY") for session in sessions)


def end_all_sessions(root: MySqlConnection, server: ServerControl) -> None:
    """KILL CONNECTION for each session of the run."""
    end_sessions(root, sessions_of_run(root, server))
    close_tables(root, server)


def close_tables(root: MySqlConnection, server: ServerControl) -> None:
    """Makes MariaDB read its tables' triggers again; does not wait for tables in use.

    A statement that is killed while MariaDB 10.11 parses a trigger leaves the trigger broken in the table cache: every
    later INSERT fails with 1064, "Unknown trigger has an error in its body: 'Query was empty'".
    """
    if server.flavour == "mariadb":
        with root.cursor() as cursor:
            cursor.execute("FLUSH TABLES")


_T = TypeVar("_T")
_CUT = frozenset({0, 1040, 1053, 1152, 1927, 2002, 2003, 2006, 2013, 2014, 2055, 3032})


class RootLine:
    """A root connection for repeated acts; call it with an act that takes a connection.

    It reconnects if another fault cuts it; while the server does not answer, the act is skipped. Mutable.
    """

    def __init__(
        self, server: ServerControl, *, database: str = "", limit_s: float = 3.0, first: Sequence[str] = ()
    ) -> None:
        self._server = server
        self._database = database
        self._limit_s = limit_s
        self._first = first
        self._held: AbstractContextManager[MySqlConnection] | None = None
        self._connection: MySqlConnection | None = None

    def __call__(self, act: Callable[[MySqlConnection], _T]) -> _T | None:
        """The result of the act; None if the server did not answer or closed the connection meanwhile."""
        import pymysql

        try:
            return act(self._open())
        except (pymysql.MySQLError, OSError) as error:
            self.close()
            if isinstance(error, pymysql.MySQLError) and error.args and error.args[0] not in _CUT:
                raise
            return None

    def _open(self) -> MySqlConnection:
        if self._held is None or self._connection is None:
            held = self._server.root(self._database, limit_s=self._limit_s, wait_s=0.0)
            self._connection = held.__enter__()
            self._held = held
            with self._connection.cursor() as cursor:
                for statement in self._first:
                    cursor.execute(statement)
        return self._connection

    def close(self) -> None:
        """Closes the connection; the next call opens another one."""
        held, self._held = self._held, None
        if held is not None:
            held.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_END_LIMIT_S = 30.0
"""How long an act may go on after the block; every act has its own limits of a few seconds."""

Turn = tuple[Callable[[], object], float]
"""An act, and the seconds to wait after it."""


@contextmanager
def repeating(act: Callable[[], object], every_s: float) -> Iterator[None]:
    """Calls `act` at once and again `every_s` after each call, while the block lasts."""
    with taking_turns((act, every_s)):
        yield


@contextmanager
def taking_turns(*turns: Turn) -> Iterator[None]:
    """Calls the acts in turn, each followed by its wait, repeatedly while the block lasts."""
    ended, failures = flag(), list[Exception]()

    def go_round() -> None:
        try:
            while True:
                for act, wait_s in turns:
                    act()
                    if ended.wait(wait_s):
                        return
        except Exception as error:  # noqa: BLE001 - raised again by the block, in its own thread
            failures.append(error)

    thread = beside(go_round, name="repeated act of a fault")
    try:
        yield
    finally:
        ended.set()
        thread.join(_END_LIMIT_S)
    if thread.is_alive():
        raise WorldError(f"an act of a fault is still under way {_END_LIMIT_S:g} s after its end")
    if failures:
        raise failures[0]
