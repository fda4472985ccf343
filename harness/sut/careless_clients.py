"""Planted defects of clients: sinks that do not settle what is unknown, and a lookup that takes a loss for nothing.

Answers to what a sink and a lookup do without `docs/references.md` (Measured, exactly-once). Invariant: each does
one thing wrong, and only where an answer was lost or an error came; undisturbed it is as good as the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.database.connection_lost import MayAskAgain
from harness.database.sink import EpochSink
from harness.sut.registry import LookupFunction

__all__ = ["CARELESS_LOOKUPS", "CARELESS_SINKS", "AssumingSink", "BlindSink"]


class BlindSink(EpochSink):
    """Writes an epoch again whose COMMIT was not answered, and does not ask for its row."""

    def has_epoch(self, cursor: Any, epoch: int) -> bool:
        """As if it never were."""
        del cursor, epoch
        return False

    def write_epoch(self, cursor: Any, epoch: int, position: int, elements: str) -> None:
        """Over the one that may be there."""
        cursor.execute("DELETE FROM epoch WHERE subtask = %s AND epoch = %s", (self.subtask, epoch))
        super().write_epoch(cursor, epoch, position, elements)


class AssumingSink(EpochSink):
    """Tries a commit once, and takes it for made, whatever was answered."""

    def commit(self, epoch: int, *, position: int, elements: Sequence[dict[str, Any]]) -> None:
        """Raises `Fenced` still."""
        self.transactions.once(lambda cursor: self.write(cursor, epoch, position, elements))
        self.forget_rows()


def _loss_is_no_row(lookup: LookupFunction) -> LookupFunction:
    """`lookup`, asked once; where it would ask again, there is nothing."""

    async def careless(record: Any, pool: Any) -> Any:
        try:
            return await lookup(record, _Once(pool))
        except _Lost:
            return []

    return careless


class _Lost(Exception):
    """Not of those that a lookup asks again after."""


class _Once:
    """A pool whose losses nobody asks again after."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def fetch_all(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            rows: list[tuple[Any, ...]] = await self._pool.fetch_all(sql, args)
        except MayAskAgain as error:
            raise _Lost from error
        return rows


CARELESS_SINKS: Mapping[str, type[EpochSink]] = {
    "commits-blindly": BlindSink,
    "assumes-committed": AssumingSink,
}
"""By the name of the mutant."""
CARELESS_LOOKUPS: Mapping[str, Callable[[LookupFunction], LookupFunction]] = {
    "loss-is-no-row": _loss_is_no_row
}
"""By the name of the mutant: what becomes of the lookup."""
