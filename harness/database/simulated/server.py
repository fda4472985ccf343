"""The simulated database server: sessions, transactions, locks, prepared branches, fault settings.

Answers to one MariaDB 10.11 server and its connection threads, for the statements that the harness sends;
`tests/test_as_mariadb.py` runs the same scripts on both. A state machine in virtual time that does not know
links: `link` calls `SimulatedSession.execute`. Invariants: the writes of a transaction become visible all at
once when it commits, or never. A statement is answered once, or never if its client has disconnected. A
session that ends releases all its locks, except those of prepared branches.

Deviations: row locks are exclusive and there are no gap locks (a DELETE of a missing row locks only its key,
a session that got error 1062 holds the row exclusively, where InnoDB takes a shared lock): random scripts
differ from MariaDB only in that. KILL takes effect immediately; a client's death is known only by `end` or
`abandon`; deadlock detection ignores GET_LOCK locks. More deviations: `tables`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from harness.database.endpoint import QUERY
from harness.database.simulated.hub import Due, Hub
from harness.database.simulated.replies import (
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
    ConnectRefused,
    Done,
    Reply,
    UnknownStatement,
    bytes_of,
    refused,
    refused_in,
)
from harness.database.simulated.statements import STATEMENTS, TableStatement
from harness.database.simulated.tables import (
    Branch,
    Effects,
    Locks,
    SimulatedTables,
    StatementFailed,
    Transaction,
    cycle,
)

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
    """The database server of one run. Mutable: its sessions, their locks, the settings that faults change.

    `on_commit(session, effects)` is called at the instant at which a commit becomes visible. `executor(sql)`
    makes a statement that is not in `STATEMENTS` executable (`harness.database.simulated.controls.executor_of`).
    """

    # Settings that faults change.
    read_only = False
    """Refuses writes, and commits of writes, with 1290; root is exempt."""
    disk_full = False
    """Refuses INSERT and REPLACE with 1114."""
    deadlocks_to_make = 0
    """How many of the next INSERTs into `epoch` fail as deadlock victims (1213); root's are exempt."""
    lock_wait_ms = _USUAL_LOCK_WAIT_MS
    """innodb_lock_wait_timeout of new sessions, until a session sets its own."""
    silence_ms: int | None = None
    """Global wait_timeout, copied by each new session. None: no limit, unless a session sets its own."""
    packet_bytes_max: int | None = None
    """Global max_allowed_packet, copied by each new session. None: no limit."""
    sessions_max: int | None = None
    """The limit of open client sessions: one more is refused with 1040; root's sessions do not count."""
    is_offline = False
    """Refuses new sessions with 3032, except root's."""
    slow_ms = 0
    """Delay added to every lookup, the reference's or a user's SELECT."""

    def __init__(
        self,
        *,
        hub: Hub,
        tables: SimulatedTables,
        on_commit: Callable[[SimulatedSession, Effects], None],
        executor: Callable[[str], Control],
    ) -> None:
        self.hub = hub
        self.tables = tables
        self.executor = executor
        self._on_commit = on_commit
        self.sessions: dict[int, SimulatedSession] = {}
        self.opened = 0
        """Sessions opened so far; also the number of the newest session."""
        self.at_once = 0
        """The highest number of sessions open at the same time."""
        self.hung_up = 0
        """Sessions that the server ended by wait_timeout (4031)."""
        self.slept = 0
        """Lookups that `slow_ms` delayed."""
        # Locks of sessions, and queues.
        self.row_locks: Locks[Transaction] = Locks()
        self.owners: dict[Transaction, SimulatedSession] = {}
        """The session of each open transaction that waits, or has waited, for a row lock."""
        self.names: Locks[SimulatedSession] = Locks()
        self.name_times: dict[tuple[SimulatedSession, Hashable], int] = {}
        """How many times a session holds a GET_LOCK name, which is reentrant."""
        self.customers_holder: SimulatedSession | None = None
        """The session that holds LOCK TABLES customer WRITE."""
        self.customers_queue: list[Callable[[], None]] = []
        self.branches: dict[tuple[str, str], Branch] = {}
        """All XA transactions, in the order of their START."""
        self.ready: list[Callable[[], None]] = []
        """Continuations of statements that got a lock; `settle` runs them after the releasing statement."""
        self._is_settling = False

    # Sessions

    def open_session(
        self,
        *,
        is_root: bool = False,
        is_lookups: bool = False,
        kind: Callable[..., SimulatedSession] | None = None,
    ) -> SimulatedSession:
        """`is_lookups`: a lookup client's session; it may run a user's SELECT. Raises `ConnectRefused`."""
        if not is_root:
            if self.is_offline:
                raise ConnectRefused(OFFLINE)
            if self.sessions_max is not None and len(self.clients()) >= self.sessions_max:
                raise ConnectRefused(TOO_MANY)
        self.opened += 1
        session = (kind or SimulatedSession)(self, self.opened, is_root=is_root, is_lookups=is_lookups)
        self.sessions[session.number] = session
        self.at_once = max(self.at_once, len(self.sessions))
        return session

    def kill(self, number: int, code: int = KILLED) -> bool:
        """KILL CONNECTION; returns whether the session exists."""
        session = self.sessions.get(number)
        if session is None:
            return False
        session.be_ended(code)
        self.settle()
        return True

    def kill_query(self, number: int) -> bool:
        """KILL QUERY; returns whether a statement of that session was interrupted."""
        session = self.sessions.get(number)
        if session is None:
            return False
        hit = session.interrupt(refused(INTERRUPTED))
        self.settle()
        return hit

    def clients(self) -> list[SimulatedSession]:
        """All sessions except root's, the oldest first."""
        return [session for session in self.sessions.values() if not session.is_root]

    def end_clients(self) -> None:
        """KILL CONNECTION for every client session."""
        for session in self.clients():
            session.be_ended(KILLED)
        self.settle()

    def waiting(self, link: str) -> int:
        """Counts waiting statements: for the table `customer` (`lookups`), or of sink sessions (`sink`)."""
        if link == "lookups":
            return len(self.customers_queue)
        return sum(session.running is not None and not session.is_lookups for session in self.clients())

    def restart(self) -> None:
        """Ends all sessions before a lock is passed on. Commits and prepared branches survive."""
        self._is_settling = True
        for session in list(self.sessions.values()):
            session.be_ended(SHUTDOWN)
        self._is_settling = False
        self.settle()

    def forget(self, session: SimulatedSession) -> None:
        """Removes a session that ended, its GET_LOCK names and its table lock."""
        del self.sessions[session.number]
        self.name_times = {key: times for key, times in self.name_times.items() if key[0] is not session}
        self.names.release_all(session)
        self.unlock_customers(session)

    # Locks that a fault holds, as root

    def hold_fences(self, count: int | None) -> SimulatedSession:
        """A root transaction locks the fence rows of the first `count` subtasks (None: all) until `end`.

        It waits up to `lock_wait_ms` for rows that are locked, longer than any transaction of the run takes.
        """
        session = self.open_session(is_root=True)
        session.autocommit = False
        statement = "SELECT subtask FROM fence FOR UPDATE"
        if count is not None:
            statement = "SELECT subtask FROM fence ORDER BY subtask LIMIT %s FOR UPDATE"
        session.execute(statement, () if count is None else (count,), lambda _: None)
        return session

    def hold_customers(self) -> SimulatedSession:
        """A root session locks the whole table `customer` until its `end`: plain SELECTs wait too."""
        session = self.open_session(is_root=True)
        self.lock_customers(session)
        return session

    def lock_customers(self, session: SimulatedSession) -> None:
        """LOCK TABLES customer WRITE."""
        assert self.customers_holder in (None, session), "one fault locks the table at a time"
        self.customers_holder = session

    def unlock_customers(self, session: SimulatedSession) -> None:
        """UNLOCK TABLES: if `session` holds the lock, all statements that wait for the table become ready."""
        if self.customers_holder is session:
            self.customers_holder = None
            waiting, self.customers_queue[:] = list(self.customers_queue), []
            self.ready += waiting

    # Transactions

    def publish(self, session: SimulatedSession, transaction: Transaction) -> None:
        """Commits: publishes the writes, calls `on_commit`, passes the locks on to waiting transactions."""
        if transaction.changes:
            self._on_commit(session, self.tables.publish(transaction))
        self.end_transaction(transaction)

    def end_transaction(self, transaction: Transaction) -> None:
        """Releases the row locks of `transaction` and forgets its XA branch."""
        if transaction in self.owners:
            del self.owners[transaction]
        self.row_locks.release_all(transaction)
        if self.branches:
            for xid in [xid for xid, branch in self.branches.items() if branch.transaction is transaction]:
                del self.branches[xid]

    def settle(self) -> None:
        """Continues all statements that got a lock; not reentrant."""
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while self.ready:
                self.ready.pop(0)()
        finally:
            self._is_settling = False


class Waiting(Struct, eq=False):
    """A statement that has not ended. Mutable: `taken` counts the row locks of `keys` that it holds."""

    sql: str
    done: Done
    end_wait: Callable[[], None] | None = None
    """Leaves the queue of the lock that the statement waits for."""
    due: Due | None = None
    statement: TableStatement | None = None
    args: Any = None
    keys: Sequence[Hashable] = ()
    taken: int = 0


class SimulatedSession:
    """A client's session in the server. Mutable. `running`: its statement, while that waits for a lock.

    `on_end(code)` is called when the server ends the session: by KILL (1927), a restart (1053), a packet that
    is too large (1153), wait_timeout (4031); not by `end`. `on_interrupt(reply)` is called when a statement
    is killed in its SLEEP: its answer, given with `more_ms`, is not due yet, and `reply` replaces it.
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
        """max_statement_time; None: no limit."""
        self.packet_bytes_max = server.packet_bytes_max
        self.transaction: Transaction | None = None
        self.branch: Branch | None = None
        self.on_end: Callable[[int], None] | None = None
        self.on_interrupt: Callable[[Reply], None] | None = None
        self.server = server
        self.running: Waiting | None = None
        self._asleep_until_ms = 0
        self._asleep_sql = ""
        self._silent_since_ms = server.hub.now_ms
        self._silence_due: Due | None = None

    # Calls from the client's side

    def execute(
        self, sql: str, args: Sequence[object] | None, done: Done, *, many: bool = False
    ) -> Reply | None:
        """The reply. None: the statement waits, and `done(reply)` gets its reply later.

        `many`: `args` are the rows of one INSERT, of which all are inserted or none. Raises `UnknownStatement`.
        """
        server = self.server
        reply: Reply | None
        if sql == QUERY and server.customers_holder is None and args and self.packet_bytes_max is None:
            reply = look_up(self, args)
        else:
            assert self.alive, "a session that has ended executes nothing"
            assert self.running is None, "a session executes one statement at a time"
            if self.packet_bytes_max is not None and bytes_of(sql, args) > self.packet_bytes_max:
                self.end()
                if self.on_end is not None:
                    self.on_end(PACKET)
                return refused(PACKET)
            statement = STATEMENTS.get(sql)
            if many and (statement is None or not statement.many):
                raise UnknownStatement(f"{sql} (with many rows)")
            if statement is None:
                reply = server.executor(sql)(self, args, done)
            else:
                reply = self._begin(sql, statement, [args] if statement.many and not many else args, done)
        if reply is not None and self.alive:
            self._silent_since_ms = server.hub.now_ms + reply.more_ms
            if self.silence_ms is not None and self._silence_due is None:
                self._watch_silence()
        if server.ready:
            server.settle()
        return reply

    def abandon(self) -> None:
        """The client stopped waiting: its running statement ends without an answer, the session stays."""
        running = self.running
        if running is not None:
            self.stop(running)
        self._asleep_until_ms = 0
        self._silent_since_ms = self.server.hub.now_ms
        self.server.settle()

    def end(self) -> None:
        """The connection is closed: rolls back and releases all locks. A prepared branch survives."""
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

    # Calls from other sessions and from the server

    @property
    def statement(self) -> str:
        """SQL of the statement that waits or sleeps now; empty: none."""
        if self.running is not None:
            return self.running.sql
        return self._asleep_sql if self.server.hub.now_ms < self._asleep_until_ms else ""

    def interrupt(self, reply: Reply) -> bool:
        """Ends the running statement with `reply`; returns whether one ran. The transaction stays open."""
        running = self.running
        if running is not None:
            self.wait_ended(running, reply)
            return True
        if self.server.hub.now_ms >= self._asleep_until_ms:
            return False
        self._asleep_until_ms = 0
        if self.on_interrupt is not None:
            self.on_interrupt(reply)
        return True

    def be_ended(self, code: int) -> None:
        """The server ends the session; a running statement is answered with error `code`."""
        if self.alive:
            self.interrupt(refused(code))
            self.end()
            if self.on_end is not None:
                self.on_end(code)

    # Executing

    def slept(self, sql: str, reply: Reply) -> Reply:
        """The reply after a SLEEP of `reply.more_ms`, which max_statement_time limits (1969)."""
        if self.statement_ms is not None and reply.more_ms > self.statement_ms:
            reply = refused(TOO_LONG)
            reply.more_ms = self.statement_ms
        if reply.more_ms:
            self._asleep_until_ms = self.server.hub.now_ms + reply.more_ms
            self._asleep_sql = sql
        return reply

    def _begin(self, sql: str, statement: TableStatement, args: object, done: Done) -> Reply | None:
        """Refuses a statement of `STATEMENTS`, or takes its row locks and executes it; None: it waits for one."""
        server = self.server
        if self.branch is not None and self.branch.state != "ACTIVE":
            return refused_in(self.branch.state)
        if statement.writes and server.read_only and not self.is_root:
            return refused(READ_ONLY)
        transaction = self.transaction
        if transaction is None:
            transaction = self.transaction = Transaction(server.tables)
        if statement.grows and server.disk_full:
            self._end_statement()
            return refused(FULL)
        if statement.deadlocks and server.deadlocks_to_make and not self.is_root:
            server.deadlocks_to_make -= 1
            self._be_victim()
            return refused(DEADLOCK)
        if statement.locks is not None:
            keys = statement.locks(server.tables, args)
            for taken, key in enumerate(keys):
                if not server.row_locks.take(transaction, key):
                    self.running = Waiting(sql, done, statement=statement, args=args, keys=keys, taken=taken)
                    self._wait_for_row(self.running, transaction, key)
                    return None
        return self._run(statement, transaction, args)

    def _advance(self, running: Waiting) -> None:
        """Takes the remaining row locks of a statement that has waited, then executes it."""
        if self.running is not running:
            return  # the statement got the lock and was ended at the same instant
        transaction = self.transaction
        assert transaction is not None, "a statement on tables has a transaction"
        assert running.statement is not None, "only statements on tables take row locks"
        for key in running.keys[running.taken :]:
            if not self.server.row_locks.take(transaction, key):
                self._wait_for_row(running, transaction, key)
                return
            running.taken += 1
        self.running = None
        self.answer(running.done, self._run(running.statement, transaction, running.args))

    def _run(self, statement: TableStatement, transaction: Transaction, args: object) -> Reply:
        try:
            reply = statement.run(self.server.tables, transaction, args)
        except StatementFailed as error:
            self._end_statement()
            return Reply(code=error.code, message=error.message)
        code = self.commit() if self.autocommit and self._is_alone else None
        return reply if code is None else refused(code)

    @property
    def _is_alone(self) -> bool:
        """Whether the transaction is neither an XA branch nor begun by BEGIN."""
        return self.branch is None and not (self.transaction and self.transaction.is_explicit)

    def _end_statement(self) -> None:
        """After a failed statement: rolls back the transaction if it is this statement's alone."""
        if self.autocommit and self._is_alone:
            self.roll_back()

    def _wait_for_row(self, running: Waiting, transaction: Transaction, key: Hashable) -> None:
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

    def _give_up(self, running: Waiting) -> None:
        """Lock wait timeout: the statement fails (1205); an explicit transaction stays open."""
        running.due = None
        self.stop(running)
        self._end_statement()
        self.answer(running.done, refused(LOCK_WAIT))
        self.server.settle()

    def lose_deadlock(self) -> None:
        """This session is the deadlock victim: its whole transaction is rolled back (1213)."""
        running = self.running
        assert running is not None, "a victim waits"
        self.stop(running)
        self._be_victim()
        self.server.ready.append(partial(self.answer, running.done, refused(DEADLOCK)))

    def _be_victim(self) -> None:
        branch = self.branch
        if branch is None:
            self.roll_back()
            return
        self.server.row_locks.release_all(branch.transaction)
        self.server.owners.pop(branch.transaction, None)
        branch.state = "ROLLBACK ONLY"
        branch.transaction = self.transaction = Transaction(self.server.tables)

    def stop(self, running: Waiting) -> None:
        """Ends the running statement without an answer: cancels its timer and leaves its queue."""
        assert self.running is running, "only the running statement ends"
        self.running = None
        self._end_due(running)
        if running.end_wait is not None:
            running.end_wait()

    def _end_due(self, running: Waiting) -> None:
        if running.due is not None:
            self.server.hub.cancel(running.due)
            running.due = None

    def wait(
        self, sql: str, done: Done, *, end_wait: Callable[[], None], limit_ms: int | None, late: Reply
    ) -> Waiting:
        """Makes the statement wait; after `limit_ms` it is answered with `late` (None: no limit)."""
        running = self.running = Waiting(sql=sql, done=done, end_wait=end_wait)

        def give_up() -> None:
            running.due = None
            self.wait_ended(running, late)
            self.server.settle()

        if limit_ms is not None:
            running.due = self.server.hub.at(self.server.hub.now_ms + limit_ms, give_up)
        return running

    def wait_ended(self, running: Waiting, reply: Reply) -> None:
        """Answers the statement, unless it has ended already."""
        if self.running is running:
            self.stop(running)
            self.answer(running.done, reply)

    # Ends of transactions

    def commit(self) -> int | None:
        """COMMIT; returns None, or the code of the error that rolled the transaction back instead."""
        transaction = self.transaction
        if transaction is None:
            return None
        server = self.server
        if transaction.changes and server.read_only and not self.is_root:
            self.roll_back()
            return READ_ONLY
        self.transaction = None
        server.publish(self, transaction)
        return None

    def roll_back(self) -> None:
        """ROLLBACK of the transaction, or of an XA branch that is not prepared."""
        transaction, self.transaction, self.branch = self.transaction, None, None
        if transaction is not None:
            self.server.end_transaction(transaction)

    # Answers

    def answer(self, done: Done, reply: Reply) -> None:
        """Gives the reply of a statement that has waited."""
        self._silent_since_ms = self.server.hub.now_ms + reply.more_ms
        if self.silence_ms is not None and self._silence_due is None:
            self._watch_silence()
        done(reply)

    def _watch_silence(self) -> None:
        """Schedules the next wait_timeout check."""
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


def look_up(session: SimulatedSession, args: Sequence[Any]) -> Reply:
    """Executes the reference lookup (`QUERY`, `QUERY_OF_PARTS`): the hot path of level sim, a few microseconds."""
    filler, nonce, seconds, *parts = args
    key = tuple(parts) if parts[1:] else parts[0]
    server = session.server
    slept_ms = round(float(seconds) * _MS) + server.slow_ms
    server.slept += server.slow_ms > 0
    customers = server.tables.customers
    dots = "." * filler
    if customers.renamed is not None:
        try:
            customers.refuse_renamed()
        except StatementFailed as error:
            return Reply(code=error.code, message=error.message)
    transaction = session.transaction
    if transaction is None and not session.autocommit:
        transaction = session.transaction = Transaction(server.tables)
    found, version = customers.read(key, view=None if transaction is None else transaction.changes_seen())
    rows: list[tuple[Any, ...]]
    if version:
        customers.read_versions[version] += 1
    if not found:
        rows = [(None, None, None, nonce, 0, dots, None)]
    else:
        rows = [(*row, nonce, 0, dots, version) for row in found]
    return session.slept(QUERY, Reply(rows, more_ms=slept_ms))


Control = Callable[[SimulatedSession, Any, Done], Reply | None]
"""Executes a statement that is not in `STATEMENTS`; as `SimulatedSession.execute`."""
