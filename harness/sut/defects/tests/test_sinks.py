"""Defects of the sinks, over the real classes and a real server: what only the sink with the defect does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.database.audit import count_rows, reading
from harness.database.checkpoint_store import CheckpointStore
from harness.database.coordinated_sink import IdempotentSink
from harness.database.driver import MySqlDriver
from harness.database.endpoint import connect
from harness.database.epoch import CheckpointPart, Fenced, SavedEpoch, Takeover, Visible
from harness.database.sink import EpochSink
from harness.database.store_files import FolderFiles
from harness.database.tests.conftest import RunDatabase
from harness.database.two_phase_sink import TwoPhaseSink, branches_of, roll_back_branches
from harness.sut.coordination import AtomicCoordination
from harness.sut.defects.checkpoints import reading_backwards
from harness.sut.defects.sinks import (
    assuming_committed,
    checking_before,
    committing_again,
    committing_at_snapshot,
    committing_blindly,
    keeping_output,
    notified_twice,
    unfenced,
    without_key,
    writing_at_once,
)
from harness.sut.prepared_coordination import PreparedCoordination, TwoPhaseCoordination
from harness.sut.variant import Kind, same

REAL = pytest.mark.real
SUBTASK = 1
ATOMIC, TWO_PHASE, IDEMPOTENT = EpochSink, TwoPhaseSink, IdempotentSink
OUTPUT = [{"w": 1, "pos": 0}, {"w": 2, "pos": 1}]

Defect = Callable[[Kind], Kind]


@pytest.fixture
def store(tmp_path: Path, database: RunDatabase) -> Iterator[CheckpointStore]:
    """Of a sink whose checkpoints are completed elsewhere; branches that a test leaves are ended, with their locks."""
    yield CheckpointStore(FolderFiles(tmp_path), subtask=SUBTASK, seed=1)
    with connect(database.root) as connection, connection.cursor() as cursor:
        roll_back_branches(cursor, database.root.database)


def attempt_of(
    kind: Kind, database: RunDatabase, store: CheckpointStore | None = None
) -> tuple[Any, Takeover]:
    """The next attempt's sink, and what it restores."""
    sink = kind(MySqlDriver(database.sink), subtask=SUBTASK)
    if store is None:
        return sink, sink.take_over(now_ms=1)
    return sink, sink.take_over(now_ms=1, restore=store.restore)


def add(sink: Any, *ids: int) -> None:
    for id_ in ids:
        sink.add(Visible(id=id_, j=0, value=None))


def hand_in(sink: Any, store: CheckpointStore, epoch: int, *ids: int) -> CheckpointPart:
    """As the task does at checkpoint `epoch`."""
    add(sink, *ids)
    sink.prepare(epoch)
    file = store.write(epoch, attempt=sink.token, position=max(ids), elements=OUTPUT)
    sink.acknowledge(epoch, file=file)
    return CheckpointPart(epoch=epoch, token=sink.token, file=file)


def complete(database: RunDatabase, epoch: int) -> None:
    """As the coordinator decides it."""
    database.execute("INSERT INTO completed VALUES (%s)", [(epoch,)])


def ids(database: RunDatabase) -> list[int]:
    return [row[0] for row in database.rows("SELECT id FROM output ORDER BY seq")]


@pytest.mark.parametrize(
    ("defect", "concerned"),
    [
        (unfenced, {ATOMIC, TWO_PHASE, IDEMPOTENT}),
        (checking_before, {ATOMIC, TWO_PHASE, IDEMPOTENT}),
        (reading_backwards, {ATOMIC, TWO_PHASE, IDEMPOTENT}),
        (keeping_output, {ATOMIC, TWO_PHASE}),
        (committing_again, {TWO_PHASE}),
        (committing_blindly, {ATOMIC}),
        (assuming_committed, {ATOMIC}),
        (writing_at_once, {ATOMIC}),
        (without_key, {IDEMPOTENT}),
    ],
)
def test_a_defect_of_a_sink_leaves_other_kinds_alone_and_is_made_once(
    defect: Defect, concerned: set[Kind]
) -> None:
    for sink in (ATOMIC, TWO_PHASE, IDEMPOTENT):
        assert (defect(sink) is not sink) == (sink in concerned)
        assert defect(sink) is defect(sink)


@pytest.mark.parametrize("defect", [committing_at_snapshot, notified_twice])
def test_a_defect_of_two_phases_leaves_other_coordinations_alone(defect: Defect) -> None:
    assert defect(AtomicCoordination) is AtomicCoordination
    assert defect(PreparedCoordination) is PreparedCoordination
    assert issubclass(defect(TwoPhaseCoordination), TwoPhaseCoordination)


@REAL
@pytest.mark.parametrize("kind", [EpochSink, unfenced(EpochSink)], ids=["honest", "unfenced"])
def test_only_a_sink_that_compares_no_token_lets_a_superseded_attempt_commit(
    database: RunDatabase, kind: Kind
) -> None:
    zombie, _ = attempt_of(kind, database)
    add(zombie, 1)
    successor, _ = attempt_of(kind, database)

    if kind is EpochSink:
        with pytest.raises(Fenced):
            zombie.commit(1, position=1, elements=[])
    else:
        zombie.commit(1, position=1, elements=[])

    assert ids(database) == ([] if kind is EpochSink else [1])
    zombie.close()
    successor.close()


@REAL
def test_a_fence_that_is_checked_before_lets_one_more_commit_of_a_superseded_attempt_through(
    database: RunDatabase,
) -> None:
    zombie, _ = attempt_of(checking_before(EpochSink), database)
    add(zombie, 1)
    successor, _ = attempt_of(EpochSink, database)

    zombie.commit(1, position=1, elements=[])
    with pytest.raises(Fenced):
        zombie.commit(2, position=2, elements=[])

    assert ids(database) == [1]
    assert database.rows("SELECT epoch FROM epoch") == [(1,)]
    zombie.close()
    successor.close()


@REAL
def test_a_fence_that_is_checked_before_lets_a_superseded_attempt_prepare_and_no_more(
    database: RunDatabase, store: CheckpointStore
) -> None:
    zombie, _ = attempt_of(checking_before(TwoPhaseSink), database, store)
    add(zombie, 1)
    successor, _ = attempt_of(TwoPhaseSink, database, store)

    zombie.prepare(1)
    with pytest.raises(Fenced):
        zombie.acknowledge(1, file="")

    assert [part.epoch for part in successor.prepared()] == [1]
    zombie.close()
    successor.close()


@REAL
@pytest.mark.parametrize("defect", [same, keeping_output], ids=["honest", "keeping"])
def test_only_a_sink_that_keeps_output_shows_what_an_attempt_had_in_its_open_epoch(
    database: RunDatabase, defect: Defect
) -> None:
    fails, _ = attempt_of(defect(EpochSink), database)
    add(fails, 1, 3)
    fails.close()

    assert ids(database) == ([1, 3] if defect is keeping_output else [])


@REAL
@pytest.mark.parametrize("defect", [same, keeping_output], ids=["honest", "keeping"])
def test_only_a_sink_that_keeps_output_commits_branches_that_no_checkpoint_holds(
    database: RunDatabase, store: CheckpointStore, defect: Defect
) -> None:
    dies, _ = attempt_of(defect(TwoPhaseSink), database, store)
    add(dies, 1)
    dies.prepare(1)
    dies.close()

    successor, attempt = attempt_of(defect(TwoPhaseSink), database, store)
    assert attempt.saved is None
    assert successor.settle_leftovers(0) == []

    assert ids(database) == ([1] if defect is keeping_output else [])
    with connect(database.root) as connection, connection.cursor() as cursor:
        assert branches_of(cursor, database.root.database) == []
    successor.close()


@REAL
@pytest.mark.parametrize("kind", [EpochSink, TwoPhaseSink])
def test_state_comes_back_in_reverse(database: RunDatabase, store: CheckpointStore, kind: Kind) -> None:
    kept = None if kind is EpochSink else store
    dies, _ = attempt_of(kind, database, kept)
    if kind is EpochSink:
        dies.commit(1, position=4, elements=OUTPUT)
    else:
        hand_in(dies, store, 1, 4)
        complete(database, 1)
    dies.close()

    successor, attempt = attempt_of(reading_backwards(kind), database, kept)

    assert attempt.saved == SavedEpoch(epoch=1, position=4, elements=OUTPUT[::-1])
    successor.close()


@REAL
@pytest.mark.parametrize("defect", [same, committing_again], ids=["honest", "again"])
def test_only_a_sink_that_commits_again_doubles_what_it_is_told_of_twice(
    database: RunDatabase, store: CheckpointStore, defect: Defect
) -> None:
    sink, _ = attempt_of(defect(TwoPhaseSink), database, store)
    part = hand_in(sink, store, 1, 1, 3)
    add(sink, 5)

    sink.show(part)
    sink.show(part)

    assert ids(database) == ([1, 3, 1, 3] if defect is committing_again else [1, 3])
    hand_in(sink, store, 2, 7)
    sink.show(CheckpointPart(epoch=2, token=sink.token, file=""))
    assert ids(database)[-2:] == [5, 7], "the open epoch is left alone"
    sink.close()


@REAL
@pytest.mark.parametrize("defect", [same, committing_blindly], ids=["honest", "blind"])
def test_only_a_blind_sink_doubles_an_epoch_that_it_writes_again(
    database: RunDatabase, defect: Defect
) -> None:
    """As after a COMMIT that took effect and was not answered."""
    sink, _ = attempt_of(defect(EpochSink), database)
    for _ in range(2):
        add(sink, 1)
        sink.commit(1, position=1, elements=[])

    assert ids(database) == ([1, 1] if defect is committing_blindly else [1])
    sink.close()


@REAL
@pytest.mark.parametrize("defect", [same, assuming_committed], ids=["honest", "assuming"])
def test_only_a_sink_that_takes_an_error_for_a_commit_loses_an_epoch(
    database: RunDatabase, defect: Defect
) -> None:
    sink, _ = attempt_of(defect(EpochSink), database)
    add(sink, 1)
    (session,) = database.rows("SELECT IS_USED_LOCK(CONCAT(DATABASE(), '/1'))")
    database.rows(f"KILL {session[0]}")

    sink.commit(1, position=1, elements=[])

    assert ids(database) == ([] if defect is assuming_committed else [1])
    sink.close()


@REAL
@pytest.mark.parametrize(("defect", "doubled"), [(same, 0), (writing_at_once, 2)], ids=["whole", "split"])
def test_only_a_sink_outside_the_transaction_doubles_what_a_crash_repeats(
    database: RunDatabase, defect: Defect, doubled: int
) -> None:
    """The first attempt dies after two outputs, before their checkpoint."""
    dies, _ = attempt_of(defect(EpochSink), database)
    add(dies, 1, 3)
    dies.close()

    goes_on, _ = attempt_of(defect(EpochSink), database)
    add(goes_on, 1, 3, 5)
    goes_on.commit(1, position=3, elements=[])
    goes_on.close()

    with reading(database.root) as tables:
        counts = count_rows(tables, ordered=True)
    assert (counts["doubled"], counts["records"], counts["rows"]) == (doubled, 3, 3 + doubled)


@REAL
def test_without_a_key_what_is_written_again_is_a_second_row(
    database: RunDatabase, store: CheckpointStore
) -> None:
    """The table of these tests has no key, as a run's has none with this defect."""
    for _ in range(2):
        sink, _ = attempt_of(without_key(IdempotentSink), database, store)
        add(sink, 1)
        sink.prepare(1)
        sink.close()

    assert ids(database) == [1, 1]
