"""Two subtasks inside their transactions at once, at a real server: they cannot deadlock with each other (1213).

Why: a sink locks rows of its own subtask only, and each key that it writes begins with the subtask (or is a counter,
which locks no gap). What two subtasks share is one gap: that in front of the first row of the higher subtask, in which
the lower one writes its last row. A plain INSERT does not lock a gap; an upsert that meets its row locks the gap in
front of it. So the lower one may wait for the higher one that replays its first row, never the other way round, and
waits in one direction make no circle. Only a transaction of somebody else can: the fault `deadlocks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.database.coordinated_sink import IdempotentSink, TwoPhaseSink, roll_back_branches
from harness.database.driver import MySqlDriver
from harness.database.epoch import Restored, Visible
from harness.database.sink import EpochSink
from harness.database.tests.conftest import RunDatabase

pytestmark = pytest.mark.real

LOCK_WAIT = 1205
WAITS = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_waits'"
Epoch = tuple[int, ...]
"""The ids of the outputs of an epoch; each has a dead letter, too."""


@pytest.fixture(params=["atomic", "two-phase", "idempotent"])
def pair(database: RunDatabase, request: pytest.FixtureRequest) -> Iterator[Pair]:
    made = Pair(database, request.param)
    yield made
    made.close()


@pytest.fixture
def upserting(database: RunDatabase) -> Iterator[Pair]:
    made = Pair(database, "idempotent")
    yield made
    made.close()


class Pair:
    """The sinks of two subtasks in one database. Mutable: the errors that they met."""

    def __init__(self, database: RunDatabase, kind: str) -> None:
        self._database = database
        self.errors: list[list[int | str]] = [[], []]
        drivers = [MySqlDriver(database.sink) for _ in self.errors]
        self.sinks: list[Any]
        if kind == "atomic":
            self.sinks = [EpochSink(driver, subtask=subtask) for subtask, driver in enumerate(drivers)]
        else:
            coordinated = TwoPhaseSink if kind == "two-phase" else IdempotentSink
            self.sinks = [coordinated(driver, subtask=subtask) for subtask, driver in enumerate(drivers)]
        if kind == "idempotent":
            database.rows("ALTER TABLE output ADD UNIQUE KEY (subtask, id, j)")
            database.rows("ALTER TABLE dead_letter ADD UNIQUE KEY (subtask, id)")
        for sink, met in zip(self.sinks, self.errors, strict=True):
            sink.take_over(now_ms=1, **({} if kind == "atomic" else {"restore": _nothing}))
            sink.listen(on_loss=met.append, on_error=met.append)

    def write(self, subtask: int, number: int, ids: Epoch) -> None:
        """Write epoch `number`, up to its COMMIT or XA PREPARE."""
        sink = self.sinks[subtask]
        for id_ in ids:
            sink.add(Visible(id=id_, j=0, value=None))
            sink.write_dead_letter(id=id_, error="none")
        if isinstance(sink, EpochSink):
            sink.commit(number, position=0, elements=[])
        else:
            sink.prepare(number)

    def acknowledge(self, subtask: int, number: int) -> None:
        self.sinks[subtask].acknowledge(number, file="a file")

    def before_commit(self, subtask: int, act: Callable[[], None]) -> None:
        """Call `act` inside the subtask's next transaction, once all its statements have taken effect."""
        connection = self.sinks[subtask].transactions.open()
        honest = connection.commit

        def commit() -> None:
            connection.commit = honest
            act()
            honest()

        connection.commit = commit

    @property
    def waits(self) -> int:
        """How often a statement of anybody had to wait for a row lock, since the server began."""
        return int(self._database.rows(WAITS)[0][1])

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()
        with MySqlDriver(self._database.root).connect(statement_s=5).cursor() as cursor:
            roll_back_branches(cursor, self._database.root.database)


def _nothing(parts: Any, *, committed: int) -> Restored:
    del parts, committed
    return Restored(saved=None, passed_over=())


@pytest.mark.parametrize("standing", [0, 1])
def test_a_subtask_that_stands_inside_its_transaction_keeps_the_other_from_nothing_trust7(
    pair: Pair, standing: int
) -> None:
    """With the two-phase sink: between XA PREPARE and XA COMMIT."""
    before, other = pair.waits, 1 - standing
    pair.before_commit(standing, lambda: pair.write(other, 1, (other, 2 + other)))

    pair.write(standing, 1, (standing, 2 + standing))
    if isinstance(pair.sinks[0], TwoPhaseSink):
        pair.write(other, 1, (other, 2 + other))

    assert (pair.waits - before, pair.errors) == (0, [[], []])


@pytest.mark.parametrize("standing", [0, 1])
def test_acknowledgements_of_two_subtasks_do_not_meet_trust7(upserting: Pair, standing: int) -> None:
    before, other = upserting.waits, 1 - standing
    upserting.before_commit(standing, lambda: upserting.acknowledge(other, 1))

    upserting.acknowledge(standing, 1)

    assert (upserting.waits - before, upserting.errors) == (0, [[], []])


def test_the_higher_of_two_subtasks_waits_for_nothing_that_the_lower_one_replays_trust7(
    upserting: Pair,
) -> None:
    upserting.write(0, 1, (0, 2))
    upserting.write(1, 1, (1, 3))
    before = upserting.waits
    upserting.before_commit(0, lambda: upserting.write(1, 2, (1, 3, 5)))

    upserting.write(0, 2, (0, 2, 4))

    assert (upserting.waits - before, upserting.errors) == (0, [[], []])


def test_the_lower_of_two_subtasks_waits_where_the_higher_one_replays_its_first_row_trust7(
    upserting: Pair,
) -> None:
    """The one wait between two subtasks that there is; that of the other direction would make it a deadlock."""
    upserting.write(0, 1, (0, 2))
    upserting.write(1, 1, (1, 3))
    lower, before = upserting.sinks[0], upserting.waits
    lower.add(Visible(id=4, j=0, value=None))
    upserting.before_commit(1, lambda: lower.transactions.once(lambda cursor: lower.write_rows(cursor, 2)))

    upserting.write(1, 2, (1, 3, 5))

    assert (upserting.waits - before, upserting.errors) == (1, [[LOCK_WAIT], []])
