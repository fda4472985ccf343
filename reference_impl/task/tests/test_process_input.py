"""Claims about the default action of a task: M41, M42, M43, M48."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.checkpoint_events import EndOfData, EndOfPartition, StopMode
from reference_impl.errors import WrongState
from reference_impl.mailbox.availability import AVAILABLE, Availability, DataInputStatus
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.task.input_processor import RECORDS_PER_ACTION_MAX
from reference_impl.task.tests.task_rig import END, HandInput, TaskRig, open_task
from reference_impl.tests.rig import quickly, record

NOTHING = DataInputStatus.NOTHING_AVAILABLE


def times_ms(rig: TaskRig) -> tuple[int, int, int]:
    """Under back pressure, idle, busy with the changelog."""
    waits = rig.task.waits
    periods = (waits.soft_back_pressured, waits.idle, waits.changelog_busy)
    return tuple(period.total_us // 1000 for period in periods)  # type: ignore[return-value]  # there are three


def test_with_more_to_read_and_room_to_write_the_next_turn_comes_at_once_m41() -> None:
    with open_task(record(1), record(2), *END, names=["op"]) as rig:
        rig.task.invoke()

        assert [entry for entry in rig.log if "takes" in str(entry)][:2] == ["op takes 1", "op takes 2"]
        assert times_ms(rig) == (0, 0, 0)


def test_with_nothing_to_read_the_task_is_idle_until_something_comes_m41_m42() -> None:
    with open_task(record(1), NOTHING) as rig:
        rig.at(30, lambda: rig.input.arrive(record(2), *END))

        rig.task.invoke()

        assert "tail takes 2" in rig.log
        assert times_ms(rig) == (0, 30, 0)


def test_without_room_to_write_nothing_is_read_though_there_is_more_m41_m42() -> None:
    with open_task(record(1), record(2), *END) as rig:
        rig.writer.is_available = full = Availability()

        def make_room() -> None:
            assert "head takes 2" not in rig.log
            rig.writer.is_available = AVAILABLE
            full.end()

        rig.at(20, make_room)
        rig.task.invoke()

        assert "head takes 2" in rig.log
        assert times_ms(rig) == (20, 0, 0)


def test_without_room_not_even_the_first_element_is_read_a33_m42() -> None:
    """What was replayed may have filled the chain."""
    with open_task(record(1), *END) as rig:
        rig.writer.is_available = full = Availability()

        def make_room() -> None:
            assert "head takes 1" not in rig.log
            rig.writer.is_available = AVAILABLE
            full.end()

        rig.at(20, make_room)
        rig.task.invoke()

        assert "head takes 1" in rig.log


def test_the_output_is_the_reason_before_the_input_and_the_input_before_the_changelog_m42() -> None:
    """All three are unavailable at first, and become available one after the other, in this order."""
    busy = Availability()
    with open_task(NOTHING, changelog=lambda: busy) as rig:
        rig.writer.is_available = full = Availability()

        def make_room() -> None:
            rig.writer.is_available = AVAILABLE
            full.end()

        rig.at(10, make_room)
        rig.at(30, lambda: rig.input.arrive(record(1), NOTHING))
        rig.at(60, busy.end)
        rig.at(100, lambda: rig.input.arrive(*END))
        rig.task.invoke()

        assert times_ms(rig) == (10, 20 + 40, 30)


def test_one_wait_at_a_time_though_all_three_are_unavailable_m42() -> None:
    with open_task(changelog=Availability) as rig:
        rig.writer.is_available = Availability()

        rig.task.process_input()

        with pytest.raises(WrongState, match="only while not suspended"):
            rig.mailbox_processor.suspend_default_action()


def test_who_is_woken_for_nothing_waits_again_m42() -> None:
    with open_task(NOTHING) as rig:
        rig.at(10, rig.input.arrive)  # nothing came
        rig.at(25, lambda: rig.input.arrive(*END))

        rig.task.invoke()

        assert times_ms(rig) == (0, 25, 0)


def test_a_full_operator_holds_up_the_input_and_no_other_mail_a33_m42() -> None:
    """A33, FLINK-39835: as if there were no room behind the task."""
    with open_task(record(1), record(2), *END) as rig:
        full = Availability()
        rig.task._ask_for_room = lambda: full
        rig.at(5, lambda: rig.operators["head"].put("reads mail"))
        rig.at(15, full.end)

        rig.task.invoke()

        assert rig.log.index("head reads mail") < rig.log.index("head takes 2")
        assert times_ms(rig) == (15, 0, 0)


def test_the_end_of_a_recovery_outside_of_one_is_an_error_m41() -> None:
    with open_task(DataInputStatus.END_OF_RECOVERY) as rig, pytest.raises(WrongState, match="recovery"):
        rig.task.invoke()


def test_a_stop_ends_the_data_without_a_drain_m41() -> None:
    with open_task(DataInputStatus.STOPPED, DataInputStatus.END_OF_INPUT) as rig:
        rig.task.invoke()

        assert rig.log[2:] == [
            EndOfData(mode=StopMode.NO_DRAIN),
            "head closes",
            "tail closes",
            EndOfPartition(),
        ]


def test_the_end_of_data_drains_and_is_told_of_once_m41() -> None:
    told: list[str] = []
    with open_task(*END, notify_end_of_data=lambda: told.append("end of data")) as rig:
        rig.task.invoke()

        assert EndOfData(mode=StopMode.DRAIN) in rig.log
        assert told == ["end of data"]


def test_the_end_of_input_leaves_the_loop_and_rests_the_default_action_m41() -> None:
    with open_task(DataInputStatus.END_OF_INPUT) as rig:
        rig.task.restore()
        rig.mailbox_processor.run_mailbox_loop(rig.task.process_input)

        assert rig.mailbox_processor.is_idle()


def test_an_input_may_go_on_while_no_mail_waits_and_there_is_room_m48() -> None:
    with open_task() as rig:
        assert rig.task.can_emit_batch_of_records()

        rig.operators["head"].put("reads mail")
        assert not rig.task.can_emit_batch_of_records()

        rig.run_mail()
        assert rig.task.can_emit_batch_of_records()

        rig.writer.is_available = Availability()
        assert not rig.task.can_emit_batch_of_records()


def test_mail_waits_for_one_record_at_most_m48() -> None:
    with open_task(*map(record, range(1, 6)), *END, names=["op"], batches=True) as rig:
        operator = rig.operators["op"]
        operator.on["takes 2"] = lambda: operator.put("reads mail")

        rig.task.invoke()

        assert rig.log.index("op reads mail") == rig.log.index("op takes 3") - 1


def test_a_batch_of_records_ends_even_if_no_mail_comes_m48() -> None:
    """The loop that brings the mail turns between default actions only."""
    with open_task(*map(record, range(50)), names=["op"], batches=True) as rig:
        rig.task.process_input()

        taken = [entry for entry in rig.log if str(entry).startswith("op takes")]
        assert len(taken) == RECORDS_PER_ACTION_MAX


WHAT = st.sampled_from(["record", "mail", "fill", "empty", "busy", "free", "nothing"])


@quickly
@given(steps=st.lists(st.tuples(st.integers(0, 9), WHAT), max_size=30), work_ms=st.integers(0, 3))
def test_no_instant_counts_twice_whatever_interleaves_m43(steps: list[tuple[int, str]], work_ms: int) -> None:
    """M43: mail and default action take `work_ms` each of virtual time."""
    with virtual_loop() as loop:
        rig = AccountedRig(loop, work_ms=work_ms)
        instant_ms = 0
        for gap_ms, what in steps:
            instant_ms += gap_ms
            rig.at(instant_ms, rig.steps[what])
        rig.at(instant_ms + 10, rig.end)

        rig.task.invoke()

        assert sum(times_ms(rig)) + rig.busy_ms <= loop.now_ms()
        assert work_ms > 0 or sum(times_ms(rig)) == instant_ms + 10, "without work the task only waits"


class AccountedRig(TaskRig):
    """A task whose steps take their time."""

    def __init__(self, loop: VirtualLoop, *, work_ms: int) -> None:
        self.work_ms = work_ms
        self.busy_ms = 0
        self.changelog = AVAILABLE
        super().__init__(loop, HandInput(), names=["op"], changelog=lambda: self.changelog)
        operator = self.operators["op"]
        operator.on = {"takes 1": self.work, "reads mail": self.work}
        self.steps = {
            "record": lambda: self.input.arrive(record(1)),
            "mail": lambda: operator.put("reads mail"),
            "fill": self.fill,
            "empty": self.empty,
            "busy": self.be_busy,
            "free": self.be_free,
            "nothing": self.input.arrive,
        }

    def work(self) -> None:
        """Time passes."""
        self.busy_ms += self.work_ms
        self.loop.advance(self.loop.now_ms() + self.work_ms)

    def fill(self) -> None:
        if self.writer.is_available:
            self.writer.is_available = Availability()

    def empty(self) -> None:
        full, self.writer.is_available = self.writer.is_available, AVAILABLE
        if not full:
            full.end()

    def be_busy(self) -> None:
        if self.changelog:
            self.changelog = Availability()

    def be_free(self) -> None:
        busy, self.changelog = self.changelog, AVAILABLE
        if not busy:
            busy.end()

    def end(self) -> None:
        self.empty()
        self.be_free()
        self.input.arrive(*END)
