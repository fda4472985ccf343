"""The clients of a run, small: lookups and sink transactions over the proxy's links, with all that they meet noted.

Invariant: nothing in it waits without a limit, and it goes on, whatever it meets, until it is told to stop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pymysql

from harness.database.endpoint import Endpoint
from harness.faults.real.evidence import Loss, Seen
from harness.history.follower import TimedCall
from harness.system.clock import Deadline, monotonic_us, wait_until

LOOKUP = "SELECT name, city, tier, SLEEP(0.003) FROM customer WHERE k = %s"
FENCE = "SELECT token, SLEEP(0.003) FROM fence WHERE subtask = 0 FOR UPDATE"
"""Lasts, as LOOKUP does: of statements that are over in 0.2 ms a hunt on a busy machine finds none running."""
READ_S = 3.0
SELDOM_S = 2.5
"""Between two lookups of a client that is silent for longer than a short wait_timeout."""


@dataclass
class Traffic:
    """What the clients did and met. Mutable: they add to it."""

    lookups: Endpoint
    sink: Endpoint
    calls: list[TimedCall] = field(default_factory=list)
    errors: list[Loss] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)
    """Epochs whose commit was answered."""
    found: list[dict[str, Any]] = field(default_factory=list)
    said: str = ""
    """The text of the last error."""
    _over: threading.Event = field(default_factory=threading.Event)

    def seen(self, armed_us: int, healed_us: int) -> Seen:
        """As the harness would show it to a fault."""
        return Seen(
            armed_us=armed_us,
            healed_us=healed_us,
            calls=list(self.calls),
            errors=list(self.errors),
            facts=list(self.found),
        )

    @contextmanager
    def flowing(self, *, lookers: int = 3) -> Iterator[None]:
        """It flows while the block lasts; it has begun to when the block begins."""
        works: list[Callable[[], None]] = [self._look_up] * lookers + [self._look_seldom, self._commit]
        threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in threads:
            thread.start()
        try:
            self.await_progress()
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join(4 * READ_S)
                assert not thread.is_alive(), "a client of the traffic waits for ever"

    def await_progress(self) -> None:
        """Until lookups and commits that began after now have been answered."""
        since_us = monotonic_us()
        for link in ("lookups", "sink"):
            answered = partial(self._answered, link, since_us)
            assert wait_until(answered, deadline=Deadline(60)), (
                f"{link} is not answered; last error: {self.said}"
            )

    def _answered(self, link: str, since_us: int) -> bool:
        latest = self.calls[-50:]
        return any(call.link == link and call.ending == "ok" and call.began_us > since_us for call in latest)

    def _look_up(self) -> None:
        key = 0
        for connection in self._connections(self.lookups, "lookups"):
            with self._noting("lookups", connection), connection.cursor() as cursor:
                while not self._over.is_set():
                    key = (key + 7) % 20
                    with self._timed("lookups"):
                        cursor.execute(LOOKUP, (key,))
                        assert cursor.fetchone()[0] == f"name {key}", "a wrong row"

    def _look_seldom(self) -> None:
        for connection in self._connections(self.lookups, "lookups"):
            with self._noting("lookups", connection), connection.cursor() as cursor:
                while not self._over.wait(SELDOM_S):
                    with self._timed("lookups"):
                        cursor.execute(LOOKUP, (1,))

    def _commit(self) -> None:
        epoch = 0
        for connection in self._connections(self.sink, "sink"):
            with self._noting("sink", connection), connection.cursor() as cursor:
                cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
                cursor.execute("SELECT COALESCE(MAX(epoch), 0) FROM epoch")  # what is not known is settled so
                epoch = cursor.fetchone()[0]
                while not self._over.is_set():
                    with self._timed("sink"):
                        self._write(cursor, epoch + 1)
                    epoch += 1
                    self.acknowledged.append(epoch)
                    self._over.wait(0.02)

    def _write(self, cursor: Any, epoch: int) -> None:
        cursor.execute("START TRANSACTION")
        cursor.execute(FENCE)
        rows = [(0, epoch * 100 + j, 0, "x" * 600, epoch, 1) for j in range(5)]
        cursor.executemany(
            "INSERT INTO output (subtask, id, j, v, epoch, token) VALUES (%s, %s, %s, %s, %s, %s)", rows
        )
        cursor.execute(
            "INSERT INTO epoch (subtask, epoch, token, pos, elements) VALUES (0, %s, 1, 0, '[]')", (epoch,)
        )
        cursor.execute("COMMIT")

    def _connections(self, endpoint: Endpoint, link: str) -> Iterator[Any]:
        while not self._over.is_set():
            with self._noting(link, None):
                connection = pymysql.connect(
                    host=endpoint.host, port=endpoint.port, user=endpoint.user, password=endpoint.password,
                    database=endpoint.database, autocommit=True, ssl_disabled=True,
                    connect_timeout=2, read_timeout=READ_S, write_timeout=READ_S,
                )  # fmt: skip
                yield connection
            self._over.wait(0.02)

    @contextmanager
    def _noting(self, link: str, connection: Any) -> Iterator[None]:
        try:
            yield
        except (pymysql.MySQLError, OSError) as error:
            code = error.args[0] if isinstance(error, pymysql.MySQLError) else type(error).__name__
            self.errors.append((monotonic_us(), link, code))
            self.said = f"{link}: {error}"
        finally:
            if connection is not None:
                with suppress(pymysql.MySQLError, OSError):
                    connection.close()

    @contextmanager
    def _timed(self, link: str) -> Iterator[None]:
        began_us, ending = monotonic_us(), "fail"
        try:
            yield
            ending = "ok"
        finally:
            self.calls.append(TimedCall(began_us=began_us, ended_us=monotonic_us(), ending=ending, link=link))
