"""Tallies: every run counts once, in one process or in several, and what is unexpected is kept first."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.engine.level import Opening, RunSite, Stop
from harness.engine.perform import perform
from harness.engine.run_counts import Counted, count, tallies, worth_keeping
from harness.history.verdict import Outcome
from harness.levels.sim.level import SimulatedLevel
from harness.scenario.file import apply_settings, load_many
from harness.scenario.order import Order
from harness.system.clock import Deadline
from harness.system.errors import SutError
from harness.system.pool import PlainExecutors, always
from reports.reading import read_run
from tools.cases import in_sweep_after


def orders(*, mutant: str | None = None, runs: int = 10) -> list[Order]:
    [calm] = load_many(["calm"])
    small = apply_settings(
        calm,
        ("workload.records=10", "workload.checkpoint_every=5", "expects.records=20", "expects.checkpoints=2"),
    )
    return [
        Order(scenario=small, level="sim", seed=seed, mutant=mutant, again=f"seed {seed}")
        for seed in range(runs)
    ]


@pytest.mark.sweep
@pytest.mark.parametrize("jobs", in_sweep_after(1, [2, 1]))
def test_a_tally_does_not_depend_on_the_number_of_processes(jobs: int) -> None:
    asked = [*orders(), *orders(mutant="watermarks-at-once")]

    counted = list(count(asked, SimulatedLevel(), jobs=jobs))
    reference, planted = tallies(asked, counted)

    assert [run.order for run in counted] == list(range(20))
    assert (reference.runs, reference.counts, reference.unexpected) == (10, {Outcome.PASS: 10}, 0)
    assert (planted.mutant, planted.counts, planted.unexpected) == (
        "watermarks-at-once",
        {Outcome.FAIL: 10},
        0,
    )


def test_a_tally_does_not_depend_on_where_the_runs_take_place() -> None:
    asked = orders(runs=6)

    here = list(count(asked, SimulatedLevel()))
    there = list(count(asked, SimulatedLevel(), executors=PiecesOfTwo()))

    assert there == here
    assert len({run.digest for run in here}) == 6


class PiecesOfTwo(PlainExecutors):
    """Executors that get two runs at a time, each pickled as on its way to another machine."""

    def map(self, work: Any, items: Any, *, most: int, goes_on: Any = always) -> Iterator[Any]:
        del most
        sent = pickle.loads(pickle.dumps(work))  # noqa: S301 - written here
        for result in super().map(sent, items, most=2, goes_on=goes_on):
            yield pickle.loads(pickle.dumps(result))  # noqa: S301 - written here


def test_the_first_run_that_is_not_as_it_should_be_is_named() -> None:
    asked = orders(mutant="segment-leak")  # which shows in unordered operators only

    [tally] = tallies(asked, list(count(asked, SimulatedLevel())))

    assert (tally.unexpected, tally.first) == (10, asked[0])


def test_a_count_that_is_stopped_ends_early() -> None:
    turns = iter([True, True, False])

    counted = list(count(orders(), SimulatedLevel(), goes_on=lambda: next(turns)))

    assert len(counted) == 2


def test_a_run_that_had_ended_when_ctrl_c_came_was_not_interrupted_trust9(tmp_path: Path) -> None:
    """It passes, and its report says so."""
    stop, [asked] = Stop(), orders(runs=1)
    site = RunSite(run_id="ended", folder=tmp_path, stop=stop, before_reading=lambda hand: stop.set())

    with SimulatedLevel().open(Opening()) as play:
        outcome = perform(asked, play=play, site=site)

    assert stop.is_set()
    assert outcome.as_expected
    assert read_run(outcome).word == "conformant"


class TickingClock:
    """A second passes each time it is asked. Mutable."""

    def __init__(self) -> None:
        self._now_us = 0

    def now_us(self) -> int:
        self._now_us += 1_000_000
        return self._now_us

    def pause(self, seconds: float) -> None: ...


@pytest.mark.sweep
@pytest.mark.parametrize("jobs", in_sweep_after(1, [1, 2]))
def test_a_budget_that_passes_ends_the_run_in_progress_and_the_count(jobs: int) -> None:
    [calm] = load_many(["calm"])
    long = Order(scenario=apply_settings(calm, ("workload.records=8000", "budget=60m")), level="sim", seed=1)
    budget = Deadline(1.001, clock=TickingClock())  # a millisecond is left when a run asks for it

    counted = list(count([long] * 10, SimulatedLevel(), jobs=jobs, budget=budget))

    assert 1 <= len(counted) <= jobs
    assert {run.verdict for run in counted} == {Outcome.UNKNOWN}
    assert all(run.cut_after_s is not None for run in counted)
    assert max(run.events for run in counted) < 16_000


def run(order: int, *, cause: str = "", refusal: SutError | None = None) -> Counted:
    kind: dict[str, Any] = {"scenario": "calm", "mutant": None, "level": "sim", "verdict": Outcome.PASS}
    return Counted(
        **kind, seed=order, order=order, as_expected=not cause, events=1, cause=cause, refusal=refusal
    )


def test_of_many_runs_the_first_of_each_cause_is_kept() -> None:
    many = [
        run(number, cause={7: "V8 lost", 8: "V1 reordered"}.get(number % 10, "")) for number in range(100)
    ]

    assert worth_keeping(many) == [7, 8]


def test_of_many_runs_that_all_passed_one_is_kept() -> None:
    assert worth_keeping([run(number) for number in range(100)]) == [0]


def test_a_run_that_was_refused_is_not_kept() -> None:
    refused = run(0, cause="refused: it is no function", refusal=SutError("it is no function"))

    assert worth_keeping([refused] * 10) == []
    assert worth_keeping([refused, *(run(number) for number in range(1, 10))]) == [1]
