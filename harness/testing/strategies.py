"""Scenarios and histories as Hypothesis strategies: `@given` draws, shrinks and remembers them.

Invariant: every choice is one of Hypothesis's own, so that what fails is shrunk choice by choice (towards fewer faults,
fewer records, the first of several) and found again from its database. Each value keeps the rules of its model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

from pydantic import ValidationError

from harness.explore.drawing import scenario_by
from harness.explore.drawn_faults import DRAWN_FAULTS
from harness.scenario.model import Scenario
from harness.system.choices import Draw
from harness.system.errors import UsageError, WorldError
from harness.system.json_types import Json
from harness.testing.running import checked_sut, history_of, order_of, run_of

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

_THOUSAND = 1000
_SEEDS = 1_000_000
_BITS_IN_UNIT = 30


def scenarios(
    *, faults: Collection[str] | None = None, most_faults: int | None = None, composite_keys: bool = False
) -> SearchStrategy[Scenario]:
    """Scenarios that run at level sim, and that a correct operator passes: as `floodmark explore` draws them.

    `faults`: only these kinds, such as `["kill_worker", "latency"]`; empty: none. `most_faults`: no more than so many.
    `composite_keys`: also with keys of two parts, which a lookup must be written for.

    Raises UsageError for a kind that is not drawn, WorldError if Hypothesis is not installed.
    """
    strategies, reject = _hypothesis()
    if unknown := sorted(set(faults or ()) - set(DRAWN_FAULTS)):
        message = f"no scenario is drawn with the fault {unknown[0]!r}"
        raise UsageError(message, fix=f"one of: {', '.join(sorted(DRAWN_FAULTS))}")

    def adapt(drawn: Json) -> None:
        kept = [fault for fault in drawn["faults"] if faults is None or fault["do"] in faults]
        drawn["faults"] = kept if most_faults is None else kept[:most_faults]
        if not composite_keys and drawn["workload"].get("keys_like") == "composite":
            del drawn["workload"]["keys_like"]

    def drawn(draw: DrawFn) -> Scenario:
        choices = _DrawnByHypothesis(draw, strategies)
        try:
            return scenario_by(lambda purpose: choices, name="drawn", about="Hypothesis", adapt=adapt)
        except ValidationError:
            raise reject() from None

    strategy: SearchStrategy[Scenario] = strategies.composite(drawn)()
    return strategy


def histories(
    *, sut: object = "reference", of: SearchStrategy[Scenario] | None = None
) -> SearchStrategy[list[Json]]:
    """Histories of runs at level sim, as the lines of a file: the header, then the events, each a JSON object.

    `sut`: the system that runs, as for `run`; `of`: the scenarios to run (`scenarios()`).

    Raises as `scenarios`, and UsageError or SutError for a system that cannot be used.
    """
    strategies, _ = _hypothesis()
    name = checked_sut(sut)

    def recorded(drawn: tuple[Scenario, int]) -> list[Json]:
        scenario, seed = drawn
        order = order_of(
            scenario, source=scenario, sut=name, level="sim", seed=seed, expected=None, world=("auto", "auto")
        )
        finished = run_of(order)
        with history_of(finished).open("rb") as file:
            return [json.loads(line) for line in file]

    seeds = strategies.integers(min_value=0, max_value=_SEEDS)
    strategy: SearchStrategy[list[Json]] = strategies.tuples(scenarios() if of is None else of, seeds).map(
        recorded
    )
    return strategy


class _DrawnByHypothesis(Draw):
    """A stream whose every choice is Hypothesis's; the least choice is what a choice is shrunk to."""

    __slots__ = ("_draw", "_strategies")

    def __init__(self, draw: DrawFn, strategies: ModuleType) -> None:
        self._draw = draw
        self._strategies = strategies
        self.bits = self._bits
        self.unit = lambda: self._bits(_BITS_IN_UNIT) / (1 << _BITS_IN_UNIT)

    def _bits(self, count: int) -> int:
        return self.between(0, (1 << count) - 1)

    def index(self, count: int) -> int:
        return self.between(0, count - 1)

    def between(self, low: int, high: int) -> int:
        number: int = self._draw(self._strategies.integers(min_value=low, max_value=high))
        return number

    def chance(self, of_thousand: int) -> bool:
        return self.between(0, _THOUSAND - 1) >= _THOUSAND - of_thousand


def _hypothesis() -> tuple[ModuleType, Callable[[], NoReturn]]:
    """Its strategies, and what gives a draw up."""
    try:
        from hypothesis import reject, strategies  # noqa: PLC0415 - it is in an extra
    except ModuleNotFoundError as missing:
        message = "strategies need Hypothesis, which is not installed"
        raise WorldError(message, fix="pip install 'floodmark[hypothesis]'") from missing
    return strategies, reject
