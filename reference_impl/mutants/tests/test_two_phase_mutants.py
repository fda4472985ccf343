"""Planted defects of the two-phase sink: each is convicted by what is visible, or by what is left open at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from reference_impl.functions.tests.transaction_store import Phase, TransactionStore
from reference_impl.functions.tests.two_phase_job import TwoPhaseJob
from reference_impl.functions.two_phase_commit_sink import TwoPhaseCommitSinkFunction
from reference_impl.mutants.begins_after_finish import EndlessSink
from reference_impl.mutants.commits_at_pre_commit import OnePhaseSink
from reference_impl.mutants.drops_pending_on_abort import DroppingSink
from reference_impl.mutants.keeps_newest_pending import ShortMemorySink
from reference_impl.mutants.refuses_unknown_notifications import StrictSink
from reference_impl.mutants.second_commit_shows_again import ForgetfulTransactions

Build = Callable[[TransactionStore], Callable[[], TwoPhaseCommitSinkFunction]]
"""Given the store: what makes a sink, at the start and after each restore."""


def honest(store: TransactionStore) -> Callable[[], TwoPhaseCommitSinkFunction]:
    return lambda: TwoPhaseCommitSinkFunction(store, now_ms=lambda: 0)


def of_kind(kind: type[TwoPhaseCommitSinkFunction]) -> Build:
    return lambda store: lambda: kind(store, now_ms=lambda: 0)


def over_forgetful_transactions(store: TransactionStore) -> Callable[[], TwoPhaseCommitSinkFunction]:
    transactions = ForgetfulTransactions(store)
    return lambda: TwoPhaseCommitSinkFunction(transactions, now_ms=lambda: 0)


def live(build: Build, steps: Sequence[str], crashes: Iterable[int] = ()) -> TransactionStore:
    """A whole life, judged on the way (C43)."""
    store = TransactionStore(crashes)
    TwoPhaseJob(store, build(store)).run(steps)
    return store


CHECKPOINT = ["record", "barrier", "complete oldest", "notify"]
ABORTED = ["record", "barrier", "abort"]
LOST = ["record", "barrier", "die"]
LATE = ["record", "barrier", "complete oldest", "lose", *CHECKPOINT]
REPEATED = ["record", "barrier", "complete oldest", "repeat", "notify"]
SHOWN_THEN_RESTORED = [*CHECKPOINT, "die"]

CONVICTIONS: list[tuple[Build, list[str]]] = [
    (of_kind(DroppingSink), ABORTED),
    (of_kind(OnePhaseSink), LOST),
    (of_kind(ShortMemorySink), LATE),
    (over_forgetful_transactions, SHOWN_THEN_RESTORED),
    (of_kind(StrictSink), REPEATED),
]


@pytest.mark.parametrize(("mutant", "steps"), CONVICTIONS)
def test_what_is_visible_convicts_the_mutant_c43(mutant: Build, steps: list[str]) -> None:
    with pytest.raises(AssertionError):
        live(mutant, steps)


@pytest.mark.parametrize(
    "mutant",
    [of_kind(DroppingSink), of_kind(ShortMemorySink), of_kind(StrictSink), over_forgetful_transactions],
    ids="abcd",
)
def test_where_its_defect_cannot_show_the_mutant_is_the_reference(mutant: Build) -> None:
    calm = 2 * CHECKPOINT

    assert live(mutant, calm).published == live(honest, calm).published


def test_the_reference_lives_through_all_that_convicts_a_mutant_c43() -> None:
    for _, steps in CONVICTIONS:
        live(honest, steps)


def test_the_reference_leaves_nothing_open_at_its_end_and_the_mutant_does_flink_23473() -> None:
    assert Phase.OPEN not in live(honest, CHECKPOINT).phases.values()

    assert Phase.OPEN in live(of_kind(EndlessSink), CHECKPOINT).phases.values()
