"""The coordinator: a checkpoint is complete when every subtask that goes on has handed its part in.

Answers to Flink's `CheckpointCoordinator`. Invariant: what is completed consists of parts of the newest attempts
only, decided in one transaction under the locks of all fences, so that no attempt takes over in between; a number is
decided once, and in order. It lives in the harness, past the proxy, and does not die with a worker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from harness.database.coordinated_sink import PARTS_KEPT
from harness.database.driver import Driver, MySqlDriver
from harness.database.endpoint import Endpoint
from harness.database.two_phase_sink import roll_back_branches

__all__ = ["Coordinator", "coordinated"]

_EVERY_S = 0.02
_STATEMENT_S = 3.0
_END_S = 10.0

_FENCES = "SELECT subtask, token, ended FROM fence ORDER BY subtask"
_FENCES_LOCKED = f"{_FENCES} FOR UPDATE"

Note = Callable[..., None]
"""`note(kind, c=...)`: a line of the harness's own recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """Where a subtask stands: the attempt whose word counts, and whether anything of it will still run."""

    token: int
    ended: bool


class Coordinator:
    """Of one run. Mutable: its connection. `note` is called before a decision can be seen."""

    def __init__(self, driver: Driver, *, note: Note) -> None:
        self._driver = driver
        self._note = note
        self._connection: Any = None

    def poll(self) -> bool:
        """Decide what can be decided now; False: the database did not answer, and is to be asked again."""
        try:
            while self._decide_next():
                pass
        except self._driver.errors:
            self.close()
            return False
        return True

    def _decide_next(self) -> bool:
        connection = self._open()
        with connection.cursor() as cursor:
            parts = _parts(cursor)  # mostly there are none, and nobody need be asked who goes on
            number = _complete(parts, _standings(cursor, _FENCES)) if parts else None
            connection.rollback()
            if number is None:
                return False
            standings = _standings(cursor, _FENCES_LOCKED)  # and nobody takes over until we have committed
            number = _complete(_parts(cursor), standings)
            if number is None:
                connection.rollback()
                return False
            self._note("~deciding", c=number)
            cursor.execute("INSERT INTO completed (epoch) VALUES (%s)", (number,))
            connection.commit()
        if number > PARTS_KEPT:
            self._note("retire", c=number - PARTS_KEPT)
        return True

    def _open(self) -> Any:
        if self._connection is None:
            connection = self._driver.connect(statement_s=_STATEMENT_S)
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
            self._connection = connection
        return self._connection

    def close(self) -> None:
        """Give the connection up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._driver.hang_up(connection)


def _standings(cursor: Any, fences: str) -> dict[int, _Standing]:
    """Of each subtask."""
    cursor.execute(fences)
    return {subtask: _Standing(token=token, ended=bool(ended)) for subtask, token, ended in cursor.fetchall()}


def _parts(cursor: Any) -> dict[int, dict[int, int]]:
    """Of each number after the newest completed one: by subtask, which attempt handed its part in."""
    cursor.execute(
        "SELECT epoch, subtask, token FROM ack"
        " WHERE epoch > (SELECT COALESCE(MAX(epoch), 0) FROM completed) ORDER BY epoch"
    )
    parts: dict[int, dict[int, int]] = {}
    for epoch, subtask, token in cursor.fetchall():
        parts.setdefault(epoch, {})[subtask] = token
    return parts


def _complete(parts: Mapping[int, Mapping[int, int]], standings: Mapping[int, _Standing]) -> int | None:
    """The next number that every subtask that goes on has handed in, by its newest attempt."""
    return next((epoch for epoch, of in parts.items() if _is_complete(of, standings)), None)


def _is_complete(parts: Mapping[int, int], standings: Mapping[int, _Standing]) -> bool:
    return all(
        standing.ended or parts.get(subtask) == standing.token for subtask, standing in standings.items()
    )


@contextmanager
def coordinated(root: Endpoint, *, note: Note) -> Iterator[None]:
    """Decide while the block lasts, on a thread; afterwards, nothing that a run prepared holds a lock any more."""
    over = threading.Event()
    driver = MySqlDriver(root)
    coordinator = Coordinator(driver, note=note)
    broken: list[BaseException] = []

    def work() -> None:
        try:
            while not over.wait(_EVERY_S):
                coordinator.poll()
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            broken.append(error)
        finally:
            coordinator.close()

    thread = threading.Thread(target=work, name="coordinator", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=_END_S)
        _end_orphans(driver)
        if broken:
            raise broken[0]


def _end_orphans(driver: Driver) -> None:
    """A server that does not answer keeps them; the world is ours, and goes with all that it holds."""
    with (
        suppress(*driver.errors),
        closing(driver.connect(statement_s=_STATEMENT_S)) as connection,
        connection.cursor() as cursor,
    ):
        roll_back_branches(cursor, driver.database)
