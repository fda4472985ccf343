"""Work on the pieces of a sequence by several processes or machines, with results in the sequence's order.

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
from typing import Protocol, TypeVar

from harness.system.errors import WorldError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def always() -> bool:
    """The condition of work that is never stopped."""
    return True


class Executors(Protocol):
    """Machines that are there while a block lasts."""

    def map(
        self,
        work: Callable[[Sequence[_Item]], _Result],
        items: Sequence[_Item],
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
        work: Callable[[Sequence[_Item]], _Result],
        items: Sequence[_Item],
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
    """Processes of this machine; they ignore Ctrl-C, which their parent handles."""

    def __init__(self, pool: ProcessPoolExecutor, *, died: str, fix: str) -> None:
        self._pool = pool
        self._died = died
        self._fix = fix

    def map(
        self,
        work: Callable[[Sequence[_Item]], _Result],
        items: Sequence[_Item],
        *,
        most: int,
        goes_on: Callable[[], bool] = always,
    ) -> Iterator[_Result]:
        """See `Executors`."""
        under_way: deque[Future[_Result]] = deque()
        try:
            for first in range(0, len(items), most):
                under_way.append(self._pool.submit(work, items[first : first + most]))
            while under_way:
                if not goes_on():
                    under_way = deque(
                        future for future in under_way if not future.cancel()
                    )  # those that began
                    goes_on = always
                else:
                    yield under_way.popleft().result()
        except BrokenProcessPool as error:
            raise WorldError(self._died, fix=self._fix) from error
        finally:
            for future in under_way:
                future.cancel()


@contextmanager
def open_processes(
    jobs: int,
    *,
    begin: Callable[..., object] = signal,
    given: tuple[object, ...] = (SIGINT, SIG_IGN),
    is_fresh: bool = False,
    died: str = "a process that runs scenarios has died, perhaps because the memory was used up",
    fix: str = "lower --jobs",
) -> Iterator[Executors]:
    """That many processes while the block lasts; with one, this process does the work.

    Each calls `begin(*given)` first, which must make it ignore Ctrl-C. It is forked from this process, so that `given`
    need not be picklable, or with `is_fresh` a new interpreter. If one is killed, `died` and `fix` say so. An error in
    the block, and Ctrl-C is one, ends the processes without waiting for what they work on.
    """
    if jobs == 1:
        yield PlainExecutors()
        return
    others = set(active_children())
    context = get_context("spawn" if is_fresh else "fork")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=begin, initargs=given) as pool:
        try:
            yield ProcessExecutors(pool, died=died, fix=fix)
        except BaseException:
            for ours in set(active_children()) - others:
                ours.kill()
            raise


def kill_processes() -> None:
    """Kills the processes of all pools, which would wait for work that nobody sends any more."""
    for child in active_children():
        child.kill()
