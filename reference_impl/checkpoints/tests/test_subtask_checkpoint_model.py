"""Claims about a subtask's checkpoints that hold whatever comes in whatever order, against a model of a few sets."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reference_impl.checkpoint_events import CheckpointException, CheckpointFailureReason
from reference_impl.checkpoints.async_checkpoint import OperatorSnapshotFutures
from reference_impl.checkpoints.tests.checkpoint_rig import CheckpointRig, CountedHandle
from reference_impl.state.snapshots import SnapshotFuture

MARKS_MAX = 3
AHEAD = st.integers(1, 5)
PICK = st.integers(0, 99)


class SubtaskCheckpoints(RuleBasedStateMachine):
    """Barriers, notifications and asynchronous parts, some of which fail, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.handles: dict[int, CountedHandle] = {}
        self.failing: set[int] = set()
        self.rig = CheckpointRig({"map": self._part}, max_record_aborted_checkpoints=MARKS_MAX)
        self.last = -1
        """The highest id that has come by a barrier, or was given up by one."""
        self.marks: list[int] = []
        """Aborted before their barrier came, oldest first."""
        self.highest_mark = 0
        self.expected: dict[int, str] = {}
        """What is to become of each id whose barrier has come: `acknowledged`, `declined`, or `nothing`."""
        self.sent: list[tuple[str, int]] = []

    def _part(self, checkpoint_id: int) -> OperatorSnapshotFutures:
        handle = self.handles[checkpoint_id] = CountedHandle()

        def work() -> None:
            if checkpoint_id in self.failing:
                raise OSError("disk full")

        return OperatorSnapshotFutures(
            managed_keyed_state=SnapshotFuture.of(handle),
            managed_operator_state=SnapshotFuture.calling(work),
        )

    # ------------------------------------------------------------------------------------------------ what happens

    @rule(ahead=AHEAD, is_failing=st.booleans())
    def a_new_barrier(self, *, ahead: int, is_failing: bool) -> None:
        checkpoint_id = max(self.last, 0) + ahead
        is_aborted = checkpoint_id in self.marks or checkpoint_id + MARKS_MAX < self.highest_mark
        self.last = checkpoint_id
        if is_failing:
            self.failing.add(checkpoint_id)
        if is_aborted:
            self.marks = [mark for mark in self.marks if mark != checkpoint_id]
            self.sent.append(("cancel marker", checkpoint_id))
        else:
            self.expected[checkpoint_id] = "running"
            self.sent.append(("barrier", checkpoint_id))

        self.rig.trigger(checkpoint_id)

    @precondition(lambda self: self.last >= 0)
    @rule(behind=st.integers(0, 3))
    def a_barrier_out_of_order(self, behind: int) -> None:
        checkpoint_id = self.last - behind
        self.marks = [mark for mark in self.marks if mark != checkpoint_id]

        self.rig.trigger(checkpoint_id)

    @rule(offset=st.integers(-3, 5))
    def an_abort_by_notification(self, offset: int) -> None:
        checkpoint_id = max(self.last + offset, 0)
        if self.expected.get(checkpoint_id) == "running":
            self.expected[checkpoint_id] = "nothing"
        elif checkpoint_id > self.last and checkpoint_id not in self.marks:
            self.marks = [*self.marks, checkpoint_id][-MARKS_MAX:]
        if checkpoint_id > self.last:
            self.highest_mark = max(self.highest_mark, checkpoint_id)

        self.rig.notify("aborted", checkpoint_id)

    @rule(ahead=AHEAD)
    def an_abort_by_a_barrier(self, ahead: int) -> None:
        self.last = checkpoint_id = max(self.last, 0) + ahead
        self.marks = [mark for mark in self.marks if mark >= checkpoint_id]
        self.expected[checkpoint_id] = "declined"
        self.sent.append(("cancel marker", checkpoint_id))

        cause = CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED)
        self.rig.abort_on_barrier(checkpoint_id, cause)

    @rule(offset=st.integers(-5, 3))
    def a_completion_lost_late_or_repeated(self, offset: int) -> None:
        self.rig.notify("complete", max(self.last + offset, 0))

    @precondition(lambda self: self.rig.behind)
    @rule(pick=PICK)
    def an_asynchronous_part_runs(self, pick: int) -> None:
        """Any of them: a pool keeps no order."""
        part = self.rig.behind.pop(pick % len(self.rig.behind))
        part()
        ended = self.expected.keys() - set(self.rig.coordinator.pending_checkpoints)
        for checkpoint_id in ended:
            if self.expected[checkpoint_id] == "running":
                self.expected[checkpoint_id] = "declined" if checkpoint_id in self.failing else "acknowledged"

    # -------------------------------------------------------------------------------------------------- what holds

    @invariant()
    def each_id_ends_in_one_way_c8_c9_c12(self) -> None:
        def ids(what: str) -> set[int]:
            return {checkpoint_id for checkpoint_id, end in self.expected.items() if end == what}

        assert set(self.rig.responder.acknowledged) == ids("acknowledged")
        assert set(self.rig.responder.declined) == ids("declined")
        assert set(self.rig.coordinator.pending_checkpoints) == ids("running")

    @invariant()
    def downstream_gets_a_barrier_or_a_marker_for_each_id_c2_c25(self) -> None:
        sent = [step for step in self.rig.happened if step[0] in {"barrier", "cancel marker"}]
        assert sent == self.sent

    @invariant()
    def the_marks_are_those_of_the_model_c12(self) -> None:
        assert len(self.rig.coordinator.aborted) == len(self.marks) <= MARKS_MAX

    @invariant()
    def a_handle_is_discarded_once_unless_it_is_referred_to_c8(self) -> None:
        for checkpoint_id, handle in self.handles.items():
            is_wanted = self.expected[checkpoint_id] in {"running", "acknowledged"}
            assert handle.discarded == (0 if is_wanted else 1)

    def teardown(self) -> None:
        """Whatever was open when the task went, nothing stays open (FLINK-28474), and nobody hears of it (C8)."""
        acknowledged, declined = set(self.rig.responder.acknowledged), set(self.rig.responder.declined)
        self.rig.coordinator.close()
        self.rig.work()

        assert self.rig.coordinator.pending_checkpoints == []
        assert set(self.rig.responder.acknowledged) == acknowledged
        assert set(self.rig.responder.declined) == declined
        for checkpoint_id, handle in self.handles.items():
            assert handle.discarded == (0 if checkpoint_id in acknowledged else 1)


TestSubtaskCheckpoints = SubtaskCheckpoints.TestCase
TestSubtaskCheckpoints.settings = settings(deadline=None, stateful_step_count=25, derandomize=True)
