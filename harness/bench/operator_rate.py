"""How fast the operator goes on real timers: lookups of so many ms, so many in flight, no database.

Invariant: the same function is measured in a plain process and inside a Spark task, so the ratio is Spark's
doing and nothing else's.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from harness.clock import monotonic_us
from reference_impl.async_wait import ordered_wait
from reference_impl.elements import QueueElement, Record
from reference_impl.loops import real_loop
from reference_impl.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox_loop import MailboxLoop
from reference_impl.probe import SilentProbe
from reference_impl.result import ResultHandle
from reference_impl.timers import Timers

__all__ = ["OperatorLoad", "run_operator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorLoad:
    """What the operator is given."""

    records: int
    capacity: int
    latency_ms: int

    @property
    def ideal_s(self) -> float:
        """Records * latency / capacity: no operator can be faster."""
        return self.records * self.latency_ms / 1000 / self.capacity


class _DelayedEcho:
    """Answers every call with its value after the latency."""

    def __init__(self, loop: asyncio.AbstractEventLoop, latency_ms: int) -> None:
        self._loop = loop
        self._latency_s = latency_ms / 1000

    def invoke(self, value: int, handle: ResultHandle) -> None:
        self._loop.call_later(self._latency_s, handle.complete, [value])

    def timeout(self, value: int, handle: ResultHandle) -> None:
        del value
        handle.complete([])


def run_operator(load: OperatorLoad) -> float:
    """Seconds for all records; raises AssertionError unless each came out once and in order."""
    came_out: list[int] = []

    def emit(element: QueueElement) -> None:
        assert isinstance(element, Record), "only records were put in"
        came_out.append(element.value)

    with real_loop() as loop:
        mailbox = Mailbox(loop=loop)
        executor = MailboxExecutor(mailbox, 0)
        operator = ordered_wait(
            capacity=load.capacity,
            function=_DelayedEcho(loop, load.latency_ms),
            timeout_ms=60_000,
            executor=executor,
            timers=Timers(loop, executor),
            emit=emit,
            fail=MailboxLoop(mailbox).report_error,
            probe=SilentProbe(),
        )
        began_us = monotonic_us()
        operator.open()
        for number in range(load.records):
            operator.process(Record(value=number))
        operator.end_input()
        took_s = (monotonic_us() - began_us) / 1e6
        operator.close()
        mailbox.close()
    assert came_out == list(range(load.records)), "the operator lost, doubled or reordered records"
    return took_s
