"""Transactions of a writer: made again as a whole by the class of the error, with one session alive at a time."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import Any, ClassVar

import pymysql
import pytest

from harness.database.driver import MySqlDriver
from harness.database.endpoint import connect
from harness.database.epoch import Fenced, SinkLost, Visible
from harness.database.sink import EpochSink
from harness.database.tests.conftest import RunDatabase
from harness.system.clock import Deadline, wait_until

pytestmark = pytest.mark.real

LIMIT_S = 60.0
FENCED_ROW = "SELECT token FROM fence WHERE subtask = 1 FOR UPDATE"


@pytest.fixture
def sink(database: RunDatabase) -> Iterator[EpochSink]:
    """Subtask 1's first attempt."""
    made = EpochSink(MySqlDriver(database.sink), subtask=1)
    made.take_over(now_ms=1)
    yield made
    made.close()


def told(sink: EpochSink) -> tuple[list[int | str], list[int | str]]:
    lost: list[int | str] = []
    errors: list[int | str] = []
    sink.listen(on_loss=lost.append, on_error=errors.append)
    return lost, errors


def add(sink: EpochSink, *ids: int) -> None:
    for id_ in ids:
        sink.add(Visible(id=id_, j=0, value=None))


def ids(database: RunDatabase) -> list[int]:
    return [row[0] for row in database.rows("SELECT id FROM output ORDER BY seq")]


def sessions(database: RunDatabase) -> list[int]:
    sql = (
        "SELECT id FROM information_schema.processlist"
        f" WHERE db = '{database.root.database}' AND id <> CONNECTION_ID()"
    )
    return [row[0] for row in database.rows(sql)]


def test_a_lock_that_another_transaction_holds_delays_a_commit_and_is_told(
    database: RunDatabase, sink: EpochSink
) -> None:
    lost, errors = told(sink)
    add(sink, 1, 3)
    with connect(database.root) as other, other.cursor() as cursor:
        cursor.execute(FENCED_ROW)

        def let_go() -> None:
            assert wait_until(lambda: bool(errors), deadline=Deadline(LIMIT_S))
            other.rollback()

        thread = Thread(target=let_go)
        thread.start()
        sink.commit(1, position=3, elements=[])
        thread.join(timeout=LIMIT_S)

    assert (ids(database), lost, set(errors)) == ([1, 3], [], {1205})


def test_a_server_that_only_reads_is_waited_for(database: RunDatabase, sink: EpochSink) -> None:
    lost, errors = told(sink)
    add(sink, 1)
    database.rows("SET GLOBAL read_only = 1")

    def heal() -> None:
        try:
            assert wait_until(lambda: len(errors) > 1, deadline=Deadline(LIMIT_S))
        finally:
            database.rows("SET GLOBAL read_only = 0")

    thread = Thread(target=heal)
    thread.start()
    sink.commit(1, position=1, elements=[])
    thread.join(timeout=LIMIT_S)

    assert (ids(database), lost, set(errors)) == ([1], [], {1290})


def test_a_deadlock_has_the_transaction_made_again_as_a_whole(database: RunDatabase, sink: EpochSink) -> None:
    lost, errors = told(sink)
    add(sink, 1, 3)
    reached: list[str] = []

    def once(phase: str) -> None:
        reached.append(phase)
        if len(reached) == 1:
            raise pymysql.OperationalError(1213, "Deadlock found")

    sink.reach = once

    sink.commit(1, position=3, elements=[])

    assert (ids(database), lost, errors) == ([1, 3], [], [1213])
    assert reached == ["commit.pre", "commit.pre"]


def test_a_killed_session_is_a_loss_and_the_epoch_is_written_once(
    database: RunDatabase, sink: EpochSink
) -> None:
    lost, _ = told(sink)
    add(sink, 1, 3)

    def killed_once(phase: str) -> None:
        if not lost:
            for session in sessions(database):
                database.rows(f"KILL {session}")

    sink.reach = killed_once

    sink.commit(1, position=3, elements=[])

    assert ids(database) == [1, 3]
    assert len(lost) == 1


def test_an_error_that_no_repetition_helps_against_goes_up_at_once(
    database: RunDatabase, sink: EpochSink
) -> None:
    lost, errors = told(sink)
    database.execute("ALTER TABLE output DROP COLUMN v", [()])
    add(sink, 1)

    with pytest.raises(pymysql.MySQLError) as refused:
        sink.commit(1, position=1, elements=[])

    assert (refused.value.args[0], lost, errors) == (1054, [], [1054])


def test_a_transaction_that_cannot_be_made_is_given_up_with_what_it_was_about(
    database: RunDatabase, sink: EpochSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.database.transactions.SETTLE_S", 0.2)
    database.rows("SET GLOBAL read_only = 1")
    add(sink, 1)

    try:
        with pytest.raises(SinkLost, match=r"could not commit epoch 7 within 0.2 s: .*1290"):
            sink.commit(7, position=1, elements=[])
    finally:
        database.rows("SET GLOBAL read_only = 0")


def freeze(sink: EpochSink) -> Any:
    """As a frozen attempt leaves it: a transaction is open, and holds the lock of the fence."""
    cursor = sink.transactions.open().cursor()
    cursor.execute(FENCED_ROW)
    return cursor


def test_a_frozen_attempt_that_holds_the_fence_is_ended_by_its_successor(
    database: RunDatabase, sink: EpochSink
) -> None:
    frozen = freeze(sink)
    (session,) = sessions(database)

    successor = EpochSink(MySqlDriver(database.sink), subtask=1)
    attempt = successor.take_over(now_ms=1)

    assert attempt.number == 2
    assert session not in sessions(database)
    with pytest.raises((pymysql.MySQLError, OSError)):
        frozen.execute("SELECT 1")
    successor.close()


def test_a_frozen_attempt_that_wakes_up_is_fenced_and_does_not_end_its_successors_session(
    database: RunDatabase, sink: EpochSink
) -> None:
    freeze(sink)
    successor = EpochSink(MySqlDriver(database.sink), subtask=1)
    successor.take_over(now_ms=1)
    add(successor, 5)
    successor.commit(1, position=5, elements=[])
    add(sink, 1, 3)

    with pytest.raises(Fenced, match="attempt 1 of subtask 1 is fenced: attempt 2 took over"):
        sink.commit(1, position=3, elements=[])
    add(successor, 7)
    successor.commit(2, position=7, elements=[])

    assert ids(database) == [5, 7]
    successor.close()


def test_an_attempt_ends_its_own_session_that_was_left_behind_on_a_dead_link(
    database: RunDatabase, sink: EpochSink
) -> None:
    left_behind = freeze(sink)
    (session,) = sessions(database)
    sink.transactions._connection = None  # as after a lost link of which the server has not heard
    add(sink, 1)

    sink.commit(1, position=1, elements=[])

    assert ids(database) == [1]
    assert session not in sessions(database)
    assert left_behind.connection is not None


class RefusedKill(pymysql.cursors.Cursor):
    """The server refuses to KILL, and the session that was meant ends by itself."""

    ends: ClassVar[list[Any]]
    code: ClassVar[int]

    def execute(self, query: str, args: Any = None) -> int:
        if query.startswith("KILL") and self.ends:
            self.ends.pop().connection.close()
            raise pymysql.OperationalError(self.code, "refused")
        return super().execute(query, args)


@pytest.mark.parametrize("code", [1094, 1095])
def test_a_session_that_ends_while_it_is_being_killed_is_no_failure(
    database: RunDatabase, sink: EpochSink, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    refused = type("Refused", (RefusedKill,), {"ends": [freeze(sink)], "code": code})
    successor = EpochSink(MySqlDriver(database.sink), subtask=1)

    with monkeypatch.context() as patched:
        patched.setattr(pymysql.connections.Connection, "cursor", lambda self, _=None: refused(self))
        attempt = successor.take_over(now_ms=1)

    assert refused.ends == []  # type: ignore[attr-defined]
    assert attempt.number == 2
    successor.close()


class LostKill(pymysql.cursors.Cursor):
    """A KILL that is answered, and ends nobody."""

    def execute(self, query: str, args: Any = None) -> int:
        return 0 if query.startswith("KILL") else super().execute(query, args)


def test_while_the_session_before_it_lives_a_successor_does_not_raise_the_token_trust7(
    database: RunDatabase, sink: EpochSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the order of take-overs and commits hangs on the writer's name as well as on the lock of the fence's row."""
    add(sink, 1)
    sink.commit(1, position=1, elements=[])
    monkeypatch.setattr("harness.database.transactions.SETTLE_S", 0.2)
    successor = EpochSink(MySqlDriver(database.sink), subtask=1)

    with monkeypatch.context() as patched:
        patched.setattr(pymysql.connections.Connection, "cursor", lambda self, _=None: LostKill(self))
        with pytest.raises(SinkLost, match="is still held by another session"):
            successor.take_over(now_ms=1)
    add(sink, 3)
    sink.commit(2, position=3, elements=[])

    assert (ids(database), database.rows("SELECT token FROM fence WHERE subtask = 1")) == ([1, 3], [(1,)])
    successor.close()


def test_a_session_of_a_sink_has_limits_on_the_servers_side(database: RunDatabase, sink: EpochSink) -> None:
    with sink.transactions.open().cursor() as cursor:
        cursor.execute("SELECT @@SESSION.wait_timeout, @@SESSION.innodb_lock_wait_timeout")
        assert cursor.fetchone() == (60, 2)


def test_dead_letters_are_written_with_the_epoch_or_not_at_all(
    database: RunDatabase, sink: EpochSink
) -> None:
    add(sink, 1)
    sink.write_dead_letter(id=2, error="ValueError: no")
    rows = "SELECT subtask, id, error, epoch, token FROM dead_letter"

    assert database.rows(rows) == []
    sink.commit(1, position=1, elements=[])

    assert database.rows(rows) == [(1, 2, "ValueError: no", 1, 1)]
