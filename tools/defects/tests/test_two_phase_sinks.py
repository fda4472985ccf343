"""Planted defects of the two-phase sink: each is convicted by what is visible, or by what is left open at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from reference_impl.functions.sink import TwoPhaseCommitSinkFunction
from reference_impl.functions.tests.transaction_store import Phase, TransactionStore
from reference_impl.functions.tests.two_phase_job import TwoPhaseJob
from tools.defects.tests.wrong_parts import wrong_part

Build = Callable[[TransactionStore], Callable[[], TwoPhaseCommitSinkFunction[int]]]
"""Given the store: a function that makes a sink, at the start and after each restore."""


def honest(store: TransactionStore) -> Callable[[], TwoPhaseCommitSinkFunction[int]]:
    return lambda: TwoPhaseCommitSinkFunction(store, now_ms=lambda: 0)


def planted(name: str) -> Build:
    """With the defect `name`: a sink, or what the sink writes through."""
    wrong = wrong_part(name)
    if issubclass(wrong, TwoPhaseCommitSinkFunction):
        return lambda store: lambda: wrong(store, now_ms=lambda: 0)

    def over_wrong_transactions(store: TransactionStore) -> Callable[[], TwoPhaseCommitSinkFunction[int]]:
        transactions = wrong(store)
        return lambda: TwoPhaseCommitSinkFunction(transactions, now_ms=lambda: 0)

    return over_wrong_transactions


def live(build: Build, steps: Sequence[str], crashes: Iterable[int] = ()) -> TransactionStore:
    """The store after `steps`; the job asserts on the way what is visible (C43)."""
    store = TransactionStore(crashes)
    TwoPhaseJob(store, build(store)).run(steps)
    return store


CHECKPOINT = ["record", "barrier", "complete oldest", "notify"]
ABORTED = ["record", "barrier", "abort"]
LOST = ["record", "barrier", "die"]
LATE = ["record", "barrier", "complete oldest", "lose", *CHECKPOINT]
REPEATED = ["record", "barrier", "complete oldest", "repeat", "notify"]
SHOWN_THEN_RESTORED = [*CHECKPOINT, "die"]

STEPS: dict[str, list[str]] = {
    "drops-pending-on-abort": ABORTED,
    "commits-at-pre-commit": LOST,
    "keeps-newest-pending": LATE,
    "second-commit-shows-again": SHOWN_THEN_RESTORED,
    "refuses-unknown-notifications": REPEATED,
}
"""The life in which each defect shows rows that it should not, or fails."""
LEFT_OPEN = "begins-after-finish"
CONVICTIONS = (*STEPS, LEFT_OPEN)


@pytest.mark.parametrize("name", STEPS)
def test_what_is_visible_convicts_the_defect_c43(name: str) -> None:
    with pytest.raises(AssertionError):
        live(planted(name), STEPS[name])


@pytest.mark.parametrize("name", [name for name in STEPS if name != "commits-at-pre-commit"])
def test_where_it_cannot_show_the_defect_is_the_reference(name: str) -> None:
    calm = 2 * CHECKPOINT

    assert live(planted(name), calm).published == live(honest, calm).published


def test_the_reference_lives_through_all_that_convicts_a_defect_c43() -> None:
    for steps in STEPS.values():
        live(honest, steps)


def test_the_reference_leaves_nothing_open_at_its_end_and_the_defect_does_flink_23473() -> None:
    assert Phase.OPEN not in live(honest, CHECKPOINT).phases.values()

    assert Phase.OPEN in live(planted(LEFT_OPEN), CHECKPOINT).phases.values()
