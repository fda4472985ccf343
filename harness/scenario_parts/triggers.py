"""The triggers of faults: a time, a checkpoint, a call, a record, a phase of an attempt, or a drawn moment.

Answers to the schedules of Jepsen's generators, and to the places at which Flink's own tests kill a task. A
trigger is told by its own field, so that exactly one can be meant. The list of phases alone says which there
are, by which recorded events each is shown, and what a task needs to reach it; a phase has one name in a
scenario that exists, whatever older name its file has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from harness.scenario_parts.parts import Breach, Part, refuse
from harness.scenario_parts.values import Duration, Whole

__all__ = [
    "NOT_RECORDED",
    "PHASES",
    "PHASE_ALIASES",
    "PHASE_FORMS",
    "TRIGGERS",
    "TRIGGER_FORMS",
    "At",
    "Between",
    "Call",
    "CheckpointDone",
    "Phase",
    "PhaseForm",
    "PhaseName",
    "RecordTaken",
    "Trigger",
    "TriggerName",
    "When",
    "name_of",
]

PhaseName = Literal[
    "open", "restore.begin", "restore.mid", "restore.end", "accept", "wm", "timer", "call", "result", "emit",
    "align", "snap.begin", "snap.mid", "snap.end", "ack", "commit.pre", "commit.post", "notify", "drain", "close",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseForm:
    """What is known of one phase."""

    shown_by: tuple[str, ...] = ()
    """The kinds of recorded events that show that it was reached; none: it needs a note of its own."""
    needs: Literal["", "coordination", "task", "inputs"] = ""
    """`coordination`: a sink that is told of completed checkpoints; `task`: keyed state; `inputs`: more than one."""


PHASE_FORMS: Mapping[PhaseName, PhaseForm] = {
    "open": PhaseForm(shown_by=("start",)),
    "restore.begin": PhaseForm(),
    "restore.mid": PhaseForm(),
    "restore.end": PhaseForm(),
    "accept": PhaseForm(shown_by=("in", "wm")),
    "wm": PhaseForm(shown_by=("owm",)),
    "timer": PhaseForm(needs="task"),
    "call": PhaseForm(shown_by=("call",)),
    "result": PhaseForm(shown_by=("res",)),
    "emit": PhaseForm(shown_by=("out",)),
    "align": PhaseForm(needs="inputs"),
    "snap.begin": PhaseForm(),
    "snap.mid": PhaseForm(),
    "snap.end": PhaseForm(shown_by=("snap",)),
    "ack": PhaseForm(needs="coordination"),
    "commit.pre": PhaseForm(),
    "commit.post": PhaseForm(),  # `commit` is written behind it, and may be missing
    "notify": PhaseForm(needs="coordination"),
    "drain": PhaseForm(shown_by=("end",)),
    "close": PhaseForm(shown_by=("ended",)),
}

PHASES: tuple[PhaseName, ...] = get_args(PhaseName)
NOT_RECORDED = frozenset(name for name, form in PHASE_FORMS.items() if not form.shown_by)
"""The phases that need a note of their own."""


PHASE_ALIASES: Mapping[str, PhaseName] = {"snapshot-taken": "snap.end", "committed": "commit.post"}
"""Names of before that files may still have."""

TriggerName = Literal["at", "between", "checkpoint", "call", "record", "phase"]


def _today(name: object) -> object:
    return PHASE_ALIASES.get(name, name) if isinstance(name, str) else name


_PhaseField = Annotated[
    PhaseName,
    BeforeValidator(_today),
    WithJsonSchema({"type": "string", "enum": [*PHASES, *PHASE_ALIASES]}),
]


class At(Part):
    """When `at` has passed since the first record was taken."""

    at: Duration = Field(description="Time since the first record was taken.")


class Between(Part):
    """At a time that the seed draws from a span."""

    between: Annotated[tuple[Duration, ...], Field(min_length=2, max_length=2)] = Field(
        description="Earliest and latest time since the first record was taken; the seed draws one."
    )

    @model_validator(mode="after")
    def _is_a_span(self) -> Self:
        refuse("Between", self._breaches())
        return self

    def _breaches(self) -> Iterator[Breach]:
        earliest, latest = self.between
        if earliest >= latest:
            say = "the earliest time is not before the latest, so there is nothing to draw"
            yield Breach(path=("between",), say=say, hint="write the earlier first, or one time: {at: 400ms}")


class CheckpointDone(Part):
    """When checkpoint `checkpoint` of `subtask` (any, if absent) has been acknowledged."""

    checkpoint: Whole = Field(gt=0, description="When this checkpoint has been acknowledged.")
    subtask: Whole | None = Field(default=None, ge=0, description="By this subtask; absent: by any.")


class Call(Part):
    """When the `call`-th external call of `subtask` (any, if absent) begins."""

    call: Whole = Field(gt=0, description="When this external call begins, counted from 1.")
    subtask: Whole | None = Field(default=None, ge=0, description="Of this subtask; absent: of any.")


class RecordTaken(Part):
    """When the source of `subtask` (each, if absent) stands at its `record`-th record."""

    record: Whole = Field(gt=0, description="When a source stands at this record of it, counted from 1.")
    subtask: Whole | None = Field(
        default=None,
        ge=0,
        description="The source of this subtask; absent: of the fault's subtask, or of any.",
    )


class Phase(Part):
    """When the task reaches the named phase for the `hit`-th time (of this subtask's whole life)."""

    phase: _PhaseField = Field(
        description="A named point of the attempt; `snap.end`: the snapshot is made, its transaction has not "
        "committed; `commit.post`: it has; `call`: an external call begins."
    )
    hit: Whole = Field(default=1, gt=0, description="Which time, counted over the whole life of the subtask.")


When = At | Between | CheckpointDone | Call | RecordTaken | Phase
TRIGGERS: dict[TriggerName, type[When]] = {
    "at": At,
    "between": Between,
    "checkpoint": CheckpointDone,
    "call": Call,
    "record": RecordTaken,
    "phase": Phase,
}
"""The field that names a trigger, and what it then is."""

TRIGGER_FORMS: dict[TriggerName, str] = {
    "at": "{at: 400ms}",
    "between": "{between: [200ms, 2s]}",
    "checkpoint": "{checkpoint: 3}",
    "call": "{call: 120}",
    "record": "{record: 40}",
    "phase": "{phase: snap.end, hit: 3}",
}
"""How each is written, for hints."""


def name_of(when: When) -> TriggerName:
    """The field that names it."""
    return next(name for name, kind in TRIGGERS.items() if isinstance(when, kind))


def _trigger(value: object) -> str | None:
    """Which trigger is meant: the one whose own field is there; None if none is, or several are."""
    if isinstance(value, Part):
        return next(f"<{name}>" for name, kind in TRIGGERS.items() if isinstance(value, kind))
    named: list[Any] = [name for name in TRIGGERS if isinstance(value, Mapping) and name in value]
    return f"<{named[0]}>" if len(named) == 1 else None


Trigger = Annotated[
    Annotated[At, Tag("<at>")]
    | Annotated[Between, Tag("<between>")]
    | Annotated[CheckpointDone, Tag("<checkpoint>")]
    | Annotated[Call, Tag("<call>")]
    | Annotated[RecordTaken, Tag("<record>")]
    | Annotated[Phase, Tag("<phase>")],
    Discriminator(
        _trigger, custom_error_type="trigger", custom_error_message="should hold exactly one trigger"
    ),
]
