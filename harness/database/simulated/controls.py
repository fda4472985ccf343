"""Statements outside `statements.STATEMENTS`: on transactions, XA branches, sessions, locks by name; a user's SELECTs.

A statement is matched by its pattern and cached by its text; one without a pattern is a user's lookup, which
SQLite executes. A SELECT waits for LOCK TABLES, fails on a renamed column or table, sleeps in virtual time.
A prepared XA branch keeps its locks until a session commits it or rolls it back, across sessions and restarts,
as in MariaDB 10.5 and later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Final

from harness.database.endpoint import QUERY, QUERY_OF_PARTS
from harness.database.simulated.replies import (
    INTERRUPTED,
    KILLED,
    NO_SUCH_SESSION,
    READ_ONLY,
    SYNTAX,
    TOO_LONG,
    XA_DEADLOCK,
    XA_DUPLICATE,
    XA_OUTSIDE,
    XA_UNKNOWN,
    Done,
    Reply,
    UnknownStatement,
    refused,
    refused_in,
)
from harness.database.simulated.server import Control, SimulatedSession, look_up
from harness.database.simulated.tables import BY_SQLITE, Branch, StatementFailed, Transaction

_MS: Final = 1000


@lru_cache(maxsize=1024)  # bounded: texts may contain numbers or names, so their set is unlimited
def executor_of(sql: str) -> Control:
    """The executor of a statement outside `STATEMENTS`; a text without a pattern is a user's SELECT."""
    return control_of(sql) or partial(_select, sql)


def control_of(sql: str) -> Control | None:
    """The executor of a statement on transactions, sessions or locks by name; None: no pattern matches."""
    for pattern, make in _PATTERNS:
        match = pattern.fullmatch(sql.strip())
        if match is not None:
            return make(match)
    return None


def _set_autocommit(match: re.Match[str]) -> Control:
    on = match[1] == "1"

    def run(session: SimulatedSession, _args: object, _done: Done) -> Reply:
        if session.branch is not None and on:
            return refused_in(session.branch.state)
        code = session.commit() if on and not session.autocommit else None
        session.autocommit = on
        return Reply() if code is None else refused(code)

    return run


def _commit(session: SimulatedSession, _args: object, _done: Done) -> Reply:
    if session.branch is not None:
        return refused_in(session.branch.state)
    code = session.commit()
    return Reply() if code is None else refused(code)


def _roll_back(session: SimulatedSession, _args: object, _done: Done) -> Reply:
    if session.branch is not None:
        return refused_in(session.branch.state)
    session.roll_back()
    return Reply()


def _begin(session: SimulatedSession, args: object, done: Done) -> Reply:
    """BEGIN commits an open transaction first."""
    reply = _commit(session, args, done)
    if reply.code is None:
        session.transaction = Transaction(session.server.tables)
        session.transaction.is_explicit = True
    return reply


_ROW_WAIT: Final = re.compile(r"innodb_lock_wait_timeout = (\d+)")
_SILENCE: Final = re.compile(
    r"(?<!lock_)wait_timeout = CAST\(LEAST\(@@GLOBAL\.wait_timeout, (\d+)\) AS UNSIGNED\)"
)
_STATEMENT: Final = re.compile(r"max_statement_time = (\d+)")


def _set_session(match: re.Match[str]) -> Control:
    row, silence, statement = (found.search(match[0]) for found in (_ROW_WAIT, _SILENCE, _STATEMENT))

    def run(session: SimulatedSession, _args: object, _done: Done) -> Reply:
        if row is not None:
            session.lock_wait_ms = int(row[1]) * _MS
        if silence is not None:
            own_ms = int(silence[1]) * _MS
            session.silence_ms = own_ms if session.silence_ms is None else min(own_ms, session.silence_ms)
        if statement is not None:
            session.statement_ms = int(statement[1]) * _MS
        return Reply()

    return run


def _get_lock(match: re.Match[str]) -> Control:
    def run(session: SimulatedSession, args: Sequence[Any], done: Done) -> Reply | None:
        name, seconds = args
        server, key = session.server, (session, name)
        if server.names.take(session, name):
            server.name_times[key] = server.name_times.get(key, 0) + 1
            return Reply([(1,)])
        if seconds <= 0:
            return Reply([(0,)])
        running = session.wait(
            match[0],
            done,
            end_wait=partial(server.names.leave, session),
            limit_ms=round(seconds * _MS),
            late=Reply([(0,)]),
        )

        def granted() -> None:
            server.name_times[key] = 1
            server.ready.append(partial(session.wait_ended, running, Reply([(1,)])))

        server.names.wait(session, name, granted)
        return None

    return run


def _is_used_lock(session: SimulatedSession, args: Sequence[object], _done: Done) -> Reply:
    holder = session.server.names.holder(args[0])
    return Reply([(None if holder is None else holder.number,)])


def _release_lock(session: SimulatedSession, args: Sequence[object], _done: Done) -> Reply:
    """RELEASE_LOCK returns 1, 0 if another session holds the lock, NULL if the lock is free."""
    server, name = session.server, args[0]
    holder = server.names.holder(name)
    if holder is not session:
        return Reply([(None if holder is None else 0,)])
    key = (session, name)
    server.name_times[key] -= 1
    if not server.name_times[key]:
        del server.name_times[key]
        server.names.release(session, name)
    return Reply([(1,)])


def _kill(match: re.Match[str]) -> Control:
    is_query, number = (match[1] or "").upper() == "QUERY", int(match[2])

    def run(session: SimulatedSession, _args: object, _done: Done) -> Reply:
        server = session.server
        if number not in server.sessions:
            return refused(NO_SUCH_SESSION)
        if number == session.number:
            if not is_query:
                session.be_ended(KILLED)
            return refused(INTERRUPTED if is_query else KILLED)
        if is_query:
            server.kill_query(number)
        else:
            server.kill(number)
        return Reply()

    return run


def _status(session: SimulatedSession, _args: object, _done: Done) -> Reply:
    server = session.server
    counts = {
        "Connections": server.opened,
        "Max_used_connections": server.at_once,
        "Threads_connected": len(server.sessions),
        "Uptime": server.hub.now_ms // _MS,
    }
    return Reply([(name, str(count)) for name, count in counts.items()])


def _flush_status(session: SimulatedSession, _args: object, _done: Done) -> Reply:
    session.server.at_once = len(session.server.sessions)
    return Reply()


def _lock_customers(session: SimulatedSession, _args: object, _done: Done) -> Reply:
    """MariaDB would wait for open transactions that read the table; here the lock is granted at once."""
    session.server.lock_customers(session)
    return Reply()


def _unlock_customers(session: SimulatedSession, _args: object, _done: Done) -> Reply:
    session.server.unlock_customers(session)
    return Reply()


def _xa_start(match: re.Match[str]) -> Control:
    xid = match["gtrid"], match["bqual"] or ""

    def run(session: SimulatedSession, _args: object, _done: Done) -> Reply:
        server = session.server
        if session.branch is not None:
            return refused_in(session.branch.state)
        if session.transaction is not None:
            return refused(XA_OUTSIDE)
        if xid in server.branches:
            return refused(XA_DUPLICATE)
        session.transaction = Transaction(server.tables)
        session.branch = server.branches[xid] = Branch(xid, session.transaction, owner=session)
        return Reply()

    return run


def _xa_step(match: re.Match[str], before: str, after: str) -> Control:
    """XA END and XA PREPARE: move the session's branch from state `before` to `after`."""
    xid = match["gtrid"], match["bqual"] or ""

    def run(session: SimulatedSession, _args: object, _done: Done) -> Reply:
        branch = session.branch
        if branch is None:
            return refused_in("NON-EXISTING")
        if branch.state != before:
            return refused_in(branch.state)
        if branch.xid != xid:
            return refused(XA_UNKNOWN)
        branch.state = after
        return Reply()

    return run


def _xa_commit(match: re.Match[str]) -> Control:
    xid, needed = (match["gtrid"], match["bqual"] or ""), "IDLE" if match["phase"] else "PREPARED"

    def run(session: SimulatedSession, _args: object, _done: Done) -> Reply:
        own = session.branch
        if own is not None and own.xid == xid and own.state == "ROLLBACK ONLY":
            session.roll_back()
            return refused(XA_DEADLOCK)
        branch = _branch_to_end(session, xid, own_states=(needed,))
        if isinstance(branch, Reply):
            return branch
        server = session.server
        if branch.transaction.changes and server.read_only and not session.is_root:
            return refused(READ_ONLY)
        if branch is session.branch:
            session.branch = session.transaction = None
        server.publish(session, branch.transaction)
        return Reply()

    return run


def _xa_roll_back(match: re.Match[str]) -> Control:
    xid = match["gtrid"], match["bqual"] or ""

    def run(session: SimulatedSession, _args: object, _done: Done) -> Reply:
        branch = _branch_to_end(session, xid, own_states=("IDLE", "PREPARED", "ROLLBACK ONLY"))
        if isinstance(branch, Reply):
            return branch
        if branch is session.branch:
            session.branch = session.transaction = None
        session.server.end_transaction(branch.transaction)
        return Reply()

    return run


def _branch_to_end(
    session: SimulatedSession, xid: tuple[str, str], *, own_states: tuple[str, ...]
) -> Branch | Reply:
    """The session's branch in one of `own_states`, or a prepared one without owner; else the error."""
    own = session.branch
    if own is not None and own.xid == xid:
        if own.state in own_states:
            return own
        return refused_in(own.state)
    if own is not None or session.transaction is not None or not session.autocommit:
        return refused(XA_OUTSIDE)
    branch = session.server.branches.get(xid)
    if branch is None or branch.owner is not None:
        return refused(XA_UNKNOWN)
    return branch


def _xa_recover(session: SimulatedSession, _args: object, _done: Done) -> Reply:
    rows: list[tuple[Any, ...]] = [
        (1, len(gtrid), len(bqual), gtrid + bqual)
        for (gtrid, bqual), branch in session.server.branches.items()
        if branch.state == "PREPARED"
    ]
    return Reply(rows)


def _plain(control: Control) -> Callable[[re.Match[str]], Control]:
    return lambda _match: control


_XID: Final = r"'(?P<gtrid>[^']*)'(?:\s*,\s*'(?P<bqual>[^']*)')?"
_SOURCES: Final[tuple[tuple[str, Callable[[re.Match[str]], Control]], ...]] = (
    (r"COMMIT", _plain(_commit)),
    (r"ROLLBACK", _plain(_roll_back)),
    (r"BEGIN|START TRANSACTION", _plain(_begin)),
    (r"SET AUTOCOMMIT = ([01])", _set_autocommit),
    (r"SET SESSION .*", _set_session),
    (r"SET NAMES .*", _plain(lambda *_: Reply())),
    (r"SELECT GET_LOCK\(%s, %s\)", _get_lock),
    (r"SELECT IS_USED_LOCK\(%s\)", _plain(_is_used_lock)),
    (r"SELECT RELEASE_LOCK\(%s\)", _plain(_release_lock)),
    (r"SELECT CONNECTION_ID\(\)", _plain(lambda session, *_: Reply([(session.number,)]))),
    (r"KILL (?:(CONNECTION|QUERY) )?(\d+)", _kill),
    (r"SHOW GLOBAL STATUS WHERE Variable_name IN \('Connections', .*\)", _plain(_status)),
    (r"FLUSH STATUS", _plain(_flush_status)),
    (r"LOCK TABLES customer WRITE", _plain(_lock_customers)),
    (r"UNLOCK TABLES", _plain(_unlock_customers)),
    (rf"XA START {_XID}", _xa_start),
    (rf"XA END {_XID}", lambda match: _xa_step(match, "ACTIVE", "IDLE")),
    (rf"XA PREPARE {_XID}", lambda match: _xa_step(match, "IDLE", "PREPARED")),
    (rf"XA COMMIT {_XID}(?P<phase> ONE PHASE)?", _xa_commit),
    (rf"XA ROLLBACK {_XID}", _xa_roll_back),
    (r"XA RECOVER", _plain(_xa_recover)),
)
_PATTERNS: Final = tuple((re.compile(source, re.IGNORECASE), make) for source, make in _SOURCES)


def _select(sql: str, session: SimulatedSession, args: Sequence[object], done: Done) -> Reply | None:
    """Execute a user's SELECT. Raises `UnknownStatement` for a statement of the harness's own code."""
    begins = sql.lstrip().lower()
    is_select = begins.startswith(("select", "with"))
    if not session.is_lookups and not (is_select and "customer" in begins):
        raise UnknownStatement(sql)
    if not is_select:
        message = f"only SELECTs; {BY_SQLITE}: {sql}"
        return Reply(code=SYNTAX, message=message)
    server = session.server
    if server.customers_holder not in (None, session):
        _wait_for_customers(session, sql, args, done)
        return None
    if sql in {QUERY, QUERY_OF_PARTS}:
        return look_up(session, args)
    try:
        rows, slept_ms = server.tables.customers.select(sql, args)
    except StatementFailed as error:
        return Reply(code=error.code, message=error.message)
    if session.transaction is None and not session.autocommit:
        session.transaction = Transaction(server.tables)
    server.slept += server.slow_ms > 0
    return session.slept(sql, Reply(rows, more_ms=slept_ms + server.slow_ms))


def _wait_for_customers(session: SimulatedSession, sql: str, args: Sequence[object], done: Done) -> None:
    """Wait for the end of another session's LOCK TABLES; all waiting SELECTs then continue at once."""
    server = session.server
    waiting = server.customers_queue

    def leave() -> None:
        if go_on in waiting:
            waiting.remove(go_on)

    running = session.wait(sql, done, end_wait=leave, limit_ms=session.statement_ms, late=refused(TOO_LONG))

    def go_on() -> None:
        if session.running is running:
            running.end_wait = None
            session.stop(running)
            reply = _select(sql, session, args, done)
            if reply is not None:
                session.answer(done, reply)

    waiting.append(go_on)
