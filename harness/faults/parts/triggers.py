"""The triggers of faults: a time, a drawn time, a checkpoint, a call, a record, a phase, or a moment of a job.

Answers to the schedules of Jepsen's generators, and to the points at which Flink's own tests kill a task. Invariants:
the field name selects the trigger, so exactly one can be given; `PHASE_FORMS` is the only list of phases; an older
name of a phase is translated when a scenario is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from harness.faults.parts.parts import Breach, Link, Part
from harness.faults.parts.values import Duration, Whole

PhaseName = Literal[
    "open", "restore.begin", "restore.mid", "restore.end", "accept", "wm", "timer", "call", "result", "emit",
    "align", "snap.begin", "snap.mid", "snap.end", "store", "ack", "commit.pre", "commit.post", "notify", "drain",
    "close",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseForm:
    """Properties of one phase."""

    shown_by: tuple[str, ...] = ()
    """The kinds of history events that show that it was reached; empty: the attempt records a line of its own."""
    needs: Literal["", "coordination", "task", "inputs"] = ""
    """`coordination`: a sink that gets `notify_complete`; `task`: keyed state; `inputs`: two inputs."""


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
    "store": PhaseForm(needs="coordination"),
    "ack": PhaseForm(needs="coordination"),
    "commit.pre": PhaseForm(),
    "commit.post": PhaseForm(),  # the event `commit` comes after this phase, so a crash here leaves none
    "notify": PhaseForm(needs="coordination"),
    "drain": PhaseForm(shown_by=("end",)),
    "close": PhaseForm(shown_by=("ended",)),
}

PHASES: tuple[PhaseName, ...] = get_args(PhaseName)
PHASE_SHOWN: Mapping[str, PhaseName] = {
    kind: name for name, form in PHASE_FORMS.items() for kind in form.shown_by
}
"""The phase that each kind of history event shows."""
NOT_RECORDED = frozenset(name for name, form in PHASE_FORMS.items() if not form.shown_by)
"""The phases for which the attempt records a line of its own."""


PHASE_ALIASES: Mapping[str, PhaseName] = {"snapshot-taken": "snap.end", "committed": "commit.post"}
"""Older names that files may still use."""

TriggerName = Literal["at", "between", "checkpoint", "call", "record", "phase", "sink", "lookups", "spark"]


_PhaseField = Annotated[
    PhaseName,
    BeforeValidator(lambda name: PHASE_ALIASES.get(name, name) if isinstance(name, str) else name),
    WithJsonSchema({"type": "string", "enum": [*PHASES, *PHASE_ALIASES]}),
]


class At(Part):
    """Begins `at` after each subtask took its first record."""

    at: Duration = Field(description="Time since each subtask took its first record.")


class Between(Part):
    """Begins at a time drawn from a span by the seed."""

    between: Annotated[tuple[Duration, ...], Field(min_length=2, max_length=2)] = Field(
        description="Earliest and latest time since each subtask took its first record; the seed draws one."
    )

    def breaches(self) -> Iterator[Breach]:
        earliest, latest = self.between
        if earliest >= latest:
            say = "the first time must be before the second, so that a time between them can be drawn"
            yield Breach(path=("between",), say=say, hint="write the earlier first, or one time: {at: 400ms}")


class CheckpointDone(Part):
    """Begins when checkpoint `checkpoint` of `subtask` (absent: any) has been acknowledged."""

    checkpoint: Whole = Field(gt=0, description="Begins when this checkpoint has been acknowledged.")
    subtask: Whole | None = Field(
        default=None, ge=0, description="The subtask that acknowledges; absent: any."
    )


class CallMade(Part):
    """Begins with the `call`-th external call of `subtask` (absent: of all subtasks together)."""

    call: Whole = Field(gt=0, description="Begins with this external call, counted from 1.")
    subtask: Whole | None = Field(
        default=None, ge=0, description="The subtask whose calls count; absent: all subtasks."
    )


class RecordTaken(Part):
    """Begins when the source of `subtask` (absent: see the field) reaches its `record`-th record."""

    record: Whole = Field(gt=0, description="Begins when a source reaches this record, counted from 1.")
    subtask: Whole | None = Field(
        default=None,
        ge=0,
        description="The subtask of the source; absent: the fault's subtask, or any.",
    )


class Phase(Part):
    """Begins when the fault's subtask reaches the phase for the `hit`-th time, counted over all its attempts."""

    phase: _PhaseField = Field(
        description="A point in the attempt. `snap.end`: the snapshot is taken, its transaction not yet committed; "
        "`store`: the file of the checkpoint is not yet written; `commit.post`: the transaction is committed; "
        "`call`: an external call begins."
    )
    hit: Whole = Field(
        default=1, gt=0, description="Which occurrence, counted over all attempts of the subtask."
    )


class MomentOfJob(Part):
    """A moment of a user's job, for which the fault itself waits, from before the job's first start."""


class SinkMoment(MomentOfJob):
    """Begins while the `nth` message of a kind on the sink's link is held; only in runs of a user's job."""

    link: ClassVar[Link] = "sink"

    sink: Literal["commit", "write", "message"] = Field(
        description="Which messages of the sink's link count, over all its connections. `commit`: a COMMIT of a "
        "transaction that has changed rows of the sink's table, or a write to it that the server commits by itself "
        "(autocommit); `write`: an INSERT, UPDATE, DELETE or the like to it; `message`: any request, a login included."
    )
    nth: Whole = Field(default=1, gt=0, description="Which of them, counted from the first start of the job.")
    moment: Literal["before", "after"] = Field(
        default="before",
        description="`before`: the request is held and has not reached the server; `after`: the server has carried it "
        "out, and its answer is held.",
    )

    @property
    def counts(self) -> Literal["commit", "write", "message"]:
        """Which messages count."""
        return self.sink


class LookupMoment(MomentOfJob):
    """Begins while the `nth` message on the lookups' link is held; only in runs of a user's job."""

    link: ClassVar[Link] = "lookups"

    lookups: Literal["message"] = Field(
        description="Any request of the lookups' link counts, a login included."
    )
    nth: Whole = Field(default=1, gt=0, description="Which of them, counted from the first start of the job.")
    moment: Literal["before", "after"] = Field(
        default="before",
        description="`before`: the request has not reached the server; `after`: it has been answered, and the answer "
        "is held.",
    )

    @property
    def counts(self) -> Literal["message"]:
        """Which messages count."""
        return self.lookups


class SparkGap(MomentOfJob):
    """Begins when Spark has begun a batch and not completed it; only in runs of a user's Spark job."""

    spark: Literal["gap"] = Field(
        description="`gap`: the checkpoint of the query has `offsets/BATCH`, and no `commits/BATCH` yet."
    )
    batch: Whole = Field(default=0, ge=0, description="The number of the batch, from 0.")


When = At | Between | CheckpointDone | CallMade | RecordTaken | Phase | SinkMoment | LookupMoment | SparkGap
TRIGGERS: dict[TriggerName, type[When]] = {
    "at": At,
    "between": Between,
    "checkpoint": CheckpointDone,
    "call": CallMade,
    "record": RecordTaken,
    "phase": Phase,
    "sink": SinkMoment,
    "lookups": LookupMoment,
    "spark": SparkGap,
}
"""The class of each trigger by its field name."""

TRIGGER_FORMS: dict[TriggerName, str] = {
    "at": "{at: 400ms}",
    "between": "{between: [200ms, 2s]}",
    "checkpoint": "{checkpoint: 3}",
    "call": "{call: 120}",
    "record": "{record: 40}",
    "phase": "{phase: snap.end, hit: 3}",
    "sink": "{sink: commit, nth: 2, moment: before}",
    "lookups": "{lookups: message, nth: 20, moment: before}",
    "spark": "{spark: gap, batch: 2}",
}
"""An example of each trigger, for hints."""


def name_of(when: When) -> TriggerName:
    """The field name of a trigger."""
    return next(name for name, kind in TRIGGERS.items() if isinstance(when, kind))


def _trigger(value: object) -> str | None:
    """The tag of the trigger whose field is given; None if none or several are."""
    if isinstance(value, Part):
        return next(f"<{name}>" for name, kind in TRIGGERS.items() if isinstance(value, kind))
    named: list[Any] = [name for name in TRIGGERS if isinstance(value, Mapping) and name in value]
    return f"<{named[0]}>" if len(named) == 1 else None


Trigger = Annotated[
    Annotated[At, Tag("<at>")]
    | Annotated[Between, Tag("<between>")]
    | Annotated[CheckpointDone, Tag("<checkpoint>")]
    | Annotated[CallMade, Tag("<call>")]
    | Annotated[RecordTaken, Tag("<record>")]
    | Annotated[Phase, Tag("<phase>")]
    | Annotated[SinkMoment, Tag("<sink>")]
    | Annotated[LookupMoment, Tag("<lookups>")]
    | Annotated[SparkGap, Tag("<spark>")],
    Discriminator(
        _trigger, custom_error_type="trigger", custom_error_message="should hold exactly one trigger"
    ),
]
