"""Sink functions, also with two-phase commit, the operator that runs them, and operator state for functions.

Answers to Flink's `SinkFunction`, `StreamSink`, `CheckpointedFunction`, the legacy `ListCheckpointed`, and
`StreamingFunctionUtils`. Invariant: `invoke` gets each record once, in order, on the task's thread; a function's state
is registered at every start and saved in every checkpoint (S25).

Answers to Flink's `TwoPhaseCommitSinkFunction`, its abstract methods and its `TransactionHolder`. Invariant: the
visible records are those before the barrier of the last completed checkpoint of which the sink was notified, each once
(C43).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import getLogger
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from reference_impl.checkpoint_events import HearsOfAborted, HearsOfComplete, can
from reference_impl.checkpoints.state_handler import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from reference_impl.elements import OperatorInput, Record, Watermark
from reference_impl.mailbox.timers import Timers
from reference_impl.state.internal_timers import MIN_WATERMARK
from reference_impl.state.operator_state import PartitionableListState
from reference_impl.state.state_descriptor import ListStateDescriptor
from reference_impl.task.stream_operator import Closing, Finishing, InitializesState, Opening, SnapshotsState

_LEGACY_STATE = "_default_"


class CheckpointedFunction(Protocol):
    """A function with operator state."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Called at each start: register the states, and read them if `context.is_restored`."""

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Called in the synchronous part of each checkpoint: update the states."""


class ListCheckpointed(Protocol):
    """The legacy form: the function returns its state and gets it back."""

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> Sequence[object] | None:
        """The state as a list, whose items may be redistributed; None counts as empty, as in Flink."""

    def restore_state(self, state: Sequence[object]) -> None:
        """Called after a restore with this subtask's part of the state."""


class FunctionState:
    """Saves and restores the operator state of a function, in either of the two forms, or none. Mutable.

    Answers to Flink's `CheckpointedFunction`, the legacy `ListCheckpointed`, and `StreamingFunctionUtils`. Invariant:
    a function's state is registered at every start and saved in every checkpoint (S25); the list of a
    `ListCheckpointed` is redistributed like any list state.
    """

    def __init__(self, function: object) -> None:
        if hasattr(function, "initialize_state") and hasattr(function, "restore_state"):
            raise TypeError(
                f"{type(function).__name__} has both initialize_state and restore_state; keep one of them"
            )
        self._function = function
        self._legacy: PartitionableListState[object] | None = None

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Called before `open` (C45). A function may have `initialize_state` without `snapshot_state`."""
        function = self._function
        if can(function, ListCheckpointed):
            self._legacy = context.operator_state_store.get_list_state(
                ListStateDescriptor(name=_LEGACY_STATE)
            )
            if context.is_restored:
                function.restore_state(list(self._legacy.get()))
        elif can(function, InitializesState):
            function.initialize_state(context)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Called in the synchronous part of a checkpoint."""
        function = self._function
        if can(function, ListCheckpointed):
            state = function.snapshot_state(context.checkpoint_id, context.checkpoint_timestamp)
            assert self._legacy is not None, "a function is initialized before its first snapshot (C45)"
            self._legacy.update(state or ())
        elif can(function, SnapshotsState):
            function.snapshot_state(context)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the function if it has that method."""
        if can(self._function, HearsOfComplete):
            self._function.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the function if it has that method."""
        if can(self._function, HearsOfAborted):
            self._function.notify_checkpoint_aborted(checkpoint_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """The time of the current record."""

    current_processing_time: int
    current_watermark: int
    timestamp: int | None
    """The record's event time."""


class SinkFunction(Protocol):
    """A function at the end of a stream; `open()`, `finish()`, `close()`, state and notifications are optional.

    Answers to Flink's `SinkFunction` and its `Context`. Invariant: `invoke` gets each record once, in order, on the
    task's thread.
    """

    def invoke(self, value: Any, context: SinkContext) -> None:
        """Called for each record."""


class StreamSink(FunctionState):
    """Runs a sink function as the last operator of a chain. Mutable: the current watermark.

    Answers to Flink's `StreamSink` and `AbstractUdfStreamOperator`. Invariant: the function's state is initialized
    before the function is opened (C45).
    """

    def __init__(self, *, function: SinkFunction, timers: Timers) -> None:
        super().__init__(function)
        self._invoke = function.invoke
        self._timers = timers
        self._watermark = MIN_WATERMARK

    def open(self) -> None:
        if can(self._function, Opening):
            self._function.open()

    def process(self, element: OperatorInput) -> None:
        match element:
            case Record():
                context = SinkContext(
                    current_processing_time=self._timers.now_ms(),
                    current_watermark=self._watermark,
                    timestamp=element.timestamp,
                )
                self._invoke(element.value, context)
            case Watermark():
                self._watermark = max(self._watermark, element.timestamp)
            case _:
                pass

    def finish(self) -> None:
        """No record follows; a checkpoint may (C18)."""
        if can(self._function, Finishing):
            self._function.finish()

    def close(self) -> None:
        if can(self._function, Closing):
            self._function.close()


H = TypeVar("H")


class Transaction(Struct, Generic[H], frozen=True):
    """A transaction and when it began."""

    handle: H
    """Plain data by which the store identifies it, also in a later process."""
    began_ms: int
    """When it began, by the sink's clock."""


class Transactions(Protocol[H]):
    """The store that a two-phase sink writes to: its transactions can be durable before they are visible.

    A subclass inherits the last three methods.

    Answers to the abstract methods of Flink's `TwoPhaseCommitSinkFunction` and to its `TransactionHolder`. Invariant:
    a pre-committed transaction survives a crash of the writer and is invisible until committed; repeating a commit or
    abort has no effect (C43).
    """

    def begin_transaction(self) -> H:
        """Begin a transaction and return its handle."""

    def invoke(self, handle: H, value: Any) -> None:
        """Write `value` in the transaction."""

    def pre_commit(self, handle: H) -> None:
        """Make it durable but not visible; nothing more is written to it. An exception fails the checkpoint."""

    def commit(self, handle: H) -> None:
        """Make it visible; without effect if it is.

        An exception fails the task, which tries again after its restore.
        """

    def abort(self, handle: H) -> None:
        """Discard it; without effect if it does not exist. Not called for a committed transaction."""

    def recover_and_commit(self, handle: H) -> None:
        """Commit a transaction that an earlier attempt pre-committed and may have committed."""
        self.commit(handle)

    def recover_and_abort(self, handle: H) -> None:
        """Abort a transaction that an earlier attempt began and may have pre-committed for a failed checkpoint."""
        self.abort(handle)

    def finish_processing(self, handle: H) -> None:
        """The input has ended: make the last writes of the transaction, which the next snapshot pre-commits.

        By default there are none.
        """
        del handle


_LOGGER = getLogger(__name__)
_SavedTransaction = tuple[Any, int]
_Saved = tuple[_SavedTransaction | None, list[_SavedTransaction]]
"""The content of a snapshot: the transaction that was begun, and those that wait for their commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTimeout:
    """When the store drops an open transaction, and how the sink deals with that."""

    timeout_ms: int
    warning_ratio: float | None = None
    """Warn on a commit after more than this fraction of the timeout; None for never."""
    ignore_failures: bool = False
    """After a restore, go on without transactions that have timed out. Their data are lost, which is logged (C44)."""

    def __post_init__(self) -> None:
        if self.timeout_ms <= 0:
            raise ValueError(f"timeout_ms is {self.timeout_ms}; give 1 or more")
        if self.warning_ratio is not None and not 0 <= self.warning_ratio <= 1:
            raise ValueError(f"warning_ratio is {self.warning_ratio}; give 0 to 1, or None for no warnings")


class TwoPhaseCommitSinkFunction(Generic[H]):
    """A sink that publishes what it wrote once its checkpoint is complete, exactly once. Mutable.

    A `SinkFunction`, a `CheckpointedFunction` and a `CheckpointListener`.

    Answers to Flink's `TwoPhaseCommitSinkFunction`. Invariant: the visible records are those before the barrier of the
    last completed checkpoint of which the sink was notified, each once, whatever crashed (C43); after a restore they
    are exactly those before the restored checkpoint.

    A snapshot pre-commits the current transaction and begins the next. A completed checkpoint commits the pending
    transactions up to its own. An aborted checkpoint changes nothing: its data belong to the next one that completes
    (C39).

    Differences from Flink: the store is passed in (`Transactions`) instead of inherited from. There is no user context
    (the third type parameter); a store puts what it must know after a restore into its handles.
    """

    def __init__(
        self,
        transactions: Transactions[H],
        *,
        now_ms: Callable[[], int],
        timeout: TransactionTimeout | None = None,
        warn: Callable[[str], None] = _LOGGER.warning,
    ) -> None:
        """`now_ms` must go on across restores if there is a `timeout`."""
        self._transactions = transactions
        self._now_ms = now_ms
        self._timeout = timeout
        self._warn = warn
        self._current: Transaction[H] | None = None
        self._pending: dict[int, Transaction[H]] = {}
        """By the checkpoint that contains it, oldest first."""
        self._finished = False
        self._state: Any = None

    @property
    def pending(self) -> list[int]:
        """The checkpoints whose transactions wait for their commit."""
        return list(self._pending)

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Commit the restored pre-committed transactions, abort the one begun after them, begin a new one (C42)."""
        self._state = context.operator_state_store.get_list_state(ListStateDescriptor(name="state"))
        if context.is_restored:
            for current, pending in self._state.get():
                for saved in pending:
                    self._recover_and_commit(Transaction(*saved))
                if current is not None:
                    self._transactions.recover_and_abort(current[0])
        self._current = self._begin()

    def invoke(self, value: object, context: SinkContext) -> None:  # noqa: ARG002 - part of the protocol
        """Write the value in the current transaction."""
        assert self._current is not None, "no record comes before initialize_state, nor after finish"
        self._transactions.invoke(self._current.handle, value)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Pre-commit the current transaction; begin the next unless the input has ended (C40, FLINK-23473)."""
        if self._current is not None:
            self._transactions.pre_commit(self._current.handle)
            self._pending[context.checkpoint_id] = self._current
        self._current = None if self._finished else self._begin()
        current = None if self._current is None else _saved(self._current)
        saved: _Saved = current, [_saved(pending) for pending in self._pending.values()]
        self._state.update([saved])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit the pending transactions up to `checkpoint_id` in order; try all, then raise the first error (C41).

        There may be none, if the notification is late or meant for an earlier attempt (C38, FLINK-10377).
        """
        first: Exception | None = None
        for pending_id in [number for number in self._pending if number <= checkpoint_id]:
            transaction = self._pending.pop(pending_id)
            try:
                self._warn_if_almost_timed_out(transaction)
                self._transactions.commit(transaction.handle)
            except Exception as error:  # noqa: BLE001 - raised below, after all were tried
                if first is None:
                    first = error
                else:
                    first.add_note(f"suppressed, of checkpoint {pending_id}: {error!r}")
        if first is not None:
            raise first

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Does nothing: the pre-committed data belong to the next checkpoint that completes (C39)."""

    def finish(self) -> None:
        """No record follows: the store finishes the transaction, and the next snapshot begins none."""
        self._finished = True
        if self._current is not None:
            self._transactions.finish_processing(self._current.handle)

    def close(self) -> None:
        """Abort the current transaction; pre-committed ones stay for the next restore."""
        if self._current is not None:
            current, self._current = self._current, None
            self._transactions.abort(current.handle)

    def _begin(self) -> Transaction[H]:
        return Transaction(self._transactions.begin_transaction(), self._now_ms())

    def _recover_and_commit(self, transaction: Transaction[H]) -> None:
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

    def _warn_if_almost_timed_out(self, transaction: Transaction[H]) -> None:
        timeout, elapsed_ms = self._timeout, self._elapsed_ms(transaction)
        if timeout is None or timeout.warning_ratio is None:
            return
        if elapsed_ms > timeout.warning_ratio * timeout.timeout_ms:
            self._warn(
                f"transaction {transaction.handle!r} is committed {elapsed_ms} ms after its beginning; it times out"
                f" after {timeout.timeout_ms} ms, so checkpoint more often or raise the timeout"
            )

    def _elapsed_ms(self, transaction: Transaction[H]) -> int:
        return self._now_ms() - transaction.began_ms


def _saved(transaction: Transaction[H]) -> _SavedTransaction:
    return transaction.handle, transaction.began_ms
