"""Claims about what is in flight on the way out: C3, C26-C28."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reference_impl.checkpoint_events import CheckpointBarrier, CheckpointException, CheckpointFailureReason
from reference_impl.checkpoints.channel_state_writer import ChannelStateWriter
from reference_impl.checkpoints.channels import (
    ChannelElement,
    InputChannel,
    InputChannelInfo,
    PipelinedSubpartition,
    ResultSubpartitionInfo,
)
from reference_impl.checkpoints.tests.bench import barrier, unaligned
from reference_impl.elements import OperatorInput, Record
from reference_impl.tests.rig import quickly

INFO = ResultSubpartitionInfo(0, 0)
CAUSE = CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED)


def shown(element: ChannelElement) -> Any:
    match element:
        case Record():
            return element.value
        case CheckpointBarrier():
            return "overtakes" if element.options.is_unaligned else "waits its turn"
    return element


class Output:
    """A subpartition, and the writer of checkpoint 1."""

    def __init__(self, *elements: Any) -> None:
        self.writer = ChannelStateWriter()
        self.writer.start(1, unaligned(1).options)
        self.subpartition = PipelinedSubpartition(INFO, writer=self.writer)
        self.result = self.writer.get_and_remove_write_result(1).result_channel_state
        self.emit(*elements)

    def emit(self, *elements: Any) -> None:
        for element in elements:
            self.subpartition.add(
                element if isinstance(element, OperatorInput | CheckpointBarrier) else Record(value=element)
            )

    def fetched(self) -> list[Any]:
        fetched = []
        while (element := self.subpartition.poll()) is not None:
            fetched.append(shown(element))
        return fetched

    def captured(self) -> list[Any]:
        return [
            shown(element) for handle in self.result.result(timeout=0) or () for element in handle.elements
        ]


def test_an_unaligned_barrier_overtakes_what_nobody_fetched_and_that_is_captured_c27() -> None:
    output = Output(1, 2, unaligned(1), 3)
    output.writer.finish_output(1)

    assert output.fetched() == ["overtakes", 1, 2, 3]
    assert output.captured() == [1, 2]


def test_an_aligned_barrier_waits_its_turn_and_nothing_is_captured_c3() -> None:
    output = Output(1, barrier(1), 2)
    output.writer.finish_output(1)

    assert output.fetched() == [1, "waits its turn", 2]
    assert output.captured() == []


def test_until_a_barrier_that_may_time_out_has_left_what_it_overtakes_is_not_known_c26() -> None:
    output = Output(1, barrier(1, timeout_ms=5), 2)
    output.writer.finish_output(1)
    assert not output.result.done()

    assert output.fetched() == [1, "waits its turn", 2]
    assert output.captured() == []


def test_one_that_times_out_on_its_way_out_overtakes_and_what_was_before_it_is_captured_c26() -> None:
    output = Output(1, barrier(1, timeout_ms=5), 2)
    output.writer.finish_output(1)
    output.subpartition.alignment_barrier_timeout(1)

    assert output.captured() == [1]
    assert output.fetched() == ["overtakes", 1, 2]


def test_a_timeout_after_the_barrier_has_left_does_nothing_c26() -> None:
    output = Output(barrier(1, timeout_ms=5), 2)
    output.subpartition.poll()
    output.subpartition.alignment_barrier_timeout(1)

    assert output.fetched() == [2]


def test_after_an_abort_the_result_is_known_to_have_failed_c28() -> None:
    """FLINK-28474."""
    output = Output(1, barrier(1, timeout_ms=5))
    output.writer.finish_output(1)
    output.subpartition.abort_checkpoint(1, CAUSE)

    assert output.result.exception(timeout=0) is CAUSE
    assert output.fetched() == [1, "waits its turn"]


def test_a_newer_barrier_ends_the_wait_for_the_older_one_c28() -> None:
    output = Output(1, barrier(1, timeout_ms=5))
    output.writer.start(2, barrier(2, timeout_ms=5).options)
    output.emit(barrier(2, timeout_ms=5))
    output.subpartition.alignment_barrier_timeout(1)

    assert output.result.done()
    assert output.fetched() == [1, "waits its turn", "waits its turn"]


@quickly
@given(
    before=st.integers(0, 4),
    fetched_first=st.integers(0, 6),
    behind=st.integers(0, 3),
    kind=st.sampled_from(["aligned", "in time", "late", "unaligned"]),
    fetched_then=st.integers(0, 6),
)
def test_on_its_way_a_record_is_captured_here_or_there_or_read_or_behind_c28(
    *, before: int, fetched_first: int, behind: int, kind: str, fetched_then: int
) -> None:
    """Out of one task and into the next, which takes its snapshot when it reads the barrier."""
    output = Output(*range(before))
    writer = ChannelStateWriter()
    channel = InputChannel(InputChannelInfo(0, 0), writer=writer)
    read: list[Any] = []

    def move(times: int) -> None:
        for _ in range(times):
            if (element := output.subpartition.poll()) is not None:
                channel.put(element)

    move(fetched_first)
    makes = {"aligned": barrier(1), "unaligned": unaligned(1)}
    output.emit(makes.get(kind, barrier(1, timeout_ms=5)), *range(before, before + behind))
    output.writer.finish_output(1)
    move(fetched_then)
    if kind == "late":
        output.subpartition.alignment_barrier_timeout(1)
    move(before + behind + 2)
    while not isinstance(element := channel.poll(), CheckpointBarrier):
        if isinstance(element, Record):
            read.append(element.value)
    writer.start(1, unaligned(1).options)
    channel.checkpoint_started(unaligned(1))
    writer.finish_input(1)

    handles = writer.get_and_remove_write_result(1).input_channel_state.result(timeout=0) or ()
    there = [shown(element) for handle in handles for element in handle.elements]
    assert sorted([*read, *output.captured(), *there]) == list(range(before))
