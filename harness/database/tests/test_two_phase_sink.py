"""The two-phase sink: prepared, then committed by whoever hears of it, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.database.checkpoint_store import CheckpointStore, StoreLost
from harness.database.coordinated_sink import (
    BranchLost,
    CoordinatedSink,
    IdempotentSink,
    TwoPhaseSink,
    branches_of,
    roll_back_branches,
)
from harness.database.coordinator import Coordinator
from harness.database.driver import MySqlDriver
from harness.database.endpoint import connect
from harness.database.epoch import CheckpointPart, Fenced, Takeover, Visible
from harness.database.store_files import FolderFiles
from harness.database.tests.conftest import RunDatabase
from harness.history.event import Ack, Retire
from harness.history.notes import Deciding

pytestmark = pytest.mark.real


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(FolderFiles(tmp_path), subtask=1, seed=1)


@pytest.fixture
def sink(database: RunDatabase, store: CheckpointStore) -> Iterator[TwoPhaseSink]:
    """Subtask 1's first attempt."""
    made, _ = taken_over(database, store)
    yield made
    made.close()
    with connect(database.root) as connection, connection.cursor() as cursor:
        roll_back_branches(cursor, database.root.database)


def taken_over(database: RunDatabase, store: CheckpointStore) -> tuple[TwoPhaseSink, Takeover]:
    made = TwoPhaseSink(MySqlDriver(database.sink), subtask=1)
    return made, made.take_over(now_ms=1, restore=store.restore)


def hand_in(sink: CoordinatedSink, store: CheckpointStore, epoch: int, *ids: int) -> CheckpointPart:
    """As the task does at checkpoint `epoch`, with these outputs."""
    for id_ in ids:
        sink.add(Visible(id=id_, j=0, value=None))
    sink.prepare(epoch)
    file = store.write(epoch, attempt=sink.token, position=max(ids), elements=[{"w": epoch, "pos": 0}])
    sink.acknowledge(epoch, file=file)
    return CheckpointPart(epoch=epoch, token=sink.token, file=file)


def complete(database: RunDatabase, *epochs: int) -> None:
    """As the coordinator decides it."""
    database.execute("INSERT INTO completed VALUES (%s)", [(epoch,) for epoch in epochs])


def ids(database: RunDatabase) -> list[int]:
    return [row[0] for row in database.rows("SELECT id FROM output ORDER BY seq")]


def prepared(database: RunDatabase) -> list[str]:
    with connect(database.root) as connection, connection.cursor() as cursor:
        return [xid.rpartition(",")[2] for xid in branches_of(cursor, database.root.database)]


def test_what_is_prepared_is_durable_and_nobody_sees_it(
    database: RunDatabase, sink: TwoPhaseSink, store: CheckpointStore
) -> None:
    hand_in(sink, store, 1, 4, 6)

    assert (ids(database), prepared(database)) == ([], ["'1:1'"])


def test_a_commit_shows_outputs_and_epoch_together(
    database: RunDatabase, sink: TwoPhaseSink, store: CheckpointStore
) -> None:
    part = hand_in(sink, store, 1, 4, 6)

    sink.show(part)

    assert (ids(database), prepared(database)) == ([4, 6], [])
    assert database.rows("SELECT subtask, epoch, token FROM epoch") == [(1, 1, 1)]


def test_a_second_commit_finds_the_epoch_row_and_changes_nothing(
    database: RunDatabase, sink: TwoPhaseSink, store: CheckpointStore
) -> None:
    part = hand_in(sink, store, 1, 4)
    sink.show(part)

    sink.show(part)

    assert ids(database) == [4]


def test_several_epochs_may_be_prepared_before_the_first_is_complete(
    database: RunDatabase, sink: TwoPhaseSink, store: CheckpointStore
) -> None:
    parts = [hand_in(sink, store, epoch, 10 * epoch) for epoch in (1, 2, 3)]

    for part in parts:
        sink.show(part)

    assert ids(database) == [10, 20, 30]


def test_a_branch_that_somebody_rolled_back_is_an_error_and_not_taken_for_done(
    database: RunDatabase, sink: TwoPhaseSink, store: CheckpointStore
) -> None:
    part = hand_in(sink, store, 1, 4)
    with connect(database.root) as connection, connection.cursor() as cursor:
        assert roll_back_branches(cursor, database.root.database) == 1

    with pytest.raises(BranchLost, match="epoch 1 of subtask 1, prepared by attempt 1, is neither"):
        sink.show(part)


def test_a_successor_commits_what_the_restored_checkpoint_holds_and_rolls_back_the_rest(
    database: RunDatabase, sink: TwoPhaseSink, store: CheckpointStore
) -> None:
    hand_in(sink, store, 1, 4)
    hand_in(sink, store, 2, 6)
    complete(database, 1)
    sink.close()

    successor, attempt = taken_over(database, store)
    assert attempt.saved is not None
    left = successor.settle_leftovers(attempt.saved.epoch)
    for part in left:
        successor.show(part)

    assert (attempt.number, attempt.saved.epoch, attempt.saved.position) == (2, 1, 4)
    assert [(part.epoch, part.token) for part in left] == [(1, 1)]
    assert (ids(database), prepared(database)) == ([4], [])
    successor.close()


def test_a_frozen_attempt_that_wakes_up_prepares_acknowledges_and_commits_nothing(
    database: RunDatabase, sink: TwoPhaseSink, store: CheckpointStore
) -> None:
    part = hand_in(sink, store, 1, 4)
    successor, _ = taken_over(database, store)
    successor.settle_leftovers(0)
    mine = hand_in(successor, store, 1, 4)

    sink.add(Visible(id=9, j=0, value=None))
    with pytest.raises(Fenced):
        sink.prepare(2)
    with pytest.raises(Fenced):
        sink.acknowledge(2, file="late")
    with pytest.raises(Fenced):
        sink.show(part)
    successor.show(mine)

    assert (ids(database), prepared(database)) == ([4], [])
    successor.close()


def test_an_attempt_that_was_frozen_before_it_settled_leaves_its_successors_branches_alone(
    database: RunDatabase, sink: TwoPhaseSink, store: CheckpointStore
) -> None:
    successor, _ = taken_over(database, store)
    mine = hand_in(successor, store, 1, 4)
    successor.transactions.end_session()  # as after each XA PREPARE: for a moment nobody holds the subtask's name

    assert sink.settle_leftovers(0) == []
    successor.show(mine)

    assert (ids(database), prepared(database)) == ([4], [])
    successor.close()


def test_an_attempt_that_freezes_inside_a_branch_does_not_hold_its_successor_up(
    database: RunDatabase, sink: TwoPhaseSink, store: CheckpointStore
) -> None:
    cursor = sink.transactions.open().cursor()
    cursor.execute("XA START 'frozen','1:1'")
    sink.write_epoch(cursor, 1, 0, "[]")

    successor, _ = taken_over(database, store)
    successor.settle_leftovers(0)
    successor.show(hand_in(successor, store, 1, 4))

    assert ids(database) == [4]
    successor.close()


def test_the_janitor_ends_what_a_run_left_and_nothing_of_another_run(
    database: RunDatabase, sink: TwoPhaseSink, store: CheckpointStore
) -> None:
    hand_in(sink, store, 1, 4)
    with connect(database.root) as connection, connection.cursor() as cursor:
        assert roll_back_branches(cursor, "some_other_run") == 0
        assert roll_back_branches(cursor, database.root.database) == 1

    assert (ids(database), prepared(database)) == ([], [])


def test_nothing_older_than_what_is_committed_is_restored(
    database: RunDatabase, sink: TwoPhaseSink, store: CheckpointStore
) -> None:
    hand_in(sink, store, 1, 4)
    part = hand_in(sink, store, 2, 6)
    complete(database, 1, 2)
    sink.show(CheckpointPart(epoch=1, token=1, file=""))
    sink.show(part)
    sink.close()
    store.files.remove(store.files.names()[-1])

    with pytest.raises(StoreLost, match="older than the committed epoch 2 would write outputs twice"):
        taken_over(database, store)


def test_a_part_that_is_missing_and_not_committed_is_passed_over(
    database: RunDatabase, sink: TwoPhaseSink, store: CheckpointStore
) -> None:
    hand_in(sink, store, 1, 4)
    hand_in(sink, store, 2, 6)
    complete(database, 1, 2)
    sink.show(CheckpointPart(epoch=1, token=1, file=""))
    sink.close()
    store.files.remove(store.files.names()[-1])

    successor, attempt = taken_over(database, store)
    left = successor.settle_leftovers(1)

    assert attempt.saved is not None
    assert (attempt.saved.epoch, [one.epoch for one in attempt.passed_over]) == (1, [2])
    assert (left, prepared(database)) == ([], [])
    successor.close()


# ----------------------------------------------------------------------------------------- coordinator


def noted(database: RunDatabase, *, polls: int = 1) -> list[tuple[type, dict[str, int]]]:
    """What a new coordinator notes."""
    said: list[tuple[type, dict[str, int]]] = []
    coordinator = Coordinator(
        MySqlDriver(database.root), note=lambda kind, **facts: said.append((kind, facts))
    )
    for _ in range(polls):
        coordinator.poll()
    coordinator.close()
    return said


def decided(database: RunDatabase) -> list[int]:
    said = noted(database)
    assert {kind for kind, _ in said} <= {Ack, Deciding, Retire}
    return [facts["c"] for kind, facts in said if kind is Deciding]


def standing(database: RunDatabase, *, tokens: tuple[int, int], acks: list[tuple[int, int, int]]) -> None:
    database.execute("UPDATE fence SET token = %s WHERE subtask = %s", [(tokens[0], 0), (tokens[1], 1)])
    database.execute("REPLACE INTO ack VALUES (%s, %s, %s, '')", acks)


@pytest.mark.parametrize(
    ("acks", "complete"),
    [
        pytest.param([(0, 1, 1)], [], id="one subtask's part is missing"),
        pytest.param([(0, 1, 1), (1, 1, 2)], [1], id="all are there"),
        pytest.param([(0, 1, 1), (1, 1, 1)], [], id="one is of a superseded attempt"),
        pytest.param([(0, 1, 1), (1, 1, 2), (0, 2, 1), (1, 2, 2)], [1, 2], id="two at once, in order"),
    ],
)
def test_a_checkpoint_is_complete_with_all_parts_of_the_newest_attempts(
    database: RunDatabase, acks: list[tuple[int, int, int]], complete: list[int]
) -> None:
    standing(database, tokens=(1, 2), acks=acks)

    assert decided(database) == complete
    assert decided(database) == []


def test_each_acknowledgement_is_noted_once_and_before_the_decision_that_counts_it_trust3(
    database: RunDatabase,
) -> None:
    standing(database, tokens=(1, 2), acks=[(0, 1, 1), (1, 1, 2), (0, 2, 1)])

    said = noted(database, polls=2)

    acks = [(Ack, {"s": 0, "a": 1, "c": 1}), (Ack, {"s": 1, "a": 2, "c": 1})]
    assert [one for one in said if one[1]["c"] == 1] == [*acks, (Deciding, {"c": 1})]
    assert [one for one in said if one[1]["c"] == 2] == [(Ack, {"s": 0, "a": 1, "c": 2})]


def test_nobody_waits_for_a_subtask_that_has_ended(database: RunDatabase) -> None:
    standing(database, tokens=(1, 2), acks=[(0, 9, 1)])
    assert decided(database) == []
    database.execute("UPDATE fence SET ended = 1 WHERE subtask = 1", [()])

    assert decided(database) == [9]


# ------------------------------------------------------------------------------------------ idempotent


def test_an_idempotent_sink_writes_a_dead_letter_again_and_it_is_there_once_trust5(
    database: RunDatabase, store: CheckpointStore
) -> None:
    database.execute("ALTER TABLE dead_letter ADD UNIQUE KEY (subtask, id)", [()])
    for _ in range(2):
        sink = IdempotentSink(MySqlDriver(database.sink), subtask=1)
        sink.take_over(now_ms=1, restore=store.restore)
        sink.write_dead_letter(id=4, error="E: x")
        sink.prepare(1)
        sink.close()

    assert database.rows("SELECT id, error, token FROM dead_letter") == [(4, "E: x", 1)]


def test_an_idempotent_sink_writes_an_output_again_and_it_is_there_once(
    database: RunDatabase, store: CheckpointStore
) -> None:
    database.execute("ALTER TABLE output ADD UNIQUE KEY (subtask, id, j)", [()])
    first = IdempotentSink(MySqlDriver(database.sink), subtask=1)
    first.take_over(now_ms=1, restore=store.restore)
    hand_in(first, store, 1, 4, 6)
    second = IdempotentSink(MySqlDriver(database.sink), subtask=1)

    attempt = second.take_over(now_ms=1, restore=store.restore)
    hand_in(second, store, 1, 4, 6, 8)

    assert attempt.saved is None
    assert ids(database) == [4, 6, 8]
    assert len(database.rows("SELECT 1 FROM audit")) == 3
    for sink in (first, second):
        sink.close()


def test_a_superseded_idempotent_sink_writes_nothing(database: RunDatabase, store: CheckpointStore) -> None:
    database.execute("ALTER TABLE output ADD UNIQUE KEY (subtask, id, j)", [()])
    first, second = (IdempotentSink(MySqlDriver(database.sink), subtask=1) for _ in range(2))
    for sink in (first, second):
        sink.take_over(now_ms=1, restore=store.restore)
    first.add(Visible(id=4, j=0, value=None))

    with pytest.raises(Fenced):
        first.prepare(1)

    assert ids(database) == []
    for sink in (first, second):
        sink.close()
