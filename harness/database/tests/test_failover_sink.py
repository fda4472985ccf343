"""Claims about the sink of a database that may fail over: it writes only behind what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

import pytest

from harness.database.driver import Driver
from harness.database.epoch import Fenced, Visible
from harness.database.sink import CommitsGone, FailoverSink


class Server:
    """A fence and epochs, and the rows that were written. Mutable; a driver, a connection and a cursor in one."""

    database = "floodmark_test"
    errors: tuple[type[Exception], ...] = ()
    open = True

    def __init__(self, *, token: int = 0, epochs: Sequence[int] = ()) -> None:
        self.token, self.epochs, self.rows = token, list(epochs), 0
        self._answer: tuple[Any, ...] | None = None

    @property
    def connection(self) -> Server:
        return self

    def connect(self, *, statement_s: float) -> Server:
        return self

    def cursor(self) -> Server:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, sql: str, args: Sequence[Any] = ()) -> None:
        self._answer = None
        if sql.startswith("UPDATE fence"):
            self.token = max(self.token, args[0]) + 1
        elif sql.startswith("SELECT token, origin_ms"):
            self._answer = (self.token, 0)
        elif sql.startswith("SELECT token FROM fence"):
            self._answer = (self.token,)
        elif sql.startswith("SELECT token FROM epoch"):
            self._answer = (1,) if args[1] in self.epochs else None
        elif sql.startswith("SELECT epoch, pos"):
            self._answer = (max(self.epochs), 0, "[]") if self.epochs else None
        elif sql.startswith("INSERT INTO epoch"):
            self.epochs.append(args[1])
        elif sql.startswith("SELECT GET_LOCK"):
            self._answer = (1,)

    def executemany(self, sql: str, rows: Sequence[Any]) -> None:
        self.rows += len(rows)

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._answer

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


def sink_of(server: Server, *, known: int = 0) -> FailoverSink:
    sink = FailoverSink(cast("Driver", server), subtask=0)
    sink.newest_attempt = lambda: known
    return sink


def test_it_goes_on_while_its_last_epoch_is_there() -> None:
    server = Server(epochs=[1, 2])
    sink = sink_of(server)

    assert sink.take_over(now_ms=0).saved is not None
    sink.add(Visible(id=1, j=0, value="x"))
    sink.commit(3, position=9, elements=[])

    assert (server.epochs, server.rows) == ([1, 2, 3], 1)


def test_it_writes_nothing_behind_an_epoch_that_is_gone() -> None:
    server = Server(epochs=[1, 2])
    sink = sink_of(server)
    sink.take_over(now_ms=0)
    sink.commit(3, position=9, elements=[])

    server.epochs = [1]
    sink.add(Visible(id=1, j=0, value="x"))
    with pytest.raises(CommitsGone, match="epoch 3 of subtask 0"):
        sink.commit(4, position=12, elements=[])

    assert (server.epochs, server.rows) == ([1], 0)


def test_it_notices_that_its_take_over_is_gone_and_does_not_call_itself_fenced() -> None:
    server = Server()
    sink = sink_of(server, known=4)
    sink.take_over(now_ms=0)

    server.token = 4
    with pytest.raises(CommitsGone, match="knows attempt 4 only"):
        sink.commit(1, position=3, elements=[])

    server.token = 6
    with pytest.raises(Fenced):
        sink.commit(1, position=3, elements=[])


def test_an_attempt_gets_no_number_that_one_before_it_had() -> None:
    assert sink_of(Server(token=2), known=5).take_over(now_ms=0).number == 6
    assert sink_of(Server(token=2), known=1).take_over(now_ms=0).number == 3
