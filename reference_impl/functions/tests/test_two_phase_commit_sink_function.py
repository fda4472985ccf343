"""Claims about the two-phase sink: C38-C44, and a crash at every point of its life."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.functions.sink import TransactionTimeout, TwoPhaseCommitSinkFunction
from reference_impl.functions.tests.transaction_store import Phase, TransactionStore
from reference_impl.functions.tests.two_phase_job import CONTEXT, STEPS, TwoPhaseJob, initialized, snapshot_of
from reference_impl.state.operator_state import RoundRobinOperatorStateRepartitioner
from reference_impl.state.snapshots import OperatorStateHandle
from reference_impl.tests.rig import quickly


class Bench:
    """A sink over a store, with a clock and ears for its warnings."""

    def __init__(
        self,
        store: TransactionStore | None = None,
        *,
        handle: OperatorStateHandle | None = None,
        restored: int | None = None,
        now_ms: int = 0,
        timeout: TransactionTimeout | None = None,
    ) -> None:
        self.store = store or TransactionStore()
        self.now_ms = now_ms
        self.warnings: list[str] = []
        self.sink = TwoPhaseCommitSinkFunction(
            self.store, now_ms=lambda: self.now_ms, timeout=timeout, warn=self.warnings.append
        )
        self.backend = initialized(self.sink, handle, restored)

    def write(self, *values: Any) -> None:
        for value in values:
            self.sink.invoke(value, CONTEXT)

    def snapshot(self, checkpoint_id: int) -> OperatorStateHandle:
        handle = snapshot_of(self.sink, self.backend, checkpoint_id)
        assert handle is not None
        return handle

    def phases(self) -> list[str]:
        return [phase.value for phase in self.store.phases.values()]


def lived(steps: list[str], *crashes: int) -> TransactionStore:
    """A whole life, judged on the way (C43), that dies at these points."""
    store = TransactionStore(crashes)
    TwoPhaseJob(store, lambda: TwoPhaseCommitSinkFunction(store, now_ms=lambda: 0)).run(steps)
    return store


# -------------------------------------------------------------------------------------------------- the protocol


def test_nothing_is_visible_before_the_notification_c40() -> None:
    bench = Bench()
    bench.write("a", "b")
    bench.snapshot(1)

    assert (bench.store.published, bench.phases()) == ([], ["prepared", "open"])

    bench.sink.notify_checkpoint_complete(1)
    assert bench.store.published == ["a", "b"]


def test_a_lost_notification_is_made_good_by_the_next_c38() -> None:
    bench = Bench()
    for checkpoint_id in (1, 2, 3):
        bench.write(checkpoint_id)
        bench.snapshot(checkpoint_id)

    bench.sink.notify_checkpoint_complete(2)

    assert (bench.store.published, bench.sink.pending) == ([1, 2], [3])


def test_a_late_or_repeated_or_unknown_notification_does_nothing_c38_flink_10377() -> None:
    bench = Bench()
    bench.sink.notify_checkpoint_complete(7)
    bench.write("a")
    bench.snapshot(8)
    bench.sink.notify_checkpoint_complete(8)
    for checkpoint_id in (8, 5):
        bench.sink.notify_checkpoint_complete(checkpoint_id)

    assert bench.store.published == ["a"]


def test_an_aborted_checkpoints_data_come_with_the_next_c39() -> None:
    bench = Bench()
    bench.write("a")
    bench.snapshot(1)
    bench.sink.notify_checkpoint_aborted(1)
    bench.write("b")
    bench.snapshot(2)

    bench.sink.notify_checkpoint_complete(2)

    assert bench.store.published == ["a", "b"]


def test_old_pendings_stay_in_every_snapshot_until_they_are_committed_c40() -> None:
    bench = Bench()
    for checkpoint_id in (1, 2):
        bench.write(checkpoint_id)
        handle = bench.snapshot(checkpoint_id)

    after = Bench(bench.store, handle=handle, restored=2)

    assert after.store.published == [1, 2]


def test_nothing_is_begun_once_finished_c40_flink_23473() -> None:
    bench = Bench()
    bench.write("a")
    bench.sink.finish()
    bench.snapshot(1)
    bench.snapshot(2)

    assert bench.phases() == ["prepared"]
    bench.sink.notify_checkpoint_complete(2)
    bench.sink.close()
    assert (bench.store.published, bench.phases()) == (["a"], ["committed"])


def test_at_the_end_of_input_the_store_may_still_write_in_the_current_transaction_d6() -> None:
    class Footer(TransactionStore):
        def finish_processing(self, handle: int) -> None:
            self.invoke(handle, "footer")

    bench = Bench(Footer())
    bench.write("a")
    bench.sink.finish()
    bench.snapshot(1)
    bench.sink.notify_checkpoint_complete(1)

    assert bench.store.published == ["a", "footer"]


def test_pendings_are_committed_in_the_order_of_their_checkpoints_c41() -> None:
    bench = Bench()
    for checkpoint_id in (1, 2, 3):
        bench.write(checkpoint_id)
        bench.snapshot(checkpoint_id)

    bench.sink.notify_checkpoint_complete(9)

    assert bench.store.calls == [("commit", 0), ("commit", 1), ("commit", 2)]


def test_each_is_tried_and_removed_though_one_fails_and_the_first_error_is_raised_c41() -> None:
    class Failing(TransactionStore):
        def commit(self, handle: int) -> None:
            if handle != 1:
                raise ConnectionError(handle)
            super().commit(handle)

    bench = Bench(Failing())
    for checkpoint_id in (1, 2, 3):
        bench.write(checkpoint_id)
        bench.snapshot(checkpoint_id)

    with pytest.raises(ConnectionError, match="0") as failed:
        bench.sink.notify_checkpoint_complete(3)

    assert "of checkpoint 3" in failed.value.__notes__[0]
    assert (bench.store.published, bench.sink.pending) == ([2], [])


def test_a_restore_commits_all_pendings_then_aborts_the_current_then_begins_anew_c42() -> None:
    bench = Bench()
    for checkpoint_id in (1, 2):
        bench.write(checkpoint_id)
        handle = bench.snapshot(checkpoint_id)
    bench.write("lost")
    bench.store.calls.clear()

    after = Bench(bench.store, handle=handle, restored=2)

    assert after.store.calls == [("commit", 0), ("commit", 1), ("abort", 2)]
    assert after.phases() == ["committed", "committed", "aborted", "open"]


@pytest.mark.parametrize(("old", "new"), [(3, 1), (1, 3), (3, 2)])
def test_after_a_rescale_an_instance_may_own_several_elements_or_none_c42(old: int, new: int) -> None:
    store = TransactionStore()
    before = [Bench(store) for _ in range(old)]
    for index, one in enumerate(before):
        one.write(index)
    handles = [one.snapshot(1) for one in before]

    parts = RoundRobinOperatorStateRepartitioner(operator="sink").repartition_state(handles, old, new)
    for part in parts:
        Bench(store, handle=part, restored=1)

    assert sorted(store.published) == list(range(old))


def test_what_was_committed_by_a_notification_is_not_shown_again_by_the_restore_c43() -> None:
    bench = Bench()
    bench.write("a")
    handle = bench.snapshot(1)
    bench.sink.notify_checkpoint_complete(1)

    for _ in range(2):
        Bench(bench.store, handle=handle, restored=1)

    assert bench.store.published == ["a"]


def test_what_was_pre_committed_for_a_lost_checkpoint_is_aborted_c42() -> None:
    bench = Bench()
    handle = bench.snapshot(1)
    bench.write("b")
    bench.snapshot(2)

    after = Bench(bench.store, handle=handle, restored=1)

    assert (after.store.published, after.store.phases[1]) == ([], Phase.ABORTED)


def test_a_close_aborts_what_was_not_pre_committed_and_nothing_else() -> None:
    bench = Bench()
    bench.write("a")
    bench.snapshot(1)
    bench.write("b")

    bench.sink.close()

    assert bench.phases() == ["prepared", "aborted"]


# ------------------------------------------------------------------------------------------ a crash at every point

LIFE = [
    *("record", "record", "barrier", "record", "complete oldest", "notify", "record", "barrier", "barrier"),
    *("abort", "record", "barrier", "complete newest", "record", "notify", "barrier", "complete oldest"),
]


def test_wherever_it_dies_what_is_visible_is_the_committed_prefix_c43() -> None:
    points = lived(LIFE).points
    assert points > 60

    for point in range(1, points + 1):
        lived(LIFE, point)


def test_a_restore_that_dies_can_be_repeated_c43() -> None:
    for point in range(1, lived(LIFE).points + 1):
        for after in (2, 5, 8):
            lived(LIFE, point, point + after)


@quickly
@given(
    st.lists(st.sampled_from(STEPS), max_size=25),
    st.lists(st.integers(1, 120), max_size=4, unique=True),
)
def test_published_is_the_committed_prefix_whatever_happens_c43(steps: list[str], crashes: list[int]) -> None:
    """Notifications lost, late and repeated, checkpoints aborted and subsumed, deaths anywhere (C38, C39, C41)."""
    lived(steps, *crashes)


# ---------------------------------------------------------------------------------------------------- the timeout


class Forgetful(TransactionStore):
    """Has forgotten what it is asked to commit."""

    def commit(self, handle: int) -> None:
        raise ConnectionError(handle)


def recovered(*, elapsed_ms: int, ignore_failures: bool) -> Bench:
    """Restored, that long after the transaction began, with a store that has forgotten it."""
    store = Forgetful()
    handle = Bench(store).snapshot(1)
    timeout = TransactionTimeout(timeout_ms=1_000, ignore_failures=ignore_failures)
    return Bench(store, handle=handle, restored=1, now_ms=elapsed_ms, timeout=timeout)


def test_a_loss_after_the_timeout_is_ignored_if_so_configured_and_told_c44() -> None:
    (warning,) = recovered(elapsed_ms=1_001, ignore_failures=True).warnings

    assert warning.startswith("DATA LOSS: transaction 0 ")


@pytest.mark.parametrize(("elapsed_ms", "ignore_failures"), [(1_000, True), (1_001, False)])
def test_a_failed_recovery_fails_the_task_else_c44(elapsed_ms: int, *, ignore_failures: bool) -> None:
    with pytest.raises(ConnectionError):
        recovered(elapsed_ms=elapsed_ms, ignore_failures=ignore_failures)


def test_a_failed_commit_on_notification_is_never_ignored_c44() -> None:
    bench = Bench(Forgetful(), timeout=TransactionTimeout(timeout_ms=1, ignore_failures=True))
    bench.snapshot(1)
    bench.now_ms = 100

    with pytest.raises(ConnectionError):
        bench.sink.notify_checkpoint_complete(1)


@pytest.mark.parametrize(("elapsed_ms", "warns"), [(500, False), (501, True)])
def test_a_commit_close_to_the_timeout_is_warned_of_c44(elapsed_ms: int, *, warns: bool) -> None:
    bench = Bench(timeout=TransactionTimeout(timeout_ms=1_000, warning_ratio=0.5))
    bench.write("a")
    handle = bench.snapshot(1)
    bench.now_ms = elapsed_ms

    bench.sink.notify_checkpoint_complete(1)
    after = Bench(
        bench.store,
        handle=handle,
        restored=1,
        now_ms=elapsed_ms,
        timeout=TransactionTimeout(timeout_ms=1_000, warning_ratio=0.5),
    )

    assert [len(bench.warnings), len(after.warnings)] == [int(warns)] * 2


@pytest.mark.parametrize(
    "wrong",
    [partial(TransactionTimeout, timeout_ms=0), partial(TransactionTimeout, timeout_ms=1, warning_ratio=1.1)],
)
def test_a_timeout_that_makes_no_sense_is_refused(wrong: partial[TransactionTimeout]) -> None:
    with pytest.raises(ValueError, match="give"):
        wrong()
