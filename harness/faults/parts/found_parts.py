"""The parts of a scenario that hold a finding: the choices of a simulated run, and the violation that it shows.

Answers to the failing example that Hypothesis keeps. Invariant: a run at level sim depends on the scenario, with its
`choices`, and on the system under test alone, so a saved file gives the same history in any process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from harness.faults.parts.parts import Breach, Part
from harness.faults.parts.values import Duration, Name, Whole
from harness.history.invariants import INVARIANTS


class RecordedCall(Part):
    """What a call did in a run of another level."""

    id: Annotated[int, Field(strict=True)] | str = Field(description="The record's id.")
    call: Whole = Field(
        default=1, gt=0, description="Which of its calls, counted from 1 over all tries and attempts."
    )
    takes: Duration = Field(default=0, description="Time from the call to its outcome.")
    ends: Literal["result", "error"] = Field(
        default="result", description="`result`: with what the simulated database answers; `error`: it fails."
    )


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
    calls: tuple[RecordedCall, ...] | None = Field(
        default=None,
        description="Level sim: outcomes and times of calls as they were recorded at another level; other calls take "
        "the time that the simulated database takes.",
    )

    def breaches(self) -> Iterator[Breach]:
        if self.drawn is not None and self.order != "fifo":
            say = "`drawn` lists exceptions from `order: fifo`; with `order: drawn` every choice is from the seed"
            yield Breach(path=("drawn",), say=say, hint="write `order: fifo`, or remove `drawn`")
        seen: set[tuple[int | str, int]] = set()
        for index, call in enumerate(self.calls or ()):
            if (call.id, call.call) in seen:
                say = f"call {call.call} of record {call.id} is there twice"
                yield Breach(path=("calls", index), say=say, hint="remove one of them")
            seen.add((call.id, call.call))


class ShownViolation(Part):
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
    mutant: str | None = Field(
        default=None,
        min_length=1,
        description="The planted defect of a run without `--sut` and `--mutant`, as `--mutant`; absent: none.",
    )

    def breaches(self) -> Iterator[Breach]:
        if self.invariant not in INVARIANTS:
            say = f"there is no invariant `{self.invariant}`"
            yield Breach(path=("invariant",), say=say, hint="`floodmark list invariants` lists them")
        if self.mutant is not None and self.sut is not None:
            say = "a planted defect is a variant of the reference, not of another system"
            yield Breach(path=("mutant",), say=say, hint="remove `mutant` or `sut`")
