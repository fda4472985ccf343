"""A trial: one suspect in scenario after scenario, until whoever is meant for it has convicted it.

Answers to a mutant's killing run. Invariant: the same first seed gives the same trial; a history that is not whole
is not judged; what the honest twin of a run is convicted of, or found vacuous for, is none of the mutant's doing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.catalogue import catalogue
from harness.checkers.judge import judge
from harness.clock import Deadline
from harness.defects.canaries import overlooked
from harness.explore.drawing import draw_scenario
from harness.kill_matrix.suspect import Suspect
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.runs.order import Order
from harness.scenario import Scenario
from harness.scenario_file import load
from harness.sut.variant import HONEST, Variant
from harness.verdict import Outcome

__all__ = ["RUNS_LEAST", "Acquittal", "Trial", "hear_the_reference", "try_suspect"]

Simulate = Callable[[Variant], Simulated]
"""One run, with whatever is planted."""

RUNS_LEAST = 10
"""Of each trial, whoever has convicted by then: who else would have is worth knowing."""
_DRAWS_MAX = 200
"""Scenarios that may be drawn for each that is wanted: a condition that none meets must not take for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of one suspect."""

    name: str
    named: tuple[str, ...]
    runs: int
    """Simulated; without any, its scenarios never occurred."""
    convicted: dict[str, int]
    """Invariant or check -> in which run it convicted for the first time."""
    in_time: bool = True
    """False: the budget was over before it was convicted, or had been given all its runs."""

    @property
    def is_convicted(self) -> bool:
        """By whoever is meant for it; where nobody is, by anybody."""
        return any(name in self.convicted for name in self.named) if self.named else bool(self.convicted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquittal:
    """What came of the honest reference: its runs, and those that are not acquitted, by seed."""

    runs: int
    convicted: dict[int, tuple[str, ...]]
    """Seed -> by whom."""


def try_suspect(
    suspect: Suspect, *, first_seed: int, runs: int, deadline: Deadline, least: int = RUNS_LEAST
) -> Trial:
    """Up to `runs` runs, in scenarios where it can show, till everybody meant for it has convicted it."""
    convicted = _by_canary(suspect.variant)
    made = 0
    for seed, simulated_by in _runs(suspect, first_seed, runs):
        if made >= least and suspect.named and all(name in convicted for name in suspect.named):
            break
        if deadline.passed:
            return Trial(
                name=suspect.name, named=suspect.named, runs=made, convicted=convicted, in_time=False
            )
        made += 1
        convicts = [name for name in _convicts(simulated_by, seed, suspect.variant) if name not in convicted]
        if convicts:
            of_anybody = _convicts(simulated_by, seed, HONEST)
            convicted |= {name: made for name in convicts if name not in of_anybody}
    return Trial(name=suspect.name, named=suspect.named, runs=made, convicted=convicted)


def hear_the_reference(*, first_seed: int, runs: int, deadline: Deadline) -> Acquittal:
    """So many runs of the honest one; there, a vacuous run is none of its faults."""
    convicted: dict[int, tuple[str, ...]] = {}
    made = 0
    for seed in range(first_seed, first_seed + runs):
        if deadline.passed:
            break
        made += 1
        simulated_by = _in(draw_scenario(seed), seed)
        by = tuple(name for name in _convicts(simulated_by, seed, HONEST) if name != "V23")
        if by:
            convicted[seed] = by
    return Acquittal(runs=made, convicted=convicted)


def _by_canary(variant: Variant) -> dict[str, int]:
    """A judge of its own is shown the canaries before anything else."""
    return {"canary": 1} if overlooked(variant.judge(judge)) else {}


def _runs(suspect: Suspect, first_seed: int, runs: int) -> Iterator[tuple[int, Simulate]]:
    """Of its scenario, or in the first `runs` drawn ones in which it can show."""
    if suspect.scenario is not None:
        scenario = load(catalogue()[suspect.scenario])
        for seed in range(first_seed, first_seed + runs):
            yield seed, _in(scenario, seed)
        return
    found = 0
    for seed in range(first_seed, first_seed + runs * _DRAWS_MAX):
        scenario = draw_scenario(seed)
        if suspect.applies(scenario):
            yield seed, _in(scenario, seed)
            found += 1
            if found == runs:
                return


def _in(scenario: Scenario, seed: int) -> Simulate:
    order = Order(scenario=scenario, level="sim", seed=seed)
    return lambda variant: simulate_scenario(order, variant=variant)


def _convicts(simulated_by: Simulate, seed: int, variant: Variant) -> tuple[str, ...]:
    """Who convicts that run; V23 by finding it vacuous."""
    try:
        simulated = simulated_by(variant)
    except Exception as error:
        error.add_note(f"in the simulation of seed {seed}")
        raise
    if len(simulated.events) != simulated.numbered:
        return ("recording",)
    judgement = variant.judge(judge)(simulated.header, simulated.events)
    return tuple(
        verdict.invariant
        for verdict in judgement.invariants
        if verdict.outcome is Outcome.FAIL
        or (verdict.invariant == "V23" and verdict.outcome is Outcome.VACUOUS)
    )
