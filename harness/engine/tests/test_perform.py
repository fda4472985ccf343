"""A run's verdict: what its history says, and never a pass where the history is not the whole of it."""

from __future__ import annotations

from pathlib import Path

from harness import checkers
from harness.engine.perform import _judge
from harness.verdict import Outcome

PAGE = Path(checkers.__file__).parent / "tests" / "catalogue" / "page"


def test_a_passing_history_passes_only_if_nothing_of_it_is_missing() -> None:
    history = PAGE / "the_same_passes_with_rollback.jsonl"

    assert _judge(history, whole=True).outcome is Outcome.PASS
    assert _judge(history, whole=False).outcome is Outcome.UNKNOWN


def test_a_violation_stays_one_even_if_something_is_missing() -> None:
    history = PAGE / "a_duplicate_after_a_restore_with_append.jsonl"

    assert _judge(history, whole=False).outcome is Outcome.FAIL
