"""The parts of a scenario that hold a finding: the choices of a simulated run, and the violation that it shows.

Answers to the failing example that Hypothesis keeps. Invariant: a run at level sim depends on the scenario, with its
`choices`, and on the system under test alone, so a saved file gives the same history in any process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, WithJsonSchema, model_validator

from harness.scenario_parts.parts import Breach, Part, refuse
from harness.scenario_parts.values import Name, Whole
from harness.verdict import INVARIANTS

__all__ = ["SavedChoices", "Shown"]


class SavedChoices(Part):
    """The choices of a run: the seed, and at level sim which of the schedule's choices come from it."""

    seed: Whole = Field(ge=0, description="The seed of a run without `--seed`, at every level.")
    order: Literal["drawn", "fifo"] = Field(
        default="drawn",
        description="Level sim: the choices of the schedule. `drawn`: from the seed; `fifo`: what is due at the same "
        "instant happens in the order in which it was asked for, messages take no time, restarts the shortest.",
    )
    drawn: tuple[Annotated[Whole, Field(gt=0)], ...] | None = Field(
        default=None,
        description="With `order: fifo`: the choices, counted from 1 in the order in which they are made, that come "
        "from the seed nevertheless.",
    )

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        refuse("SavedChoices", self._breaches())
        return self

    def _breaches(self) -> Iterator[Breach]:
        if self.drawn is not None and self.order != "fifo":
            say = "`drawn` lists exceptions from `order: fifo`; with `order: drawn` every choice is from the seed"
            yield Breach(path=("drawn",), say=say, hint="write `order: fifo`, or remove `drawn`")


class Shown(Part):
    """What a run of the scenario shows: `floodmark explore` and `floodmark shrink` write it into what they save."""

    invariant: Annotated[str, WithJsonSchema({"type": "string", "enum": list(INVARIANTS)})] = Field(
        description="The invariant that the run violates."
    )
    kind: Name = Field(description="The kind of the anomaly, as the report names it.")
    sut: str | None = Field(
        default=None,
        min_length=1,
        description="The system under test of a run without `--sut` and `--mutant`; absent: the reference.",
    )
    expected: str | None = Field(
        default=None, min_length=1, description="As `--expected`, of a run without it; absent: as without it."
    )
    mutant: Name | None = Field(
        default=None, description="The planted defect of a run without `--sut` and `--mutant`; absent: none."
    )

    @model_validator(mode="after")
    def _names_an_invariant(self) -> Self:
        refuse("Shown", self._breaches())
        return self

    def _breaches(self) -> Iterator[Breach]:
        if self.invariant not in INVARIANTS:
            say = f"there is no invariant `{self.invariant}`"
            yield Breach(path=("invariant",), say=say, hint="`floodmark list invariants` lists them")
        if self.mutant is not None and self.sut is not None:
            say = "a planted defect is a variant of the reference, not of another system"
            yield Breach(path=("mutant",), say=say, hint="remove `mutant` or `sut`")
