"""Claims about many records: nothing recurses, nothing grows with what has been seen. A32, A37, A38, A90, B26."""

from __future__ import annotations

import gc
import inspect
from functools import partial
from itertools import count
from typing import Any, get_args
from weakref import WeakSet

import pytest

from reference_impl.checkpoint_events import StopMode
from reference_impl.elements import OperatorInput, Record
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.build import Mode, build_operator, ordered_wait, unordered_wait
from reference_impl.operator.functions import AsyncFunction
from reference_impl.operator.result import ResultHandle
from reference_impl.operator.retry import FixedDelay, any_error
from reference_impl.task.operator_chain import LocalRecordWriter, OperatorChain, OperatorLink
from reference_impl.tests.rig import HandFunction, itself, open_virtual, record

BOTH = pytest.mark.parametrize("mode", get_args(Mode))
MANY = [20_000, pytest.param(100_000, marks=pytest.mark.sweep)]
"""Each far more than Python's stack has frames."""


class Immediate(AsyncFunction):
    """A call that ends before it returns."""

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        """End it."""
        handle.complete([value])


def no_failure(error: BaseException) -> None:
    """The task is not to fail."""
    raise AssertionError(error)


def depth() -> int:
    """Of the caller's stack."""
    frame, frames = inspect.currentframe(), 0
    while frame is not None:
        frame, frames = frame.f_back, frames + 1
    return frames


@pytest.mark.sweep
@BOTH
@pytest.mark.parametrize("capacity", [1, 10_000])
@pytest.mark.parametrize("many", MANY)
def test_very_many_records_pass_whatever_the_capacity_a32(mode: Mode, many: int, capacity: int) -> None:
    """A32, A37: with a timeout for each, of which none is left."""
    expected = count()
    most = 0

    def emit(element: OperatorInput) -> None:
        assert isinstance(element, Record)
        assert element.value == next(expected)

    with virtual_loop() as loop:
        executor = MailboxExecutor(Mailbox(loop=loop), 0)
        timers = Timers(loop, executor)
        operator = build_operator(
            mode=mode,
            key_of=itself,
            capacity=capacity,
            function=Immediate(),
            timeout_ms=60_000,
            executor=executor,
            timers=timers,
            emit=emit,
            fail=no_failure,
        )
        for value in range(many):
            operator.process(Record(value=value))
            most = max(most, len(operator))
        operator.end_input()

        assert (most, len(timers), next(expected)) == (capacity, 0, many)


@BOTH
def test_emitting_ten_thousand_at_once_needs_no_more_stack_than_one_a38(mode: Mode) -> None:
    many = 10_000
    depths: set[int] = set()

    def note(_: OperatorInput) -> None:
        depths.add(depth())

    with virtual_loop() as loop:
        executor = MailboxExecutor(Mailbox(loop=loop), 0)
        function = HandFunction()
        operator = build_operator(
            mode=mode,
            key_of=itself,
            capacity=many,
            function=function,
            timeout_ms=0,
            executor=executor,
            timers=Timers(loop, executor),
            emit=note,
            fail=no_failure,
        )
        for value in range(many):
            operator.process(record(value))
        for value in reversed(range(many)):
            function.attempts[value][0].complete([value])
        operator.end_input()

    assert max(depths) - min(depths) <= 2


def test_a_thousand_attempts_that_fail_at_once_need_no_more_stack_than_two_a78() -> None:
    attempts = 1_000
    depths: list[int] = []

    def burst(_: Any, handle: ResultHandle) -> None:
        depths.append(depth())
        handle.fail(ArithmeticError())

    retry = FixedDelay(max_retries=attempts, delay_ms=1, on_error=any_error)
    with open_virtual(timeout_ms=60_000, retry=retry, function=HandFunction(invoke=burst)) as rig:
        rig.process(record(1))
        rig.advance(2 * attempts)

    assert len(depths) == attempts + 1
    assert len(set(depths[1:])) == 1


def test_a_chain_of_full_operators_needs_no_more_stack_the_longer_it_runs_a90() -> None:
    depths: list[int] = []
    with virtual_loop() as loop:
        mailbox = Mailbox(loop=loop)

        links = [
            OperatorLink(
                operator_id=str(place),
                build=partial(build, capacity=1, function=Immediate(), timeout_ms=0),
            )
            for place, build in enumerate((ordered_wait, unordered_wait) * 3)
        ]
        chain = OperatorChain(
            links,
            mailbox=mailbox,
            timers=partial(Timers, loop),
            record_writer=LocalRecordWriter(lambda _: depths.append(depth())),
            fail=no_failure,
        )
        for value in range(2_000):
            chain.process(record(value))
        chain.end_head_input()
        chain.finish_operators(StopMode.DRAIN)

    assert len(depths) == 2_000
    assert max(depths[1_000:1_900]) <= max(depths[:1_000])  # the last few leave in the drain


@pytest.mark.sweep
@BOTH
def test_of_what_has_left_only_a_few_are_kept_however_many_there_were_b26(mode: Mode) -> None:
    """B26: by a timer that was cancelled, until there are enough to be looked at; by nothing else."""

    class Value:
        """Something that can be looked for."""

    made: WeakSet[Value] = WeakSet()
    with virtual_loop() as loop:
        executor = MailboxExecutor(Mailbox(loop=loop), 0)
        operator = build_operator(
            mode=mode,
            key_of=itself,
            capacity=5,
            function=Immediate(),
            timeout_ms=60_000,
            executor=executor,
            timers=Timers(loop, executor),
            emit=lambda _: None,
            fail=no_failure,
        )
        for _ in range(2_000):
            value = Value()
            made.add(value)
            operator.process(Record(value=value))
        operator.end_input()

        gc.collect()
        assert 0 < len(made) <= 100
