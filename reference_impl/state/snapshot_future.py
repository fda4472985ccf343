"""The asynchronous part of a snapshot: begun in the synchronous one, run later, in one go or slice by slice.

Answers to the `RunnableFuture<SnapshotResult>` that Flink's state backends return from `snapshot` and to its
`DoneFuture`. Invariant: it ends once, with a result, an error or cancelled, and holds nothing then; whatever
the state became in the meantime, the result is what it was when the future was made (C7, S9, S23).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from threading import Lock
from typing import Generic, TypeVar

from reference_impl.errors import SnapshotCancelled, WrongState

__all__ = ["SnapshotFuture"]

T = TypeVar("T")


class SnapshotFuture(Generic[T]):
    """Runs `slices` to their end; what the generator returns is the result. Mutable.

    On the task's thread a mailbox interleaves `run_slice` with its mail; on another thread `run` does all at once,
    and `cancel` may come from anywhere meanwhile (C12): the slice in progress is the last one then.
    """

    def __init__(self, slices: Generator[None, None, T]) -> None:
        self._slices = slices
        self._turn = Lock()
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._is_cancelled = False

    @classmethod
    def of(cls, value: T) -> SnapshotFuture[T]:
        """One that has ended already: there was nothing to do later."""
        future = cls(_returning(lambda: value))
        future.run()
        return future

    @classmethod
    def calling(cls, work: Callable[[], T]) -> SnapshotFuture[T]:
        """One whose whole asynchronous part is `work`, in a single slice."""
        return cls(_returning(work))

    @property
    def is_done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._is_cancelled or self._error is not None or bool(self._results)

    @property
    def is_cancelled(self) -> bool:
        """Whether it was ended from outside."""
        return self._is_cancelled

    @property
    def written(self) -> T | None:
        """What it came to, also if it was cancelled meanwhile, for whoever discards it (C8); None if to nothing yet."""
        return self._results[0] if self._results else None

    def run(self) -> None:
        """Run what is left of it; without effect on one that has ended."""
        while not self.run_slice():
            pass

    def run_slice(self) -> bool:
        """Run a little of it, some tens of microseconds if its maker kept to that, and say whether it has ended."""
        with self._turn:
            if not self.is_done:
                self._advance()
            if self._is_cancelled:
                self._slices.close()
        return self.is_done

    def cancel(self) -> None:
        """End it without a result; without effect on one that has ended. A slice in progress is still finished."""
        if self.is_done:
            return
        self._is_cancelled = True
        if self._turn.acquire(blocking=False):
            try:
                self._slices.close()
            finally:
                self._turn.release()

    def result(self) -> T:
        """What it came to; raises the error that ended it, and WrongState if nothing has yet."""
        if self._is_cancelled:
            raise SnapshotCancelled("the snapshot was cancelled, so it has no result")
        if self._error is not None:
            raise self._error
        if not self._results:
            raise WrongState("the asynchronous part has not ended; call run() before result()")
        return self._results[0]

    def _advance(self) -> None:
        try:
            next(self._slices)
        except StopIteration as end:
            self._results.append(end.value)
        except Exception as error:  # noqa: BLE001  # kept for whoever asks for the result (C9)
            self._error = error


def _returning(work: Callable[[], T]) -> Generator[None, None, T]:
    """A generator that ends in its first slice."""
    yield from ()
    return work()
