"""Claims about writing down what is in flight: C27-C29, and C1 for numbers out of order."""

from __future__ import annotations

import pytest

from reference_impl.checkpoint_events import CheckpointException, CheckpointFailureReason
from reference_impl.checkpoints.channels import (
    ChannelStateWriter,
    InputChannelInfo,
    InputChannelStateHandle,
)
from reference_impl.checkpoints.tests.bench import unaligned
from reference_impl.elements import Record
from reference_impl.errors import WrongState

OPTIONS = unaligned(1).options
IN_0, IN_1 = InputChannelInfo(0, 0), InputChannelInfo(0, 1)
CAUSE = CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED)


def record(value: int) -> Record:
    return Record(value=value)


def test_the_result_names_each_channel_once_in_order_with_what_it_held_c28() -> None:
    writer = ChannelStateWriter()
    writer.start(1, OPTIONS)
    writer.add_input_data(1, IN_1, 0, [record(3)])
    writer.add_input_data(1, IN_0, 0, [record(1)])
    writer.add_input_data(1, IN_0, 1, [record(2)])
    writer.finish_input(1)
    result = writer.get_and_remove_write_result(1)

    assert result.input_channel_state.result(timeout=0) == (
        InputChannelStateHandle(info=IN_0, elements=(record(1), record(2))),
        InputChannelStateHandle(info=IN_1, elements=(record(3),)),
    )


def test_the_result_can_be_fetched_before_it_is_known_c27() -> None:
    writer = ChannelStateWriter()
    writer.start(1, OPTIONS)
    result = writer.get_and_remove_write_result(1)
    writer.add_input_data(1, IN_0, 0, [record(1)])
    was_known = result.is_done
    writer.finish_input(1)

    assert (was_known, result.is_done) == (False, True)
    assert result.input_channel_state.result(timeout=0) == (
        InputChannelStateHandle(info=IN_0, elements=(record(1),)),
    )


def test_nothing_in_flight_is_none_and_not_empty_c28() -> None:
    writer = ChannelStateWriter()
    writer.start(1, OPTIONS)
    writer.finish_input(1)

    result = writer.get_and_remove_write_result(1)
    assert result.input_channel_state.result(0) is None


def test_what_comes_after_the_input_is_finished_is_not_in_it_c28() -> None:
    writer = ChannelStateWriter()
    writer.start(1, OPTIONS)
    writer.finish_input(1)
    writer.add_input_data(1, IN_0, 0, [record(1)])

    assert writer.get_and_remove_write_result(1).input_channel_state.result(timeout=0) is None


@pytest.mark.parametrize("fetched", [True, False])
def test_an_abort_ends_the_future_with_its_cause_c28(*, fetched: bool) -> None:
    """FLINK-28474."""
    writer = ChannelStateWriter()
    writer.start(1, OPTIONS)
    result = writer.get_and_remove_write_result(1) if fetched else None
    writer.abort(1, CAUSE, cleanup=False)
    result = result or writer.get_and_remove_write_result(1)

    assert result.input_channel_state.exception(timeout=0) is CAUSE


def test_an_abort_before_the_start_is_remembered_c1() -> None:
    """FLINK-17218."""
    writer = ChannelStateWriter()
    writer.abort(1, CAUSE, cleanup=True)
    writer.start(1, OPTIONS)
    writer.add_input_data(1, IN_0, 0, [record(1)])

    assert isinstance(
        writer.get_and_remove_write_result(1).input_channel_state.exception(timeout=0), CheckpointException
    )


def test_an_abort_of_one_that_is_to_come_leaves_the_one_under_way_c1() -> None:
    writer = ChannelStateWriter()
    writer.start(1, OPTIONS)
    writer.abort(2, CAUSE, cleanup=True)
    writer.finish_input(1)

    assert writer.get_and_remove_write_result(1).input_channel_state.result(timeout=0) is None


def test_a_newer_one_ends_the_older_and_shares_nothing_with_it_c28() -> None:
    """FLINK-29730."""
    writer = ChannelStateWriter()
    writer.start(1, OPTIONS)
    writer.add_input_data(1, IN_0, 0, [record(1)])
    older = writer.get_and_remove_write_result(1)
    writer.start(2, OPTIONS)
    writer.add_input_data(1, IN_0, 1, [record(2)])
    writer.finish_input(2)

    assert isinstance(older.input_channel_state.exception(timeout=0), CheckpointException)
    assert writer.get_and_remove_write_result(2).input_channel_state.result(timeout=0) is None


def test_numbers_that_do_not_rise_are_an_error_that_says_so_c1() -> None:
    """FLINK-17869."""
    writer = ChannelStateWriter()
    writer.start(2, OPTIONS)

    with pytest.raises(WrongState, match="checkpoint 1 cannot be started after those of 2"):
        writer.start(1, OPTIONS)


def test_data_for_one_that_never_began_are_an_error_and_for_one_that_is_over_nothing_c28() -> None:
    writer = ChannelStateWriter()
    writer.start(1, OPTIONS)
    writer.abort(1, CAUSE, cleanup=True)
    writer.add_input_data(1, IN_0, 0, [record(1)])

    with pytest.raises(WrongState, match="checkpoint 2 came before its start"):
        writer.add_input_data(2, IN_0, 0, [record(1)])


def test_a_result_is_fetched_once_c28() -> None:
    writer = ChannelStateWriter()
    writer.start(1, OPTIONS)
    writer.get_and_remove_write_result(1)

    with pytest.raises(WrongState, match="fetch it once"):
        writer.get_and_remove_write_result(1)


def test_a_close_ends_all_that_is_open_and_all_that_begins_later_c28() -> None:
    writer = ChannelStateWriter()
    writer.start(1, OPTIONS)
    open_one = writer.get_and_remove_write_result(1)
    writer.close()
    writer.start(2, OPTIONS)

    assert open_one.is_done
    assert writer.get_and_remove_write_result(2).is_done
