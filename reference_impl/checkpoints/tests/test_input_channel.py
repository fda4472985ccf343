"""Claims about one channel: what overtakes, what stops it, and what of it is captured: C20, C22, C26, C27, C28."""

from __future__ import annotations

from typing import Any

import pytest

from reference_impl.checkpoint_events import (
    CheckpointBarrier,
    CheckpointException,
    EventAnnouncement,
)
from reference_impl.checkpoints.channels import ChannelStateWriter, InputChannel, InputChannelInfo
from reference_impl.checkpoints.tests.bench import barrier, end, unaligned
from reference_impl.elements import Record, Watermark
from reference_impl.errors import WrongState

INFO = InputChannelInfo(0, 0)


def record(value: Any) -> Record:
    return Record(value=value)


def polled(channel: InputChannel) -> list[Any]:
    """Until it gives nothing: the values, barriers by number, announcements by the place they name."""
    shown: list[Any] = []
    while (element := channel.poll()) is not None:
        match element:
            case Record():
                shown.append(element.value)
            case CheckpointBarrier():
                shown.append(f"barrier {element.checkpoint_id}")
            case EventAnnouncement():
                shown.append(f"announced at {element.sequence_number}")
            case _:
                shown.append(element)
    return shown


def in_flight(channel: InputChannel, writer: ChannelStateWriter) -> list[Any]:
    """What is captured of it when checkpoint 1 begins now, and its barrier comes behind one more record."""
    writer.start(1, unaligned(1).options)
    channel.checkpoint_started(unaligned(1))
    channel.put(record("more"))
    channel.put(unaligned(1))
    channel.put(record("behind"))
    writer.finish_input(1)
    handles = writer.get_and_remove_write_result(1).input_channel_state.result(timeout=0)
    return [
        element.value
        for handle in handles or ()
        for element in handle.elements
        if isinstance(element, Record)
    ]


def test_an_unaligned_barrier_overtakes_and_does_not_stop_the_channel_c27() -> None:
    channel = InputChannel(INFO)
    for element in (record(1), unaligned(1), record(2)):
        channel.put(element)

    assert polled(channel) == ["barrier 1", 1, 2]


def test_an_aligned_barrier_waits_its_turn_and_stops_the_channel_until_it_is_resumed_c22() -> None:
    channel = InputChannel(INFO)
    for element in (record(1), barrier(1), record(2)):
        channel.put(element)

    assert polled(channel) == [1, "barrier 1"]
    channel.resume()
    assert polled(channel) == [2]


def test_a_barrier_that_may_time_out_is_announced_with_its_place_c26() -> None:
    channel = InputChannel(INFO)
    for element in (record(1), record(2), barrier(1, timeout_ms=5)):
        channel.put(element)

    assert polled(channel) == ["announced at 2", 1, 2, "barrier 1"]


def test_one_that_cannot_time_out_is_not_announced_c29() -> None:
    channel = InputChannel(INFO)
    channel.put(record(1))
    channel.put(barrier(1))

    assert polled(channel) == [1, "barrier 1"]


def test_an_announced_barrier_that_is_made_a_priority_event_overtakes_c26() -> None:
    channel = InputChannel(INFO)
    for element in (record(1), barrier(1, timeout_ms=5), record(2)):
        channel.put(element)
    channel.convert_to_priority_event(1)

    assert polled(channel) == ["barrier 1"]
    channel.resume()
    assert polled(channel) == [1, 2]


def test_what_has_been_read_cannot_be_made_a_priority_event_which_is_said_c26() -> None:
    channel = InputChannel(INFO)
    channel.put(barrier(1, timeout_ms=5))
    polled(channel)

    with pytest.raises(WrongState, match="no unread barrier has sequence number 0 in channel 0 of gate 0"):
        channel.convert_to_priority_event(0)


def test_a_blocked_channel_gives_out_nothing_and_loses_nothing_c22() -> None:
    channel = InputChannel(INFO)
    channel.block()
    channel.put(record(1))
    assert channel.poll() is None
    assert not channel.is_readable

    channel.resume()

    assert polled(channel) == [1]


def test_what_waits_and_what_comes_before_the_barrier_is_captured_c27() -> None:
    writer = ChannelStateWriter()
    channel = InputChannel(INFO, writer=writer)
    channel.put(record("read"))
    channel.poll()
    channel.put(record("waits"))

    assert in_flight(channel, writer) == ["waits", "more"]


def test_watermarks_are_captured_and_events_are_not_c28() -> None:
    writer = ChannelStateWriter()
    channel = InputChannel(INFO, writer=writer)
    channel.put(Watermark(timestamp=5))
    channel.put(barrier(0))
    writer.start(1, unaligned(1).options)
    channel.checkpoint_started(unaligned(1))
    writer.finish_input(1)

    (handle,) = writer.get_and_remove_write_result(1).input_channel_state.result(timeout=0) or ()
    assert handle.elements == (Watermark(timestamp=5),)


def test_of_a_channel_whose_barrier_waits_only_what_is_before_it_is_captured_c28() -> None:
    writer = ChannelStateWriter()
    channel = InputChannel(INFO, writer=writer)
    for element in (record("before"), barrier(1, timeout_ms=5), record("behind")):
        channel.put(element)
    writer.start(1, unaligned(1).options)
    channel.checkpoint_started(unaligned(1))
    channel.put(record("later"))
    writer.finish_input(1)

    (handle,) = writer.get_and_remove_write_result(1).input_channel_state.result(timeout=0) or ()
    assert handle.elements == (record("before"),)


def test_of_a_channel_whose_barrier_was_read_nothing_is_captured_c28() -> None:
    writer = ChannelStateWriter()
    channel = InputChannel(INFO, writer=writer)
    channel.put(barrier(1, timeout_ms=5))
    polled(channel)
    channel.put(record("behind"))
    writer.start(1, unaligned(1).options)
    channel.checkpoint_started(unaligned(1))
    writer.finish_input(1)

    assert writer.get_and_remove_write_result(1).input_channel_state.result(timeout=0) is None


def test_a_channel_that_a_newer_barrier_has_reached_refuses_the_older_checkpoint_c21() -> None:
    """FLINK-20331."""
    channel = InputChannel(INFO, writer=ChannelStateWriter())
    channel.put(unaligned(2))

    with pytest.raises(CheckpointException, match="CHECKPOINT_DECLINED_SUBSUMED"):
        channel.checkpoint_started(unaligned(1))


def test_what_is_recovered_comes_before_all_else_and_is_in_flight_again_c28() -> None:
    writer = ChannelStateWriter()
    channel = InputChannel(INFO, writer=writer)
    channel.recover([record("recovered")])
    channel.put(record("new"))

    assert in_flight(channel, writer) == ["recovered", "new", "more"]


def test_a_channel_that_is_in_use_recovers_nothing_which_is_said_c28() -> None:
    channel = InputChannel(INFO)
    channel.put(record(1))

    with pytest.raises(WrongState, match="must get recovered elements before any others"):
        channel.recover([record(0)])


def test_nothing_follows_the_end_of_a_channel_c23() -> None:
    channel = InputChannel(INFO)
    for element in end():
        channel.put(element)

    with pytest.raises(WrongState, match="channel 0 of gate 0 has ended"):
        channel.put(record(1))
