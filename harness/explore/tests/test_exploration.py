"""An exploration: repeatable, ended by its budget or a violation, and never a conviction of the reference."""

from __future__ import annotations

import pickle
from functools import cache, partial
from typing import Any

import pytest

from harness.explore.changing import shortened
from harness.explore.exploration import CorpusEntry, Explored, Exploring, FoundViolation, Plan, explore
from harness.explore.trial import Candidate, Subject, try_all
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.system.errors import WorldError
from harness.system.pool import PlainExecutors, open_processes

SHELF = tuple(
    short
    for name in ("sessions-of-the-slower-input", "killed-before-settling")
    if (short := shortened(load(catalogue()[name]), records=8)) is not None
)


@cache
def _explored(*, mutant: str | None = None, runs: int = 12, seed: int = 5, only: str = "") -> Explored:
    plan = Plan(
        subject=Subject(mutant=mutant),
        seed=seed,
        runs=runs,
        shelf=SHELF,
        only=frozenset(only.split(",") if only else ()),
    )
    return explore(plan, Exploring(executors=PlainExecutors()))


@pytest.mark.sweep
def test_the_same_seed_gives_the_same_exploration() -> None:
    one, other = _explored(), _explored.__wrapped__()

    assert one.features == other.features
    assert one.kept == other.kept
    assert one.runs == 12


def test_a_budget_in_runs_is_kept_and_the_reference_is_not_convicted() -> None:
    explored = _explored()

    assert explored.runs == 12
    assert explored.sightings == []
    assert explored.outcomes["FAIL"] == 0
    assert len(explored.kept) >= 1


def test_it_ends_with_the_first_violation() -> None:
    explored = _explored(mutant="settles-twice")

    (sighting,) = explored.sightings
    assert sighting.run == explored.runs
    assert ("V8", "duplicate") in sighting.violations


def test_only_the_invariants_that_are_asked_for_count() -> None:
    explored = _explored(mutant="settles-twice", only="V15")

    (sighting,) = explored.sightings
    assert {invariant for invariant, _ in sighting.violations} == {"V15"}


def test_a_fault_without_evidence_alone_ends_nothing() -> None:
    explored = _explored(mutant="faults-do-nothing", runs=6)

    assert explored.runs == 6
    assert explored.sightings
    assert all(sighting.is_silent for sighting in explored.sightings)
    assert explored.to_shrink(keep_going=False) == explored.sightings[:1]


def test_each_scenario_of_the_shelf_is_run_once_as_it_is() -> None:
    assert len(SHELF) == 2
    assert _explored().by_way["given"] == 2


@pytest.mark.sweep
def test_processes_find_what_one_process_finds() -> None:
    plan = Plan(subject=Subject(), seed=8, runs=60, shelf=SHELF)

    with open_processes(2) as executors:
        there = explore(plan, Exploring(executors=executors))
    here = explore(plan, Exploring(executors=PlainExecutors()))

    assert there.features == here.features
    assert there.kept == here.kept


def _sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own value


def test_candidates_and_trials_can_be_sent_to_other_machines() -> None:
    candidate = Candidate(way="changed", seed=4, parent=SHELF[0], other=SHELF[1], draw_seed=9)
    work = _sent(partial(try_all, Subject()))

    (there,) = _sent(work([_sent(candidate)]))

    assert there == try_all(Subject(), [candidate])[0]


def test_a_stop_ends_it_with_what_there_is() -> None:
    explored = Explored()
    plan = Plan(subject=Subject(), seed=8, shelf=SHELF)
    using = Exploring(executors=PlainExecutors(), stopped=lambda: explored.runs >= 6)

    explore(plan, using, explored=explored)

    assert explored.runs == 6


def test_a_violation_counts_though_its_scenario_cannot_be_kept() -> None:
    explored = Explored()

    def full(entry: CorpusEntry, reached: int) -> None:
        raise WorldError("the disk is full", fix="free some space")

    plan = Plan(subject=Subject(mutant="settles-twice"), seed=5, runs=1, shelf=SHELF[:1], given=(_given(),))
    with pytest.raises(WorldError):
        explore(plan, Exploring(executors=PlainExecutors(), on_kept=full), explored=explored)

    assert len(explored.sightings) == 1
    assert explored.kept == []


def _given() -> CorpusEntry:
    """The run that shows it."""
    return _explored(mutant="settles-twice").sightings[0].entry


def test_a_sighting_with_a_violation_is_preferred_to_silence() -> None:
    entry = _explored().kept[0]
    silent = FoundViolation(entry=entry, violations=(("V23", "vacuous"),), run=1)
    loud = FoundViolation(entry=entry, violations=(("V8", "lost"),), run=2)

    explored = Explored(sightings=[silent, loud])

    assert explored.to_shrink(keep_going=False) == [loud]
