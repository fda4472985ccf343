"""A toy of the operator without its duties: what is left of a mailbox operator that is never wrong about anything.

It has the operator's course, a mailbox loop with one record for each default action, a mail for each completion, an
ordered queue of bounded length, a timeout for each record, results as records. It has none of its duties: it knows no
other thread, no priorities, no urgent mail, no end of a mailbox, no batches, no watermark, mode, probe, retry, copy,
back pressure, state or close, and its timeouts never fire. Invariant: a time is returned only if each record came out
once and in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from harness.system.clock import monotonic_us
from reference_impl.elements import Record
from reference_impl.mailbox.loops import NS_PER_MS, clock_of, real_loop
from tools.bench.answer import require_all_in_order
from tools.bench.operator_rate import TIMEOUT_MS, Echo, OperatorLoad

__all__ = ["run_toy"]


def run_toy(load: OperatorLoad, *, records: Sequence[Record]) -> float:
    """Seconds for `records` (values 0, 1, ...), each answered inside `invoke`."""
    came_out: list[Record] = []
    with real_loop() as loop:
        toy = _Toy(capacity=load.capacity, function=Echo(), emit=came_out.append, now_ns=clock_of(loop))
        began_us = monotonic_us()
        toy.run(iter(records))
        took_s = (monotonic_us() - began_us) / 1e6
    require_all_in_order([record.value for record in came_out], load.records)
    return took_s


class _ToyEntry:
    """A record's place in the queue, its handle and its mail. Mutable."""

    __slots__ = ("outcome", "put", "record", "results")

    def __init__(self, record: Record, put: Callable[[_ToyEntry], None]) -> None:
        self.record = record
        self.put = put
        self.outcome: Sequence[Any] | None = None
        self.results: Sequence[Any] | None = None

    def complete(self, results: Sequence[Any]) -> None:
        if self.outcome is None:
            self.outcome = tuple(results)
            self.put(self)


class _Toy:
    """Mutable."""

    def __init__(
        self, *, capacity: int, function: Any, emit: Callable[[Record], None], now_ns: Callable[[], int]
    ) -> None:
        self._now_ns = now_ns
        self._capacity = capacity
        self._function = function
        self._emit = emit
        self._queue: deque[_ToyEntry] = deque()
        self._mails: deque[_ToyEntry] = deque()
        self._timeouts: deque[tuple[int, _ToyEntry]] = deque()

    def run(self, source: Iterator[Record]) -> None:
        """The mailbox loop: all mail, then the next record."""
        mails = self._mails
        while True:
            while mails:
                self._settle(mails.popleft())
            record = next(source, None)
            if record is None:
                return
            self._process(record)

    def _process(self, record: Record) -> None:
        while len(self._queue) == self._capacity:
            self._settle(self._mails.popleft())
        entry = _ToyEntry(record, self._mails.append)
        self._queue.append(entry)
        self._timeouts.append((self._now_ns() + TIMEOUT_MS * NS_PER_MS, entry))
        if len(self._timeouts) > self._capacity:
            self._timeouts = deque(one for one in self._timeouts if one[1].results is None)
        self._function.invoke(record.value, entry)

    def _settle(self, entry: _ToyEntry) -> None:
        entry.results = entry.outcome
        queue = self._queue
        while queue and (results := queue[0].results) is not None:
            timestamp = queue.popleft().record.timestamp
            for value in results:
                self._emit(Record(value=value, timestamp=timestamp))
