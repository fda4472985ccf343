"""Claims about one input and several: M41, M44, FLINK-38477."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from reference_impl.checkpoint_events import StopMode
from reference_impl.elements import OperatorInput, Record
from reference_impl.mailbox.availability import DataInputStatus
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.mailbox.mailbox import Mailbox
from reference_impl.mailbox.timers import Timers
from reference_impl.task.input_processor import (
    MAX_WATERMARK,
    StreamMultipleInputProcessor,
    StreamOneInputProcessor,
)
from reference_impl.task.operator_chain import (
    FinishedOperatorChain,
    LocalRecordWriter,
    OperatorChain,
    OperatorLink,
)
from reference_impl.task.tests.task_rig import HandInput, HandSource, open_task
from reference_impl.tests.rig import record, shown, watermark

MORE, NOTHING = DataInputStatus.MORE_AVAILABLE, DataInputStatus.NOTHING_AVAILABLE
END_OF_DATA, END_OF_INPUT = DataInputStatus.END_OF_DATA, DataInputStatus.END_OF_INPUT
STOPPED = DataInputStatus.STOPPED


class TwoInputs:
    """Notes what comes on which input."""

    def __init__(self, emit: Callable[[OperatorInput], None]) -> None:
        self.emit = emit
        self.heard: list[Any] = []

    def process1(self, element: OperatorInput) -> None:
        self.heard.append((1, shown(element)))

    def process2(self, element: OperatorInput) -> None:
        self.heard.append((2, shown(element)))

    def end_input(self, input_id: int) -> None:
        self.heard.append(f"end {input_id}")


class Pair:
    """Two inputs into one operator."""

    def __init__(self, first: HandInput, second: HandInput) -> None:
        with virtual_loop() as loop:
            chain = OperatorChain(
                [OperatorLink(operator_id="join", build=lambda *, emit, **_: TwoInputs(emit))],
                mailbox=Mailbox(loop=loop),
                timers=partial(Timers, loop),
                record_writer=LocalRecordWriter(print),
                fail=print,
            )
        self.heard: list[Any] = chain.operators[0].heard  # type: ignore[union-attr]  # it is a TwoInputs
        self.processor = StreamMultipleInputProcessor(
            [
                StreamOneInputProcessor(first, operator_chain=chain, input_id=1),
                StreamOneInputProcessor(second, operator_chain=chain, input_id=2),
            ]
        )

    def say(self, times: int) -> list[DataInputStatus]:
        """What the inputs say together, so many times."""
        return [self.processor.process_input() for _ in range(times)]


def test_two_inputs_that_both_have_something_take_turns() -> None:
    pair = Pair(HandInput(record(1), record(2)), HandInput(record(10), record(20)))

    assert pair.say(4) == [MORE] * 4
    assert pair.heard == [(1, 1), (2, 10), (1, 2), (2, 20)]


def test_an_input_that_has_nothing_is_passed_over_until_something_comes() -> None:
    first = HandInput()
    pair = Pair(first, HandInput(record(10), record(20)))

    assert pair.say(3) == [MORE] * 3
    first.arrive(record(1))
    pair.say(1)

    assert pair.heard == [(2, 10), (2, 20), (1, 1)]


def test_two_inputs_that_have_nothing_are_available_when_one_of_them_is_m42() -> None:
    first, second = HandInput(), HandInput()
    pair = Pair(first, second)
    assert pair.say(2) == [MORE, NOTHING]
    told: list[str] = []
    pair.processor.is_available.then(lambda: told.append("something came"))

    second.arrive(record(1))
    first.arrive(record(2))

    assert told == ["something came"]
    assert pair.processor.is_available


def test_each_input_ends_by_itself_and_the_data_end_with_the_last_m41_m44() -> None:
    pair = Pair(HandInput(END_OF_DATA, END_OF_INPUT), HandInput(record(10), END_OF_DATA, END_OF_INPUT))

    assert pair.say(6) == [MORE, MORE, MORE, END_OF_DATA, END_OF_INPUT, END_OF_INPUT]
    assert pair.heard == [
        (1, f"w{MAX_WATERMARK.timestamp}"),
        "end 1",
        (2, 10),
        (2, f"w{MAX_WATERMARK.timestamp}"),
        "end 2",
    ]


def test_one_input_that_stops_without_a_drain_makes_the_end_of_all_one_without_m44() -> None:
    pair = Pair(HandInput(END_OF_DATA, END_OF_INPUT), HandInput(STOPPED, END_OF_INPUT))

    assert STOPPED in pair.say(4)


def test_sources_stop_together_or_not_at_all_c17() -> None:
    halves = Pair(HandSource(record(1)), HandInput(record(2)))
    assert not halves.processor.stop(StopMode.DRAIN)
    halves.say(2)
    assert halves.heard == [(1, 1), (2, 2)]

    both = Pair(HandSource(record(1)), HandSource(record(2)))
    assert both.processor.stop(StopMode.NO_DRAIN)
    assert both.say(2) == [MORE, STOPPED]


def test_a_task_without_an_input_is_refused() -> None:
    with pytest.raises(ValueError, match="has none"):
        StreamMultipleInputProcessor([])


def test_an_operator_of_two_inputs_is_refused_behind_another() -> None:
    join = OperatorLink(operator_id="join", build=lambda *, emit, **_: TwoInputs(emit))
    with open_task(names=["op"]) as rig, pytest.raises(TypeError, match="'tail' has two inputs"):
        OperatorChain(
            [join, OperatorLink(operator_id="tail", build=join.build)],
            mailbox=rig.mailbox,
            timers=partial(Timers, rig.loop),
            record_writer=rig.writer,
            fail=print,
        )


def test_the_input_of_a_recovery_is_followed_by_the_ordinary_one_m41() -> None:
    class Recovering(HandInput):
        """First what was in flight."""

        def finish_recovery(self) -> HandInput:
            return HandInput(record(2))

    with open_task(names=["op"]) as rig:
        processor = StreamOneInputProcessor(
            Recovering(record(1), DataInputStatus.END_OF_RECOVERY), operator_chain=rig.chain
        )

        said = [processor.process_input() for _ in range(4)]

        assert said == [MORE, MORE, MORE, NOTHING]
        assert rig.log == ["op takes 1", 1, "op takes 2", 2]


def test_a_chain_that_had_finished_hands_the_last_watermark_on_and_takes_no_record_c19() -> None:
    gone: list[Any] = []
    chain = FinishedOperatorChain(["head", "tail"], record_writer=LocalRecordWriter(gone.append))
    futures: dict[str, Any] = {}

    chain.initialize_state_and_open_operators()
    chain.process(watermark(5))
    chain.end_head_input()
    chain.snapshot_state(futures, None, None)  # type: ignore[arg-type]  # nobody looks
    chain.close_all_operators()

    assert gone == [watermark(5)]
    assert (futures, chain.is_task_deployed_as_finished, chain.operator_ids) == ({}, True, ["head", "tail"])
    with pytest.raises(Exception, match="had finished before the restore"):
        chain.process(Record(value=1))
