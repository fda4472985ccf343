"""A run's verdict: what its history says, and never a pass where the history is not the whole of it."""

from __future__ import annotations

from pathlib import Path

from harness.engine.level import Opening, RunRecord, RunSite
from harness.engine.perform import judged, outcome_of
from harness.history.read import read_whole
from harness.history.verdict import Outcome
from harness.judge import checkers
from harness.levels import level_named
from harness.scenario.file import load_many
from harness.scenario.order import Order
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


def test_the_command_that_repeats_a_run_names_the_world_that_ran(tmp_path: Path) -> None:
    again = "floodmark run calm --world auto --proxy auto --seed 7"
    order = Order(scenario=load_many(["calm"])[0], level="sim", seed=7, again=again)

    with level_named("sim").open(Opening(folder=tmp_path)) as play:
        ran = play(order, RunSite(run_id="one", folder=tmp_path))

    assert outcome_of(order, ran).again == again.replace("--world auto", "--world simulated")


def test_a_violation_stays_one_even_if_something_is_missing() -> None:
    history = PAGE / "a_duplicate_after_a_restore_with_append.jsonl"

    assert judged(record(history, whole=False)).outcome is Outcome.FAIL
