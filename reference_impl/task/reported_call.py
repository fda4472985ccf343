"""A call that comes from outside, runs as mail, and whose error concerns both who called and the task.

Answers to the futures of Flink's `StreamTask.triggerCheckpointAsync` and `notifyCheckpointOperation`. Invariant:
the future ends: with what the call returned, with what it raised, which fails the task as well (C15), or
cancelled, if the mailbox closed before the call could run (M37).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from typing import Generic, Literal, TypeVar

__all__ = ["Later", "ReportedCall"]

T = TypeVar("T")


class Later(Enum):
    """What a call returns that is not over: it will be run again."""

    LATER = "later"


class ReportedCall(Future[T], Generic[T]):
    """A future whose `run` is the action of a mail. Mutable: ends once."""

    def __init__(self, call: Callable[[], T | Literal[Later.LATER]]) -> None:
        super().__init__()
        self._call = call

    def run(self) -> None:
        """On the task's thread; raises what the call raises."""
        if self.cancelled():
            return
        try:
            outcome = self._call()
        except BaseException as error:
            self.set_exception(error)
            raise
        if not isinstance(outcome, Later):
            self.set_result(outcome)
