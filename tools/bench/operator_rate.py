"""The operator's rate, on real timers or without latency: with its mailbox loop and timers, no database.

Invariant: the same function is measured in a plain process and inside a Spark task, so the ratio shows Spark's cost
only. A time is returned only if each record came out once and in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from harness.system.clock import monotonic_us
from reference_impl.elements import OperatorInput, Record
from reference_impl.mailbox.loops import real_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.processor import MailboxProcessor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import ordered_wait
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.result import Probe, ResultHandle
from tools.bench.answer import require_all_in_order

TIMEOUT_MS = 60_000
"""The timeout of every record; always registered, never reached."""

Build = Callable[..., AsyncWaitOperator]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorLoad:
    """The load of a measurement."""

    records: int
    capacity: int
    latency_ms: int

    @property
    def ideal_s(self) -> float:
        """Records * latency / capacity: a lower bound for any operator."""
        return self.records * self.latency_ms / 1000 / self.capacity

    @property
    def ideal_per_second(self) -> float:
        """Capacity / latency: an upper bound for any operator."""
        return self.capacity * 1000 / self.latency_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """An operator on a loop, and the mailbox loop that drives it."""

    operator: AsyncWaitOperator
    mailbox_processor: MailboxProcessor

    def drive(self, source: Iterator[Record]) -> float:
        """Seconds to process all of `source`, one record for each mailbox action, and to drain."""
        operator = self.operator

        def next_record() -> None:
            record = next(source, None)
            if record is None:
                operator.end_input()
                self.mailbox_processor.all_actions_completed()
            else:
                operator.process(record)

        began_us = monotonic_us()
        operator.open()
        self.mailbox_processor.run_mailbox_loop(next_record)
        return (monotonic_us() - began_us) / 1e6


class Echo:
    """A function that completes every call with its value inside `invoke`."""

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        handle.complete([value])

    def timeout(self, value: Any, handle: ResultHandle) -> None:
        del value
        handle.complete([])


class _DelayedEcho(Echo):
    """A function that completes every call after the latency."""

    def __init__(self, loop: asyncio.AbstractEventLoop, latency_ms: int) -> None:
        self._loop = loop
        self._latency_s = latency_ms / 1000

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        self._loop.call_later(self._latency_s, handle.complete, [value])


def run_operator(
    load: OperatorLoad, *, records: Iterable[Record] | None = None, build: Build = ordered_wait
) -> float:
    """Seconds for all records; `records` (values 0, 1, ...) can be made beforehand."""
    came_out: list[Any] = []
    source = (Record(value=number) for number in range(load.records)) if records is None else iter(records)
    with assembled(load, emit=came_out.append, build=build) as bench:
        took_s = bench.drive(source)
    require_all_in_order([record.value for record in came_out], load.records)
    return took_s


@contextmanager
def assembled(
    load: OperatorLoad,
    *,
    emit: Callable[[OperatorInput], None],
    function: AsyncFunction | None = None,
    probe: Probe | None = None,
    build: Build = ordered_wait,
) -> Iterator[Bench]:
    """An operator on a real loop with its mailbox, executor and timers; `function`: an echo by default."""
    with real_loop() as loop:
        mailbox = Mailbox(loop=loop)
        mailbox_processor = MailboxProcessor(mailbox)
        executor = MailboxExecutor(mailbox, 0)
        echo = _DelayedEcho(loop, load.latency_ms) if load.latency_ms else Echo()
        operator = build(
            capacity=load.capacity,
            function=function or echo,
            timeout_ms=TIMEOUT_MS,
            executor=executor,
            timers=Timers(loop, executor),
            emit=emit,
            fail=mailbox_processor.report_throwable,
            probe=probe,
        )
        yield Bench(operator=operator, mailbox_processor=mailbox_processor)
        operator.close()
        mailbox.close()
