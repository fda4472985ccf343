"""A store with transactions that outlives whoever writes to it, and a crash at any point of its use."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from reference_impl.functions.sink import Transactions


class Crash(BaseException):
    """The process is gone; nobody in it can catch this."""


class Phase(Enum):
    """Of a transaction."""

    OPEN = "open"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"


class TransactionStore(Transactions[int]):
    """In memory. Strict: what no honest sink does is an AssertionError. Mutable."""

    def __init__(self, crash_points: Iterable[int] = ()) -> None:
        self._crash_points = set(crash_points)
        self.points = 0
        """Passed so far: one before and one behind each effect, and those of whoever calls `point`."""
        self.values: dict[int, list[Any]] = {}
        self.phases: dict[int, Phase] = {}
        self.published: list[Any] = []
        self.calls: list[tuple[str, int]] = []

    def point(self) -> None:
        """A moment at which the process may die."""
        self.points += 1
        if self.points in self._crash_points:
            raise Crash(self.points)

    def writer_died(self) -> None:
        """What was not prepared is gone."""
        for handle, phase in self.phases.items():
            if phase is Phase.OPEN:
                self.phases[handle] = Phase.ABORTED

    def begin_transaction(self) -> int:
        self.point()
        handle = len(self.phases)
        self.phases[handle] = Phase.OPEN
        self.values[handle] = []
        self.point()
        return handle

    def invoke(self, handle: int, value: Any) -> None:
        self.point()
        assert self.phases[handle] is Phase.OPEN, "written after its pre-commit"
        self.values[handle].append(value)
        self.point()

    def pre_commit(self, handle: int) -> None:
        self.point()
        assert self.phases[handle] is Phase.OPEN
        self.phases[handle] = Phase.PREPARED
        self.point()

    def commit(self, handle: int) -> None:
        self.point()
        self.calls.append(("commit", handle))
        if self.phases[handle] is not Phase.COMMITTED:
            assert self.phases[handle] is Phase.PREPARED, f"commit of one that is {self.phases[handle].value}"
            self.phases[handle] = Phase.COMMITTED
            self.published += self.values[handle]
        self.point()

    def abort(self, handle: int) -> None:
        self.point()
        self.calls.append(("abort", handle))
        assert self.phases[handle] is not Phase.COMMITTED, "abort of one that is visible"
        self.phases[handle] = Phase.ABORTED
        self.point()
