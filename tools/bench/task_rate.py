"""The cost of an element in a task with a chain of two operators, against the operators in a bare mailbox loop.

Invariant: both sides call the same functions equally often, with the same timeout registered for each call; a time is
returned only if each record came out once and in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from harness.system.clock import monotonic_us
from reference_impl.elements import OperatorInput, Record
from reference_impl.functions.tests.examples import StreamFilter
from reference_impl.mailbox.availability import AVAILABLE, Availability, DataInputStatus
from reference_impl.mailbox.loops import real_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.processor import MailboxProcessor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import ordered_wait
from reference_impl.task.input_processor import StreamOneInputProcessor, StreamTaskNetworkOutput
from reference_impl.task.operator_chain import LocalRecordWriter, OperatorChain, OperatorLink, TaskEnvironment
from reference_impl.task.stream_task import StreamTask
from tools.bench.answer import require_all_in_order
from tools.bench.operator_rate import TIMEOUT_MS, Echo, OperatorLoad, run_operator


class _RecordsInput:
    """A task input that always has the next of `records`, then ends. Mutable."""

    is_available: Availability = AVAILABLE

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = iter(records)
        self._ends = iter((DataInputStatus.END_OF_DATA, DataInputStatus.END_OF_INPUT))

    def emit_next(self, output: StreamTaskNetworkOutput) -> DataInputStatus:
        record = next(self._records, None)
        if record is None:
            return next(self._ends)
        output.emit(record)
        return DataInputStatus.MORE_AVAILABLE


def filter_then_lookup(load: OperatorLoad) -> list[OperatorLink]:
    """A chain of a filter that passes everything, and the operator."""
    return [OperatorLink(operator_id="filter", build=_filter), _lookup("lookup", load)]


def two_lookups(load: OperatorLoad) -> list[OperatorLink]:
    """A chain of two operators."""
    return [_lookup("first", load), _lookup("second", load)]


def run_task(load: OperatorLoad, links: Callable[[OperatorLoad], Sequence[OperatorLink]]) -> float:
    """Seconds for all records through a task with that chain, from its restore to its end."""
    came_out: list[OperatorInput] = []
    with real_loop() as loop:
        processor = MailboxProcessor(Mailbox(loop=loop))
        writer = LocalRecordWriter(came_out.append)
        chain = OperatorChain(
            links(load),
            mailbox=processor.mailbox,
            timers=partial(Timers, loop),
            record_writer=writer,
            fail=processor.report_throwable,
        )
        task = StreamTask(
            loop=loop,
            mailbox_processor=processor,
            operator_chain=chain,
            input_processor=StreamOneInputProcessor(_RecordsInput(_records(load)), operator_chain=chain),
            record_writer=writer,
            environment=TaskEnvironment(task_name="bench", decline_checkpoint=lambda *_: None),
        )
        began_us = monotonic_us()
        task.invoke()
        took_s = (monotonic_us() - began_us) / 1e6
        task.clean_up()
    require_all_in_order([each.value for each in came_out if isinstance(each, Record)], load.records)
    return took_s


def run_bare(load: OperatorLoad) -> float:
    """Seconds for all records through one operator, without a task."""
    return run_operator(load, records=_records(load))


def run_bare_pair(load: OperatorLoad) -> float:
    """Seconds for all records through two operators without a task; the first emits into the second."""
    came_out: list[OperatorInput] = []
    with real_loop() as loop:
        processor = MailboxProcessor(Mailbox(loop=loop))

        def operator(place: int, emit: Callable[[OperatorInput], None]) -> AsyncWaitOperator:
            executor = MailboxExecutor(processor.mailbox, place)
            timers = Timers(loop, executor)
            build = _lookup(f"operator {place}", load).build
            built: AsyncWaitOperator = build(
                executor=executor, timers=timers, emit=emit, fail=processor.report_throwable, downstream=None
            )  # type: ignore[assignment]  # it is what `_lookup` builds
            return built

        second = operator(1, came_out.append)
        first = operator(0, second.process)
        took_s = _driven_s(processor, first, second, iter(_records(load)))
        processor.mailbox.close()
    require_all_in_order([each.value for each in came_out if isinstance(each, Record)], load.records)
    return took_s


def _driven_s(
    processor: MailboxProcessor,
    first: AsyncWaitOperator,
    second: AsyncWaitOperator,
    records: Iterator[Record],
) -> float:
    def next_record() -> None:
        record = next(records, None)
        if record is None:
            first.end_input()
            second.end_input()
            processor.all_actions_completed()
        else:
            first.process(record)

    began_us = monotonic_us()
    second.open()
    first.open()
    processor.run_mailbox_loop(next_record)
    took_s = (monotonic_us() - began_us) / 1e6
    first.close()
    second.close()
    return took_s


def _records(load: OperatorLoad) -> list[Record]:
    return [Record(value=number) for number in range(load.records)]


def _lookup(operator_id: str, load: OperatorLoad) -> OperatorLink:
    build = partial(ordered_wait, capacity=load.capacity, function=Echo(), timeout_ms=TIMEOUT_MS)
    return OperatorLink(operator_id=operator_id, build=build)


def _filter(*, emit: Callable[[OperatorInput], None], **_: Any) -> StreamFilter:
    return StreamFilter(predicate=lambda value: value is not None, emit=emit)
