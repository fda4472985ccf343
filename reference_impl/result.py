"""The handle through which an asynchronous call gives its outcome.

Answers to Flink's `ResultFuture` and `AsyncWaitOperator.ResultHandler`. Invariant: the first outcome wins
and every later one is ignored, so a record is settled once (A36); nothing is emitted in the caller's
frame, for an accepted outcome goes to the operator as mail (A37).

An outcome from a foreign thread is accepted when it arrives on the task's thread. Until then a timeout may
come first; so the flag needs no lock, and the order of mail is the order of outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from reference_impl.errors import MailboxClosed
from reference_impl.mailbox import MailboxExecutor

__all__ = ["ResultHandle", "Settle"]

Settle = Callable[[Sequence[Any], BaseException | None], None]
"""Takes the results, or none and the error: exactly one accepted outcome, as mail."""


class ResultHandle:
    """Takes one outcome for one record, from any thread, and ignores all others. Mutable."""

    __slots__ = ("_executor", "_settle")

    def __init__(self, *, executor: MailboxExecutor, settle: Settle) -> None:
        self._executor = executor
        self._settle: Settle | None = settle

    @property
    def done(self) -> bool:
        """Whether an outcome was accepted, even if its mail still waits (A43)."""
        return self._settle is None

    def complete(self, results: Sequence[Any]) -> None:
        """The call went well and gave these 0..n results; they are copied."""
        if not isinstance(results, (list, tuple)):
            raise TypeError(
                f"complete() takes a list of results, not {results!r}; for no output give []",
            )
        self._end(tuple(results), None)

    def fail(self, error: BaseException) -> None:
        """The call failed; the task will fail (A41)."""
        self._end((), error)

    def _end(self, results: Sequence[Any], error: BaseException | None) -> None:
        try:
            if self._executor.on_task_thread():
                self._accept(results, error)
            else:
                self._executor.execute(partial(self._end, results, error), "outcome from a foreign thread")
        except MailboxClosed:
            return  # the task is over; the record is in its last snapshot and will be called anew (A38, A68)

    def _accept(self, results: Sequence[Any], error: BaseException | None) -> None:
        settle, self._settle = self._settle, None
        if settle is not None:
            self._executor.execute(partial(settle, results, error), "settle a record")
