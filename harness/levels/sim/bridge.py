"""Real sessions of a MySQL server for level sim, and the greeting and login that stand before them.

Invariant: a session that was given back shows nothing of its client before. Greeting and login are ours, so that
numbers and salts depend on the seed alone; which session waits for a lock is what the server says, not the clock.
"""

from __future__ import annotations

import re
import select
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymysql import MySQLError
from pymysql.charset import charset_by_id
from pymysql.connections import Connection
from pymysql.constants import CLIENT

from harness.database.endpoint import Endpoint
from harness.proxy.mysql.commands import QUERY
from harness.proxy.mysql.dialogue import (
    CACHED_METADATA,
    COMPRESS,
    OPTIONAL_METADATA,
    QUERY_ATTRIBUTES,
    TLS,
    ZSTD,
    counted,
)
from harness.proxy.mysql.frames import HEADER_BYTES, framed
from harness.system.clock import Deadline, pause
from harness.system.errors import WorldError

_connect: Final = socket.socket.connect
"""The real one: a run replaces it in its process (`wire`)."""


def _socket_to(at: Endpoint) -> socket.socket:
    made = socket.socket()
    _connect(made, (at.host, at.port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


_YEAR_S: Final = 31_536_000
_NOT_OFFERED: Final = (
    COMPRESS
    | TLS
    | OPTIONAL_METADATA
    | ZSTD
    | CACHED_METADATA
    | CLIENT.LOCAL_FILES
    | CLIENT.CONNECT_ATTRS
    | QUERY_ATTRIBUTES
    | 1 << 29
)
"""What would hide the packets, be no statement, or name the process (a client sends its pid). 1 << 29: progress."""
_OF_LOGIN: Final = (
    CLIENT.PLUGIN_AUTH
    | CLIENT.PLUGIN_AUTH_LENENC_CLIENT_DATA
    | CLIENT.SECURE_CONNECTION
    | CLIENT.PROTOCOL_41
    | CLIENT.LONG_PASSWORD
)
"""Abilities with which PyMySQL logs in."""
_NATIVE: Final = b"mysql_native_password"
_SALT: Final = b"floodmark's own salt"
_UTF8: Final = 45
_DEADLOCK_S: Final = 10.0
_LOOK_AGAIN_S: Final = 0.001
_LIMITS: Final = ", ".join(
    f"SESSION {name} = {_YEAR_S}"
    for name in ("innodb_lock_wait_timeout", "lock_wait_timeout", "wait_timeout", "interactive_timeout")
)
"""The server's own limits never pass; the virtual clock has them."""
_RESET: Final = b"\x1f"
_INIT_DB: Final = b"\x02"
_ERROR: Final = 0xFF

_LOCKED: Final = re.compile(
    r"---TRANSACTION(?:(?!---TRANSACTION).)*?\nLOCK WAIT.*?thread id (\d+)", re.DOTALL
)
_CHANGED: Final = re.compile(
    r"---TRANSACTION(?:(?!---TRANSACTION).)*?undo log entries (\d+)(?:(?!---TRANSACTION).)*?thread id (\d+)",
    re.DOTALL,
)
_LOCK_WAITS: Final = (
    "SELECT STRAIGHT_JOIN waits.PROCESSLIST_ID, holds.PROCESSLIST_ID FROM performance_schema.data_lock_waits AS one"
    " JOIN performance_schema.threads AS waits ON waits.THREAD_ID = one.REQUESTING_THREAD_ID"
    " JOIN performance_schema.threads AS holds ON holds.THREAD_ID = one.BLOCKING_THREAD_ID"
)
"""MySQL's monitor leaves out a reader that waits; MariaDB has no such table."""
_WAITS: Final = re.compile(
    "waiting for (?:table|backup lock|global read lock)|user lock|metadata lock", re.IGNORECASE
)


def number_at(buffer: bytes, at: int, size: int) -> int:
    return int.from_bytes(buffer[at : at + size], "little")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How a client logged in; sessions with equal logins can stand for each other."""

    abilities: int
    charset: int
    database: str


def read_login(payload: bytes) -> Login:
    """The login of a client of protocol 4.1 (`HandshakeResponse41`). Raises IndexError if it is cut off."""
    abilities = number_at(payload, 0, 4)
    at = payload.index(b"\0", 32) + 1  # behind the user's name
    if abilities & CLIENT.PLUGIN_AUTH_LENENC_CLIENT_DATA:
        size, at = counted(payload, at)
    elif abilities & CLIENT.SECURE_CONNECTION:
        size, at = payload[at], at + 1
    else:
        size = payload.index(b"\0", at) + 1 - at
    at += size
    database = b""
    if abilities & CLIENT.CONNECT_WITH_DB and at < len(payload):
        database = payload[at : payload.index(b"\0", at)]
    return Login(abilities=abilities & ~_NOT_OFFERED, charset=payload[8], database=database.decode())


def _query(sql: str) -> bytes:
    return bytes([QUERY]) + sql.encode()


class _RealConnection(Connection):
    """PyMySQL's login with a client's own abilities; statements are ours."""

    def set_character_set(self, charset: str, collation: str | None = None) -> None:
        """Sends nothing: the session says its collation itself."""


class RealSession:
    """One session of the server. Mutable: it is reset and used again."""

    def __init__(self, at: Endpoint, login: Login) -> None:
        """`at` names the database that a login with any database gets."""
        charset: Any = charset_by_id(login.charset if login.charset < _ERROR else _UTF8)
        self.login = login
        self._database = at.database if login.database else ""
        connection: Any = _RealConnection(
            user=at.user,
            password=at.password,
            database=self._database or None,
            charset=charset.name,
            client_flag=login.abilities | _OF_LOGIN,
            autocommit=None,
            ssl_disabled=True,
            defer_connect=True,
        )
        if not login.abilities & CLIENT.MULTI_STATEMENTS:
            connection.client_flag &= ~CLIENT.MULTI_STATEMENTS
        connection.connect(_socket_to(at))
        self._connection = connection
        self._socket: socket.socket = connection._sock  # noqa: SLF001 - its packets are ours from here on
        self._socket.settimeout(None)
        self._settings = f"SET NAMES {charset.name} COLLATE {charset.collation}, {_LIMITS}"
        self.number: int = connection.server_thread_id[0]
        self.version: str = connection.server_version
        self.abilities: int = connection.server_capabilities
        self.ask(self._settings)

    def reset(self) -> None:
        """Rolls back, and forgets what the client before has set; its database is chosen again."""
        chosen = [_INIT_DB + self._database.encode()] if self._database else []
        self._demand(_RESET, *chosen, _query(self._settings))

    def ask(self, sql: str) -> None:
        """A statement of ours whose reply is OK. Raises WorldError."""
        self._demand(_query(sql))

    def _demand(self, *payloads: bytes) -> None:
        """Sends commands at once, each of which the server answers with OK."""
        self.send(b"".join(framed(one, sequence=0) for one in payloads))
        data = b""
        for payload in payloads:
            while len(data) < HEADER_BYTES or len(data) < (end := HEADER_BYTES + number_at(data, 0, 3)):
                data += self.received()
            reply, data = data[HEADER_BYTES:end], data[end:]
            if reply[0] == _ERROR:
                said = reply[3:].decode(errors="replace")
                raise WorldError(f"the server refused {payload[1:].decode()!r}: {said}")

    def send(self, data: bytes) -> None:
        """Send bytes of the client. Raises WorldError if the server has gone."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise WorldError(f"the server of level sim has gone: {error}", fix=_LOOK_AT_LOG) from error

    def has_spoken(self, within_s: float) -> bool:
        """Whether there is something to be received."""
        return bool(select.select([self._socket], [], [], within_s)[0])

    def received(self) -> bytes:
        """What the server has sent. Raises WorldError if it has gone."""
        try:
            data = self._socket.recv(1 << 16)
        except OSError as error:
            raise WorldError(f"the server of level sim has gone: {error}", fix=_LOOK_AT_LOG) from error
        if not data:
            raise WorldError("the server of level sim has closed a session by itself", fix=_LOOK_AT_LOG)
        return data

    def close(self) -> None:
        self._connection._force_close()  # noqa: SLF001 - its close() would send a packet and wait


_LOOK_AT_LOG: Final = "free memory or disk for it, and run again; floodmark doctor shows what the world lacks"


class Bridge:
    """The real sessions of one run. Mutable: keeps those that no client uses, and the statements that wait."""

    def __init__(self, app: Endpoint, root: Endpoint, *, now_us: Callable[[], int]) -> None:
        """`now_us`: the wall clock of the run."""
        self._app = app
        self._root = root
        self.now_us = now_us
        self._free: dict[Login, list[RealSession]] = {}
        self._all: list[RealSession] = []
        self._asked: Any = None
        self.parked: list[Parked] = []
        """Statements that wait for a lock, in the order in which they were sent."""
        self.met_error: Callable[[int | str], None] = lambda code: None
        """Called with the number of each error that a client gets."""
        self.failure: WorldError | None = None
        """What went wrong with the server; the run is then no evidence."""
        self.not_virtual: Counter[str] = Counter()
        """What was asked for and is real, by its name."""
        self.tells_numbers = False
        """Whether each session has its simulated number from its login on, so that triggers and the log have it."""
        self.changes = 0
        """How many commands sessions have carried out that may have changed a table, or ended a transaction."""
        self.sizes: dict[bytes, tuple[int, ...]] = {}
        """Bytes of each packet of the latest reply to a statement, by its text."""
        plain = self.session(Login(abilities=CLIENT.CAPABILITIES & ~_NOT_OFFERED, charset=_UTF8, database=""))
        self._version, self._offered = plain.version, plain.abilities & 0xFFFFFFFF & ~_NOT_OFFERED
        self.give_back(plain)

    def greeting(self, number: int) -> bytes:
        """The server's greeting, with a number and a salt of ours."""
        offered = (self._offered | CLIENT.PLUGIN_AUTH | CLIENT.PLUGIN_AUTH_LENENC_CLIENT_DATA).to_bytes(
            4, "little"
        )
        payload = b"\x0a" + self._version.encode() + b"\0" + number.to_bytes(4, "little") + _SALT[:8] + b"\0"
        payload += offered[:2] + bytes([_UTF8, 2, 0]) + offered[2:] + bytes([len(_SALT) + 1]) + bytes(10)
        return framed(payload + _SALT[8:] + b"\0" + _NATIVE + b"\0", sequence=0)

    def session(self, login: Login) -> RealSession:
        """A session for this login: one that was given back, or a new one. Raises WorldError, and keeps it."""
        free = self._free.get(login)
        if free:
            return free.pop()
        try:
            made = RealSession(self._app, login)
        except (MySQLError, OSError) as error:
            message = f"the server of level sim admits no session: {error}"
            self.failure = WorldError(message, fix=_LOOK_AT_LOG)
            raise self.failure from error
        self._all.append(made)
        return made

    def give_back(self, session: RealSession) -> None:
        """The client of this session has gone: nothing of it is seen by the next."""
        session.reset()
        self._free.setdefault(session.login, []).append(session)

    def waiting(self) -> set[int]:
        """The numbers of the sessions whose statements wait for a lock, as the one says who grants it."""
        if "MariaDB" in self._version:
            found = {int(number) for number in _LOCKED.findall(self._rows("SHOW ENGINE INNODB STATUS")[0][2])}
        else:
            found = self._waiting_in_mysql()
        for number, *_, state, _sql in (row[:8] for row in self._rows("SHOW FULL PROCESSLIST")):
            if state and _WAITS.search(state):
                found.add(number)
        return found

    def _waiting_in_mysql(self) -> set[int]:
        """Looks until no deadlock is left: MySQL finds one some milliseconds after its last statement began to wait."""
        deadline = Deadline(_DEADLOCK_S)
        while True:
            pairs = self._rows(_LOCK_WAITS)
            if deadline.passed or not _has_cycle(pairs):
                return {waits for waits, _ in pairs}
            pause(_LOOK_AGAIN_S)

    def writers(self) -> dict[int, int]:
        """How many rows the open transaction of each session has changed, by the number of its real session."""
        text = self._rows("SHOW ENGINE INNODB STATUS")[0][2]
        return {int(number): int(rows) for rows, number in _CHANGED.findall(text)}

    def kill_query(self, session: RealSession) -> None:
        """End the statement of a session."""
        self._rows(f"KILL QUERY {session.number}")

    def _rows(self, sql: str) -> Sequence[Any]:
        if self._asked is None:
            at = self._root
            self._asked = Connection(
                user=at.user, password=at.password, autocommit=True, ssl_disabled=True, defer_connect=True
            )
            self._asked.connect(_socket_to(at))
        with self._asked.cursor() as cursor:
            cursor.execute(sql)
            rows: Sequence[Any] = cursor.fetchall()
        return rows

    def look_again(self) -> None:
        """After a statement or a session has ended: answer the statements that wait no more, the first sent first."""
        while self.parked:
            waiting = self.waiting()
            granted = [one for one in self.parked if one.retries or one.session.number not in waiting]
            ended = [one for one in granted if one.finish()]
            if not ended:
                return
            if len(ended) > 1:
                self.not_virtual["several waiters granted by one release"] += 1
            self.parked = [one for one in self.parked if one not in ended]
            for one in ended:
                one.answered()

    def close(self) -> None:
        """Closes every session."""
        for session in self._all:
            session.close()
        if self._asked is not None:
            self._asked._force_close()  # noqa: SLF001 - as in `RealSession.close`


def _has_cycle(pairs: Iterable[tuple[int, int]]) -> bool:
    """Whether some of these sessions (who waits, who holds) wait for each other."""
    waits_for: dict[int, set[int]] = {}
    for waits, holds in pairs:
        waits_for.setdefault(waits, set()).add(holds)
    while free := [one for one, others in waits_for.items() if not others & waits_for.keys()]:
        for one in free:
            del waits_for[one]
    return bool(waits_for)


class Parked:
    """A statement that waits for a lock. Mutable: `finish` reads its reply."""

    def __init__(
        self, session: RealSession, read: Callable[[], bool], answered: Callable[[], None], *, retries: bool
    ) -> None:
        self.session = session
        self.finish = read
        """Whether it has its reply now; reads it."""
        self.answered = answered
        self.retries = retries
        """It does not wait in the server, but is sent again (GET_LOCK)."""
