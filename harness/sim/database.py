"""The simulated database: a table of customers, what sinks write, and the troubles that a server can have.

Answers to one MySQL server. Invariant: a transaction takes effect at one instant, whole, whether or not its client
ever hears of it; `seq` numbers effects in the order in which they were committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, UnsetType

from harness.choices import Draw
from harness.database.epoch import SavedEpoch
from harness.history.event import Effect
from harness.levels.sim.buffer_journal import Tape

__all__ = ["CALM", "Database", "Epoch", "Fence", "Troubles"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """What goes wrong by itself, per mille of the requests that may meet it."""

    error_codes: tuple[int, ...] = ()
    """Of the server's own errors (1205, 1213, 1290): definite, the statement took no effect."""
    errors: int = 0
    lost_replies: int = 0
    """The statement takes effect, its connection ends before the answer."""


CALM = Troubles()


@dataclass(slots=True, kw_only=True)
class Fence:
    """A subtask's row of the table `fence`. Mutable."""

    token: int = 0
    origin_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A row of the table `epoch`."""

    number: int
    token: int
    saved: SavedEpoch


class Database:
    """Mutable: its tables. `customers` maps a key to the results of its lookup; a key without a row is absent."""

    def __init__(
        self,
        tape: Tape,
        draw: Draw,
        *,
        customers: Mapping[Any, Any],
        troubles: Troubles = CALM,
    ) -> None:
        self.tape = tape
        self.draw = draw
        self.customers = customers
        self.troubles = troubles
        self.fences: dict[int, Fence] = {}
        self.epochs: dict[int, dict[int, Epoch]] = {}
        self._keys: dict[tuple[int, int, int], None] = {}
        self.audits_outputs = True
        """Whether the audit log has the outputs of sinks; it has the rows that lookups write in any case."""
        self.effects: list[tuple[int, int, int, int | UnsetType, Any]] = []
        """The audit log: (subtask, record, token, place, value), in the order of commits."""

    def fence(self, subtask: int) -> Fence:
        """The row of `subtask`."""
        fence = self.fences.get(subtask)
        if fence is None:
            fence = self.fences[subtask] = Fence()
        return fence

    def trouble(self) -> int | None:
        """The error that the next request meets, if it does: drawn."""
        troubles = self.troubles
        if troubles.errors and self.draw.chance(troubles.errors):
            return troubles.error_codes[self.draw.index(len(troubles.error_codes))]
        return None

    def loses_reply(self) -> bool:
        """Whether the answer to the next request is lost: drawn."""
        return bool(self.troubles.lost_replies) and self.draw.chance(self.troubles.lost_replies)

    def write(self, subtask: int, *, id: int, token: int, j: int | UnsetType = UNSET, v: Any = UNSET) -> None:
        """A row, and its entry in the audit log."""
        if self.audits_outputs or j is UNSET:
            self.effects.append((subtask, id, token, j, v))

    def takes_key(self, subtask: int, id: int, j: int) -> bool:
        """Of a table with a key: whether a row with this one is new."""
        key = (subtask, id, j)
        is_new = key not in self._keys
        self._keys[key] = None
        return is_new

    def read_audit(self) -> None:
        """After the run: the audit log becomes the history's `effect` events."""
        tape, t = self.tape, self.tape.t
        for seq, (subtask, id_, token, j, v) in enumerate(self.effects, start=1):
            tape.add(Effect(n=tape.n, t=t, s=subtask, id=id_, token=token, seq=seq, j=j, v=v))
