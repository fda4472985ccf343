"""Defects of the sinks at level sim: who may write, when what is written is visible, and how often.

Answers to `TwoPhaseCommitSinkFunction` done wrong. Invariant: each is the honest sink of whatever kind the situation
has, but for the one thing that its name says; of a kind that has no such thing, it is the honest sink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from harness.database.epoch import SavedEpoch, Visible
from harness.sim.atomic_sink import AtomicSink
from harness.sim.client import Work
from harness.sim.sinks.ledger import Transaction
from harness.sim.sinks.open_sink import RollbackSink
from harness.sim.sinks.two_phase import TwoPhaseSink
from harness.sim.wire import TAKE_OVER, Statement

__all__ = [
    "assuming_committed",
    "checking_before",
    "committing_again",
    "committing_at_snapshot",
    "committing_blindly",
    "keeping_output",
    "unfenced",
    "writing_at_once",
]

Kind = type[Any]


@cache
def unfenced(sink: Kind) -> Kind:
    """`sink`, which writes whoever asks."""
    if issubclass(sink, AtomicSink):

        class UnfencedAtomic(sink):  # type: ignore[misc]  # whatever kind of it it is
            def transact(self, saved: SavedEpoch) -> Any:
                return _as_holder(self, partial(super().transact, saved))

        return UnfencedAtomic
    if issubclass(sink, TwoPhaseSink):

        class UnfencedTwoPhase(sink):  # type: ignore[misc]
            def _check_fence(self) -> None:
                """Whoever it is."""

        return UnfencedTwoPhase
    return sink


def _as_holder(sink: Any, transact: Callable[[], Any]) -> Any:
    """As if the sink's own token were the newest."""
    fence = sink.run.database.fence(sink.subtask)
    holder, fence.token = fence.token, sink.token
    try:
        return transact()
    finally:
        fence.token = holder


@cache
def checking_before(sink: Kind) -> Kind:
    """`sink`, which acts on what its last transaction saw of the fence, and looks again for the next."""
    if issubclass(sink, AtomicSink):

        class HastyAtomic(sink):  # type: ignore[misc]
            _was_ours = True

            def transact(self, saved: SavedEpoch) -> Any:
                was_ours = self._was_ours
                self._was_ours = self.run.database.fence(self.subtask).token == self.token
                transact = partial(super().transact, saved)
                return _as_holder(self, transact) if was_ours else transact()

        return HastyAtomic
    if issubclass(sink, TwoPhaseSink):

        class HastyTwoPhase(sink):  # type: ignore[misc]
            _was_ours = True

            def _check_fence(self) -> None:
                was_ours, self._was_ours = self._was_ours, self._ledger.fence.token == self.token
                if not was_ours:
                    super()._check_fence()

        return HastyTwoPhase
    return sink


@cache
def keeping_output(sink: Kind) -> Kind:
    """`sink`, from which a restart takes nothing back."""
    if not issubclass(sink, RollbackSink):
        return sink

    class KeepingSink(sink):  # type: ignore[misc]
        kind = "append"

    return KeepingSink


@cache
def committing_at_snapshot(sink: Kind) -> Kind:
    """`sink`, whose epochs are visible as soon as they are prepared."""
    if not issubclass(sink, TwoPhaseSink):
        return sink

    class EarlySink(sink):  # type: ignore[misc]
        def prepare(self, epoch: int) -> tuple[Transaction, ...]:
            prepared: tuple[Transaction, ...] = super().prepare(epoch)
            self.completed(epoch)
            return prepared

    return EarlySink


@cache
def committing_again(sink: Kind) -> Kind:
    """`sink`, which commits whenever it is told to."""
    if not issubclass(sink, TwoPhaseSink):
        return sink

    class RepeatingSink(sink):  # type: ignore[misc]
        def _is_committed(self, transaction: Transaction) -> bool:
            del transaction
            return False

        def _settle(self, transaction: Transaction) -> None:
            """It stays, for the next time."""

    return RepeatingSink


@cache
def writing_at_once(sink: Kind) -> Kind:
    """`sink`, whose rows are visible when they are added, outside the epoch's transaction."""
    if not issubclass(sink, AtomicSink):
        return sink

    class SplitSink(sink):  # type: ignore[misc]
        def add(self, row: Visible) -> None:
            self.insist(lambda: self._write(row), "write an output")

        def _write(self, row: Visible) -> tuple[Any, int | None, int]:
            self.run.database.write(self.subtask, id=row.id, token=self.token, j=row.j, v=row.value)
            return None, None, 0

    return SplitSink


@cache
def committing_blindly(sink: Kind) -> Kind:
    """`sink`, which writes a transaction again without asking whether its first COMMIT took effect."""
    if not issubclass(sink, AtomicSink):
        return sink

    class BlindSink(sink):  # type: ignore[misc]
        def transact(self, saved: SavedEpoch) -> Any:
            self.run.database.epochs.get(self.subtask, {}).pop(saved.epoch, None)
            return super().transact(saved)

    return BlindSink


@cache
def assuming_committed(sink: Kind) -> Kind:
    """`sink`, for which a commit that ended with an error is one that was made."""
    if not issubclass(sink, AtomicSink):
        return sink

    class HopefulSink(sink):  # type: ignore[misc]
        def insist(self, work: Work, what: str, *, says: Sequence[Statement]) -> Any:
            if says is TAKE_OVER:
                return super().insist(work, what, says=says)
            return self.ask(work, says).value

    return HopefulSink
