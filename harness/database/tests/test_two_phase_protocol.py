"""Both exactly-once sinks behind `TwoPhaseCommitSinkFunction`, on a real server, in a job that dies again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.database.coordinated_sink import CoordinatedSink, TwoPhaseSink, branches_of
from harness.database.driver import MySqlDriver
from harness.database.endpoint import connect
from harness.database.epoch import CheckpointPart, Restored, Visible
from harness.database.sink import EpochSink
from harness.database.tests.conftest import RunDatabase
from harness.database.tests.write_ahead_transactions import WriteAheadTransactions
from harness.database.tests.xa_transactions import XaTransactions
from reference_impl.functions.sink import Transactions, TwoPhaseCommitSinkFunction
from reference_impl.functions.tests.transaction_store import Crash
from reference_impl.functions.tests.two_phase_job import TwoPhaseJob

pytestmark = pytest.mark.real

LIFE = [
    *("record", "record", "barrier", "record", "complete oldest", "notify", "record", "barrier", "barrier"),
    *(
        "abort",
        "record",
        "barrier",
        "complete newest",
        "lose",
        "record",
        "barrier",
        "complete oldest",
        "notify",
    ),
]
DEATHS = 15


class Mortal(Transactions[Any]):
    """A store on a server, of whose writers each dies at its point. Mutable."""

    def __init__(
        self,
        database: RunDatabase,
        take_over: Callable[[RunDatabase], tuple[Any, Transactions[Any]]],
        *,
        every: int,
    ) -> None:
        """`every` so many points it dies, until it has died often enough."""
        self._every = every
        self._database = database
        self._take_over = take_over
        self._sink: CoordinatedSink | EpochSink
        self._inner: Transactions[Any]
        self.points = 0
        self.deaths = 0

    def sink(self) -> TwoPhaseCommitSinkFunction[Any]:
        """A new attempt's."""
        self._sink, self._inner = self._take_over(self._database)
        return TwoPhaseCommitSinkFunction(self, now_ms=lambda: 0)

    def close(self) -> None:
        self._sink.close()

    @property
    def published(self) -> list[int]:
        return [row[0] for row in self._database.rows("SELECT id FROM output ORDER BY seq")]

    def point(self) -> None:
        self.points += 1
        if self.points % self._every == 0 and self.deaths < DEATHS:
            self.deaths += 1
            raise Crash(self.points)

    def writer_died(self) -> None:
        self._sink.close()

    def _at_both_ends(self, act: Callable[[], Any]) -> Any:
        self.point()
        result = act()
        self.point()
        return result

    def begin_transaction(self) -> Any:
        return self._at_both_ends(self._inner.begin_transaction)

    def invoke(self, handle: Any, value: int) -> None:
        self._inner.invoke(handle, Visible(id=value, j=0, value=None))

    def finish_processing(self, handle: Any) -> None:
        self._at_both_ends(lambda: self._inner.finish_processing(handle))

    def pre_commit(self, handle: Any) -> None:
        self._at_both_ends(lambda: self._inner.pre_commit(handle))

    def commit(self, handle: Any) -> None:
        self._at_both_ends(lambda: self._inner.commit(handle))

    def abort(self, handle: Any) -> None:
        self._at_both_ends(lambda: self._inner.abort(handle))

    def recover_and_commit(self, handle: Any) -> None:
        self._at_both_ends(lambda: self._inner.recover_and_commit(handle))

    def recover_and_abort(self, handle: Any) -> None:
        self._at_both_ends(lambda: self._inner.recover_and_abort(handle))


def nothing_saved(parts: object, *, committed: int) -> Restored:
    """Whoever restores is told by the function's own state."""
    return Restored(saved=None, passed_over=())


def over_xa(database: RunDatabase) -> tuple[TwoPhaseSink, Transactions[Any]]:
    sink = TwoPhaseSink(MySqlDriver(database.sink), subtask=1)
    sink.take_over(now_ms=1, restore=nothing_saved)
    return sink, XaTransactions(sink)


def over_one_transaction(database: RunDatabase) -> tuple[EpochSink, Transactions[Any]]:
    sink = EpochSink(MySqlDriver(database.sink), subtask=1)
    return sink, WriteAheadTransactions(sink, attempt=sink.take_over(now_ms=1))


def prepared(database: RunDatabase) -> list[str]:
    with connect(database.root) as connection, connection.cursor() as cursor:
        return branches_of(cursor, database.root.database)


@pytest.mark.parametrize("every", [3, 5, 7, 11, 13])
@pytest.mark.parametrize("take_over", [over_xa, over_one_transaction])
def test_what_is_visible_is_the_committed_prefix_however_often_it_dies_c43(
    database: RunDatabase, take_over: Callable[[RunDatabase], tuple[Any, Transactions[Any]]], every: int
) -> None:
    """Dead after so many points: in the midst of a restore, or of a checkpoint's life."""
    store = Mortal(database, take_over, every=every)
    TwoPhaseJob(store, store.sink).run(LIFE)
    store.close()

    assert store.deaths == DEATHS
    assert prepared(database) == []


def test_a_branch_that_no_restored_checkpoint_knows_does_not_stand_in_the_way(database: RunDatabase) -> None:
    first, lost = over_xa(database)
    handle = lost.begin_transaction()
    lost.invoke(handle, Visible(id=1, j=0, value=None))
    lost.pre_commit(handle)
    first.close()

    second, transactions = over_xa(database)
    again = transactions.begin_transaction()
    transactions.invoke(again, Visible(id=1, j=0, value=None))
    transactions.pre_commit(again)
    transactions.commit(again)
    second.close()

    assert (handle, again) == ((1, 1), (1, 2))
    assert database.rows("SELECT id, epoch, token FROM output") == [(1, 1, 2)]


def test_a_rolled_back_branch_stays_away_and_rolling_it_back_again_changes_nothing(
    database: RunDatabase,
) -> None:
    sink, transactions = over_xa(database)
    handle = transactions.begin_transaction()
    transactions.invoke(handle, Visible(id=1, j=0, value=None))
    transactions.pre_commit(handle)
    assert sink.prepared() == [CheckpointPart(epoch=1, token=1, file="")]

    for _ in range(2):
        transactions.recover_and_abort(handle)
    sink.close()

    assert (prepared(database), database.rows("SELECT id FROM output")) == ([], [])
