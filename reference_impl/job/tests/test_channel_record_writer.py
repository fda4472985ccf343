"""Claims about the way from a task to its readers: whether they have read all of it (M47)."""

from __future__ import annotations

from reference_impl.checkpoint_events import EndOfData
from reference_impl.checkpoints.channels import InputChannel, InputChannelInfo
from reference_impl.job.local_subtask import ChannelRecordWriter, rebalanced
from reference_impl.tests.rig import record


def read_all(channel: InputChannel) -> None:
    while channel.poll() is not None:
        pass


def test_all_is_processed_when_each_reader_has_read_the_end_of_the_data_m47() -> None:
    """M47, C28: what an unaligned last checkpoint has overtaken must not be left to a later, aligned one."""
    channels = [InputChannel(InputChannelInfo(0, index)) for index in range(2)]
    writer = ChannelRecordWriter([(rebalanced(2), channels)])
    heard: list[bool] = []
    writer.all_data_processed.then(lambda: heard.append(True))
    writer.emit(record(1))
    writer.broadcast_event(EndOfData())

    before = bool(writer.all_data_processed)
    read_all(channels[0])
    after_one = bool(writer.all_data_processed)
    read_all(channels[1])

    assert (before, after_one, bool(writer.all_data_processed)) == (False, False, True)
    assert heard == [True]


def test_a_task_without_readers_waits_for_none_m47() -> None:
    assert ChannelRecordWriter([]).all_data_processed
