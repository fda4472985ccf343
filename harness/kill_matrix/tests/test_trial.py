"""Claims about trials: they end with a conviction, give the same each time, and convict no innocent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.database.simulated.tape import MemoryRecorder
from harness.history.event import Event
from harness.kill_matrix.equivalents import EQUIVALENTS, compare
from harness.kill_matrix.matrix import (
    OURS,
    RUNS_LEAST,
    Suspect,
    SuspectResult,
    find_suspect,
    hear_the_reference,
    try_suspect,
)
from harness.sut.defects import variant_of
from harness.sut.variant import HONEST, Variant
from harness.system.clock import Deadline


def tried(suspect: Suspect, *, runs: int = 20, seconds: float = 60) -> SuspectResult:
    return try_suspect(suspect, first_seed=1, runs=runs, deadline=Deadline(seconds))


class LosesEachTenth(MemoryRecorder):
    """A recorder worse than the mutant."""

    def _write(self, number: int, event: Event) -> None:
        if number % 10:
            super()._write(number, event)


def innocent(*, named: tuple[str, ...] = ("V8",)) -> Suspect:
    return replace(find_suspect("segment-leak"), name="innocent", named=named, variant=HONEST)


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
    suspect = replace(find_suspect("settles-twice"), named=())

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
    suspect = replace(innocent(), named=("recording",), variant=variant)

    assert tried(suspect, runs=2).convicted == {"recording": 1}


def test_a_judge_who_looks_away_is_convicted_before_any_run() -> None:
    trial = tried(find_suspect("judge-skips-last-attempt"), runs=1)

    assert trial.convicted["canary"] == 1
    assert trial.is_convicted


def test_the_reference_is_acquitted() -> None:
    acquittal = hear_the_reference(first_seed=1, runs=5, deadline=Deadline(60))

    assert (acquittal.runs, acquittal.convicted) == (5, {})


def test_an_equivalent_is_compared_with_the_reference_run_by_run() -> None:
    leak = next(one for one in EQUIVALENTS if one.name == "segment-leak")

    same = compare(leak, first_seed=1, runs=2, draws_max=50, deadline=Deadline(60))
    other = compare(
        replace(leak, variant=variant_of("settles-twice"), applies=lambda _: True),
        first_seed=1,
        runs=1,
        draws_max=1,
        deadline=Deadline(60),
    )

    assert (same.runs, same.same, same.convicted) == (2, 2, ())
    assert (other.runs, other.same, other.convicted) == (1, 0, (1,))


MANY_RUNS = {
    "dead-letter-and-failure",
    "fence-checked-before",
    "loses-completions",
    "recorder-drops",
    "zombie-accepted",
}
"""Rare, or long: not for every minute."""
SHOWN_IN = {"emits-after-close": 444, "wall-clock-timers": 409}
"""Where hundreds of runs would be drawn in vain: the number of the one that convicts."""


def tiers(name: str) -> list[pytest.MarkDecorator]:
    """One that only its scenario shows is convicted in a shorter form of that elsewhere, and here at tier sweep.

    See `test_keyed_suspects.py`, and at level sim `test_reached_t7.py`, `test_right_rows.py` and `test_causes.py`.
    """
    if name in MANY_RUNS:
        return [pytest.mark.soak]
    return [pytest.mark.sweep] if find_suspect(name).scenario is not None else []


@pytest.mark.parametrize("name", [pytest.param(name, marks=tiers(name)) for name in OURS])
def test_a_mutant_is_convicted_by_who_is_meant_for_it(name: str) -> None:
    """As `floodmark mutants`, and from another seed; by the first who is meant."""
    suspect = replace(find_suspect(name), named=find_suspect(name).named[:1])
    first_seed = 1_000_000 + SHOWN_IN.get(name, 0)

    trial = try_suspect(suspect, first_seed=first_seed, runs=400, deadline=Deadline(120), least=1)

    assert trial.is_convicted
