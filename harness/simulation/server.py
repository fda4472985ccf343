"""The simulated database server: sessions, transactions, locks, prepared branches, fault settings.

Answers to one MariaDB 10.11 server and the threads of its connections, for the statements that the harness's own
code sends; `tests/test_as_mariadb.py` runs the same scripts on both. A state machine that knows the hub's clock and
nothing of links: the link's model calls `SimulatedSession.execute`. What a transaction wrote is visible
whole, from `on_commit` on, or never. A statement is answered once, or never if its client is gone; what a
session held is free when it has ended, but for prepared branches.

Deviations: row locks are exclusive and there are no gap locks (a DELETE of a row that is not there locks its
key alone, and a session that was answered 1062 holds the row, which InnoDB locks shared): random scripts
differ in that alone. KILL takes effect at once; a client's death is known when `end` or `abandon` says so;
locks by name take no part in deadlock detection; see also `tables`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from harness.database.endpoint import QUERY
from harness.simulation.hub import Due, Hub
from harness.simulation.replies import (
    DEADLOCK,
    FULL,
    INTERRUPTED,
    KILLED,
    LOCK_WAIT,
    OFFLINE,
    PACKET,
    READ_ONLY,
    SHUTDOWN,
    SILENT,
    TOO_LONG,
    TOO_MANY,
    XA_STATE,
    ConnectRefused,
    Done,
    Reply,
    UnknownStatement,
    in_state,
    refused,
)
from harness.simulation.statements import STATEMENTS, TableStatement
from harness.simulation.tables import Branch, Effects, Locks, StatementFailed, Tables, Transaction, cycle
from harness.simulation.wire import bytes_of

__all__ = [
    "ConnectRefused",
    "Control",
    "Reply",
    "SimulatedServer",
    "SimulatedSession",
    "UnknownStatement",
    "look_up",
]

_MS: Final = 1000
_USUAL_LOCK_WAIT_MS: Final = 50_000


class SimulatedServer:
    """One server, for one run. Mutable: its sessions, what they hold, and the settings that faults switch.

    `on_commit(session, effects)` is called at the instant at which something becomes visible. `executor(sql)` is what
    executes a statement that is not on tables (`harness.simulation.controls.executor_of`).
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
        on_commit: Callable[[SimulatedSession, Effects], None],
        executor: Callable[[str], Control],
    ) -> None:
        self.hub = hub
        self.tables = tables
        self.executor = executor
        self._on_commit = on_commit
        self.sessions: dict[int, SimulatedSession] = {}
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
        self.owners: dict[Transaction, SimulatedSession] = {}
        """Of transactions that wait."""
        self.names: Locks[SimulatedSession] = Locks()
        self.name_times: dict[tuple[SimulatedSession, Hashable], int] = {}
        """How often a session took a name that it held."""
        self.customers_holder: SimulatedSession | None = None
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

    def open_session(self, *, is_root: bool = False, is_lookups: bool = False) -> SimulatedSession:
        """A client is let in. `is_lookups`: its statements may be a user's. Raises `ConnectRefused`."""
        if not is_root:
            if self.is_offline:
                raise ConnectRefused(OFFLINE)
            if self.sessions_max is not None and len(self.clients()) >= self.sessions_max:
                raise ConnectRefused(TOO_MANY)
        self.opened += 1
        session = SimulatedSession(self, self.opened, is_root=is_root, is_lookups=is_lookups)
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

    def clients(self) -> list[SimulatedSession]:
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

    def forget(self, session: SimulatedSession) -> None:
        """For a session that ends."""
        del self.sessions[session.number]
        self.name_times = {key: times for key, times in self.name_times.items() if key[0] is not session}
        self.names.release_all(session)
        self.unlock_customers(session)

    # Locks that a fault holds, as root

    def hold_fences(self, count: int | None) -> SimulatedSession:
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

    def hold_customers(self) -> SimulatedSession:
        """A foreign session locks the whole table `customer` until its `end`: plain SELECTs wait too."""
        session = self.open_session(is_root=True)
        self.lock_customers(session)
        return session

    def lock_customers(self, session: SimulatedSession) -> None:
        """LOCK TABLES customer WRITE."""
        assert self.customers_holder in (None, session), "one fault locks the table at a time"
        self.customers_holder = session

    def unlock_customers(self, session: SimulatedSession) -> None:
        """Let all go on who wait, if it is `session` that has the lock."""
        if self.customers_holder is session:
            self.customers_holder = None
            waiting, self.customers_queue[:] = list(self.customers_queue), []
            self.ready += waiting

    # Transactions

    def publish(self, session: SimulatedSession, transaction: Transaction) -> None:
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


class _Running(Struct, eq=False):
    """A statement that did not end yet. Mutable: how many of its locks it has."""

    sql: str
    done: Done
    end_wait: Callable[[], None] | None = None
    """Leave whatever queue it stands in."""
    due: Due | None = None
    statement: TableStatement | None = None
    args: Any = None
    keys: list[Hashable] = []
    taken: int = 0


class SimulatedSession:
    """One client's session, as the server has it. Mutable. `running`: its statement, if that waits for a lock.

    `on_end(code)` is called when the server ends it: by KILL (1927), a restart (1053), a packet that is too large
    (1153), silence (4031); not by `end`. `on_interrupt(reply)` is called when a statement is killed whose answer
    was given with `more_ms` and is not due yet: it takes that answer's place.
    """

    def __init__(self, server: SimulatedServer, number: int, *, is_root: bool, is_lookups: bool) -> None:
        self.number = number
        self.alive = True
        self.is_root = is_root
        self.is_lookups = is_lookups
        self.autocommit = True
        self.lock_wait_ms = server.lock_wait_ms
        self.silence_ms = server.silence_ms
        self.statement_ms: int | None = None
        """As long as one statement may take (max_statement_time)."""
        self.packet_bytes_max = server.packet_bytes_max
        self.transaction: Transaction | None = None
        self.branch: Branch | None = None
        self.on_end: Callable[[int], None] | None = None
        self.on_interrupt: Callable[[Reply], None] | None = None
        self.server = server
        self.running: _Running | None = None
        self._asleep_until_ms = 0
        self._asleep_sql = ""
        self._silent_since_ms = server.hub.now_ms
        self._silence_due: Due | None = None

    # What a client asks

    def execute(self, sql: str, args: Sequence[Any] | None, done: Done) -> None:
        """Execute it. `done` is called at once, or later in the hub's time. Raises `UnknownStatement`."""
        server = self.server
        if sql == QUERY and server.looks_up_at_once and args is not None and self.packet_bytes_max is None:
            look_up(self, args, done)
            return
        self._execute(sql, args, done)

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]], done: Done) -> None:
        """An INSERT of many rows: one statement, whole or not at all."""
        statement = STATEMENTS.get(sql)
        if statement is None or not statement.many:
            raise UnknownStatement(f"{sql} (with many rows)")
        self._execute(sql, rows, done, many=True)

    def abandon(self) -> None:
        """The running statement's client is gone: it waits no longer, and is not answered."""
        running = self.running
        if running is not None:
            self.stop(running)
        self._asleep_until_ms = 0
        self._silent_since_ms = self.server.hub.now_ms
        self.server.settle()

    def end(self) -> None:
        """The connection is gone: roll back, release all locks. What is prepared stays."""
        if not self.alive:
            return
        self.alive = False
        if self.running is not None:
            self.stop(self.running)
        if self._silence_due is not None:
            self.server.hub.cancel(self._silence_due)
            self._silence_due = None
        branch = self.branch
        if branch is not None and branch.state == "PREPARED":
            branch.owner = None
            self.branch = self.transaction = None
        self.roll_back()
        self.server.forget(self)
        self.server.settle()

    # What others ask of it

    @property
    def statement(self) -> str:
        """The text of the statement that it executes now; empty: none."""
        if self.running is not None:
            return self.running.sql
        return self._asleep_sql if self.server.hub.now_ms < self._asleep_until_ms else ""

    def interrupt(self, reply: Reply) -> bool:
        """End its statement with `reply`; whether there was one. Its transaction stays open."""
        running = self.running
        if running is not None:
            self.stop(running)
            self._answer(running.done, reply)
            return True
        if self.server.hub.now_ms >= self._asleep_until_ms:
            return False
        self._asleep_until_ms = 0
        if self.on_interrupt is not None:
            self.on_interrupt(reply)
        return True

    def be_ended(self, code: int) -> None:
        """The server ends it, and says `code` to who waits for an answer."""
        if self.alive:
            self.interrupt(refused(code))
            self.end()
            if self.on_end is not None:
                self.on_end(code)

    # Executing

    def slept(self, sql: str, reply: Reply, done: Done) -> None:
        """Answer, after the statement's own SLEEP."""
        now_ms = self.server.hub.now_ms
        if self.statement_ms is not None and reply.more_ms > self.statement_ms:
            reply = refused(TOO_LONG)
            reply.more_ms = self.statement_ms
        if reply.more_ms:
            self._asleep_until_ms = now_ms + reply.more_ms
            self._asleep_sql = sql
        self._silent_since_ms = now_ms + reply.more_ms
        if self._silence_due is None and self.silence_ms is not None:
            self._watch_silence()
        done(reply)

    def _execute(self, sql: str, args: Any, done: Done, *, many: bool = False) -> None:
        assert self.alive, "a session that has ended executes nothing"
        assert self.running is None, "a session executes one statement at a time"
        server = self.server
        if self.packet_bytes_max is not None and bytes_of(sql, args) > self.packet_bytes_max:
            done(refused(PACKET))
            self.end()
            if self.on_end is not None:
                self.on_end(PACKET)
            return
        statement = STATEMENTS.get(sql)
        if statement is not None:
            self._begin(sql, statement, args if many or not statement.many else [args], done)
        else:
            server.executor(sql)(self, args, done)
        server.settle()

    def _begin(self, sql: str, statement: TableStatement, args: Any, done: Done) -> None:
        """A statement on tables: refuse it, or take its locks."""
        server = self.server
        if self.branch is not None and self.branch.state != "ACTIVE":
            self.refuse_in_branch(self.branch, done)
            return
        if statement.writes and server.read_only and not self.is_root:
            self.refuse(done, READ_ONLY)
            return
        if self.transaction is None:
            self.transaction = Transaction(server.tables)
        if statement.grows and server.disk_full:
            self._end_statement()
            self.refuse(done, FULL)
            return
        if statement.deadlocks and server.deadlocks_to_make and not self.is_root:
            server.deadlocks_to_make -= 1
            self._be_victim()
            self.refuse(done, DEADLOCK)
            return
        keys = list(statement.locks(server.tables, args)) if statement.locks is not None else []
        self.running = _Running(sql=sql, done=done, statement=statement, args=args, keys=keys)
        self._advance(self.running)

    def _advance(self, running: _Running) -> None:
        """Take the locks that are left, then execute."""
        if self.running is not running:
            return  # it was given a lock and ended at the same instant
        transaction = self.transaction
        assert transaction is not None, "a statement on tables has a transaction"
        for key in running.keys[running.taken :]:
            if not self.server.row_locks.take(transaction, key):
                self._wait_for_row(running, transaction, key)
                return
            running.taken += 1
        self.running = None
        assert running.statement is not None, "only statements on tables take row locks"
        try:
            result = running.statement.run(self.server.tables, transaction, running.args)
        except StatementFailed as error:
            self._end_statement()
            self.fail(running.done, error.code, error.message)
            return
        code = self.commit() if self.autocommit and self._is_alone else None
        if code is not None:
            self.refuse(running.done, code)
            return
        self._answer(running.done, Reply(rows=result.rows, affected=result.affected))

    @property
    def _is_alone(self) -> bool:
        """Whether its transaction is that of one statement."""
        return self.branch is None and not (self.transaction and self.transaction.is_explicit)

    def _end_statement(self) -> None:
        """A statement failed; in autocommit its transaction ends with it."""
        if self.autocommit and self._is_alone:
            self.roll_back()

    def _wait_for_row(self, running: _Running, transaction: Transaction, key: Hashable) -> None:
        server = self.server
        locks = server.row_locks
        server.owners[transaction] = self

        def granted() -> None:
            running.taken += 1
            running.end_wait = None
            self._end_due(running)
            server.ready.append(partial(self._advance, running))

        locks.wait(transaction, key, granted)
        running.end_wait = partial(locks.leave, transaction)
        running.due = server.hub.at(server.hub.now_ms + self.lock_wait_ms, partial(self._give_up, running))
        while ring := cycle(locks, transaction):
            victim = min(ring, key=lambda one: one.changes + locks.held_by(one))
            server.owners[victim].lose_deadlock()
            if victim is transaction:
                return

    def _give_up(self, running: _Running) -> None:
        """The statement is rolled back, its transaction stays open."""
        running.due = None
        self.stop(running)
        self._end_statement()
        self.refuse(running.done, LOCK_WAIT)
        self.server.settle()

    def lose_deadlock(self) -> None:
        """It is the victim: its whole transaction is rolled back."""
        running = self.running
        assert running is not None, "a victim waits"
        self.stop(running)
        self._be_victim()
        self.server.ready.append(partial(self.refuse, running.done, DEADLOCK))

    def _be_victim(self) -> None:
        branch = self.branch
        if branch is None:
            self.roll_back()
            return
        self.server.row_locks.release_all(branch.transaction)
        self.server.owners.pop(branch.transaction, None)
        branch.state = "ROLLBACK ONLY"
        branch.transaction = self.transaction = Transaction(self.server.tables)

    def stop(self, running: _Running) -> None:
        """It waits no longer; nobody is answered."""
        assert self.running is running, "only the running statement ends"
        self.running = None
        self._end_due(running)
        if running.end_wait is not None:
            running.end_wait()

    def _end_due(self, running: _Running) -> None:
        if running.due is not None:
            self.server.hub.cancel(running.due)
            running.due = None

    def wait(
        self, sql: str, done: Done, *, end_wait: Callable[[], None], limit_ms: int | None, late: Reply
    ) -> _Running:
        """The statement waits, `limit_ms` at most: then it is answered `late`."""
        running = self.running = _Running(sql=sql, done=done, end_wait=end_wait)

        def give_up() -> None:
            running.due = None
            self.wait_ended(running, late)
            self.server.settle()

        if limit_ms is not None:
            running.due = self.server.hub.at(self.server.hub.now_ms + limit_ms, give_up)
        return running

    def wait_ended(self, running: _Running, reply: Reply) -> None:
        """Answer it, if it did not end meanwhile."""
        if self.running is running:
            self.stop(running)
            self._answer(running.done, reply)

    # Ends of transactions

    def commit(self) -> int | None:
        """COMMIT; the error that rolled it back instead, or None."""
        transaction = self.transaction
        if transaction is None:
            return None
        server = self.server
        if transaction.wrote and server.read_only and not self.is_root:
            self.roll_back()
            return READ_ONLY
        self.transaction = None
        server.publish(self, transaction)
        return None

    def roll_back(self) -> None:
        """ROLLBACK, also of a branch that is not prepared."""
        transaction, self.transaction, self.branch = self.transaction, None, None
        if transaction is not None:
            self.server.end_transaction(transaction)

    # Answers

    def ok(self, done: Done, rows: list[tuple[Any, ...]] | None = None) -> None:
        """It worked."""
        self._answer(done, Reply(rows=rows, affected=0 if rows is None else len(rows)))

    def fail(self, done: Done, code: int, message: str) -> None:
        """An error."""
        self._answer(done, Reply(code=code, message=message))

    def refuse(self, done: Done, code: int) -> None:
        """An error, in the server's own words."""
        self._answer(done, refused(code))

    def refuse_in_branch(self, branch: Branch, done: Done) -> None:
        """A statement that the branch's state does not allow."""
        self.fail(done, XA_STATE, in_state(branch.state))

    def _answer(self, done: Done, reply: Reply) -> None:
        self._silent_since_ms = self.server.hub.now_ms
        if self._silence_due is None and self.silence_ms is not None:
            self._watch_silence()
        done(reply)

    def _watch_silence(self) -> None:
        """Bounded by wait_timeout."""
        assert self.silence_ms is not None, "no limit, nothing to watch"
        due_ms = self._silent_since_ms + self.silence_ms
        self._silence_due = self.server.hub.at(due_ms, self._look_whether_silent)

    def _look_whether_silent(self) -> None:
        self._silence_due = None
        if not self.alive or self.silence_ms is None:
            return
        now_ms = self.server.hub.now_ms
        if self.running is not None:
            self._silent_since_ms = now_ms
        if now_ms < self._silent_since_ms + self.silence_ms:
            self._watch_silence()
        else:
            self.server.hung_up += 1
            self.be_ended(SILENT)


def look_up(session: SimulatedSession, args: Sequence[Any], done: Done) -> None:
    """The reference lookup's statement: the hot path of level sim, at a few microseconds."""
    filler, nonce, seconds, key = args
    server = session.server
    slept_ms = round(float(seconds) * _MS) + server.slow_ms
    server.slept += server.slow_ms > 0
    customers = server.tables.customers
    dots = "." * filler
    found = customers.by_key.get(key)
    if customers.renamed is not None:
        try:
            customers.refuse_renamed()
        except StatementFailed as error:
            done(Reply(code=error.code, message=error.message))
            return
    rows: list[tuple[Any, ...]] = (
        [(None, None, None, nonce, 0, dots)] if found is None else [(*row, nonce, 0, dots) for row in found]
    )
    if session.transaction is None and not session.autocommit:
        session.transaction = Transaction(server.tables)
    session.slept(QUERY, Reply(rows, len(rows), None, "", slept_ms), done)


Control = Callable[[SimulatedSession, Any, Done], None]
"""Executes a statement that is not on tables."""
