"""One script, two servers: interleaved sessions on the simulated server and on the real one, told in the same words.

Invariant: what is compared is what a client sees: rows, how many were affected, the number of an error, and whether
its statement waits. Numbers of sessions become their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pymysql

from harness.database.endpoint import Endpoint, connect
from harness.database.simulated.controls import executor_of
from harness.database.simulated.hub import Actor, Hub
from harness.database.simulated.server import Reply, SimulatedServer, SimulatedSession
from harness.database.simulated.tables import Customers, Effects, SimulatedTables
from harness.system.choices import Draw
from harness.system.clock import Deadline, wait_until

ROWS = [(key, f"name {key}", f"city {key}", 1 + key % 5) for key in range(5)]
SUBTASKS = 2
GONE = (1927, 2006, 2013, 0, 1053)
WAITS = "waits"
ROOT = "root"
"""A session of this name is a fault's."""
LOOKUPS = ("l", "m")
"""Sessions of these names are lookups'."""
_WAITS_AFTER_S = 0.3
_LIMIT_S = 60.0
_SET_UP_S = 60.0  # READ_ONLY waits for every statement and flushes every table; a disk may be busy
_READ_ONLY = "SET GLOBAL read_only = {}"


@dataclass(frozen=True, slots=True)
class Ask:
    """`session` sends a statement; `{db}` in it and in its arguments is the run's database, `{a}` a's number."""

    session: str
    sql: str
    args: Any = ()
    many: bool = False
    sort: bool = False
    """The order of the rows means nothing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`session`, whose statement waits, is answered."""

    session: str


@dataclass(frozen=True, slots=True)
class End:
    """`session`'s connection ends, without a goodbye."""

    session: str


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """The server only reads, or writes again."""

    on: bool


Step = Ask | Answer | End | ReadOnly


def _names(script: Sequence[Step]) -> list[str]:
    return list(dict.fromkeys(step.session for step in script if isinstance(step, Ask)))


def _filled(ask: Ask, database: str, numbers: Mapping[str, int]) -> tuple[str, Any]:
    def fill(value: Any) -> Any:
        if isinstance(value, str):
            for name, number in {**numbers, "db": database}.items():
                value = value.replace(f"{{{name}}}", str(number))
        return value

    args = [tuple(fill(one) for one in row) for row in ask.args] if ask.many else tuple(map(fill, ask.args))
    return fill(ask.sql), args


def _told(
    ask: Ask, database: str, numbers: Mapping[str, int], rows: Any, affected: int, code: int | None
) -> Any:
    if code is not None:
        return "gone" if code in GONE else code
    if rows is None:
        return affected
    shown = [tuple(_plain(value) for value in row) for row in rows]
    if ask.sql == "XA RECOVER":  # the server's, of all runs
        shown = [row for row in shown if str(row[3]).startswith(f"{database}:")]
        shown = [(*row[:1], *row[2:3], row[3].removeprefix(database)) for row in shown]
    if "IS_USED_LOCK" in ask.sql:
        by_number = {number: name for name, number in numbers.items()}
        shown = [tuple(by_number.get(value, value) for value in row) for row in shown]
    return sorted(shown) if ask.sort else shown


def _plain(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes) else value


# Simulated


def on_simulated(script: Sequence[Step], *, keyed: bool) -> list[Any]:
    """What the script's clients see."""
    hub = Hub(Draw(1, "test"), limit_ms=10_000_000, steps_max=1_000_000)
    tables = SimulatedTables(subtasks=SUBTASKS, customers=Customers(ROWS), keyed=keyed)
    server = SimulatedServer(hub=hub, tables=tables, on_commit=_nobody_listens, executor=executor_of)
    play = _SimulatedPlay(server, script)
    actor = hub.spawn(play.run, name="script", ended=lambda _: None, at_ms=0)
    why = hub.run()
    if actor.error is not None:
        raise actor.error
    assert why is None, why
    return play.told


def _nobody_listens(session: SimulatedSession, effects: Effects) -> None:
    del session, effects


class _SimulatedPlay:
    def __init__(self, server: SimulatedServer, script: Sequence[Step]) -> None:
        self.told: list[Any] = []
        self._server = server
        self._script = script
        self._sessions = {
            name: server.open_session(is_root=name == ROOT, is_lookups=name in LOOKUPS)
            for name in _names(script)
        }
        self._numbers = {name: session.number for name, session in self._sessions.items()}
        for session in self._sessions.values():
            if not session.is_lookups:
                session.execute("SET AUTOCOMMIT = 0", None, lambda _: None)
        self._answers: dict[str, Reply] = {}
        self._asked: dict[str, Ask] = {}

    def run(self, actor: Actor) -> None:
        for step in self._script:
            match step:
                case Ask():
                    self._ask(actor, step)
                    actor.sleep_until(actor.hub.now_ms + 1)
                    self.told.append((step.session, self._answer(step.session)))
                case Answer(session):
                    while session not in self._answers:
                        actor.wait(None)
                    self.told.append((session, self._answer(session)))
                case End(session):
                    self._sessions[session].end()
                case ReadOnly(on):
                    self._server.read_only = on

    def _ask(self, actor: Actor, ask: Ask) -> None:
        session = self._sessions[ask.session]
        self._asked[ask.session] = ask

        def done(reply: Reply) -> None:
            if reply.more_ms:
                late, reply.more_ms = reply.more_ms, 0
                actor.hub.at(actor.hub.now_ms + late, lambda: done(reply))
                return
            self._answers[ask.session] = reply
            actor.wake()

        if not session.alive:
            done(Reply(code=2006))
            return
        sql, args = _filled(ask, "run", self._numbers)
        reply = session.execute(sql, args, done, many=ask.many)
        if reply is not None:
            done(reply)

    def _answer(self, name: str) -> Any:
        reply = self._answers.pop(name, None)
        if reply is None:
            return WAITS
        affected = reply.affected if reply.rows is None else len(reply.rows)
        return _told(self._asked[name], "run", self._numbers, reply.rows, affected, reply.code)


# Real


def on_real(script: Sequence[Step], *, client: Endpoint, root: Endpoint) -> list[Any]:
    """What the script's clients see, of a database that is prepared for it."""
    with _real_sessions(_names(script), client, root) as sessions:
        numbers = {name: session.number for name, session in sessions.items()}
        told: list[Any] = []
        for step in script:
            match step:
                case Ask():
                    sql, args = _filled(step, root.database, numbers)
                    session = sessions[step.session]
                    session.ask(step, sql, args)
                    told.append((step.session, session.answer(_WAITS_AFTER_S, root.database, numbers)))
                case Answer(session):
                    told.append((session, sessions[session].answer(_LIMIT_S, root.database, numbers)))
                case End(session):
                    sessions[session].hang_up()
                    _await_end(root, numbers[session])
                case ReadOnly(on):
                    set_up(root, _READ_ONLY.format(int(on)))
        return told


def _await_end(root: Endpoint, number: int) -> None:
    """Waits until the server has ended an idle session: until then a prepared branch stays with it."""
    idle = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s AND command = 'Sleep'"

    def has_ended() -> bool:
        cursor.execute(idle, (number,))
        return bool(cursor.fetchone() == (0,))

    with connect(root) as connection, connection.cursor() as cursor:
        assert wait_until(has_ended, deadline=Deadline(_LIMIT_S)), f"session {number} never ended"


def set_up(root: Endpoint, *statements: str) -> None:
    """Execute them, past everything; where one never ends, say what the server's sessions were doing."""
    with connect(root, statement_s=_SET_UP_S) as connection, connection.cursor() as cursor:
        try:
            for statement in statements:
                cursor.execute(statement)
        except pymysql.OperationalError as error:
            raise AssertionError(f"{error}; the server's sessions: {_sessions_of(root)}") from error
        connection.commit()


def _sessions_of(root: Endpoint) -> list[Any]:
    with connect(root) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, command, time, state, info FROM information_schema.processlist")
        return list(cursor.fetchall())


@contextmanager
def _real_sessions(
    names: Sequence[str], client: Endpoint, root: Endpoint
) -> Iterator[dict[str, _RealSession]]:
    sessions: dict[str, _RealSession] = {}
    try:
        for name in names:
            sessions[name] = _RealSession(root if name == ROOT else client, autocommit=name in LOOKUPS)
        yield sessions
    finally:
        for session in sessions.values():
            session.close()


class _RealSession:
    """One connection, and a thread that may wait in it."""

    def __init__(self, client: Endpoint, *, autocommit: bool) -> None:
        self._connection = connect(client, statement_s=_LIMIT_S)
        self._connection.autocommit(autocommit)
        self.number = self._connection.thread_id()  # type: ignore[no-untyped-call]
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._asked: Ask | None = None
        self._answer: Future[Any] | None = None

    def ask(self, ask: Ask, sql: str, args: Any) -> None:
        self._asked = ask
        self._answer = self._thread.submit(self._execute, ask, sql, args)

    def _execute(self, ask: Ask, sql: str, args: Any) -> tuple[Any, int, int | None]:
        try:
            with self._connection.cursor() as cursor:
                execute: Callable[..., Any] = cursor.executemany if ask.many else cursor.execute
                affected = execute(sql, args)
                rows = list(cursor.fetchall()) if cursor.description is not None else None
                return rows, affected or 0, None
        except pymysql.MySQLError as error:
            return None, 0, error.args[0]

    def answer(self, limit_s: float, database: str, numbers: Mapping[str, int]) -> Any:
        assert self._answer is not None, "nothing was asked"
        assert self._asked is not None, "nothing was asked"
        if wait([self._answer], timeout=limit_s).not_done:
            return WAITS
        return _told(self._asked, database, numbers, *self._answer.result())

    def hang_up(self) -> None:
        if self._connection.open:
            self._connection._force_close()  # type: ignore[attr-defined]

    def close(self) -> None:
        self.hang_up()
        self._thread.shutdown(wait=True, cancel_futures=True)
