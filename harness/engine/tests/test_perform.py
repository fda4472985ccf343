"""A run's verdict: what its history says, and never a pass where the history is not the whole of it."""

from __future__ import annotations

from pathlib import Path

from harness.engine.level import RunRecord
from harness.engine.perform import judged
from harness.history.read import read_whole
from harness.history.verdict import Outcome
from harness.judge import checkers
from harness.scenario.outcome import WorldDescription

PAGE = Path(checkers.__file__).parent / "tests" / "catalogue" / "page"


def record(history: Path, *, whole: bool) -> RunRecord:
    """A run that left this history."""
    header, events = read_whole(history)
    return RunRecord(
        header=header,
        events=events,
        whole=whole,
        error=None,
        ran_us=0,
        world=WorldDescription(kind="local", why="", server="", proxy="", ready_s=0.0),
        faults=(),
        accounting={},
    )


def test_a_passing_history_passes_only_if_nothing_of_it_is_missing() -> None:
    history = PAGE / "the_same_passes_with_rollback.jsonl"

    assert judged(record(history, whole=True)).outcome is Outcome.PASS
    assert judged(record(history, whole=False)).outcome is Outcome.UNKNOWN


def test_a_violation_stays_one_even_if_something_is_missing() -> None:
    history = PAGE / "a_duplicate_after_a_restore_with_append.jsonl"

    assert judged(record(history, whole=False)).outcome is Outcome.FAIL
