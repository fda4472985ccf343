"""The checkpoint coordinator: a checkpoint is complete when every unfinished subtask has acknowledged it.

Answers to Flink's `CheckpointCoordinator`. Invariant: a completed checkpoint consists of parts of the newest attempts
only; it is decided in one transaction that locks all fences, so that no attempt takes over in between; numbers are
decided once and in order. It runs in the harness, past the proxy, and does not die with a worker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from harness.database.coordinated_sink import PARTS_KEPT, roll_back_branches
from harness.database.driver import BlockingConnection, Cursor, Driver, MySqlDriver
from harness.database.endpoint import Endpoint
from harness.history.event import Ack, Retire
from harness.history.notes import Deciding

_EVERY_S = 0.02
_STATEMENT_S = 3.0
_END_S = 10.0

_FENCES = "SELECT subtask, token, ended FROM fence ORDER BY subtask"
_FENCES_LOCKED = f"{_FENCES} FOR UPDATE"

Note = Callable[..., None]
"""`note(kind, c=..., ...)`: writes a line of the harness's own recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewestAttempt:
    """A subtask's newest attempt (by its token), and whether the subtask has finished."""

    token: int
    ended: bool


class Coordinator:
    """The coordinator of one run. Mutable: its connection. `note` is called before a decision becomes visible."""

    def __init__(self, driver: Driver, *, note: Note) -> None:
        self._driver = driver
        self._note = note
        self._connection: BlockingConnection | None = None
        self.until: int | None = None
        """After the first complete checkpoint from this number on, none is completed; None: no limit."""
        self._last: int | None = None
        """The newest checkpoint that it has completed."""
        self._acks: dict[tuple[int, int, int], None] = {}
        """(checkpoint, subtask, attempt) of the acknowledgements taken for checkpoints that are not complete."""

    def poll(self) -> bool:
        """Complete every checkpoint that can be; False if the database did not answer."""
        try:
            while self._decide_next():
                pass
        except self._driver.errors:
            self.close()
            return False
        return True

    def _decide_next(self) -> bool:
        if self.until is not None and self._last is not None and self._last >= self.until:
            return False
        connection = self._open()
        with connection.cursor() as cursor:
            parts = self._parts(cursor)  # usually there are no new parts, so the fences need not be read
            number = self._complete(parts, _newest_attempts(cursor, _FENCES)) if parts else None
            connection.rollback()
            if number is None:
                return False
            # locks the fences, so no attempt takes over before the commit
            newest = _newest_attempts(cursor, _FENCES_LOCKED)
            number = self._complete(self._parts(cursor), newest)
            if number is None:
                connection.rollback()
                return False
            self._note(Deciding, c=number)
            cursor.execute("INSERT INTO completed (epoch) VALUES (%s)", (number,))
            connection.commit()
        self._last = number
        self._acks = {ack: None for ack in self._acks if ack[0] > number}
        if number > PARTS_KEPT:
            self._note(Retire, c=number - PARTS_KEPT)
        return True

    def _parts(self, cursor: Cursor) -> dict[int, dict[int, int]]:
        """The acknowledgements of incomplete checkpoints; each one is noted when it is first seen."""
        parts = _parts(cursor)
        for epoch, of in parts.items():
            for subtask, token in of.items():
                if (epoch, subtask, token) not in self._acks:
                    self._acks[epoch, subtask, token] = None
                    self._note(Ack, s=subtask, a=token, c=epoch)
        return parts

    def _complete(
        self, parts: Mapping[int, Mapping[int, int]], newest: Mapping[int, _NewestAttempt]
    ) -> int | None:
        """The next number that the newest attempt of every unfinished subtask has acknowledged."""
        return next((epoch for epoch, of in parts.items() if self._is_complete(of, newest)), None)

    def _is_complete(self, parts: Mapping[int, int], newest: Mapping[int, _NewestAttempt]) -> bool:
        return all(
            attempt.ended or parts.get(subtask) == attempt.token for subtask, attempt in newest.items()
        )

    def _open(self) -> BlockingConnection:
        if self._connection is None:
            connection = self._driver.connect(statement_s=_STATEMENT_S)
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
            self._connection = connection
        return self._connection

    def close(self) -> None:
        """Drop the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._driver.hang_up(connection)


def _newest_attempts(cursor: Cursor, fences: str) -> dict[int, _NewestAttempt]:
    """The newest attempt of each subtask."""
    cursor.execute(fences)
    return {
        subtask: _NewestAttempt(token=token, ended=bool(ended)) for subtask, token, ended in cursor.fetchall()
    }


def _parts(cursor: Cursor) -> dict[int, dict[int, int]]:
    """For each number after the newest completed one: subtask -> the token of the attempt that acknowledged it."""
    cursor.execute(
        "SELECT epoch, subtask, token FROM ack"
        " WHERE epoch > (SELECT COALESCE(MAX(epoch), 0) FROM completed) ORDER BY epoch"
    )
    parts: dict[int, dict[int, int]] = {}
    for epoch, subtask, token in cursor.fetchall():
        parts.setdefault(epoch, {})[subtask] = token
    return parts


@contextmanager
def coordinated(
    root: Endpoint, *, note: Note, kind: Callable[..., Coordinator] = Coordinator, until: int | None = None
) -> Iterator[Coordinator]:
    """Run a coordinator (of class `kind`) on a thread; afterwards roll back prepared transactions of the run."""
    over = threading.Event()
    driver = MySqlDriver(root)
    coordinator = kind(driver, note=note)
    coordinator.until = until
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
        yield coordinator
    finally:
        over.set()
        thread.join(timeout=_END_S)
        # Roll back prepared branches. If the server does not answer they stay, and are deleted with the world
        with (
            suppress(*driver.errors),
            closing(driver.connect(statement_s=_STATEMENT_S)) as connection,
            connection.cursor() as cursor,
        ):
            roll_back_branches(cursor, driver.database)
        if broken:
            raise broken[0]
