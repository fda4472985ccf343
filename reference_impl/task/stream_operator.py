"""What a chain asks of an operator, and what an operator may be able to do besides.

Answers to Flink's `StreamOperator`, `Input`, `TwoInputStreamOperator`, `BoundedOneInput`, `BoundedMultiInput` and
`StreamOperatorFactory`. Invariant: one method is obligatory; each ability is a protocol of its own, which the
chain looks for once a type. An operator emits through the `emit` that it was built with, and may do so
up to `finish`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, Protocol, runtime_checkable

from reference_impl.elements import OperatorInput
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.queues.availability import Availability
from reference_impl.timers import Timers

__all__ = [
    "BoundedMultiInput",
    "BoundedOneInput",
    "Closing",
    "Emit",
    "EmitsOnFinalCheckpoint",
    "Finishing",
    "InitializesState",
    "Opening",
    "PreparesSnapshot",
    "SnapshotsState",
    "StreamOperator",
    "StreamOperatorFactory",
    "TwoInputStreamOperator",
    "WithRoom",
    "can",
]

Emit = Callable[[OperatorInput], None]


class StreamOperator(Protocol):
    """An operator of one input."""

    def process(self, element: OperatorInput) -> None:
        """Take `element` in: a record, a watermark, its status, a latency marker or a record attribute."""


@runtime_checkable
class TwoInputStreamOperator(Protocol):
    """An operator of two inputs; it can only be the head of its chain."""

    def process1(self, element: OperatorInput) -> None:
        """Take an element of the first input in."""

    def process2(self, element: OperatorInput) -> None:
        """Take an element of the second input in."""


@runtime_checkable
class InitializesState(Protocol):
    """Has state, or wants to know whether it was restored (C45)."""

    def initialize_state(self, context: Any) -> None:
        """Register state and take over what it holds; before `open`."""


@runtime_checkable
class Opening(Protocol):
    """Has something to do before its first element."""

    def open(self) -> None:
        """Begin; whoever is further down has begun already (M46)."""


@runtime_checkable
class BoundedOneInput(Protocol):
    """Wants to know that its input has ended."""

    def end_input(self) -> None:
        """No element follows; emit what waited for one. Not told on a stop without a drain (M44, M45)."""


@runtime_checkable
class BoundedMultiInput(Protocol):
    """Wants to know of each of its inputs that it has ended."""

    def end_input(self, input_id: int) -> None:
        """No element follows on input `input_id`, counted from 1."""


@runtime_checkable
class Finishing(Protocol):
    """Has something to emit when all is done."""

    def finish(self) -> None:
        """Emit the last there is; what mail this puts still runs (M45). Not called on a stop without a drain."""


@runtime_checkable
class Closing(Protocol):
    """Holds something that it must give back."""

    def close(self) -> None:
        """Give it back; nothing can be emitted any more. Called once, after a failure too."""


@runtime_checkable
class PreparesSnapshot(Protocol):
    """Has something to emit before the barrier."""

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Emit what is not to be kept in the snapshot (C3)."""


@runtime_checkable
class SnapshotsState(Protocol):
    """Puts into its state what it holds elsewhere, for each checkpoint."""

    def snapshot_state(self, context: Any) -> None:
        """The synchronous part (C6); the backends' own snapshots follow it."""


@runtime_checkable
class WithRoom(Protocol):
    """Can say beforehand that it would have to wait."""

    @property
    def room(self) -> Availability:
        """Whether an element would be admitted at once (A33)."""


@runtime_checkable
class EmitsOnFinalCheckpoint(Protocol):
    """Emits records when it hears of its last checkpoint, so the end of data must wait for them (FLINK-38614)."""

    @property
    def emits_on_final_checkpoint(self) -> bool:
        """Whether it does, as it was built."""


class StreamOperatorFactory(Protocol):
    """Builds one operator of a chain, for example with `functools.partial(ordered_wait, function=..., ...)`."""

    def __call__(
        self,
        *,
        executor: MailboxExecutor,
        timers: Timers,
        emit: Emit,
        fail: Callable[[BaseException], None],
        downstream: Callable[[], Availability] | None,
    ) -> StreamOperator | TwoInputStreamOperator:
        """The operator at this place: its mail, its timers, who takes what it emits, and whether that one has room."""


def can(operator: Any, ability: Any) -> bool:
    """Whether `operator` has `ability`, a protocol of methods; judged by its class, once a class."""
    kind: Any = type(operator)
    return _has(kind, ability)


@cache
def _has(kind: Hashable, ability: Any) -> bool:
    return all(hasattr(kind, name) for name in vars(ability) if not name.startswith("_"))
