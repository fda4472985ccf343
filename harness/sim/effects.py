"""Effects: the table that effectful lookups write to, one row for each record, whatever is asked again.

Answers to an upsert by primary key with a fencing check in the same transaction. Invariant: a row is written once
for its key, and never by an attempt after a later one of its subtask has taken over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.database.epoch import Fenced
from harness.sim.database import Database

__all__ = ["EffectTable"]


class EffectTable:
    """Mutable: the keys of its rows. The audit log and the fencing tokens are the database's."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._keys: dict[Any, None] = {}

    def write(self, *, subtask: int, token: int, id: Any, results: Sequence[Any]) -> None:
        """In one transaction: the check, and the row if it is not there yet. Raises `Fenced`."""
        self.check_fence(subtask, token)
        if self.has(id):
            return
        self._keys[id] = None
        value = results[0] if len(results) == 1 else list(results)
        self._database.write(subtask, id=id, token=token, v=value)

    def check_fence(self, subtask: int, token: int) -> None:
        """Raises `Fenced` if a later attempt has taken over."""
        holder = self._database.fence(subtask).token
        if holder != token:
            raise Fenced(f"attempt {token} of subtask {subtask} is fenced: attempt {holder} took over")

    def has(self, id: Any) -> bool:
        """Whether the row is there: written by a call whose answer was lost, say."""
        return id in self._keys
