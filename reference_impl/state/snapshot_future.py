"""The asynchronous part of a snapshot, which runs later, at once or in slices.

Answers to the `RunnableFuture<SnapshotResult>` that Flink's state backends return from `snapshot`, and to
`DoneFuture`. Invariant: it ends once, with a result, an error or cancelled. Whatever happens to the state meanwhile,
the result is the state at the time when the future was created (C7, S9, S23).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from threading import Lock
from typing import Generic, TypeVar

from reference_impl.errors import SnapshotCancelled, WrongState

T = TypeVar("T")


class SnapshotFuture(Generic[T]):
    """Runs the generator `slices` to its end; its return value is the result. Mutable.

    On the task's thread, `run_slice` can alternate with mail; on another thread, `run` does everything. `cancel` may
    be called on any thread (C12); a slice that is running is finished first.
    """

    def __init__(self, slices: Generator[None, None, T]) -> None:
        self._slices = slices
        self._turn = Lock()
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._is_cancelled = False

    @classmethod
    def of(cls, value: T) -> SnapshotFuture[T]:
        """A future that has already ended with `value`."""
        future = cls(_returning(lambda: value))
        future.run()
        return future

    @classmethod
    def calling(cls, work: Callable[[], T]) -> SnapshotFuture[T]:
        """A future whose only slice calls `work`."""
        return cls(_returning(work))

    @property
    def is_done(self) -> bool:
        """Whether it has ended: with a result, an error or cancelled."""
        return self._is_cancelled or self._error is not None or bool(self._results)

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled

    @property
    def written(self) -> T | None:
        """The result, even after a cancellation, so that it can be discarded (C8); None if there is none."""
        return self._results[0] if self._results else None

    def run(self) -> None:
        """Run all remaining slices; without effect if it has ended."""
        while not self.run_slice():
            pass

    def run_slice(self) -> bool:
        """Run one slice, which should take some tens of microseconds; return whether the future has ended."""
        with self._turn:
            if not self.is_done:
                self._advance()
            if self._is_cancelled:
                self._slices.close()
        return self.is_done

    def cancel(self) -> None:
        """End without a result; without effect if it has ended. A running slice is finished first."""
        if self.is_done:
            return
        self._is_cancelled = True
        if self._turn.acquire(blocking=False):
            try:
                self._slices.close()
            finally:
                self._turn.release()

    def result(self) -> T:
        """The result; raises the error that ended it, or WrongState if it has not ended."""
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
        except Exception as error:  # noqa: BLE001  # raised again by `result` (C9)
            self._error = error


def _returning(work: Callable[[], T]) -> Generator[None, None, T]:
    """A generator that ends in its first slice."""
    yield from ()
    return work()
