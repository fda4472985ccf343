"""Several operators in one task: what one emits, the next processes, at once and on the same thread.

Answers to Flink's `RegularOperatorChain`. Invariant: a yield in one operator runs mail of its own and of those
behind it, never of those before it (A30, M25), for the place in the chain is the priority; so no emission is
re-entered (A90).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from reference_impl.elements import OperatorInput, QueueElement
from reference_impl.mailbox import Mailbox
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.queues.availability import Availability
from reference_impl.task import Operator

__all__ = ["BuildLink", "ChainedOperator", "OperatorChain"]

Emit = Callable[[OperatorInput], None]


class ChainedOperator(Operator, Protocol):
    """An operator that can be a link."""

    def close(self) -> None:
        """Release what it holds."""


class BuildLink(Protocol):
    """Builds one link of a chain, for example with `functools.partial(ordered_wait, function=..., ...)`."""

    def __call__(
        self, *, executor: MailboxExecutor, emit: Emit, downstream: Callable[[], Availability] | None
    ) -> ChainedOperator:
        """The operator at this place."""


class OperatorChain:
    """Operators from head to tail. Mutable, as they are."""

    def __init__(self, links: Sequence[BuildLink], *, mailbox: Mailbox, emit: Emit) -> None:
        if not links:
            raise ValueError("a chain has no operator; give one or more")
        self._operators: list[ChainedOperator] = []
        downstream: Callable[[], Availability] | None = None
        for place in range(len(links) - 1, -1, -1):
            executor = MailboxExecutor(mailbox, place)
            operator = links[place](executor=executor, emit=emit, downstream=downstream)
            self._operators.insert(0, operator)
            emit, downstream = operator.process, _room_of(operator)

    @property
    def room(self) -> Availability:
        """Of the head."""
        return self._operators[0].room

    def open(self, restored: Sequence[Sequence[QueueElement]] = ()) -> None:
        """Tail first, for whoever replays may emit (A62). One snapshot for each operator, or none at all."""
        snapshots = restored or [()] * len(self._operators)
        for operator, elements in reversed(list(zip(self._operators, snapshots, strict=True))):
            operator.open(elements)

    def process(self, element: OperatorInput) -> None:
        """Into the head."""
        self._operators[0].process(element)

    def snapshot(self) -> list[Sequence[QueueElement]]:
        """Of each operator, from head to tail; between two mails, so no element is in two of them, or in none."""
        return [operator.snapshot() for operator in self._operators]

    def end_input(self) -> None:
        """Head first: what it drains into the next is drained there (A62)."""
        for operator in self._operators:
            operator.end_input()

    def close(self) -> None:
        """Every one, whatever another's close raises; the first error comes out (A70)."""
        errors: list[Exception] = []
        for operator in self._operators:
            try:
                operator.close()
            except Exception as error:  # noqa: BLE001 - the others are to be closed first
                errors.append(error)
        if errors:
            raise errors[0]


def _room_of(operator: ChainedOperator) -> Callable[[], Availability]:
    return lambda: operator.room
