"""Statements of a sink: each one round trip for which the attempt blocks, again until it is answered.

Answers to the connection of a JDBC sink. Invariant: a statement whose answer was lost is run again, so it has to be
one that may be; what it raises on the server is raised here, in the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from harness.database.epoch import Attempt as TakenOver
from harness.sim.atomic_sink import AtomicSink
from harness.sim.wire import STATEMENT, Statement

if TYPE_CHECKING:
    from harness.sim.attempt import Attempt

__all__ = ["Statements"]


class Statements:
    """One attempt's connection to the database of its sink. Mutable."""

    def __init__(self, attempt: Attempt) -> None:
        self._session = AtomicSink(attempt)

    def take_over(self) -> TakenOver:
        """Fence all earlier attempts; the token is the attempt's number."""
        return self._session.take_over()

    def run(self, statement: Callable[[], None], *, says: Sequence[Statement] = STATEMENT) -> None:
        """Have it done by the server. Raises what it raises there, and `SinkLost`."""
        refused: list[Exception] = []

        def work() -> tuple[Any, int | None, int]:
            refused.clear()
            try:
                statement()
            except Exception as error:  # noqa: BLE001 - the attempt raises it
                refused.append(error)
            return None, None, 0

        self._session.insist(work, "run a statement", says=says)
        if refused:
            raise refused[0]

    def close(self) -> None:
        """Give the connection up."""
        self._session.close()
