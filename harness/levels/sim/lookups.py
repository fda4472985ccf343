"""Statements of lookups on the simulated server: the reference lookup's from a dict, a user's SELECTs from SQLite.

Invariant: both wait for LOCK TABLES, both show a renamed column or table, and both sleep in the hub's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from harness.levels.sim.customers import Failed
from harness.levels.sim.replies import SYNTAX, TOO_LONG, Done, Reply, UnknownStatement, refused
from harness.levels.sim.tables import Transaction
from harness.sut.lookup import QUERY

if TYPE_CHECKING:
    from harness.levels.sim.session import Session

__all__ = ["look_up", "select"]

_MS: Final = 1000


def look_up(session: Session, args: Sequence[Any], done: Done) -> None:
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
        except Failed as error:
            done(Reply(code=error.code, message=error.message))
            return
    rows: list[tuple[Any, ...]] = (
        [(None, None, None, nonce, 0, dots)] if found is None else [(*row, nonce, 0, dots) for row in found]
    )
    if session.transaction is None and not session.autocommit:
        session.transaction = Transaction(server.tables)
    session.slept(QUERY, Reply(rows, len(rows), None, "", slept_ms), done)


def select(session: Session, sql: str, args: Any, done: Done) -> None:
    """A user's statement. Raises `UnknownStatement` if it came from the harness's own code."""
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
    if sql == QUERY:
        look_up(session, args, done)
        return
    try:
        rows, slept_ms = server.tables.customers.select(sql, args)
    except Failed as error:
        session.fail(done, error.code, error.message)
        return
    if session.transaction is None and not session.autocommit:
        session.transaction = Transaction(server.tables)
    server.slept += server.slow_ms > 0
    session.slept(sql, Reply(rows=rows, affected=len(rows), more_ms=slept_ms + server.slow_ms), done)


def _wait_for_customers(session: Session, sql: str, args: Any, done: Done) -> None:
    """LOCK TABLES is held by another; all who wait go on together."""
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
            select(session, sql, args, done)

    waiting.append(go_on)
