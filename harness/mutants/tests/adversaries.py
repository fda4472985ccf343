"""Defects that no catalogue names, each a variant of one part: what somebody else might plant.

They keep what is usual and break one thing in a corner: in a retry, after a restore, in a full queue, between two
commits. Each is to be convicted although nobody planned for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from harness.sim.sinks.two_phase import TwoPhaseSink
from harness.sut.variant import Variant
from reference_impl.async_wait import AsyncWaitOperator
from reference_impl.async_wait_build import operator_around, queue_for
from reference_impl.elements import QueueElement, Record
from reference_impl.queues.gated import GatedQueue
from reference_impl.queues.ordered import OrderedQueue
from reference_impl.queues.protocol import Emit, Entry
from reference_impl.queues.unordered import UnorderedQueue
from reference_impl.result import Supplier

__all__ = ["ADVERSARIES", "DRAINS_BY_TURNING", "FAILS_ALWAYS"]


class _TimesEachTry(AsyncWaitOperator):
    """The timeout begins anew with each try."""

    def announce(self, record: Record, attempt: int) -> None:
        super().announce(record, attempt)
        if attempt > 1:
            waiting = self.timeouts._waiting
            for item in [one for one in waiting if getattr(one[2], "element", None) is record]:
                waiting.remove(item)
                self.timeouts.add(item[2])


class _NeverTimes:
    def add(self, entry: Any) -> None:
        """Forget it."""


class _RestoredHaveNoTimer(AsyncWaitOperator):
    """What is restored waits for ever."""

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        timeouts, self.timeouts = self.timeouts, _NeverTimes()  # type: ignore[assignment]
        super().open(restored)
        self.timeouts = timeouts


class _RecordsFirst(AsyncWaitOperator):
    """A restore replays the records, then the watermarks."""

    def open(self, restored: Iterable[QueueElement] = ()) -> None:
        super().open(sorted(restored, key=lambda element: type(element) is not Record))


class _FailsAlways(AsyncWaitOperator):
    """The task fails with each record that has been answered."""

    def emit_completed(self) -> None:
        raise RuntimeError


class _DrainsByTurning(AsyncWaitOperator):
    """The end of input waits for the queue to be empty, and lets nobody empty it."""

    def end_input(self) -> None:
        while len(self.queue):
            pass


class _JoinsTheSegment(UnorderedQueue):
    """A watermark behind one single record shares its segment."""

    def _put_watermark(self, entry: Entry) -> None:
        last = self._segments[-1]
        if len(last.members) == 1:
            last.add(entry)
            last.completed.append(entry)
        else:
            super()._put_watermark(entry)


class _SecondOvertakes(OrderedQueue):
    """In a full queue the second leaves before a slow head."""

    def emit_completed(self, emit: Emit) -> bool:
        entries = self._entries
        if len(entries) == self._capacity > 1 and entries[0].results is None:
            entries.rotate(-1)
            if entries[0].results is None:
                entries.rotate(1)
        return super().emit_completed(emit)


def _operator(kind: type[AsyncWaitOperator], **queues: type[Any]) -> Variant:
    def build(*, mode: Any, capacity: int, **parts: Any) -> AsyncWaitOperator:
        queue = queues[mode](capacity) if mode in queues else queue_for(mode, capacity)
        return operator_around(queue, kind=kind, **parts)

    return Variant(build_operator=build)


class _LosesTheResume(AsyncWaitOperator):
    """An emission that was held for want of room downstream is never made up for."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        if isinstance(self.queue, GatedQueue):
            self.queue._resume = _nothing


def _nothing() -> None:
    """Nothing."""


class _SuppliesAgain:
    """A handle that drops the last of several results that are supplied."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def supply(self, supplier: Supplier) -> None:
        self._handle.supply(lambda: _without_last(supplier()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)


def _without_last(results: Sequence[Any]) -> Sequence[Any]:
    return results[:-1] if len(results) > 1 else results


class _Supplying:
    def __init__(self, honest: Any) -> None:
        self._honest = honest

    def invoke(self, value: Any, handle: Any) -> None:
        self._honest.invoke(value, _SuppliesAgain(handle))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._honest, name)


def _two_phase(**methods: Callable[..., Any]) -> Variant:
    def make(sink: type[Any]) -> type[Any]:
        return type("_Sink", (sink,), methods) if issubclass(sink, TwoPhaseSink) else sink

    return Variant(sink=make)


def _prepares_and_forgets(sink: Any, epoch: int) -> Any:
    """A checkpoint holds the transaction of its own epoch only."""
    return TwoPhaseSink.prepare(sink, epoch)[-1:]


def _commits_only(sink: Any, number: int) -> None:
    """A notification commits the epoch of its number, and no older one whose own was lost."""
    for transaction in [one for one in sink._pending if one.epoch == number]:
        sink._commit(transaction)


def _believes_zombies(coordinator: type[Any]) -> type[Any]:
    return type("_Coordinator", (coordinator,), {"is_current": lambda *_: True})


def _keyed_by_attempt(effects: type[Any]) -> type[Any]:
    """A row's key has the attempt in it."""

    class Keyed(effects):  # type: ignore[misc]
        def write(self, *, subtask: int, token: int, id: Any, results: Sequence[Any]) -> None:
            self.has = partial(self._has, token)
            super().write(subtask=subtask, token=token, id=id, results=results)
            self._keys[id, token] = None

        def _has(self, token: int, id: Any) -> bool:
            return (id, token) in self._keys

    return Keyed


FAILS_ALWAYS = _operator(_FailsAlways)
DRAINS_BY_TURNING = _operator(_DrainsByTurning)
ADVERSARIES: dict[str, tuple[Variant, str, int]] = {
    "timeout anew for each try": (_operator(_TimesEachTry), "V15", 10),
    "restored records have no timer": (_operator(_RestoredHaveNoTimer), "V15", 0),
    "restore replays records first": (_operator(_RecordsFirst), "V2", 0),
    "a held emission is never resumed": (_operator(_LosesTheResume), "V16", 0),
    "watermark joins a segment of one": (_operator(AsyncWaitOperator, unordered=_JoinsTheSegment), "V5", 0),
    "second overtakes in a full queue": (_operator(AsyncWaitOperator, ordered=_SecondOvertakes), "V1", 0),
    "a supplier's last result is lost": (Variant(function=lambda honest, _: _Supplying(honest)), "V8", 30),
    "checkpoint holds its last transaction only": (_two_phase(prepare=_prepares_and_forgets), "V12", 15),
    "a notification commits its own number only": (_two_phase(completed=_commits_only), "V12", 0),
    "acknowledgements of zombies count": (Variant(coordinator=_believes_zombies), "V16", 55),
    "an effect's key holds the attempt": (Variant(effects=_keyed_by_attempt), "V9", 0),
}
"""By name: the variant, an invariant that convicts it, and a seed shortly before one in which it does."""
