"""The database server as its faults use it: its process, its run's sessions, and acts that repeat.

Answers to Jepsen's `db/Process` and `db/Pause`, and to `stagger` over a nemesis. Every act has a limit and
may be repeated; the server keeps its ports and data; facts of it come past the proxy, so that no other fault
can colour them. Only sessions of the run's user in the run's database are touched. Repeated acts run in a
thread that ends with its block; one that failed is raised by the block.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from harness.errors import WorldError

__all__ = [
    "RootLine",
    "ServerClock",
    "ServerControl",
    "ServerProcess",
    "ServerState",
    "Session",
    "SmallDisk",
    "end_sessions",
    "interrupt",
    "repeating",
    "sessions_of_run",
    "taking_turns",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """What is known of the server at one moment, out-of-band."""

    start: str | None
    """Names one start of the server for ever (process and moment); None: it does not run."""
    paused: bool
    """Whether it is there and may not act."""
    pid: int | None
    """Its process on this machine; None: it does not run."""
    uptime_s: int | None
    """By its own word, past the proxy; None: it did not answer."""


class ServerProcess(Protocol):
    """The server as a process."""

    def kill(self) -> None:
        """End it as SIGKILL does, at once; returns when it is gone. One that is gone already is no error."""

    def shut_down(self) -> None:
        """Let it end in order, within a limit; returns when it is gone."""

    def start(self) -> None:
        """Start it on the same port and data; returns when it answers `SELECT 1`. One that runs is left alone."""

    def pause(self) -> None:
        """Stop all of it (SIGSTOP); returns when it has stopped. The kernel goes on accepting for it."""

    def resume(self) -> None:
        """Let it go on (SIGCONT); one that was not stopped is left alone."""


class SmallDisk(Protocol):
    """The server's disk, where it is small enough to be filled; else the world lacks `small-disk`."""

    def fill_disk(self) -> int:
        """Take all that is free; returns how many bytes that was."""

    def free_disk(self) -> None:
        """Give back what `fill_disk` took."""


class ServerClock(Protocol):
    """The server's clock, where it can be shifted; else the world lacks `server-clock`."""

    def shift_clock(self, shift_ms: int) -> None:
        """Let the server's calendar be so far from ours (0: the same), from its next look on."""


class ServerControl(ServerProcess, SmallDisk, ServerClock, Protocol):
    """The server of a run: its process, what it says past the proxy, and what must be put back in it."""

    @property
    def flavour(self) -> str:
        """`mysql` or `mariadb`."""

    @property
    def database(self) -> str:
        """The run's database."""

    @property
    def user(self) -> str:
        """Who the run's clients say they are."""

    def root(
        self, database: str = "", *, limit_s: float = 3.0, wait_s: float = 20.0
    ) -> AbstractContextManager[Any]:
        """A pymysql connection as root, past the proxy, on which every wait has a limit; it commits by itself.

        A server that is down or paused is waited for, for another fault may hold it so; after `wait_s` pymysql's
        errors rise.
        """

    def state(self) -> ServerState:
        """How it stands now; never waits longer than a second for an answer."""

    def counters(self) -> Mapping[str, int]:
        """Its status counters, as `SHOW GLOBAL STATUS` has them; a server that does not answer has none."""

    def put_back(self, act: Callable[[Any], None]) -> None:
        """Undo a change: `act` gets a root connection, now, or as soon as a server that is down or paused answers.

        A fault that heals while another one has the server down is healed all the same. `act` looks first whether
        there is anything to undo, for a restart may have undone it.
        """

    def of_run(self, database: str) -> ServerControl:
        """The same server, for a run with this database."""


_NO_SUCH_SESSION = 1094
_SESSIONS = """
    SELECT ID, COMMAND, COALESCE(STATE, ''), COALESCE(INFO, '') FROM information_schema.PROCESSLIST
    WHERE USER = %s AND DB = %s ORDER BY ID"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session of the run."""

    id: int
    command: str
    """`Sleep` while it waits for its client."""
    state: str
    """What its statement is doing."""
    statement: str
    """Empty while it runs none."""


def sessions_of_run(connection: Any, server: ServerControl) -> list[Session]:
    """The run's sessions now, the oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(_SESSIONS, (server.user, server.database))
        rows = cursor.fetchall()
    return [
        Session(id=int(number), command=str(command), state=str(state), statement=str(statement))
        for number, command, state, statement in rows
    ]


def end_sessions(connection: Any, sessions: Iterable[Session]) -> int:
    """KILL CONNECTION each; how many there still were."""
    return sum(_kill(connection, "CONNECTION", session) for session in sessions)


def interrupt(connection: Any, sessions: Iterable[Session]) -> int:
    """KILL QUERY each; how many there still were."""
    return sum(_kill(connection, "QUERY", session) for session in sessions)


def _kill(connection: Any, what: str, session: Session) -> bool:
    import pymysql

    try:
        with connection.cursor() as cursor:
            cursor.execute(f"KILL {what} {session.id}")
    except pymysql.MySQLError as error:
        if error.args and error.args[0] == _NO_SUCH_SESSION:
            return False
        raise
    return True


_T = TypeVar("_T")
_CUT = frozenset({0, 1040, 1053, 1152, 1927, 2002, 2003, 2006, 2013, 2014, 2055, 3032})


class RootLine:
    """A root connection for acts that repeat; call it with an act that takes a connection.

    Another fault may cut it, and it is renewed; while the server is down or paused the act is left out.
    Mutable.
    """

    def __init__(
        self, server: ServerControl, *, database: str = "", limit_s: float = 3.0, first: Sequence[str] = ()
    ) -> None:
        self._server = server
        self._database = database
        self._limit_s = limit_s
        self._first = first
        self._held: AbstractContextManager[Any] | None = None
        self._connection: Any = None

    def __call__(self, act: Callable[[Any], _T]) -> _T | None:
        """What the act gives; None if the server could not be asked, or hung up meanwhile."""
        import pymysql

        try:
            return act(self._open())
        except (pymysql.MySQLError, OSError) as error:
            self.close()
            if isinstance(error, pymysql.MySQLError) and error.args and error.args[0] not in _CUT:
                raise
            return None

    def _open(self) -> Any:
        if self._held is None:
            held = self._server.root(self._database, limit_s=self._limit_s, wait_s=0.0)
            self._connection = held.__enter__()
            self._held = held
            with self._connection.cursor() as cursor:
                for statement in self._first:
                    cursor.execute(statement)
        return self._connection

    def close(self) -> None:
        """Hang up."""
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
"""The longest that an act may go on after the block: every act has limits of its own, of a few seconds."""

Turn = tuple[Callable[[], object], float]
"""An act, and the seconds to wait after it."""


@contextmanager
def repeating(act: Callable[[], object], every_s: float) -> Iterator[None]:
    """Do `act` at once, then again `every_s` after each, while the block lasts."""
    with taking_turns((act, every_s)):
        yield


@contextmanager
def taking_turns(*turns: Turn) -> Iterator[None]:
    """Do the acts one after the other, each followed by its wait, round and round while the block lasts."""
    ended, failures = threading.Event(), list[Exception]()

    def go_round() -> None:
        try:
            while True:
                for act, wait_s in turns:
                    act()
                    if ended.wait(wait_s):
                        return
        except Exception as error:  # noqa: BLE001 - raised again by the block, in the thread that waits for it
            failures.append(error)

    thread = threading.Thread(target=go_round, name="repeated act of a fault", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_END_LIMIT_S)
    if thread.is_alive():
        raise WorldError(f"an act of a fault is still under way {_END_LIMIT_S:g} s after its end")
    if failures:
        raise failures[0]
