"""A sink that shows what it wrote once the checkpoint that holds it is complete, and the transactions for it.

Answers to Flink's `TwoPhaseCommitSinkFunction`, its abstract methods and its `TransactionHolder`. Invariant: what is
visible are the records before the barrier of the last completed checkpoint that the sink has heard of, each once (C43).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from logging import getLogger
from typing import Any, Protocol

from msgspec import Struct

from reference_impl.checkpoints.state_handler import FunctionInitializationContext, FunctionSnapshotContext
from reference_impl.functions.sink import SinkContext
from reference_impl.state.state_descriptor import ListStateDescriptor

__all__ = ["Transaction", "TransactionTimeout", "Transactions", "TwoPhaseCommitSinkFunction"]


class Transaction(Struct, frozen=True):
    """A transaction and when it began."""

    handle: Any
    """Plain data by which the store knows it, in this process and in the next."""
    began_ms: int
    """By the sink's clock."""


class Transactions(Protocol):
    """What a two-phase sink writes through: transactions that can be made durable before they are made visible.

    A store. A class that names this as its parent inherits the two last methods.

    Answers to the abstract methods of Flink's `TwoPhaseCommitSinkFunction` and to its `TransactionHolder`. Invariant:
    what is pre-committed survives a crash of the writer and shows nothing until it is committed; to commit or abort
    again what was already committed or aborted changes nothing (C43).
    """

    def begin_transaction(self) -> Any:
        """A new one: its handle."""

    def invoke(self, handle: Any, value: Any) -> None:
        """Write `value` in it."""

    def pre_commit(self, handle: Any) -> None:
        """Make it durable and invisible; nothing more is written in it. What this raises fails the checkpoint."""

    def commit(self, handle: Any) -> None:
        """Make it visible; of no effect if it is. What this raises fails the task, which tries again once restored."""

    def abort(self, handle: Any) -> None:
        """Let it never become visible; of no effect if it is gone, and not called for what was committed."""

    def recover_and_commit(self, handle: Any) -> None:
        """As `commit`, of a transaction that an earlier run of the sink pre-committed, and may have committed."""
        self.commit(handle)

    def recover_and_abort(self, handle: Any) -> None:
        """As `abort`, of a transaction that an earlier run began, and may have pre-committed for a lost checkpoint."""
        self.abort(handle)


_LOGGER = getLogger(__name__)
_SavedTransaction = tuple[Any, int]
_Saved = tuple[_SavedTransaction | None, list[_SavedTransaction]]
"""What a snapshot holds: the transaction begun for the next one, and all that wait to be committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTimeout:
    """After which the store forgets a transaction, and what the sink then does."""

    timeout_ms: int
    warning_ratio: float | None = None
    """Warn when committing after more than this part of it; None: never."""
    ignore_failures: bool = False
    """Go on after a restore without what has timed out. That is a loss of data, told as such (C44)."""

    def __post_init__(self) -> None:
        if self.timeout_ms <= 0:
            raise ValueError(f"timeout_ms is {self.timeout_ms}; give 1 or more")
        if self.warning_ratio is not None and not 0 <= self.warning_ratio <= 1:
            raise ValueError(
                f"warning_ratio is {self.warning_ratio}; give a part of 1, or None for no warnings"
            )


class TwoPhaseCommitSinkFunction:
    """A sink that shows what it wrote once the checkpoint that holds it is complete, and exactly once.

    A `SinkFunction`, a `CheckpointedFunction` and a `CheckpointListener`. Mutable.

    Answers to Flink's `TwoPhaseCommitSinkFunction`. Invariant: what is visible are the records before the barrier of
    the last completed checkpoint that the sink has heard of, each once, whatever crashed in between (C43); and after a
    restore it is exactly what the restored checkpoint has seen.

    A snapshot pre-commits the transaction under way and begins the next; a notification commits what is pending up to
    its checkpoint. An aborted checkpoint gives up nothing: its data belong to the next that completes (C39).

    Deviations. The store is handed in (`Transactions`) and not inherited. The user context of Flink's third type
    parameter is left out: whatever a store must know after a restore it puts into its handles.
    """

    def __init__(
        self,
        transactions: Transactions,
        *,
        now_ms: Callable[[], int],
        timeout: TransactionTimeout | None = None,
        warn: Callable[[str], None] = _LOGGER.warning,
    ) -> None:
        """`now_ms`: a clock that goes on across restores, if there is a `timeout`."""
        self._transactions = transactions
        self._now_ms = now_ms
        self._timeout = timeout
        self._warn = warn
        self._current: Transaction | None = None
        self._pending: dict[int, Transaction] = {}
        """By the checkpoint that holds it, oldest first."""
        self._finished = False
        self._state: Any = None

    @property
    def pending(self) -> list[int]:
        """The checkpoints whose transactions wait to be committed."""
        return list(self._pending)

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Commit what the checkpoint holds as pre-committed, abort what was begun after it, begin anew (C42)."""
        self._state = context.operator_state_store.get_list_state(ListStateDescriptor(name="state"))
        if context.is_restored:
            for saved in self._state.get():
                self._recover(*saved)
        self._current = self._begin()

    def invoke(self, value: Any, context: SinkContext) -> None:  # noqa: ARG002 - the protocol's
        """Write it in the transaction under way."""
        self._transactions.invoke(self._under_way().handle, value)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Pre-commit, keep as pending, begin the next unless there is nothing more to write (C40, FLINK-23473)."""
        if self._current is not None:
            self._transactions.pre_commit(self._current.handle)
            self._pending[context.checkpoint_id] = self._current
        self._current = None if self._finished else self._begin()
        self._state.update([self._saved()])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit what is pending up to `checkpoint_id`, in order; each is tried, the first error counts (C41).

        There may be nothing: the notification is late, or meant for an earlier run (C38, FLINK-10377).
        """
        first: Exception | None = None
        for pending_id in self._committable(checkpoint_id):
            transaction = self._pending.pop(pending_id)
            try:
                self._warn_if_almost_timed_out(transaction)
                self._transactions.commit(transaction.handle)
            except Exception as error:  # noqa: BLE001 - raised below, once all were tried
                if first is None:
                    first = error
                else:
                    first.add_note(f"suppressed, of checkpoint {pending_id}: {error!r}")
        if first is not None:
            raise first

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Nothing: what was pre-committed for it belongs to the next checkpoint that completes (C39)."""

    def finish(self) -> None:
        """No record follows: after the next snapshot nothing is begun any more."""
        self._finished = True

    def close(self) -> None:
        """Abort what was not pre-committed; what was waits for whoever restores."""
        if self._current is not None:
            current, self._current = self._current, None
            self._transactions.abort(current.handle)

    def _under_way(self) -> Transaction:
        assert self._current is not None, "no record comes before initialize_state, nor after finish"
        return self._current

    def _begin(self) -> Transaction:
        return Transaction(self._transactions.begin_transaction(), self._now_ms())

    def _committable(self, checkpoint_id: int) -> list[int]:
        """A completed checkpoint covers all before it (C38)."""
        return [pending_id for pending_id in self._pending if pending_id <= checkpoint_id]

    def _saved(self) -> _Saved:
        current = None if self._current is None else _saved(self._current)
        return current, [_saved(pending) for pending in self._pending.values()]

    # ------------------------------------------------------------------------------------------------ recovery

    def _recover(self, current: _SavedTransaction | None, pending: Iterable[_SavedTransaction]) -> None:
        for saved in pending:
            self._recover_and_commit(Transaction(*saved))
        if current is not None:
            self._transactions.recover_and_abort(current[0])

    def _recover_and_commit(self, transaction: Transaction) -> None:
        self._warn_if_almost_timed_out(transaction)
        try:
            self._transactions.recover_and_commit(transaction.handle)
        except Exception as error:
            timeout, elapsed_ms = self._timeout, self._elapsed_ms(transaction)
            if timeout is None or not timeout.ignore_failures or elapsed_ms <= timeout.timeout_ms:
                raise
            self._warn(
                f"DATA LOSS: transaction {transaction.handle!r} could not be committed {elapsed_ms} ms after its"
                f" beginning, beyond its timeout of {timeout.timeout_ms} ms, and is given up: {error!r}"
            )

    def _warn_if_almost_timed_out(self, transaction: Transaction) -> None:
        timeout, elapsed_ms = self._timeout, self._elapsed_ms(transaction)
        if timeout is None or timeout.warning_ratio is None:
            return
        if elapsed_ms > timeout.warning_ratio * timeout.timeout_ms:
            self._warn(
                f"transaction {transaction.handle!r} is committed {elapsed_ms} ms after its beginning; it times out"
                f" after {timeout.timeout_ms} ms, so checkpoint more often or raise the timeout"
            )

    def _elapsed_ms(self, transaction: Transaction) -> int:
        return self._now_ms() - transaction.began_ms


def _saved(transaction: Transaction) -> _SavedTransaction:
    return transaction.handle, transaction.began_ms
