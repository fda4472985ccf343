"""Claims about trials: they end with a conviction, give the same each time, and convict no innocent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.database.simulated.tape import MemoryRecorder
from harness.explore.kill_matrix import (
    OURS,
    RUNS_LEAST,
    SuspectResult,
    find_suspect,
    run_reference,
    try_suspect,
)
from harness.history.event import Event
from harness.sut.defects import Defect
from harness.sut.variant import HONEST, Variant
from harness.system.clock import Deadline
from tools.cases import in_sweep_after


def tried(suspect: Defect, *, runs: int = 20, seconds: float = 60) -> SuspectResult:
    return try_suspect(suspect, first_seed=1, runs=runs, deadline=Deadline(seconds))


class LosesEachTenth(MemoryRecorder):
    """A recorder worse than the mutant."""

    def _write(self, number: int, event: Event) -> None:
        if number % 10:
            super()._write(number, event)


def innocent(*, named: tuple[str, ...] = ("V8",)) -> Defect:
    return replace(find_suspect("segment-leak"), name="innocent", convicted_by=named, variant=HONEST)


def test_a_trial_ends_with_the_conviction_by_who_is_meant() -> None:
    trial = tried(find_suspect("segment-leak"))

    assert trial.is_convicted
    assert RUNS_LEAST <= trial.runs == max(RUNS_LEAST, trial.convicted["V2"])


def test_the_same_seed_gives_the_same_trial() -> None:
    assert tried(find_suspect("settles-twice"), runs=3) == tried(find_suspect("settles-twice"), runs=3)


def test_the_innocent_has_all_its_runs_and_is_convicted_by_nobody() -> None:
    trial = tried(innocent(), runs=5)

    assert (trial.runs, trial.convicted, trial.is_convicted, trial.in_time) == (5, {}, False, True)


def test_where_nobody_is_meant_for_it_any_conviction_will_do() -> None:
    suspect = replace(find_suspect("settles-twice"), convicted_by=())

    assert tried(suspect, runs=3).is_convicted
    assert not tried(innocent(named=()), runs=2).is_convicted


def test_a_trial_whose_time_is_over_says_so() -> None:
    trial = tried(innocent(), seconds=0)

    assert (trial.runs, trial.in_time) == (0, False)


def test_a_suspect_whose_scenarios_never_occur_has_no_runs() -> None:
    suspect = replace(innocent(), applies=lambda scenario: scenario.workload.subtasks > 1000)

    trial = tried(suspect, runs=1)

    assert (trial.runs, trial.in_time, trial.is_convicted) == (0, True, False)


def test_a_recording_with_gaps_is_not_judged() -> None:
    variant = Variant(recorder=lambda _: LosesEachTenth)
    suspect = replace(innocent(), convicted_by=("recording",), variant=variant)

    assert tried(suspect, runs=2).convicted == {"recording": 1}


def test_a_judge_who_looks_away_is_convicted_before_any_run() -> None:
    trial = tried(find_suspect("tools.defects:judge_skips_last_attempt"), runs=1)

    assert trial.convicted["canary"] == 1
    assert trial.is_convicted


def test_the_reference_is_acquitted() -> None:
    acquittal = run_reference(first_seed=1, runs=5, deadline=Deadline(60))

    assert (acquittal.runs, acquittal.convicted) == (5, {})


@pytest.mark.parametrize(
    "name",
    [
        *in_sweep_after(3, [name for name in OURS if name != "zombie-accepted"]),
        pytest.param("zombie-accepted", marks=pytest.mark.soak),
    ],
)
def test_one_of_the_twelve_is_convicted_by_who_is_meant_for_it(name: str) -> None:
    """From another seed than `floodmark mutants`; by the first who is meant. A zombie shows in few scenarios."""
    suspect = replace(find_suspect(name), convicted_by=find_suspect(name).convicted_by[:1])

    trial = try_suspect(suspect, first_seed=1_000_000, runs=400, deadline=Deadline(120), least=1)

    assert trial.is_convicted
