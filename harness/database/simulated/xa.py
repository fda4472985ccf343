"""XA statements of the simulated server: START, END, PREPARE, COMMIT, ROLLBACK and RECOVER of branches.

Answers to MariaDB 10.5 and later, where a prepared branch outlives its session. Invariant: a prepared branch
keeps its locks until a session commits it or rolls it back, across sessions and restarts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from harness.database.simulated.replies import (
    READ_ONLY,
    XA_DEADLOCK,
    XA_DUPLICATE,
    XA_OUTSIDE,
    XA_STATE,
    XA_UNKNOWN,
    Done,
    in_state,
)
from harness.database.simulated.server import Control, SimulatedSession
from harness.database.simulated.tables import Branch, Transaction


def _xa_start(match: re.Match[str]) -> Control:
    xid = match["gtrid"], match["bqual"] or ""

    def run(session: SimulatedSession, _args: Any, done: Done) -> None:
        server = session.server
        if session.branch is not None:
            session.refuse_in_branch(session.branch, done)
        elif session.transaction is not None:
            session.refuse(done, XA_OUTSIDE)
        elif xid in server.branches:
            session.refuse(done, XA_DUPLICATE)
        else:
            session.transaction = Transaction(server.tables)
            session.branch = server.branches[xid] = Branch(xid, session.transaction, owner=session)
            session.ok(done)

    return run


def _xa_step(match: re.Match[str], before: str, after: str) -> Control:
    """XA END and XA PREPARE: move the session's branch from state `before` to `after`."""
    xid = match["gtrid"], match["bqual"] or ""

    def run(session: SimulatedSession, _args: Any, done: Done) -> None:
        branch = session.branch
        if branch is None:
            session.fail(done, XA_STATE, in_state("NON-EXISTING"))
        elif branch.state != before:
            session.refuse_in_branch(branch, done)
        elif branch.xid != xid:
            session.refuse(done, XA_UNKNOWN)
        else:
            branch.state = after
            session.ok(done)

    return run


def _xa_end(match: re.Match[str]) -> Control:
    return _xa_step(match, "ACTIVE", "IDLE")


def _xa_prepare(match: re.Match[str]) -> Control:
    return _xa_step(match, "IDLE", "PREPARED")


def _xa_commit(match: re.Match[str]) -> Control:
    xid, needed = (match["gtrid"], match["bqual"] or ""), "IDLE" if match["phase"] else "PREPARED"

    def run(session: SimulatedSession, _args: Any, done: Done) -> None:
        own = session.branch
        if own is not None and own.xid == xid and own.state == "ROLLBACK ONLY":
            session.roll_back()
            session.refuse(done, XA_DEADLOCK)
            return
        branch = _branch_to_end(session, xid, done, own_states=(needed,))
        if branch is None:
            return
        server = session.server
        if branch.transaction.wrote and server.read_only and not session.is_root:
            session.refuse(done, READ_ONLY)
            return
        if branch is session.branch:
            session.branch = session.transaction = None
        server.publish(session, branch.transaction)
        session.ok(done)

    return run


def _xa_roll_back(match: re.Match[str]) -> Control:
    xid = match["gtrid"], match["bqual"] or ""

    def run(session: SimulatedSession, _args: Any, done: Done) -> None:
        branch = _branch_to_end(session, xid, done, own_states=("IDLE", "PREPARED", "ROLLBACK ONLY"))
        if branch is None:
            return
        if branch is session.branch:
            session.branch = session.transaction = None
        session.server.end_transaction(branch.transaction)
        session.ok(done)

    return run


def _branch_to_end(
    session: SimulatedSession, xid: tuple[str, str], done: Done, *, own_states: tuple[str, ...]
) -> Branch | None:
    """The session's branch in one of `own_states`, or a prepared one without owner; None: sent an error."""
    own = session.branch
    if own is not None and own.xid == xid:
        if own.state in own_states:
            return own
        session.refuse_in_branch(own, done)
        return None
    if own is not None or session.transaction is not None or not session.autocommit:
        session.refuse(done, XA_OUTSIDE)
        return None
    branch = session.server.branches.get(xid)
    if branch is None or branch.owner is not None:
        session.refuse(done, XA_UNKNOWN)
        return None
    return branch


def _xa_recover(session: SimulatedSession, _args: Any, done: Done) -> None:
    rows: list[tuple[Any, ...]] = [
        (1, len(gtrid), len(bqual), gtrid + bqual)
        for (gtrid, bqual), branch in session.server.branches.items()
        if branch.state == "PREPARED"
    ]
    session.ok(done, rows)


_XID: Final = r"'(?P<gtrid>[^']*)'(?:\s*,\s*'(?P<bqual>[^']*)')?"
XA_PATTERNS: Final[tuple[tuple[str, Callable[[re.Match[str]], Control]], ...]] = (
    (rf"XA START {_XID}", _xa_start),
    (rf"XA END {_XID}", _xa_end),
    (rf"XA PREPARE {_XID}", _xa_prepare),
    (rf"XA COMMIT {_XID}(?P<phase> ONE PHASE)?", _xa_commit),
    (rf"XA ROLLBACK {_XID}", _xa_roll_back),
    (r"XA RECOVER", lambda _: _xa_recover),
)
"""(pattern source, function that makes the statement's executor from the match)."""
