"""The sink: outputs and epoch in one transaction, fenced, and settled by the epoch row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pymysql
import pytest

from harness.database.audit import read_table, reading
from harness.database.driver import MySqlDriver
from harness.database.epoch import Fenced, SavedEpoch, SinkLost, Visible
from harness.database.sink import EpochSink
from harness.database.stored_tables import StoredRow, stored_value
from harness.database.tests.conftest import RunDatabase
from harness.faults.real.fault_site import ToxicRequest
from harness.system.clock import Deadline, wait_until

pytestmark = pytest.mark.real

LIMIT_S = 60.0
OUTPUTS = "SELECT subtask, id, j, v, epoch, token FROM output ORDER BY seq"
EPOCHS = "SELECT subtask, epoch, token, pos, elements FROM epoch ORDER BY subtask, epoch"


@pytest.fixture
def sink(database: RunDatabase) -> Iterator[EpochSink]:
    """Subtask 1's first attempt."""
    made = EpochSink(MySqlDriver(database.sink), subtask=1)
    made.take_over(now_ms=1000)
    yield made
    made.close()


def add(sink: EpochSink, *ids: int) -> None:
    for id_ in ids:
        sink.add(Visible(id=id_, j=0, value={"name": f"é{id_}"}))


def ids(database: RunDatabase) -> list[int]:
    return [row[1] for row in database.rows(OUTPUTS)]


def epochs(database: RunDatabase) -> list[tuple[int, int]]:
    """(epoch, token) of each."""
    return [(row[1], row[2]) for row in database.rows(EPOCHS)]


def test_nothing_is_visible_before_the_commit(database: RunDatabase, sink: EpochSink) -> None:
    add(sink, 1, 3)

    assert ids(database) == []


def test_a_commit_makes_outputs_and_snapshot_visible_together(database: RunDatabase, sink: EpochSink) -> None:
    add(sink, 1, 3)

    sink.commit(1, position=9, elements=[{"w": 5, "pos": 8}])

    assert database.rows(OUTPUTS) == [
        (1, 1, 0, '{"name": "\\u00e91"}', 1, 1),
        (1, 3, 0, '{"name": "\\u00e93"}', 1, 1),
    ]
    assert database.rows(EPOCHS) == [(1, 1, 1, 9, '[{"w": 5, "pos": 8}]')]


def test_an_epoch_holds_only_what_was_added_since_the_last(database: RunDatabase, sink: EpochSink) -> None:
    add(sink, 1)
    sink.commit(1, position=1, elements=[])
    sink.commit(2, position=2, elements=[])
    add(sink, 3)
    sink.commit(3, position=3, elements=[])

    assert [(row[1], row[4]) for row in database.rows(OUTPUTS)] == [(1, 1), (3, 3)]
    assert epochs(database) == [(1, 1), (2, 1), (3, 1)]


def test_an_epoch_that_cannot_be_written_leaves_none_of_its_outputs(
    database: RunDatabase, sink: EpochSink
) -> None:
    database.execute("ALTER TABLE epoch DROP COLUMN elements", [()])
    add(sink, 1, 3)

    with pytest.raises(pymysql.MySQLError, match="elements"):
        sink.commit(1, position=9, elements=[])

    assert ids(database) == []


def test_every_output_is_in_the_audit_log_that_the_database_keeps(
    database: RunDatabase, sink: EpochSink
) -> None:
    add(sink, 1, 3)
    sink.commit(1, position=9, elements=[])
    database.execute(
        "INSERT INTO output (subtask, id, j, v, epoch, token) VALUES (%s, %s, 0, '5', 0, 0)", [(0, 8)]
    )

    rows: list[StoredRow] = []
    with reading(database.root) as tables:
        read_table(tables, "audit", rows.append)

    assert [(row.subtask, row.id, stored_value(row.text), row.token) for row in rows] == [
        (1, 1, {"name": "é1"}, 1),
        (1, 3, {"name": "é3"}, 1),
        (0, 8, 5, 0),
    ]


def test_the_first_attempt_starts_from_nothing(database: RunDatabase) -> None:
    attempt = EpochSink(MySqlDriver(database.sink), subtask=0).take_over(now_ms=777)

    assert (attempt.number, attempt.origin_ms, attempt.saved) == (1, 777, None)


def test_a_later_attempt_has_the_next_token_the_first_ones_origin_and_the_last_epoch(
    database: RunDatabase, sink: EpochSink
) -> None:
    sink.commit(1, position=4, elements=[])
    sink.commit(2, position=9, elements=[{"w": 1, "pos": 8}])

    attempt = EpochSink(MySqlDriver(database.sink), subtask=1).take_over(now_ms=9999)

    assert (attempt.number, attempt.origin_ms) == (2, 1000)
    assert attempt.saved == SavedEpoch(epoch=2, position=9, elements=[{"w": 1, "pos": 8}])


def test_subtasks_do_not_fence_each_other(database: RunDatabase, sink: EpochSink) -> None:
    other = EpochSink(MySqlDriver(database.sink), subtask=0)

    assert other.take_over(now_ms=1).number == 1
    sink.commit(1, position=1, elements=[])
    other.commit(1, position=1, elements=[])

    assert epochs(database) == [(1, 1), (1, 1)]


def test_a_fenced_attempt_is_refused_and_leaves_nothing(database: RunDatabase, sink: EpochSink) -> None:
    EpochSink(MySqlDriver(database.sink), subtask=1).take_over(now_ms=1)
    add(sink, 1, 3)

    with pytest.raises(Fenced, match="attempt 1 of subtask 1 is fenced: attempt 2 took over"):
        sink.commit(1, position=9, elements=[])

    assert (ids(database), epochs(database)) == ([], [])


def at_commit(sink: EpochSink, act: Callable[[], None]) -> None:
    """Call `act` once, between the last statement of the sink's next transaction and its COMMIT."""
    connection: Any = sink.transactions.open()
    commit = connection.commit

    def acting() -> None:
        connection.commit = commit
        act()
        commit()

    connection.commit = acting


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """`work` on a thread, which has ended when the block has."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again on the test's own thread
            errors.append(error)

    thread = Thread(target=guarded)
    thread.start()
    try:
        yield
    finally:
        thread.join(timeout=2 * LIMIT_S)
    assert not thread.is_alive()
    assert not errors, errors


def swallow(database: RunDatabase, stream: str) -> None:
    toxic = ToxicRequest(name="hole", type="timeout", stream=stream, attributes={"timeout": 0})
    database.proxy.add_toxic("sink", toxic)


def heal(database: RunDatabase, when: Callable[[], Any]) -> None:
    """Take the hole away, which closes what it held, as soon as `when`."""
    assert wait_until(lambda: bool(when()), deadline=Deadline(LIMIT_S))
    database.proxy.remove_toxic("sink", "hole")


def losses_of(sink: EpochSink) -> Sequence[int | str]:
    lost: list[int | str] = []
    sink.transactions.on_loss = lost.append
    return lost


def test_a_commit_that_took_effect_but_lost_its_reply_is_settled_by_the_epoch_row(
    database: RunDatabase, sink: EpochSink
) -> None:
    lost = losses_of(sink)
    add(sink, 1, 3)
    at_commit(sink, lambda: swallow(database, "downstream"))

    with meanwhile(lambda: heal(database, lambda: epochs(database))):
        sink.commit(1, position=9, elements=[])

    assert (ids(database), epochs(database)) == ([1, 3], [(1, 1)])
    assert lost == [2013]


def test_a_commit_that_never_arrived_is_made_again(database: RunDatabase, sink: EpochSink) -> None:
    lost = losses_of(sink)
    add(sink, 1, 3)
    at_commit(sink, lambda: swallow(database, "upstream"))

    with meanwhile(lambda: heal(database, lambda: "hole" in database.proxy.toxics("sink"))):
        sink.commit(1, position=9, elements=[])

    assert (ids(database), epochs(database)) == ([1, 3], [(1, 1)])
    assert lost == [2013]


def test_what_follows_a_settled_commit_is_a_new_epoch(database: RunDatabase, sink: EpochSink) -> None:
    add(sink, 1)
    at_commit(sink, lambda: swallow(database, "downstream"))
    with meanwhile(lambda: heal(database, lambda: epochs(database))):
        sink.commit(1, position=9, elements=[])
    add(sink, 3)

    sink.commit(2, position=20, elements=[])

    assert (ids(database), epochs(database)) == ([1, 3], [(1, 1), (2, 1)])


def test_an_attempt_that_was_fenced_while_its_commit_was_in_doubt_stops_and_its_successor_knows_the_epoch(
    database: RunDatabase, sink: EpochSink
) -> None:
    saved: list[SavedEpoch | None] = []

    def take_over_and_heal() -> None:
        assert wait_until(lambda: bool(epochs(database)), deadline=Deadline(LIMIT_S))
        past_the_proxy = EpochSink(MySqlDriver(database.root), subtask=1)
        saved.append(past_the_proxy.take_over(now_ms=1).saved)
        past_the_proxy.close()
        heal(database, lambda: True)

    add(sink, 1, 3)
    at_commit(sink, lambda: swallow(database, "downstream"))

    with meanwhile(take_over_and_heal), pytest.raises(Fenced):
        sink.commit(1, position=9, elements=[])

    assert saved == [SavedEpoch(epoch=1, position=9, elements=[])]
    assert (ids(database), epochs(database)) == ([1, 3], [(1, 1)])


def test_a_take_over_whose_reply_was_lost_is_made_again_and_holds_the_newest_token(
    database: RunDatabase,
) -> None:
    sink = EpochSink(MySqlDriver(database.sink), subtask=1)
    at_commit(sink, lambda: swallow(database, "downstream"))

    with meanwhile(lambda: heal(database, lambda: database.rows("SELECT 1 FROM fence WHERE token = 1"))):
        attempt = sink.take_over(now_ms=5)

    assert database.rows("SELECT token FROM fence WHERE subtask = 1") == [(attempt.number,)]
    sink.commit(1, position=1, elements=[])
    assert epochs(database) == [(1, attempt.number)]


def test_a_link_that_is_down_for_a_while_only_delays_a_commit(database: RunDatabase, sink: EpochSink) -> None:
    lost = losses_of(sink)
    add(sink, 1)
    database.proxy.disable("sink")

    def enable() -> None:
        assert wait_until(lambda: len(lost) > 1, deadline=Deadline(LIMIT_S))
        database.proxy.enable("sink")

    with meanwhile(enable):
        sink.commit(1, position=9, elements=[])

    assert (ids(database), epochs(database)) == ([1], [(1, 1)])


def test_a_sink_that_does_not_come_back_is_given_up_with_what_it_was_about(
    database: RunDatabase, sink: EpochSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.database.transactions.SETTLE_S", 0.1)
    database.proxy.disable("sink")

    with pytest.raises(SinkLost, match="could not commit epoch 4"):
        sink.commit(4, position=9, elements=[])


def test_a_servers_own_error_is_passed_on_at_once(database: RunDatabase, sink: EpochSink) -> None:
    lost = losses_of(sink)
    database.execute("DROP TABLE fence", [()])

    with pytest.raises(pymysql.MySQLError) as refused:
        sink.commit(1, position=9, elements=[])

    assert refused.value.args[0] == 1146
    assert list(lost) == []


def of_driver(database: RunDatabase, generation: int) -> EpochSink:
    made = EpochSink(MySqlDriver(database.sink), subtask=1)
    made.generation = generation
    return made


def test_an_attempt_of_an_earlier_driver_cannot_fence_off_one_of_a_later(database: RunDatabase) -> None:
    newer, late_retry = of_driver(database, 2), of_driver(database, 1)
    newer.take_over(now_ms=1000)

    with pytest.raises(Fenced, match="driver 1 is fenced: driver 2"):
        late_retry.take_over(now_ms=2000)

    add(newer, 1)
    newer.commit(1, position=1, elements=[])
    assert epochs(database) == [(1, 1)]
    newer.close()
    late_retry.close()


def test_a_retry_of_the_same_driver_fences_off_the_attempt_before(database: RunDatabase) -> None:
    first, copy = of_driver(database, 1), of_driver(database, 1)
    first.take_over(now_ms=1000)

    assert copy.take_over(now_ms=2000).number == 2

    with pytest.raises(Fenced):
        first.commit(1, position=1, elements=[])
    first.close()
    copy.close()
