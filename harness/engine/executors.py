"""The interface to many machines: work on the pieces of a sequence, with results in the sequence's order.

Answers to `concurrent.futures.Executor`. Invariant: every item is worked on, and counted, exactly once, however many
machines are lost meanwhile. `harness.levels.spark.executors` implements it, and `open_processes` on this machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from signal import SIG_IGN, SIGINT, signal
from typing import Any, Protocol, TypeVar

from harness.system.errors import WorldError

_Result = TypeVar("_Result")


def always() -> bool:
    """The condition of work that is never stopped."""
    return True


class Executors(Protocol):
    """Machines that are there while a block lasts."""

    def map(
        self,
        work: Callable[[Sequence[Any]], _Result],
        items: Sequence[object],
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
        items: Sequence[object],
        *,
        most: int,
        goes_on: Callable[[], bool] = always,
    ) -> Iterator[_Result]:
        """See `Executors`."""
        for first in range(0, len(items), most):
            if not goes_on():
                return
            yield work(items[first : first + most])


class ProcessExecutors:
    """Processes of this machine, forked from this one; they ignore Ctrl-C, which their parent handles."""

    def __init__(self, pool: ProcessPoolExecutor, *, jobs: int) -> None:
        self._pool = pool
        self._ahead = 2 * jobs
        """Pieces that are handed over before the first result, so that no process waits."""

    def map(
        self,
        work: Callable[[Sequence[Any]], _Result],
        items: Sequence[object],
        *,
        most: int,
        goes_on: Callable[[], bool] = always,
    ) -> Iterator[_Result]:
        """See `Executors`."""
        pieces = deque(items[first : first + most] for first in range(0, len(items), most))
        under_way: deque[Future[_Result]] = deque()
        try:
            while pieces or under_way:
                while pieces and len(under_way) < self._ahead and goes_on():
                    under_way.append(self._pool.submit(work, pieces.popleft()))
                if not under_way:
                    return
                yield under_way.popleft().result()
        except BrokenProcessPool as error:
            message = "a process that runs scenarios has died, perhaps because the memory was used up"
            raise WorldError(message, fix="lower --jobs") from error
        finally:
            for future in under_way:
                future.cancel()


@contextmanager
def open_processes(jobs: int) -> Iterator[Executors]:
    """That many processes while the block lasts; with one, this process does the work.

    An error in the block, and Ctrl-C is one, ends the processes without waiting for what they work on.
    """
    if jobs == 1:
        yield PlainExecutors()
        return
    deaf = (SIGINT, SIG_IGN)
    others = set(active_children())
    with ProcessPoolExecutor(jobs, mp_context=get_context("fork"), initializer=signal, initargs=deaf) as pool:
        try:
            yield ProcessExecutors(pool, jobs=jobs)
        except BaseException:
            for ours in set(active_children()) - others:
                ours.kill()
            raise
