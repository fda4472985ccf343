"""Statements outside `statements.STATEMENTS`: on transactions, sessions, locks by name; a user's SELECTs.

A statement is matched by its pattern and cached by its text; one without a pattern is a user's lookup, which
SQLite executes. A SELECT waits for LOCK TABLES, fails on a renamed column or table, sleeps in virtual time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

from harness.database.endpoint import QUERY, QUERY_OF_PARTS
from harness.database.simulated.replies import (
    INTERRUPTED,
    KILLED,
    NO_SUCH_SESSION,
    SYNTAX,
    TOO_LONG,
    Done,
    Reply,
    UnknownStatement,
    refused,
)
from harness.database.simulated.server import Control, SimulatedSession, look_up
from harness.database.simulated.tables import StatementFailed, Transaction
from harness.database.simulated.xa import XA_PATTERNS

_MS: Final = 1000


def executor_of(sql: str) -> Control:
    """The executor of a statement outside `STATEMENTS`; a text without a pattern is a user's SELECT."""
    control = control_of(sql)
    if control is not None:
        return control
    return lambda session, args, done: _select(session, sql, args, done)


@lru_cache(maxsize=1024)  # bounded: texts may contain numbers or names, so their set is unlimited
def control_of(sql: str) -> Control | None:
    """The executor of a statement on transactions, sessions or locks by name; None: no pattern matches."""
    for pattern, make in _PATTERNS:
        match = pattern.fullmatch(sql.strip())
        if match is not None:
            return make(match)
    return None


def _set_autocommit(match: re.Match[str]) -> Control:
    on = match[1] == "1"

    def run(session: SimulatedSession, _args: Any, done: Done) -> None:
        if session.branch is not None and on:
            session.refuse_in_branch(session.branch, done)
            return
        code = session.commit() if on and not session.autocommit else None
        session.autocommit = on
        _end(session, done, code)

    return run


def _end(session: SimulatedSession, done: Done, code: int | None) -> None:
    if code is None:
        session.ok(done)
    else:
        session.refuse(done, code)


def _commit(session: SimulatedSession, _args: Any, done: Done) -> None:
    if session.branch is not None:
        session.refuse_in_branch(session.branch, done)
    else:
        _end(session, done, session.commit())


def _roll_back(session: SimulatedSession, _args: Any, done: Done) -> None:
    if session.branch is not None:
        session.refuse_in_branch(session.branch, done)
    else:
        session.roll_back()
        session.ok(done)


def _begin(session: SimulatedSession, _args: Any, done: Done) -> None:
    """BEGIN commits an open transaction first."""
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

    def run(session: SimulatedSession, _args: Any, done: Done) -> None:
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
    def run(session: SimulatedSession, args: Any, done: Done) -> None:
        name, seconds = args
        server, key = session.server, (session, name)
        if server.names.take(session, name):
            server.name_times[key] = server.name_times.get(key, 0) + 1
            session.ok(done, [(1,)])
        elif seconds <= 0:
            session.ok(done, [(0,)])
        else:
            running = session.wait(
                match[0],
                done,
                end_wait=partial(server.names.leave, session),
                limit_ms=round(seconds * _MS),
                late=Reply(rows=[(0,)], affected=1),
            )

            def granted() -> None:
                server.name_times[key] = 1
                server.ready.append(partial(session.wait_ended, running, Reply(rows=[(1,)], affected=1)))

            server.names.wait(session, name, granted)

    return run


def _is_used_lock(session: SimulatedSession, args: Any, done: Done) -> None:
    holder = session.server.names.holder(args[0])
    session.ok(done, [(None if holder is None else holder.number,)])


def _release_lock(session: SimulatedSession, args: Any, done: Done) -> None:
    """RELEASE_LOCK returns 1, 0 if another session holds the lock, NULL if the lock is free."""
    server, name = session.server, args[0]
    holder = server.names.holder(name)
    if holder is not session:
        session.ok(done, [(None if holder is None else 0,)])
        return
    key = (session, name)
    server.name_times[key] -= 1
    if not server.name_times[key]:
        del server.name_times[key]
        server.names.release(session, name)
    session.ok(done, [(1,)])


def _connection_id(session: SimulatedSession, _args: Any, done: Done) -> None:
    session.ok(done, [(session.number,)])


def _kill(match: re.Match[str]) -> Control:
    is_query, number = (match[1] or "").upper() == "QUERY", int(match[2])

    def run(session: SimulatedSession, _args: Any, done: Done) -> None:
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


def _nothing(session: SimulatedSession, _args: Any, done: Done) -> None:
    session.ok(done)


def _status(session: SimulatedSession, _args: Any, done: Done) -> None:
    server = session.server
    counts = {
        "Connections": server.opened,
        "Max_used_connections": server.at_once,
        "Threads_connected": len(server.sessions),
        "Uptime": server.hub.now_ms // _MS,
    }
    session.ok(done, [(name, str(count)) for name, count in counts.items()])


def _flush_status(session: SimulatedSession, _args: Any, done: Done) -> None:
    session.server.at_once = len(session.server.sessions)
    session.ok(done)


def _lock_customers(session: SimulatedSession, _args: Any, done: Done) -> None:
    """MariaDB would wait for open transactions that read the table; here the lock is granted at once."""
    session.server.lock_customers(session)
    session.ok(done)


def _unlock_customers(session: SimulatedSession, _args: Any, done: Done) -> None:
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


def _select(session: SimulatedSession, sql: str, args: Any, done: Done) -> None:
    """Execute a user's SELECT. Raises `UnknownStatement` for a statement of the harness's own code."""
    begins = sql.lstrip().lower()
    is_select = begins.startswith(("select", "with"))
    if not session.is_lookups and not (is_select and "customer" in begins):
        raise UnknownStatement(sql)
    if not is_select:
        message = f"at level sim a lookup's statements are executed by SQLite, and only SELECTs: {sql}"
        session.fail(done, SYNTAX, message)
        return
    server = session.server
    if server.customers_holder not in (None, session):
        _wait_for_customers(session, sql, args, done)
        return
    if sql in {QUERY, QUERY_OF_PARTS}:
        look_up(session, args, done)
        return
    try:
        rows, slept_ms = server.tables.customers.select(sql, args)
    except StatementFailed as error:
        session.fail(done, error.code, error.message)
        return
    if session.transaction is None and not session.autocommit:
        session.transaction = Transaction(server.tables)
    server.slept += server.slow_ms > 0
    session.slept(sql, Reply(rows=rows, affected=len(rows), more_ms=slept_ms + server.slow_ms), done)


def _wait_for_customers(session: SimulatedSession, sql: str, args: Any, done: Done) -> None:
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
            _select(session, sql, args, done)

    waiting.append(go_on)
