"""Claims about reading a gate: what its status says to the task (M41), priority events (C26), watermarks (W1, W3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from reference_impl.checkpoint_events import EndOfData, EndOfPartition, StopMode
from reference_impl.checkpoints.channels import InputChannel, InputChannelInfo
from reference_impl.checkpoints.input_gate import InputGate, StreamTaskNetworkInput
from reference_impl.checkpoints.tests.bench import Bench, barrier, end, open_bench, unaligned
from reference_impl.elements import LatencyMarker, OperatorInput, Record, Watermark, WatermarkStatus
from reference_impl.mailbox.availability import DataInputStatus
from reference_impl.tests.rig import shown

MORE = DataInputStatus.MORE_AVAILABLE


class Reader:
    """A task's input, and what has come out of it. Mutable."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.input = StreamTaskNetworkInput(bench.gates[0])
        self.out: list[Any] = []

    def emit(self, element: OperatorInput) -> None:
        self.out.append(shown(element))

    def read(self) -> DataInputStatus:
        return self.input.emit_next(self)

    def read_until(self, status: DataInputStatus) -> list[DataInputStatus]:
        """The statuses on the way there."""
        seen = [self.read()]
        while seen[-1] is not status:
            seen.append(self.read())
        return seen


@pytest.fixture
def reader() -> Iterator[Reader]:
    with open_bench() as bench:
        yield Reader(bench)


def test_a_record_says_that_there_may_be_more_and_nothing_says_so_m41(reader: Reader) -> None:
    reader.bench.put(0, 1)

    assert [reader.read(), reader.read()] == [MORE, DataInputStatus.NOTHING_AVAILABLE]
    assert reader.out == [1]


def test_one_call_reads_one_element_m41(reader: Reader) -> None:
    reader.bench.put(0, 1, 2)
    reader.read()

    assert reader.out == [1]


def test_a_barrier_is_not_given_to_the_operator_m41(reader: Reader) -> None:
    reader.bench.put(0, barrier(1))
    reader.bench.put(1, barrier(1))

    assert reader.read_until(DataInputStatus.NOTHING_AVAILABLE)[:2] == [MORE, MORE]
    assert reader.out == []
    assert reader.bench.task.triggered == [1]


def test_the_data_end_with_a_drain_once_they_have_in_every_channel_m41(reader: Reader) -> None:
    reader.bench.put(0, EndOfData())
    assert reader.read() is MORE
    reader.bench.put(1, EndOfData())

    assert reader.read() is DataInputStatus.END_OF_DATA


@pytest.mark.parametrize("first", [StopMode.DRAIN, StopMode.NO_DRAIN])
def test_one_channel_without_a_drain_is_enough_for_none_m41(reader: Reader, first: StopMode) -> None:
    reader.bench.put(0, EndOfData(mode=first))
    reader.bench.put(1, EndOfData(mode=StopMode.NO_DRAIN))

    assert reader.read_until(DataInputStatus.STOPPED) == [MORE, DataInputStatus.STOPPED]


def test_the_end_of_the_last_channel_is_the_end_of_the_input_m41(reader: Reader) -> None:
    reader.bench.put(0, *end())
    reader.bench.put(1, *end())
    seen = reader.read_until(DataInputStatus.END_OF_INPUT)

    assert seen.count(DataInputStatus.END_OF_DATA) == 1
    assert reader.read() is DataInputStatus.END_OF_INPUT


def test_barriers_between_the_end_of_data_and_of_the_channel_are_taken_c23(reader: Reader) -> None:
    for channel in range(2):
        reader.bench.put(channel, EndOfData(), barrier(1), EndOfPartition())
    reader.read_until(DataInputStatus.END_OF_INPUT)

    assert reader.bench.task.triggered == [1]


def test_the_wait_ends_when_something_comes_m42(reader: Reader) -> None:
    woken: list[str] = []
    reader.input.is_available.then(lambda: woken.append("woken"))
    assert woken == []
    reader.bench.put(1, 1)

    assert woken == ["woken"]
    assert reader.input.is_available


def test_what_comes_into_a_blocked_channel_wakes_nobody_until_it_is_resumed_m42(reader: Reader) -> None:
    reader.bench.put(0, barrier(1))
    reader.read()
    woken: list[str] = []
    reader.input.is_available.then(lambda: woken.append("woken"))
    reader.bench.put(0, "behind")
    assert woken == []
    reader.bench.put(1, barrier(1))
    reader.read_until(DataInputStatus.NOTHING_AVAILABLE)

    assert woken == ["woken"]
    assert reader.out == ["behind"]


def test_a_priority_event_is_fetched_by_mail_past_the_records_in_front_c26(reader: Reader) -> None:
    reader.bench.put(0, "in front", unaligned(1))
    reader.bench.put(1, "in front too", unaligned(1))
    reader.bench.run_mail()

    assert reader.bench.task.triggered == [1]
    assert reader.out == []
    reader.read_until(DataInputStatus.NOTHING_AVAILABLE)
    assert sorted(reader.out) == ["in front", "in front too"]


def test_priority_events_that_come_later_are_fetched_too_c26(reader: Reader) -> None:
    for number in range(1, 4):
        for channel in range(2):
            reader.bench.put(channel, unaligned(number))
        reader.bench.run_mail()

    assert reader.bench.task.triggered == [1, 2, 3]


def test_a_priority_event_into_a_task_that_goes_down_is_left_c26(reader: Reader) -> None:
    reader.bench.mailbox.quiesce()
    reader.bench.put(0, unaligned(1))

    assert reader.bench.task.triggered == []


def test_watermarks_and_statuses_leave_only_through_the_valve_w1(reader: Reader) -> None:
    reader.bench.put(0, Watermark(timestamp=5), LatencyMarker(id=1))
    reader.read_until(DataInputStatus.NOTHING_AVAILABLE)
    assert reader.out == [LatencyMarker(id=1)]
    reader.bench.put(1, WatermarkStatus(idle=True))
    reader.read_until(DataInputStatus.NOTHING_AVAILABLE)

    assert reader.out == [LatencyMarker(id=1), "w5"]
    assert reader.input.current_watermark == 5


def test_a_watermark_behind_a_barrier_waits_with_its_channel_c22(reader: Reader) -> None:
    reader.bench.put(0, barrier(1), Watermark(timestamp=9))
    reader.bench.put(1, Watermark(timestamp=7))
    reader.read_until(DataInputStatus.NOTHING_AVAILABLE)
    assert reader.out == []
    reader.bench.put(1, barrier(1))
    reader.read_until(DataInputStatus.NOTHING_AVAILABLE)

    assert reader.out == ["w7"]


def test_an_input_that_was_idle_drains_like_any_other_w3(reader: Reader) -> None:
    """FLINK-40499, FLINK-39586: the last watermark is the task's, and no idle channel can swallow it (M44)."""
    for channel in range(2):
        reader.bench.put(channel, WatermarkStatus(idle=True), *end())

    assert DataInputStatus.END_OF_DATA in reader.read_until(DataInputStatus.END_OF_INPUT)
    assert reader.out == ["idle"]


def test_a_channel_that_has_ended_is_not_an_idle_one_w3(reader: Reader) -> None:
    """FLINK-38477: what it last said stands, which after a drain holds back nobody."""
    reader.bench.put(0, Watermark(timestamp=2**63 - 1), *end())
    reader.bench.put(1, Watermark(timestamp=5), WatermarkStatus(idle=True))
    reader.read_until(DataInputStatus.NOTHING_AVAILABLE)

    assert reader.out == ["w5", f"w{2**63 - 1}"]


def test_channels_are_read_in_turn() -> None:
    channels = [InputChannel(InputChannelInfo(0, index)) for index in range(3)]
    gate = InputGate(channels)
    for channel in channels:
        for round_ in range(2):
            channel.put(Record(value=(round_, channel.info.input_channel_idx)))
    read = [polled[1] for _ in range(6) if (polled := gate.poll_next()) is not None]

    assert [element.value for element in read if isinstance(element, Record)] == [
        (round_, index) for round_ in range(2) for index in range(3)
    ]


def test_channels_of_another_gate_are_refused() -> None:
    channels = [InputChannel(InputChannelInfo(0, 0)), InputChannel(InputChannelInfo(1, 1))]

    with pytest.raises(ValueError, match="channel 1 of gate 1 is at index 1"):
        InputGate(channels)
