"""The interface to many machines: work on the pieces of a sequence, with results in the sequence's order.

Answers to `concurrent.futures.Executor`. Invariant: every item is worked on, and counted, exactly once, however many
machines are lost meanwhile. `harness.levels.spark.executors` implements it; `PlainExecutors` works in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

__all__ = ["Executors", "PlainExecutors", "always"]

_Result = TypeVar("_Result")


def always() -> bool:
    """The condition of work that is never stopped."""
    return True


class Executors(Protocol):
    """Machines that are there while a block lasts."""

    def map(
        self,
        work: Callable[[Sequence[Any]], _Result],
        items: Sequence[Any],
        *,
        most: int,
        goes_on: Callable[[], bool] = always,
    ) -> Iterator[_Result]:
        """The results of `work` on consecutive pieces of at most `most` items, in order, while `goes_on` is true.

        `work` and its results must be picklable. Raises what `work` raises, and WorldError if the machines fail.
        """


class PlainExecutors:
    """Works in this process; for tests, and for work that is too small to be sent anywhere."""

    def map(
        self,
        work: Callable[[Sequence[Any]], _Result],
        items: Sequence[Any],
        *,
        most: int,
        goes_on: Callable[[], bool] = always,
    ) -> Iterator[_Result]:
        """See `Executors`."""
        for first in range(0, len(items), most):
            if not goes_on():
                return
            yield work(items[first : first + most])
