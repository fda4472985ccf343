"""Claims about which request starts next: C32, C33."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reference_impl.checkpoint_events import CheckpointFailureReason, SnapshotType
from reference_impl.job.messages import CheckpointProperties
from reference_impl.job.pending_checkpoint import CheckpointRequestDecider, CheckpointTriggerRequest
from reference_impl.job.tests.coordination_rig import reason_of
from reference_impl.tests.rig import quickly

PERIODIC, ASKED, FORCED, SAVEPOINT = range(4)


def request(kind: int, *, at_ms: int = 0) -> CheckpointTriggerRequest:
    return CheckpointTriggerRequest(
        properties=CheckpointProperties(
            is_forced=kind == FORCED,
            snapshot_type=SnapshotType.SAVEPOINT if kind == SAVEPOINT else SnapshotType.CHECKPOINT,
        ),
        timestamp_ms=at_ms,
        is_periodic=kind == PERIODIC,
    )


class Bench:
    """A decider whose surroundings a test sets. Mutable."""

    def __init__(self, *, max_queued: int = 1_000, min_pause_ms: int = 0) -> None:
        self.pending = self.cleaning = self.now_ms = 0
        self.last_ms: int | None = None
        self.is_triggering = False
        self.rescheduled: list[int] = []
        self.decider = CheckpointRequestDecider(
            max_concurrent_checkpoints=1,
            min_pause_ms=min_pause_ms,
            now_ms=lambda: self.now_ms,
            pending=lambda: self.pending,
            cleaning=lambda: self.cleaning,
            reschedule=self.rescheduled.append,
            max_queued_requests=max_queued,
        )

    def ask(self, asked: CheckpointTriggerRequest) -> CheckpointTriggerRequest | None:
        return self.decider.choose_request_to_execute(
            asked, is_triggering=self.is_triggering, last_completion_ms=self.last_ms
        )

    def next(self) -> CheckpointTriggerRequest | None:
        return self.decider.choose_queued_request_to_execute(
            is_triggering=self.is_triggering, last_completion_ms=self.last_ms
        )


@quickly
@given(st.lists(st.tuples(st.sampled_from([PERIODIC, ASKED, FORCED, SAVEPOINT]), st.integers(0, 3))))
def test_savepoints_then_forced_then_asked_for_then_the_clocks_each_by_age_c32(
    drawn: list[tuple[int, int]],
) -> None:
    bench = Bench()
    bench.is_triggering = True
    requests = [request(kind, at_ms=at_ms) for kind, at_ms in drawn]
    for each in requests:
        assert bench.ask(each) is None
    bench.is_triggering = False

    chosen = [bench.next() for _ in requests]

    order = sorted(range(len(drawn)), key=lambda index: (-drawn[index][0], drawn[index][1], index))
    assert chosen == [requests[index] for index in order]
    assert bench.next() is None


def test_with_enough_pending_only_a_forced_request_starts_c32() -> None:
    bench = Bench()
    bench.pending = 1

    assert bench.ask(request(ASKED)) is None
    assert bench.ask(forced := request(FORCED)) is forced


def test_nothing_starts_while_more_than_allowed_are_cleaned_c32() -> None:
    bench = Bench()
    bench.cleaning = 2

    held = bench.ask(asked := request(FORCED))
    bench.cleaning = 1

    assert held is None
    assert bench.next() is asked


def test_a_periodic_request_within_the_pause_fails_and_the_clock_is_told_the_rest_c33() -> None:
    bench = Bench(min_pause_ms=100)
    bench.last_ms, bench.now_ms = 50, 120

    assert bench.ask(asked := request(PERIODIC)) is None
    assert reason_of(asked.on_completion) is CheckpointFailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS
    assert bench.rescheduled == [30]


def test_when_the_pause_is_over_to_the_millisecond_a_periodic_request_starts_c33() -> None:
    bench = Bench(min_pause_ms=100)
    bench.last_ms, bench.now_ms = 50, 150

    assert bench.ask(asked := request(PERIODIC)) is asked


def test_the_pause_holds_back_nobody_who_asks_by_hand_c33() -> None:
    bench = Bench(min_pause_ms=100)
    bench.last_ms = 0

    assert bench.ask(asked := request(ASKED)) is asked
    assert bench.ask(savepoint := request(SAVEPOINT)) is savepoint


def test_a_full_queue_evicts_the_last_periodic_request_for_a_users_c33() -> None:
    bench = Bench(max_queued=2)
    bench.is_triggering = True
    bench.ask(first := request(PERIODIC, at_ms=1))
    bench.ask(last := request(PERIODIC, at_ms=2))

    bench.ask(asked := request(ASKED, at_ms=3))

    assert reason_of(last.on_completion) is CheckpointFailureReason.TOO_MANY_CHECKPOINT_REQUESTS
    assert not first.on_completion.done()
    assert not asked.on_completion.done()


def test_a_queue_full_of_users_requests_refuses_one_more_c33() -> None:
    bench = Bench(max_queued=1)
    bench.is_triggering = True
    bench.ask(kept := request(ASKED))

    bench.ask(refused := request(SAVEPOINT))

    assert reason_of(refused.on_completion) is CheckpointFailureReason.TOO_MANY_CHECKPOINT_REQUESTS
    assert not kept.on_completion.done()


def test_abort_all_fails_each_waiting_request_once() -> None:
    bench = Bench()
    bench.is_triggering = True
    requests = [request(kind) for kind in (PERIODIC, ASKED, SAVEPOINT)]
    for each in requests:
        bench.ask(each)

    bench.decider.abort_all(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN)

    assert len(bench.decider) == 0
    assert {reason_of(each.on_completion) for each in requests} == {
        CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN
    }
