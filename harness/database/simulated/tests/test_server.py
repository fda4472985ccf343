"""The simulated server: what no script on two servers shows (`test_as_mariadb`): faults' settings, commits, time."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import harness.database
from harness.database.endpoint import QUERY
from harness.database.epoch import INSERT_OUTPUT
from harness.database.simulated.controls import control_of, executor_of
from harness.database.simulated.hub import Hub
from harness.database.simulated.server import (
    ConnectRefused,
    Reply,
    SimulatedServer,
    SimulatedSession,
    UnknownStatement,
)
from harness.database.simulated.statements import STATEMENTS
from harness.database.simulated.tables import Customers, Effects, SimulatedTables
from harness.database.simulated.tests.scripts import KEYED_SCRIPTS, SCRIPTS
from harness.database.simulated.tests.two_servers import ROWS, on_simulated
from harness.system.choices import Draw
from tools.cases import each

EPOCH = "INSERT INTO epoch (subtask, epoch, token, pos, elements) VALUES (%s, %s, %s, %s, %s)"
FENCE = "SELECT token FROM fence WHERE subtask = %s FOR UPDATE"
RAISE = (
    "UPDATE fence SET token = token + 1, ended = 0, origin_ms = COALESCE(origin_ms, %s) WHERE subtask = %s"
)


class Rig:
    """A server of three subtasks, and what its clients are answered, in order, with the instant."""

    def __init__(self) -> None:
        self.hub = Hub(Draw(1, "test"), limit_ms=10_000_000, steps_max=100_000)
        self.tables = SimulatedTables(subtasks=3, customers=Customers(ROWS))
        self.commits: list[tuple[int, Effects]] = []
        self.server = SimulatedServer(
            hub=self.hub, tables=self.tables, on_commit=self._committed, executor=executor_of
        )
        self.answers: list[tuple[int, str, Reply]] = []

    def _committed(self, session: SimulatedSession, effects: Effects) -> None:
        self.commits.append((session.number, effects))

    def session(self, **kind: bool) -> SimulatedSession:
        """One that has AUTOCOMMIT = 0, but for a lookup's."""
        session = self.server.open_session(
            is_root=kind.get("is_root", False), is_lookups=kind.get("is_lookups", False)
        )
        if not session.is_lookups:
            session.execute("SET AUTOCOMMIT = 0", None, lambda _: None)
        return session

    def done(self, name: str) -> Callable[[Reply], None]:
        return lambda reply: self.answers.append((self.hub.now_ms, name, reply))

    def ask(self, session: SimulatedSession, sql: str, args: Any = ()) -> Reply | None:
        """The answer, if it is given at once."""
        given: list[Reply] = []
        return session.execute(sql, args, given.append) or (given[0] if given else None)

    def codes(self) -> list[tuple[int, str, int | None]]:
        return [(at_ms, name, reply.code) for at_ms, name, reply in self.answers]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def code(reply: Reply | None) -> int | None:
    assert reply is not None, "the statement waits"
    return reply.code


def rows_of(reply: Reply | None) -> list[tuple[Any, ...]]:
    assert reply is not None, "the statement waits"
    return reply.rows or []


_SQL = re.compile(r"(SELECT|INSERT|UPDATE|DELETE|REPLACE|KILL|SET|SHOW|FLUSH|XA [A-Z]+)(?= |$)")


def sent_by(module: Path) -> Iterator[str]:
    """The texts of statements in a module; of f-strings, with 1 for what is filled in."""
    tree = ast.parse(module.read_text("utf-8"))
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in formatted for part in node.values}
    texts = [
        "".join(
            str(getattr(part, "value", 1)) if isinstance(part, ast.Constant) else "1" for part in node.values
        )
        for node in formatted
    ]
    texts += [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts
    ]
    return (text for text in texts if _SQL.match(text))


def is_known(sql: str) -> bool:
    return sql in STATEMENTS or any(
        control_of(text) for text in (sql, re.sub("^(XA [A-Z]+) 1", r"\1 '1','1'", sql))
    )


@each(
    "module",
    ["audit", "coordinated_sink", "coordinator", "epoch", "pool", "sink", "stored_tables", "transactions"],
)
def test_every_statement_of_the_harness_is_known(module: str) -> None:
    sent = list(sent_by(Path(harness.database.__file__).parent / f"{module}.py"))

    assert sent
    elsewhere = [
        sql for sql in sent if "generation" in sql or "GREATEST" in sql
    ]  # sim: no driver, no failover
    assert [sql for sql in sent if not is_known(sql) and sql not in elsewhere] == []


@each("name", [*SCRIPTS, *KEYED_SCRIPTS])
def test_two_runs_of_a_script_are_equal(name: str) -> None:
    scripts, keyed = (SCRIPTS, False) if name in SCRIPTS else (KEYED_SCRIPTS, True)

    assert on_simulated(scripts[name], keyed=keyed) == on_simulated(scripts[name], keyed=keyed)


def test_a_commit_tells_what_became_visible_in_the_order_of_commits(rig: Rig) -> None:
    a, b = rig.session(), rig.session()
    a.execute(INSERT_OUTPUT, [(0, 1, 0, "1", 1, 1), (0, 2, 0, "2", 1, 1)], rig.done("a"), many=True)
    rig.ask(b, INSERT_OUTPUT, (1, 7, 0, "7", 1, 4))
    rig.ask(a, EPOCH, (0, 1, 1, 2, "[]"))

    rig.ask(b, "COMMIT")
    rig.ask(a, "COMMIT")

    assert [(number, effects.epochs) for number, effects in rig.commits] == [(2, []), (1, [(0, 1, 1)])]
    assert [(row.seq, row.id) for _, effects in rig.commits for row in effects.outputs] == [
        (1, 7),
        (2, 1),
        (3, 2),
    ]


def test_nothing_is_told_of_a_commit_that_wrote_nothing(rig: Rig) -> None:
    a = rig.session()
    rig.ask(a, FENCE, (0,))

    rig.ask(a, "COMMIT")

    assert rig.commits == []


def test_a_wait_for_a_row_ends_after_the_session_s_own_limit(rig: Rig) -> None:
    a, b = rig.session(), rig.session()
    rig.ask(b, "SET SESSION innodb_lock_wait_timeout = 2")
    rig.ask(a, FENCE, (0,))
    b.execute(FENCE, (0,), rig.done("b"))

    rig.hub.run()

    assert rig.codes() == [(2000, "b", 1205)]


def test_whoever_is_abandoned_leaves_the_queue_and_keeps_its_locks(rig: Rig) -> None:
    a, b, c = (rig.session() for _ in range(3))
    rig.ask(a, FENCE, (0,))
    rig.ask(b, FENCE, (1,))
    b.execute(FENCE, (0,), rig.done("b"))
    b.abandon()
    c.execute(FENCE, (0,), rig.done("c"))

    rig.ask(a, "ROLLBACK")
    waits = rig.ask(a, FENCE, (1,)) is None
    b.end()

    assert (rig.codes(), waits) == ([(0, "c", None)], True)


def test_a_restart_ends_all_sessions_and_keeps_what_is_committed_or_prepared(rig: Rig) -> None:
    a, b, c = (rig.session() for _ in range(3))
    ended: list[int] = []
    a.on_end = b.on_end = c.on_end = ended.append
    rig.ask(a, RAISE, (5, 0))
    rig.ask(a, "COMMIT")
    rig.ask(b, "XA START 'run:0','1:1'")
    rig.ask(b, EPOCH, (0, 1, 1, 2, "[]"))
    rig.ask(b, "XA END 'run:0','1:1'")
    rig.ask(b, "XA PREPARE 'run:0','1:1'")
    rig.ask(a, RAISE, (5, 1))
    c.execute(FENCE, (1,), rig.done("c"))

    rig.server.restart()

    d = rig.server.open_session()
    recovered = rig.ask(d, "XA RECOVER")
    assert recovered is not None
    assert recovered.rows == [(1, 5, 3, "run:01:1")]
    assert (rig.codes(), ended) == ([(0, "c", 1053)], [1053] * 3)
    assert [rig.tables.fence.newest(subtask) for subtask in (0, 1)] == [(1, 5, 0), (0, None, 0)]
    assert code(rig.ask(d, "XA COMMIT 'run:0','1:1'")) is None
    assert rig.commits[-1][1].epochs == [(0, 1, 1)]


def test_a_full_disk_refuses_rows_and_lets_fences_be_raised(rig: Rig) -> None:
    a = rig.session()
    rig.server.disk_full = True

    answers = [
        rig.ask(a, RAISE, (5, 0)),
        rig.ask(a, INSERT_OUTPUT, (0, 1, 0, "1", 1, 1)),
        rig.ask(a, "COMMIT"),
    ]

    assert [code(answer) for answer in answers] == [None, 1114, None]


def test_a_deadlock_to_make_meets_the_next_epoch_row_and_rolls_its_transaction_back(rig: Rig) -> None:
    a, b = rig.session(), rig.session()
    rig.server.deadlocks_to_make = 1
    rig.ask(a, FENCE, (0,))
    b.execute(FENCE, (0,), rig.done("b"))

    first, second = rig.ask(a, EPOCH, (0, 1, 1, 2, "[]")), rig.ask(a, EPOCH, (0, 1, 1, 2, "[]"))

    assert (code(first), code(second), rig.codes()) == (1213, None, [(0, "b", None)])


def test_fences_that_a_fault_holds_are_waited_for(rig: Rig) -> None:
    a, b = rig.session(), rig.session()
    rig.ask(a, FENCE, (1,))
    holder = rig.server.hold_fences(2)
    rig.ask(a, "ROLLBACK")
    b.execute(FENCE, (0,), rig.done("b"))
    not_held = code(rig.ask(a, FENCE, (2,)))

    waits = not rig.answers
    holder.end()

    assert (waits, not_held, rig.codes()) == (True, None, [(0, "b", None)])


@pytest.mark.parametrize(("what", "expected"), [("column", 1054), ("table", 1146), (None, None)])
def test_a_schema_change_shows_in_the_reference_lookup_and_in_a_user_s(
    rig: Rig, what: str | None, expected: int | None
) -> None:
    session = rig.session(is_lookups=True)
    rig.tables.customers.rename("column")
    rig.tables.customers.rename(what)

    answers = [
        rig.ask(session, QUERY, (0, 1, 0, 2)),
        rig.ask(session, "SELECT city FROM customer WHERE k = %s", (2,)),
    ]

    assert [code(answer) for answer in answers] == [expected, expected]


def test_deleted_rows_come_back_in_every_kind_of_select(rig: Rig) -> None:
    session = rig.session(is_lookups=True)
    asked = [(QUERY, (0, 1, 0, 2)), ("SELECT tier, ver FROM customer WHERE k = %s", (2,))]
    before = [rig.ask(session, *one) for one in asked]

    rig.tables.customers.change([2], version=1, deletes=True)
    gone = [rig.ask(session, *one) for one in asked]
    rig.tables.customers.change([2], version=2, deletes=True)
    back = [rig.ask(session, *one) for one in asked]

    tiers = [[row[2] for row in rows_of(answers[0])] for answers in (before, gone, back)]
    assert tiers[1] == [None]
    assert tiers[2] == [tiers[0][0] + 1]
    assert [rows_of(answers[1]) for answers in (gone, back)] == [[], [(tiers[2][0], 2)]]


def test_a_statement_that_is_larger_than_a_packet_ends_its_session(rig: Rig) -> None:
    rig.server.packet_bytes_max = 1024
    a = rig.session()
    ended: list[int] = []
    a.on_end = ended.append

    small = rig.ask(a, INSERT_OUTPUT, (0, 1, 0, "1", 1, 1))
    large = rig.ask(a, INSERT_OUTPUT, (0, 1, 0, "1" * 2000, 1, 1))

    assert (code(small), code(large), a.alive, ended, rig.server.sessions) == (None, 1153, False, [1153], {})


def test_a_full_or_offline_server_lets_root_in_and_nobody_else(rig: Rig) -> None:
    rig.session()
    rig.server.sessions_max = 1
    with pytest.raises(ConnectRefused) as full:
        rig.session()
    rig.server.sessions_max, rig.server.is_offline = None, True
    with pytest.raises(ConnectRefused) as offline:
        rig.session()

    assert rig.session(is_root=True).alive
    assert (full.value.code, offline.value.code) == (1040, 3032)


def test_a_session_that_is_silent_for_too_long_is_ended_and_one_that_waits_is_not(rig: Rig) -> None:
    limits = (
        "SET SESSION wait_timeout = CAST(LEAST(@@GLOBAL.wait_timeout, 60) AS UNSIGNED),"
        " innodb_lock_wait_timeout = 100"
    )
    a, b = rig.session(), rig.session()
    rig.ask(b, limits)
    ended: list[tuple[int, int]] = []
    b.on_end = lambda code: ended.append((rig.hub.now_ms, code))
    rig.ask(a, FENCE, (0,))
    b.execute(FENCE, (0,), rig.done("b"))

    rig.hub.run()

    assert (rig.codes(), ended) == ([(100_000, "b", 1205)], [(160_000, 4031)])


def test_a_sleeping_lookup_is_killed_in_its_sleep(rig: Rig) -> None:
    session = rig.session(is_lookups=True)
    instead: list[Reply] = []
    session.on_interrupt = instead.append
    reply = rig.ask(session, QUERY, (0, 1, 0.05, 2))
    hits: list[bool] = []
    rig.hub.at(20, lambda: hits.append(rig.server.kill_query(session.number)))
    rig.hub.at(21, lambda: hits.append(rig.server.kill_query(session.number)))

    rig.hub.run()

    assert reply is not None
    assert (reply.more_ms, hits, [one.code for one in instead]) == (50, [True, False], [1317])


def test_a_slow_table_makes_lookups_take_longer(rig: Rig) -> None:
    session = rig.session(is_lookups=True)
    rig.server.slow_ms = 30

    replies = [
        rig.ask(session, QUERY, (0, 1, 0.05, 2)),
        rig.ask(session, "SELECT SLEEP(%s), name FROM customer WHERE k = %s", (0.02, 2)),
    ]

    assert [reply and reply.more_ms for reply in replies] == [80, 50]


def test_an_unknown_statement_of_ours_is_an_error_that_names_it(rig: Rig) -> None:
    with pytest.raises(UnknownStatement, match="TRUNCATE fence"):
        rig.ask(rig.session(), "TRUNCATE fence")


def test_a_user_s_write_is_refused_with_a_sentence(rig: Rig) -> None:
    reply = rig.ask(rig.session(is_lookups=True), "UPDATE customer SET tier = 1")

    assert code(reply) == 1064
    assert reply is not None
    assert "SQLite" in reply.message


def test_who_waits_for_a_transaction_goes_on_at_the_instant_of_its_commit(rig: Rig) -> None:
    a, b = rig.session(), rig.session()
    rig.ask(a, FENCE, (0,))
    b.execute(FENCE, (0,), rig.done("b"))

    answer = rig.ask(a, "COMMIT")

    assert (code(answer), rig.codes()) == (None, [(0, "b", None)])
