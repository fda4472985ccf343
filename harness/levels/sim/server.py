"""The simulated database server: sessions, transactions, row locks, locks by name, prepared branches, faults' settings.

Answers to one MariaDB 10.11 server, for the statements that the harness's own code sends; `tests/test_as_mariadb.py`
runs the same scripts on both. A state machine: it knows the hub's clock and nothing of links; whoever models the link
calls `Session.execute` when a statement arrives. Invariant: what a transaction wrote is visible whole, from the instant
of `on_commit` on, or never; what a session held is free when it has ended, but for prepared branches.

Deviations: KILL takes effect at once; a client's death is known when `end` or `abandon` says so; locks by name take
no part in deadlock detection; see also `tables`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from harness.levels.sim.customers import Failed
from harness.levels.sim.hub import Due, Hub
from harness.levels.sim.locks import Locks, cycle
from harness.levels.sim.statements import STATEMENTS, Result, TableStatement
from harness.levels.sim.tables import Effects, Tables, Transaction

__all__ = [
    "LOOKUP",
    "Branch",
    "ConnectRefused",
    "Reply",
    "Session",
    "SimulatedServer",
    "UnknownStatement",
]

_MS: Final = 1000
_USUAL_LOCK_WAIT_MS: Final = 50_000

KILLED: Final = 1927
INTERRUPTED: Final = 1317
_NO_SUCH_SESSION: Final = 1094
_LOCK_WAIT: Final = 1205
_DEADLOCK: Final = 1213
_READ_ONLY: Final = 1290
_FULL: Final = 1114
_PACKET: Final = 1153
_TOO_MANY: Final = 1040
_SYNTAX: Final = 1064
_TOO_LONG: Final = 1969
_XA_UNKNOWN: Final = 1397
_XA_STATE: Final = 1399
_XA_OUTSIDE: Final = 1400
_XA_ROLLED_BACK: Final = 1402
_XA_DUPLICATE: Final = 1440
_XA_DEADLOCK: Final = 1614
_SHUTDOWN: Final = 1053

LOOKUP: Final = (
    "SELECT c.name, c.city, c.tier, asked.nonce, asked.slept, REPEAT('.', %s)"
    " FROM (SELECT %s AS nonce, SLEEP(%s) AS slept) AS asked LEFT JOIN customer AS c ON c.k = %s ORDER BY c.n"
)
"""The statement of the reference lookup (`harness/sut/lookup.py`)."""


class UnknownStatement(Exception):
    """The harness's own code sent a statement that the simulated server does not know: a defect of ours."""

    def __init__(self, sql: str) -> None:
        super().__init__(
            f"the simulated server does not know this statement: {sql}"
            " (add it to harness/levels/sim/statements.py, or to the patterns in server.py)"
        )
        self.sql = sql


class ConnectRefused(Exception):
    """The server does not let a client in: `code` 1040 (full) or 3032 (offline)."""

    def __init__(self, code: int) -> None:
        super().__init__(code, "the simulated server refuses the connection")
        self.code = code


class Reply(Struct, gc=False):
    """The answer to one statement. `more_ms`: how much later the server gives it, for the statement's own SLEEP."""

    rows: list[tuple[Any, ...]] | None = None
    affected: int = 0
    code: int | None = None
    message: str = ""
    more_ms: int = 0


Done = Callable[[Reply], None]
_Control = Callable[["Session", Any, Done], None]
_OK: Final = Result()


class Branch(Struct, eq=False):
    """An XA transaction. Mutable: its state is ACTIVE, IDLE, PREPARED or ROLLBACK ONLY."""

    xid: tuple[str, str]
    transaction: Transaction
    state: str = "ACTIVE"
    owner: Session | None = None
    """None: its session has ended, and any other may commit it."""
    why: int = _XA_ROLLED_BACK
    """Of ROLLBACK ONLY: what XA END answers."""


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


class Session:
    """One client's session, as the server has it. Mutable. One statement at a time.

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
        self._running: _Running | None = None
        self._asleep_until_ms = 0
        self._asleep_sql = ""
        self._silent_since_ms = server.hub.now_ms
        self._silence_due: Due | None = None

    # What a client asks

    def execute(self, sql: str, args: Sequence[Any] | None, done: Done) -> None:
        """Execute it. `done` is called at once, or later in the hub's time. Raises `UnknownStatement`."""
        server = self.server
        if sql == LOOKUP and server.looks_up_at_once and args is not None and self.packet_bytes_max is None:
            self._look_up(args, done)
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
        running = self._running
        if running is not None:
            self._stop(running)
        self._asleep_until_ms = 0
        self._silent_since_ms = self.server.hub.now_ms
        self.server.settle()

    def end(self) -> None:
        """The connection is gone: roll back, release all locks. What is prepared stays."""
        if not self.alive:
            return
        self.alive = False
        if self._running is not None:
            self._stop(self._running)
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
        if self._running is not None:
            return self._running.sql
        return self._asleep_sql if self.server.hub.now_ms < self._asleep_until_ms else ""

    @property
    def waits(self) -> bool:
        """Whether its statement waits for a lock."""
        return self._running is not None

    def interrupt(self, reply: Reply) -> bool:
        """End its statement with `reply`; whether there was one. Its transaction stays open."""
        running = self._running
        if running is not None:
            self._stop(running)
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
            self.interrupt(Reply(code=code, message="Connection was killed"))
            self.end()
            if self.on_end is not None:
                self.on_end(code)

    # Executing

    def _look_up(self, args: Sequence[Any], done: Done) -> None:
        """The reference lookup's statement, outside of which nothing happens on most servers: no lock, no table."""
        filler, nonce, seconds, key = args
        server = self.server
        slept_ms = round(float(seconds) * _MS) + server.slow_ms
        customers = server.tables.customers
        dots = "." * filler
        rows: list[tuple[Any, ...]]
        found = customers.by_key.get(key)
        if customers.renamed is not None:
            try:
                customers.refuse_renamed()
            except Failed as error:
                done(Reply(code=error.code, message=error.message))
                return
        if found is None:
            rows = [(None, None, None, nonce, 0, dots)]
        else:
            rows = [(*row, nonce, 0, dots) for row in found]
        if self.transaction is None and not self.autocommit:
            self.transaction = Transaction(server.tables)
        self._slept(LOOKUP, Reply(rows, len(rows), None, "", slept_ms), done)

    def _slept(self, sql: str, reply: Reply, done: Done) -> None:
        """Answer, after the statement's own SLEEP."""
        now_ms = self.server.hub.now_ms
        if self.statement_ms is not None and reply.more_ms > self.statement_ms:
            reply = Reply(
                code=_TOO_LONG,
                message="Query execution was interrupted (max_statement_time exceeded)",
                more_ms=self.statement_ms,
            )
        if reply.more_ms:
            self._asleep_until_ms = now_ms + reply.more_ms
            self._asleep_sql = sql
        self._silent_since_ms = now_ms + reply.more_ms
        if self._silence_due is None and self.silence_ms is not None:
            self._watch_silence()
        done(reply)

    def _execute(self, sql: str, args: Any, done: Done, *, many: bool = False) -> None:
        assert self.alive, "a session that has ended executes nothing"
        assert self._running is None, "a session executes one statement at a time"
        server = self.server
        if self.packet_bytes_max is not None and _bytes_of(sql, args) > self.packet_bytes_max:
            done(Reply(code=_PACKET, message="Got a packet bigger than 'max_allowed_packet' bytes"))
            self.end()
            if self.on_end is not None:
                self.on_end(_PACKET)
            return
        statement = STATEMENTS.get(sql)
        if statement is not None:
            self._begin(sql, statement, args if many or not statement.many else [args], done)
        elif (control := server.control(sql)) is not None:
            control(self, args, done)
        else:
            self._select(sql, args, done)
        server.settle()

    def _begin(self, sql: str, statement: TableStatement, args: Any, done: Done) -> None:
        """A statement on tables: refuse it, or take its locks."""
        server = self.server
        if self.branch is not None and self.branch.state != "ACTIVE":
            self._refuse_in_branch(self.branch, done)
            return
        if statement.writes and server.read_only and not self.is_root:
            self._fail(done, _READ_ONLY, "The MariaDB server is running with the --read-only option")
            return
        if self.transaction is None:
            self.transaction = Transaction(server.tables)
        if statement.grows and server.disk_full:
            self._fail(done, _FULL, "The table is full")
            return
        if statement.deadlocks and server.deadlocks_to_make and not self.is_root:
            server.deadlocks_to_make -= 1
            self._be_victim()
            self._fail(done, _DEADLOCK, "Deadlock found when trying to get lock; try restarting transaction")
            return
        keys = list(statement.locks(server.tables, args)) if statement.locks is not None else []
        running = _Running(sql=sql, done=done, statement=statement, args=args, keys=keys)
        self._running = running
        self._advance(running)

    def _advance(self, running: _Running) -> None:
        """Take the locks that are left, then execute."""
        if self._running is not running:
            return  # it was given a lock and ended at the same instant
        transaction = self.transaction
        assert transaction is not None, "a statement on tables has a transaction"
        locks = self.server.row_locks
        while running.taken < len(running.keys):
            key = running.keys[running.taken]
            if not locks.take(transaction, key):
                self._wait_for_row(running, transaction, key)
                return
            running.taken += 1
        self._running = None
        assert running.statement is not None, "only statements on tables take row locks"
        try:
            result = running.statement.run(self.server.tables, transaction, running.args)
        except Failed as error:
            self._end_statement()
            self._fail(running.done, error.code, error.message)
            return
        if self.autocommit and self._is_alone:
            code = self.commit()
            if code is not None:
                self._fail(running.done, code, "The MariaDB server is running with the --read-only option")
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
        self._stop(running)
        self._end_statement()
        self._fail(running.done, _LOCK_WAIT, "Lock wait timeout exceeded; try restarting transaction")
        self.server.settle()

    def lose_deadlock(self) -> None:
        """It is the victim: its whole transaction is rolled back."""
        running = self._running
        assert running is not None, "a victim waits"
        self._stop(running)
        self._be_victim()
        message = "Deadlock found when trying to get lock; try restarting transaction"
        self.server.ready.append(partial(self._fail, running.done, _DEADLOCK, message))

    def _be_victim(self) -> None:
        branch = self.branch
        if branch is not None:
            self.server.row_locks.release_all(branch.transaction)
            self.server.owners.pop(branch.transaction, None)
            branch.state, branch.why = "ROLLBACK ONLY", _XA_DEADLOCK
            branch.transaction = self.transaction = Transaction(self.server.tables)
        else:
            self.roll_back()

    def _stop(self, running: _Running) -> None:
        """It waits no longer; nobody is answered."""
        assert self._running is running, "only the running statement ends"
        self._running = None
        self._end_due(running)
        if running.end_wait is not None:
            running.end_wait()

    def _end_due(self, running: _Running) -> None:
        if running.due is not None:
            self.server.hub.cancel(running.due)
            running.due = None

    def wait_for(
        self, sql: str, done: Done, *, end_wait: Callable[[], None], limit_ms: int | None, late: Reply
    ) -> Done:
        """The statement waits, `limit_ms` at most, when it is answered `late`; what is called when it need not."""
        running = self._running = _Running(sql=sql, done=done, end_wait=end_wait)
        server = self.server

        def give_up() -> None:
            running.due = None
            self._stop(running)
            self._answer(done, late)
            server.settle()

        def answer(reply: Reply) -> None:
            if self._running is running:
                running.end_wait = None
                self._stop(running)
                self._answer(done, reply)

        if limit_ms is not None:
            running.due = server.hub.at(server.hub.now_ms + limit_ms, give_up)
        return answer

    def _select(self, sql: str, args: Any, done: Done) -> None:
        """A user's statement."""
        begins = sql.lstrip().lower()
        is_select = begins.startswith(("select", "with"))
        if not self.is_lookups and not (is_select and "customer" in begins):
            raise UnknownStatement(sql)
        if not is_select:
            message = f"at level sim a lookup's statements are executed by SQLite, and only SELECTs: {sql}"
            self._fail(done, _SYNTAX, message)
            return
        server = self.server
        if server.customers_holder not in (None, self):
            self._wait_for_customers(sql, args, done)
            return
        if sql == LOOKUP:
            self._look_up(args, done)
            return
        try:
            rows, slept_ms = server.tables.customers.select(sql, args)
        except Failed as error:
            self._fail(done, error.code, error.message)
            return
        if self.transaction is None and not self.autocommit:
            self.transaction = Transaction(server.tables)
        self._slept(sql, Reply(rows=rows, affected=len(rows), more_ms=slept_ms + server.slow_ms), done)

    def _wait_for_customers(self, sql: str, args: Any, done: Done) -> None:
        """LOCK TABLES is held by another; all who wait go on together."""
        server = self.server
        late = Reply(code=_TOO_LONG, message="Query execution was interrupted (max_statement_time exceeded)")
        waiting = server.customers_queue

        def go_on() -> None:
            running = self._running
            assert running is not None, "who has ended is not in the queue"
            running.end_wait = None
            self._stop(running)
            self._select(sql, args, done)

        self.wait_for(
            sql,
            done,
            end_wait=lambda: waiting.remove(go_on),
            limit_ms=self.statement_ms,
            late=late,
        )
        waiting.append(go_on)

    # Ends of transactions

    def commit(self) -> int | None:
        """COMMIT; the error that rolled it back instead, or None."""
        transaction = self.transaction
        if transaction is None:
            return None
        server = self.server
        if transaction.wrote and server.read_only and not self.is_root:
            self.roll_back()
            return _READ_ONLY
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

    def _fail(self, done: Done, code: int, message: str) -> None:
        self._answer(done, Reply(code=code, message=message))

    fail = _fail

    def _refuse_in_branch(self, branch: Branch, done: Done) -> None:
        message = f"XAER_RMFAIL: The command cannot be executed when global transaction is in the  {branch.state} state"
        self._fail(done, _XA_STATE, message)

    refuse_in_branch = _refuse_in_branch

    def _answer(self, done: Done, reply: Reply) -> None:
        self._silent_since_ms = self.server.hub.now_ms
        if self._silence_due is None and self.silence_ms is not None:
            self._watch_silence()
        done(reply)

    # Silence (wait_timeout)

    def _watch_silence(self) -> None:
        assert self.silence_ms is not None, "no limit, nothing to watch"
        hub = self.server.hub
        self._silence_due = hub.at(self._silent_since_ms + self.silence_ms, self._look_whether_silent)

    def _look_whether_silent(self) -> None:
        self._silence_due = None
        if not self.alive or self.silence_ms is None:
            return
        since_ms = self._silent_since_ms
        if self._running is not None or self.server.hub.now_ms < since_ms + self.silence_ms:
            if self._running is not None:
                self._silent_since_ms = self.server.hub.now_ms
            self._watch_silence()
            return
        self.be_ended(4031)


class SimulatedServer:
    """One server, for one run. Mutable: its sessions, what they hold, and the settings that faults switch.

    `on_commit(session, effects)` is called at the instant at which something becomes visible.
    """

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
        # What faults switch.
        self.read_only = False
        """Refuses writes and their commits (1290), but for root's."""
        self.disk_full = False
        """Refuses INSERT and REPLACE (1114)."""
        self.deadlocks_to_make = 0
        """So many of the next epoch rows to be inserted meet a deadlock (1213), as its victims."""
        self.lock_wait_ms = _USUAL_LOCK_WAIT_MS
        """Of sessions that do not set their own."""
        self.silence_ms: int | None = None
        """Global wait_timeout: for sessions that begin under it. None: as long as they like, or as they say."""
        self.packet_bytes_max: int | None = None
        """For sessions that begin under it."""
        self.sessions_max: int | None = None
        """Beyond so many, a client is refused (1040), but for root."""
        self.is_offline = False
        """Refuses clients (3032), but for root."""
        self.slow_ms = 0
        """Every lookup takes so much longer."""
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
        self._controls: dict[str, _Control | None] = {}

    @property
    def looks_up_at_once(self) -> bool:
        """Whether no lock stands in the way of lookups."""
        return self.customers_holder is None

    # Sessions

    def open_session(self, *, is_root: bool = False, is_lookups: bool = False) -> Session:
        """A client is let in. `is_lookups`: its statements may be a user's. Raises `ConnectRefused`."""
        if not is_root:
            if self.is_offline:
                raise ConnectRefused(3032)
            if self.sessions_max is not None and len(self.sessions) >= self.sessions_max:
                raise ConnectRefused(_TOO_MANY)
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
        hit = session.interrupt(Reply(code=INTERRUPTED, message="Query execution was interrupted"))
        self.settle()
        return hit

    def restart(self) -> None:
        """Every session ends. What is committed stays, and so does what is prepared."""
        for session in list(self.sessions.values()):
            session.be_ended(_SHUTDOWN)
        self.settle()

    def forget(self, session: Session) -> None:
        """For a session that ends."""
        del self.sessions[session.number]
        self._times = {key: times for key, times in self._times.items() if key[0] is not session}
        self.names.release_all(session)
        self.unlock_customers(session)

    # Locks that a fault holds, as root

    def hold_fences(self, count: int | None, held: Callable[[], None]) -> Session:
        """A foreign transaction locks the fence rows of the first `count` subtasks (None: all) until its `end`.

        `held` is called when it has them all. It waits longer than any transaction of the run.
        """
        session = self.open_session(is_root=True)
        session.autocommit = False

        def done(reply: Reply) -> None:
            if reply.code is None:
                held()

        if count is None:
            session.execute("SELECT subtask FROM fence FOR UPDATE", (), done)
        else:
            session.execute("SELECT subtask FROM fence ORDER BY subtask LIMIT %s FOR UPDATE", (count,), done)
        return session

    def hold_customers(self) -> Session:
        """A foreign session locks the whole table `customer` until its `end`: plain SELECTs wait too."""
        session = self.open_session(is_root=True)
        assert self.customers_holder is None, "one fault locks the table at a time"
        self.customers_holder = session
        return session

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

    def control(self, sql: str) -> _Control | None:
        """What executes it, if it is one of those of transactions, sessions and locks by name."""
        if sql not in self._controls:
            self._controls[sql] = control_of(sql)
        return self._controls[sql]

    def take_name(self, session: Session, name: str, seconds: float, sql: str, done: Done) -> None:
        """GET_LOCK."""
        key = (session, name)
        if self.names.take(session, name):
            self._times[key] = self._times.get(key, 0) + 1
            session.ok(done, [(1,)])
        elif seconds <= 0:
            session.ok(done, [(0,)])
        else:
            answer = session.wait_for(
                sql,
                done,
                end_wait=partial(self.names.leave, session),
                limit_ms=round(seconds * _MS),
                late=Reply(rows=[(0,)], affected=1),
            )

            def granted() -> None:
                self._times[key] = 1
                self.ready.append(partial(answer, Reply(rows=[(1,)], affected=1)))

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


def _bytes_of(sql: str, args: Any) -> int:
    """About as long as the statement is on the wire."""
    size = len(sql)
    for arg in args or ():
        size += sum(len(str(one)) for one in arg) if isinstance(arg, list | tuple) else len(str(arg))
    return size


# Statements of transactions, sessions and names, by pattern


def control_of(sql: str) -> _Control | None:
    """See `SimulatedServer.control`."""
    for pattern, make in _PATTERNS:
        match = pattern.fullmatch(sql.strip())
        if match is not None:
            return make(match)
    return None


def _set_autocommit(match: re.Match[str]) -> _Control:
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
        session.fail(done, code, "The MariaDB server is running with the --read-only option")


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


def _set_session(match: re.Match[str]) -> _Control:
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


def _get_lock(match: re.Match[str]) -> _Control:
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


def _kill(match: re.Match[str]) -> _Control:
    is_query, number = (match[1] or "").upper() == "QUERY", int(match[2])

    def run(session: Session, _args: Any, done: Done) -> None:
        server = session.server
        if number not in server.sessions:
            session.fail(done, _NO_SUCH_SESSION, f"Unknown thread id: {number}")
        elif number == session.number:
            code = INTERRUPTED if is_query else KILLED
            session.fail(done, code, "Connection was killed")
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


# XA


def _xa_start(match: re.Match[str]) -> _Control:
    xid = match["gtrid"], match["bqual"] or ""

    def run(session: Session, _args: Any, done: Done) -> None:
        server = session.server
        if session.branch is not None:
            session.refuse_in_branch(session.branch, done)
        elif session.transaction is not None:
            session.fail(done, _XA_OUTSIDE, "XAER_OUTSIDE: Some work is done outside global transaction")
        elif xid in server.branches:
            session.fail(done, _XA_DUPLICATE, "XAER_DUPID: The XID already exists")
        else:
            session.transaction = Transaction(server.tables)
            session.branch = server.branches[xid] = Branch(xid, session.transaction, owner=session)
            session.ok(done)

    return run


def _xa_step(match: re.Match[str], before: str, after: str) -> _Control:
    """XA END and XA PREPARE."""
    xid = match["gtrid"], match["bqual"] or ""

    def run(session: Session, _args: Any, done: Done) -> None:
        branch = session.branch
        if branch is not None and branch.state == "ROLLBACK ONLY" and before == "ACTIVE":
            session.fail(
                done, branch.why, "XA_RBDEADLOCK: Transaction branch was rolled back: deadlock was detected"
            )
        elif branch is None or branch.state != before:
            state = "NON-EXISTING" if branch is None else branch.state
            message = f"XAER_RMFAIL: The command cannot be executed when global transaction is in the  {state} state"
            session.fail(done, _XA_STATE, message)
        elif branch.xid != xid:
            session.fail(done, _XA_UNKNOWN, "XAER_NOTA: Unknown XID")
        else:
            branch.state = after
            session.ok(done)

    return run


def _xa_end(match: re.Match[str]) -> _Control:
    return _xa_step(match, "ACTIVE", "IDLE")


def _xa_prepare(match: re.Match[str]) -> _Control:
    return _xa_step(match, "IDLE", "PREPARED")


def _xa_commit(match: re.Match[str]) -> _Control:
    xid, needed = (match["gtrid"], match["bqual"] or ""), "IDLE" if match["phase"] else "PREPARED"

    def run(session: Session, _args: Any, done: Done) -> None:
        branch = _branch_to_end(session, xid, done, own_states=(needed,))
        if branch is None:
            return
        server = session.server
        if branch.transaction.wrote and server.read_only and not session.is_root:
            session.fail(done, _READ_ONLY, "The MariaDB server is running with the --read-only option")
            return
        if branch is session.branch:
            session.branch = session.transaction = None
        server.publish(session, branch.transaction)
        session.ok(done)

    return run


def _xa_roll_back(match: re.Match[str]) -> _Control:
    xid = match["gtrid"], match["bqual"] or ""

    def run(session: Session, _args: Any, done: Done) -> None:
        branch = _branch_to_end(session, xid, done, own_states=("IDLE", "PREPARED", "ROLLBACK ONLY"))
        if branch is None:
            return
        if branch is session.branch:
            session.branch = session.transaction = None
        session.server.end_transaction(branch.transaction)
        session.ok(done)

    return run


def _branch_to_end(
    session: Session, xid: tuple[str, str], done: Done, *, own_states: tuple[str, ...]
) -> Branch | None:
    """The session's own branch in one of `own_states`, or a prepared one whose session has ended; else an error."""
    own = session.branch
    if own is not None and own.xid == xid:
        if own.state in own_states:
            return own
        session.refuse_in_branch(own, done)
        return None
    if own is not None or session.transaction is not None or not session.autocommit:
        session.fail(done, _XA_OUTSIDE, "XAER_OUTSIDE: Some work is done outside global transaction")
        return None
    branch = session.server.branches.get(xid)
    if branch is None or branch.owner is not None:
        session.fail(done, _XA_UNKNOWN, "XAER_NOTA: Unknown XID")
        return None
    return branch


def _xa_recover(session: Session, _args: Any, done: Done) -> None:
    rows: list[tuple[Any, ...]] = [
        (1, len(gtrid), len(bqual), gtrid + bqual)
        for (gtrid, bqual), branch in session.server.branches.items()
        if branch.state == "PREPARED"
    ]
    session.ok(done, rows)


def _plain(control: _Control) -> Callable[[re.Match[str]], _Control]:
    return lambda _match: control


_XID: Final = r"'(?P<gtrid>[^']*)'(?:\s*,\s*'(?P<bqual>[^']*)')?"
_SOURCES: Final[tuple[tuple[str, Callable[[re.Match[str]], _Control]], ...]] = (
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
    (rf"XA START {_XID}", _xa_start),
    (rf"XA END {_XID}", _xa_end),
    (rf"XA PREPARE {_XID}", _xa_prepare),
    (rf"XA COMMIT {_XID}(?P<phase> ONE PHASE)?", _xa_commit),
    (rf"XA ROLLBACK {_XID}", _xa_roll_back),
    (r"XA RECOVER", _plain(_xa_recover)),
    (r"SHOW GLOBAL STATUS WHERE Variable_name IN \('Connections', .*\)", _plain(_status)),
    (r"FLUSH STATUS", _plain(_flush_status)),
)
_PATTERNS: Final = tuple((re.compile(source, re.IGNORECASE), make) for source, make in _SOURCES)
