"""The ledger: what of a two-phase sink's database survives its attempts.

Answers to the transaction log behind Flink's `TwoPhaseCommitSinkFunction`. Invariant: a transaction is prepared
under the name of the attempt that wrote it, and what `show` made visible stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.database.epoch import Visible
from harness.sim.database import Fence

__all__ = ["Ledger", "NoSuchTransaction", "Transaction"]


class NoSuchTransaction(Exception):
    """The database knows nothing of it (XAER_NOTA)."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Transaction:
    """What one attempt emitted in one epoch."""

    epoch: int
    attempt: int


class Ledger:
    """The tables of one subtask. Mutable. `shown` hears of all that becomes visible, as it does."""

    def __init__(self, fence: Fence, *, shown: Callable[[Transaction, Sequence[Visible]], None]) -> None:
        self.fence = fence
        """Whose token is that of the attempt that may write."""
        self._shown = shown
        self._prepared: dict[Transaction, tuple[Visible, ...]] = {}
        self._visible: dict[Transaction, None] = {}

    def prepare(self, transaction: Transaction, rows: Sequence[Visible]) -> None:
        """Make the rows durable, and nobody sees them; again, and it is the same."""
        self._prepared[transaction] = tuple(rows)

    def is_visible(self, transaction: Transaction) -> bool:
        """Whether it has been committed."""
        return transaction in self._visible

    def newest_visible(self) -> int:
        """The newest epoch that has been committed; 0: none."""
        return max((transaction.epoch for transaction in self._visible), default=0)

    def show(self, transaction: Transaction) -> None:
        """Make its rows visible, whether or not they are. Raises `NoSuchTransaction`."""
        if transaction not in self._prepared:
            raise NoSuchTransaction(f"{transaction} is not prepared: it never was, or was rolled back")
        self._visible[transaction] = None
        self._shown(transaction, self._prepared[transaction])

    def forget_but(self, kept: Sequence[Transaction]) -> int:
        """Roll back what is prepared, but for these and what is visible; how many were rolled back."""
        gone = [one for one in self._prepared if one not in self._visible and one not in kept]
        for transaction in gone:
            del self._prepared[transaction]
        return len(gone)
