"""The simulated database server: sessions, transactions, locks, prepared branches, fault settings.

Answers to one MariaDB 10.11 server, for the statements that the harness's own code sends (found by pattern,
remembered by text); `tests/test_as_mariadb.py` runs the same scripts on both. A state machine that knows the
hub's clock and nothing of links: the link's model calls `Session.execute`. What a transaction wrote is
visible whole, from `on_commit` on, or never; what a session held is free when it has ended, but for prepared
branches.

Deviations: row locks are exclusive and there are no gap locks (a DELETE of a row that is not there locks its
key alone, and a session that was answered 1062 holds the row, which InnoDB locks shared): random scripts
differ in that alone. KILL takes effect at once; a client's death is known when `end` or `abandon` says so;
locks by name take no part in deadlock detection; see also `tables`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from typing import Any, Final

from harness.levels.sim.hub import Hub
from harness.levels.sim.replies import (
    INTERRUPTED,
    KILLED,
    NO_SUCH_SESSION,
    OFFLINE,
    SHUTDOWN,
    TOO_MANY,
    ConnectRefused,
    Done,
    Reply,
    UnknownStatement,
    refused,
)
from harness.levels.sim.session import Control, Session
from harness.levels.sim.tables import Effects, Locks, Tables, Transaction
from harness.levels.sim.xa import XA_PATTERNS, Branch

__all__ = ["ConnectRefused", "Reply", "Session", "SimulatedServer", "UnknownStatement", "control_of"]

_MS: Final = 1000


@lru_cache(maxsize=1024)  # a statement may hold a number or a name, so there is no end to them
def control_of(sql: str) -> Control | None:
    """What executes it, if it is one of those of transactions, sessions and locks by name."""
    for pattern, make in _PATTERNS:
        match = pattern.fullmatch(sql.strip())
        if match is not None:
            return make(match)
    return None


def _set_autocommit(match: re.Match[str]) -> Control:
    on = match[1] == "1"

    def run(session: Session, _args: Any, done: Done) -> None:
        if session.branch is not None and on:
            session.refuse_in_branch(session.branch, done)
            return
        code = session.commit() if on and not session.autocommit else None
        session.autocommit = on
        _end(session, done, code)

    return run


def _end(session: Session, done: Done, code: int | None) -> None:
    if code is None:
        session.ok(done)
    else:
        session.refuse(done, code)


def _commit(session: Session, _args: Any, done: Done) -> None:
    if session.branch is not None:
        session.refuse_in_branch(session.branch, done)
    else:
        _end(session, done, session.commit())


def _roll_back(session: Session, _args: Any, done: Done) -> None:
    if session.branch is not None:
        session.refuse_in_branch(session.branch, done)
    else:
        session.roll_back()
        session.ok(done)


def _begin(session: Session, _args: Any, done: Done) -> None:
    """An open transaction is committed first."""
    if session.branch is not None:
        session.refuse_in_branch(session.branch, done)
        return
    code = session.commit()
    if code is None:
        session.transaction = Transaction(session.server.tables)
        session.transaction.is_explicit = True
    _end(session, done, code)


_ROW_WAIT: Final = re.compile(r"innodb_lock_wait_timeout = (\d+)")
_SILENCE: Final = re.compile(
    r"(?<!lock_)wait_timeout = CAST\(LEAST\(@@GLOBAL\.wait_timeout, (\d+)\) AS UNSIGNED\)"
)
_STATEMENT: Final = re.compile(r"max_statement_time = (\d+)")


def _set_session(match: re.Match[str]) -> Control:
    row, silence, statement = (found.search(match[0]) for found in (_ROW_WAIT, _SILENCE, _STATEMENT))

    def run(session: Session, _args: Any, done: Done) -> None:
        if row is not None:
            session.lock_wait_ms = int(row[1]) * _MS
        if silence is not None:
            own_ms = int(silence[1]) * _MS
            session.silence_ms = own_ms if session.silence_ms is None else min(own_ms, session.silence_ms)
        if statement is not None:
            session.statement_ms = int(statement[1]) * _MS
        session.ok(done)

    return run


def _get_lock(match: re.Match[str]) -> Control:
    def run(session: Session, args: Any, done: Done) -> None:
        name, seconds = args
        session.server.take_name(session, name, seconds, match[0], done)

    return run


def _is_used_lock(session: Session, args: Any, done: Done) -> None:
    holder = session.server.names.holder(args[0])
    session.ok(done, [(None if holder is None else holder.number,)])


def _release_lock(session: Session, args: Any, done: Done) -> None:
    session.ok(done, [(session.server.drop_name(session, args[0]),)])


def _connection_id(session: Session, _args: Any, done: Done) -> None:
    session.ok(done, [(session.number,)])


def _kill(match: re.Match[str]) -> Control:
    is_query, number = (match[1] or "").upper() == "QUERY", int(match[2])

    def run(session: Session, _args: Any, done: Done) -> None:
        server = session.server
        if number not in server.sessions:
            session.refuse(done, NO_SUCH_SESSION)
        elif number == session.number:
            code = INTERRUPTED if is_query else KILLED
            session.refuse(done, code)
            if not is_query:
                session.be_ended(KILLED)
        else:
            if is_query:
                server.kill_query(number)
            else:
                server.kill(number)
            session.ok(done)

    return run


def _nothing(session: Session, _args: Any, done: Done) -> None:
    session.ok(done)


def _status(session: Session, _args: Any, done: Done) -> None:
    server = session.server
    counts = {
        "Connections": server.opened,
        "Max_used_connections": server.at_once,
        "Threads_connected": len(server.sessions),
        "Uptime": server.hub.now_ms // _MS,
    }
    session.ok(done, [(name, str(count)) for name, count in counts.items()])


def _flush_status(session: Session, _args: Any, done: Done) -> None:
    session.server.at_once = len(session.server.sessions)
    session.ok(done)


def _lock_customers(session: Session, _args: Any, done: Done) -> None:
    """Lookups in transactions of several statements would hold it up in MariaDB; here it has the lock at once."""
    session.server.lock_customers(session)
    session.ok(done)


def _unlock_customers(session: Session, _args: Any, done: Done) -> None:
    session.server.unlock_customers(session)
    session.ok(done)


def _plain(control: Control) -> Callable[[re.Match[str]], Control]:
    return lambda _match: control


_SOURCES: Final[tuple[tuple[str, Callable[[re.Match[str]], Control]], ...]] = (
    (r"COMMIT", _plain(_commit)),
    (r"ROLLBACK", _plain(_roll_back)),
    (r"BEGIN|START TRANSACTION", _plain(_begin)),
    (r"SET AUTOCOMMIT = ([01])", _set_autocommit),
    (r"SET SESSION .*", _set_session),
    (r"SET NAMES .*", _plain(_nothing)),
    (r"SELECT GET_LOCK\(%s, %s\)", _get_lock),
    (r"SELECT IS_USED_LOCK\(%s\)", _plain(_is_used_lock)),
    (r"SELECT RELEASE_LOCK\(%s\)", _plain(_release_lock)),
    (r"SELECT CONNECTION_ID\(\)", _plain(_connection_id)),
    (r"KILL (?:(CONNECTION|QUERY) )?(\d+)", _kill),
    (r"SHOW GLOBAL STATUS WHERE Variable_name IN \('Connections', .*\)", _plain(_status)),
    (r"FLUSH STATUS", _plain(_flush_status)),
    (r"LOCK TABLES customer WRITE", _plain(_lock_customers)),
    (r"UNLOCK TABLES", _plain(_unlock_customers)),
    *XA_PATTERNS,
)
_PATTERNS: Final = tuple((re.compile(source, re.IGNORECASE), make) for source, make in _SOURCES)


_USUAL_LOCK_WAIT_MS: Final = 50_000


class SimulatedServer:
    """One server, for one run. Mutable: its sessions, what they hold, and the settings that faults switch.

    `on_commit(session, effects)` is called at the instant at which something becomes visible.
    """

    # What faults switch.
    read_only = False
    """Refuses writes and their commits (1290), but for root's."""
    disk_full = False
    """Refuses INSERT and REPLACE (1114)."""
    deadlocks_to_make = 0
    """So many of the next epoch rows to be inserted meet a deadlock (1213), as its victims."""
    lock_wait_ms = _USUAL_LOCK_WAIT_MS
    """Of sessions that do not set their own."""
    silence_ms: int | None = None
    """Global wait_timeout: for sessions that begin under it. None: as long as they like, or as they say."""
    packet_bytes_max: int | None = None
    """For sessions that begin under it."""
    sessions_max: int | None = None
    """Beyond so many sessions of clients, one more is refused (1040); root is not counted."""
    is_offline = False
    """Refuses clients (3032), but for root."""
    slow_ms = 0
    """Every lookup takes so much longer."""

    def __init__(
        self,
        *,
        hub: Hub,
        tables: Tables,
        on_commit: Callable[[Session, Effects], None],
    ) -> None:
        self.hub = hub
        self.tables = tables
        self._on_commit = on_commit
        self.sessions: dict[int, Session] = {}
        self.opened = 0
        """Sessions since the server began; also the newest session's number."""
        self.at_once = 0
        """The most sessions that there were at a time."""
        self.hung_up = 0
        """Sessions that it ended since they were silent for too long."""
        self.slept = 0
        """Lookups that took longer by `slow_ms`."""
        # What sessions hold.
        self.row_locks: Locks[Transaction] = Locks()
        self.owners: dict[Transaction, Session] = {}
        """Of transactions that wait."""
        self.names: Locks[Session] = Locks()
        self._times: dict[tuple[Session, Hashable], int] = {}
        """How often a session took a name that it held."""
        self.customers_holder: Session | None = None
        """Who has LOCK TABLES customer WRITE."""
        self.customers_queue: list[Callable[[], None]] = []
        self.branches: dict[tuple[str, str], Branch] = {}
        """All XA transactions, in the order of their START."""
        self.ready: list[Callable[[], None]] = []
        """What was given a lock, and goes on when the statement that let go of it has been answered."""
        self._is_settling = False

    @property
    def looks_up_at_once(self) -> bool:
        """Whether no lock stands in the way of lookups."""
        return self.customers_holder is None

    # Sessions

    def open_session(self, *, is_root: bool = False, is_lookups: bool = False) -> Session:
        """A client is let in. `is_lookups`: its statements may be a user's. Raises `ConnectRefused`."""
        if not is_root:
            if self.is_offline:
                raise ConnectRefused(OFFLINE)
            if self.sessions_max is not None and len(self.clients()) >= self.sessions_max:
                raise ConnectRefused(TOO_MANY)
        self.opened += 1
        session = Session(self, self.opened, is_root=is_root, is_lookups=is_lookups)
        self.sessions[session.number] = session
        self.at_once = max(self.at_once, len(self.sessions))
        return session

    def kill(self, number: int, code: int = KILLED) -> bool:
        """KILL CONNECTION; whether there was such a session."""
        session = self.sessions.get(number)
        if session is None:
            return False
        session.be_ended(code)
        self.settle()
        return True

    def kill_query(self, number: int) -> bool:
        """KILL QUERY; whether there was such a session with a statement under way."""
        session = self.sessions.get(number)
        if session is None:
            return False
        hit = session.interrupt(refused(INTERRUPTED))
        self.settle()
        return hit

    def clients(self) -> list[Session]:
        """All sessions but root's, the oldest first."""
        return [session for session in self.sessions.values() if not session.is_root]

    def end_clients(self) -> None:
        """KILL CONNECTION, for all of them."""
        for session in self.clients():
            session.be_ended(KILLED)
        self.settle()

    def waiting(self, link: str) -> int:
        """How many clients wait now: for the table `customer` (`lookups`), or for a row (`sink`)."""
        if link == "lookups":
            return len(self.customers_queue)
        return sum(session.running is not None and not session.is_lookups for session in self.clients())

    def restart(self) -> None:
        """Every session ends, before any gets what another held. What is committed stays, and what is prepared."""
        self._is_settling = True
        for session in list(self.sessions.values()):
            session.be_ended(SHUTDOWN)
        self._is_settling = False
        self.settle()

    def forget(self, session: Session) -> None:
        """For a session that ends."""
        del self.sessions[session.number]
        self._times = {key: times for key, times in self._times.items() if key[0] is not session}
        self.names.release_all(session)
        self.unlock_customers(session)

    # Locks that a fault holds, as root

    def hold_fences(self, count: int | None) -> Session:
        """A foreign transaction locks the fence rows of the first `count` subtasks (None: all) until its `end`.

        It waits for them longer than any transaction of the run.
        """
        session = self.open_session(is_root=True)
        session.autocommit = False
        statement = "SELECT subtask FROM fence FOR UPDATE"
        if count is not None:
            statement = "SELECT subtask FROM fence ORDER BY subtask LIMIT %s FOR UPDATE"
        session.execute(statement, () if count is None else (count,), lambda _: None)
        return session

    def hold_customers(self) -> Session:
        """A foreign session locks the whole table `customer` until its `end`: plain SELECTs wait too."""
        session = self.open_session(is_root=True)
        self.lock_customers(session)
        return session

    def lock_customers(self, session: Session) -> None:
        """LOCK TABLES customer WRITE."""
        assert self.customers_holder in (None, session), "one fault locks the table at a time"
        self.customers_holder = session

    def unlock_customers(self, session: Session) -> None:
        """Let all go on who wait, if it is `session` that has the lock."""
        if self.customers_holder is session:
            self.customers_holder = None
            waiting, self.customers_queue[:] = list(self.customers_queue), []
            self.ready += waiting

    # Transactions

    def publish(self, session: Session, transaction: Transaction) -> None:
        """A commit: visible, told, and its locks given to who waits."""
        if transaction.wrote:
            self._on_commit(session, self.tables.publish(transaction))
        self.end_transaction(transaction)

    def end_transaction(self, transaction: Transaction) -> None:
        """Its locks are free, and it is no branch any more."""
        self.owners.pop(transaction, None)
        self.row_locks.release_all(transaction)
        for xid, branch in list(self.branches.items()):
            if branch.transaction is transaction:
                del self.branches[xid]

    def settle(self) -> None:
        """Let all go on that was given a lock."""
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while self.ready:
                self.ready.pop(0)()
        finally:
            self._is_settling = False

    # Statements that are not on tables

    def control(self, sql: str) -> Control | None:
        """See `control_of`."""
        return control_of(sql)

    def take_name(self, session: Session, name: str, seconds: float, sql: str, done: Done) -> None:
        """GET_LOCK."""
        key = (session, name)
        if self.names.take(session, name):
            self._times[key] = self._times.get(key, 0) + 1
            session.ok(done, [(1,)])
        elif seconds <= 0:
            session.ok(done, [(0,)])
        else:
            running = session.wait(
                sql,
                done,
                end_wait=partial(self.names.leave, session),
                limit_ms=round(seconds * _MS),
                late=Reply(rows=[(0,)], affected=1),
            )

            def granted() -> None:
                self._times[key] = 1
                self.ready.append(partial(session.wait_ended, running, Reply(rows=[(1,)], affected=1)))

            self.names.wait(session, name, granted)

    def drop_name(self, session: Session, name: str) -> int | None:
        """RELEASE_LOCK: 1, 0 if another holds it, None if nobody does."""
        holder = self.names.holder(name)
        if holder is not session:
            return None if holder is None else 0
        key = (session, name)
        self._times[key] -= 1
        if not self._times[key]:
            del self._times[key]
            self.names.release(session, name)
        return 1

    @staticmethod
    def bytes_of(sql: str, args: Any) -> int:
        """About as long as the statement is on the wire."""
        size = len(sql)
        for arg in args or ():
            size += sum(len(str(one)) for one in arg) if isinstance(arg, list | tuple) else len(str(arg))
        return size
