"""One operator's part of a checkpoint while it is being written.

Answers to Flink's `OperatorSnapshotFutures` and `OperatorSnapshotFinalizer`. Invariant: what each future comes to
is either in the `OperatorSubtaskState` that `finalize` gives, or discarded, once (C8).
"""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from reference_impl.snapshots.task_state_snapshot import OperatorSubtaskState, StateObject
from reference_impl.state.snapshot_future import SnapshotFuture

__all__ = ["OperatorSnapshotFutures"]

_NAMES = (
    "managed_keyed_state",
    "raw_keyed_state",
    "managed_operator_state",
    "raw_operator_state",
    "input_channel_state",
    "result_channel_state",
)
"""In the order in which they are finished."""


@dataclass(slots=True, kw_only=True)
class OperatorSnapshotFutures:
    """Mutable: filled in the synchronous part (C6), finished in the asynchronous one; None where there is nothing."""

    managed_keyed_state: SnapshotFuture[Any] | None = None
    raw_keyed_state: SnapshotFuture[Any] | None = None
    managed_operator_state: SnapshotFuture[Any] | None = None
    raw_operator_state: SnapshotFuture[Any] | None = None
    input_channel_state: Future[Any] | None = None
    """Ended by whoever writes what is in flight; must have ended before `finalize`."""
    result_channel_state: Future[Any] | None = None
    _turn: Lock = field(default_factory=Lock, repr=False)
    _discarded: set[str] = field(default_factory=set, repr=False)

    @property
    def channel_states(self) -> list[Future[Any]]:
        """What this waits for before it can be finished."""
        both = (self.input_channel_state, self.result_channel_state)
        return [future for future in both if future is not None]

    def run_slice(self) -> bool:
        """Run a little of what has not ended; whether nothing is left."""
        for name in _NAMES:
            future = getattr(self, name)
            if isinstance(future, SnapshotFuture) and not future.is_done:
                future.run_slice()
                return False
        return True

    def finalize(self) -> OperatorSubtaskState:
        """Run every asynchronous part that has not run. Raises what the first one to fail raised (C9)."""
        return OperatorSubtaskState(**{name: _outcome(getattr(self, name)) for name in _NAMES})

    def cancel(self) -> None:
        """Let nothing come of it: end what has not ended, discard what has a result; each result once."""
        with self._turn:
            for name in _NAMES:
                future = getattr(self, name)
                if future is not None and name not in self._discarded:
                    self._cancel(name, future)

    def _cancel(self, name: str, future: SnapshotFuture[Any] | Future[Any]) -> None:
        future.cancel()
        handle = _written(future)
        if isinstance(handle, StateObject):
            self._discarded.add(name)
            with suppress(
                Exception
            ):  # the others are to be discarded too, and the storage is swept in any case
                handle.discard_state()


def _written(future: SnapshotFuture[Any] | Future[Any]) -> Any:
    """What it came to, wanted or not; None if to nothing, or to nothing yet."""
    if isinstance(future, SnapshotFuture):
        return future.written
    if not future.done() or future.cancelled() or future.exception() is not None:
        return None
    return future.result()


def _outcome(future: SnapshotFuture[Any] | Future[Any] | None) -> Any:
    if future is None:
        return None
    if isinstance(future, SnapshotFuture):
        future.run()
    return future.result()
