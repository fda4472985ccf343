"""The parts of a scenario, each with the rules that it can judge alone.

The operator's settings answer to those of Flink's `AsyncDataStream`; faults are in `harness.faults`.
Invariant: a part that exists is consistent in itself; what needs two parts is in `harness.scenario.rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    StrictBool,
    Tag,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from harness.scenario_parts.values import Duration, Percent, Rate, Span, Whole

__all__ = [
    "SINK_FORMS",
    "Breach",
    "Downstream",
    "Expectations",
    "Level",
    "Link",
    "Operator",
    "Part",
    "Sink",
    "SinkForm",
    "Task",
    "Workload",
    "refuse",
]

Level = Literal["sim", "live", "spark"]
Link = Literal["lookups", "sink"]
Sink = Literal["atomic", "two-phase", "idempotent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkForm:
    """What is known of one sink before it is made; which class it is: `harness.sut.sink_choice`."""

    claimed_as: Literal["atomic", "two-phase", "rollback"]
    """In the words of a history."""
    has_output_key: bool = False
    """Whether the table of outputs has a key, under which a row written again is the same row."""


SINK_FORMS: Mapping[Sink, SinkForm] = {
    "atomic": SinkForm(claimed_as="atomic"),
    "two-phase": SinkForm(claimed_as="two-phase"),
    # What it shows twice is the same, so a restart takes back what it replays.
    "idempotent": SinkForm(claimed_as="rollback", has_output_key=True),
}

Step = str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One broken rule: where (the path of the field in the file), what is wrong, what to do."""

    path: tuple[Step, ...]
    say: str
    hint: str = ""


def refuse(title: str, breaches: Iterable[Breach]) -> None:
    """Raise all of `breaches` at once, each at its own place; do nothing if there are none."""
    lines = [
        InitErrorDetails(
            type=PydanticCustomError("rule", "{say}", {"say": breach.say, "hint": breach.hint}),
            loc=breach.path,
            input=None,
        )
        for breach in breaches
    ]
    if lines:
        raise ValidationError.from_exception_data(title, lines)


class Part(BaseModel):
    """A part of a scenario: frozen, a field that does not exist is an error, an absent one is not written."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        return {name: value for name, value in written.items() if value is not None}


def _answer(value: object) -> str | None:
    """Which of the forms of `on_timeout` is meant; None: none of them."""
    match value:
        case list():
            return "<results>"
        case "fail":
            return "<fail>"
        case "nothing":
            return "<nothing>"
        case "dead-letter":
            return "<dead-letter>"
        case _:
            return None


OnTimeout = Annotated[
    Annotated[Literal["fail"], Tag("<fail>")]
    | Annotated[Literal["nothing"], Tag("<nothing>")]
    | Annotated[Literal["dead-letter"], Tag("<dead-letter>")]
    | Annotated[list[JsonValue], Tag("<results>")],
    Discriminator(
        _answer,
        custom_error_type="choice",
        custom_error_message="should be `fail`, `dead-letter`, `nothing` or a list of results, as in `[null]` or `[]`",
    ),
]


class Downstream(Part):
    """What takes the operator's results, and has no room for more now and then (A33)."""

    takes: Whole = Field(gt=0, description="Results that it takes, then it has no room.")
    shut: Span = Field(description="How long it has none, each time.")


class Operator(Part):
    """The settings of the asynchronous operator under test (A1-A3, A44, A45)."""

    mode: Literal["ordered", "unordered"] = Field(
        description="`ordered`: results leave in the order of their records; `unordered`: as they come, "
        "but not across a watermark."
    )
    capacity: Whole = Field(default=100, gt=0, description="Elements in the queue at most (A2, A8).")
    timeout: Duration = Field(default=0, description="Of one record, from its call; 0ms is none (A3).")
    on_timeout: OnTimeout = Field(
        default="fail",
        description="`fail` fails the task (A44); a list holds the results that stand in (A45); `dead-letter` "
        "sets the record aside, with no result; `nothing` is a mistake, after which the record keeps its slot (A46).",
    )
    cancels: StrictBool = Field(
        default=True,
        description="Whether a timeout cancels the call; if not, its answer comes late, for nobody (A45).",
    )
    on_error: Literal["fail", "dead-letter"] = Field(
        default="fail",
        description="Of a record whose last try failed: `fail` fails the task; `dead-letter` sets it aside, with "
        "no result, and goes on.",
    )
    tries: Whole = Field(default=1, gt=0, le=100, description="Calls for one record at most.")
    retry_delay: Duration = Field(default=0, description="From a failed try to the next.")
    connections: Whole | None = Field(
        default=None, gt=0, le=200, description="Of the lookups' pool; without it the capacity, 50 at most."
    )
    back_pressure: Literal["soft", "hard"] = Field(
        default="soft",
        description="`soft`: a record enters while the queue has room; `hard`: it enters and waits inside for a slot, "
        "and checkpoints by time go on meanwhile, as in Flink before FLINK-39835.",
    )
    downstream: Downstream | None = Field(
        default=None,
        description="What takes the results, if it has no room now and then; absent: it always has.",
    )
    client: Literal["blocking", "one-connection", "connection-a-call", "open-connections"] | None = Field(
        default=None,
        description="A mistake in the place of the pool, for the run to name (docs/explanation/pitfalls.md).",
    )

    @property
    def mistake(self) -> str | None:
        """What only a real client can do wrong, as it is written."""
        if self.client is not None:
            return f"client: {self.client}"
        return "on_timeout: nothing" if self.on_timeout == "nothing" else None

    @model_validator(mode="after")
    def _answers_what_can_come(self) -> Self:
        refuse("Operator", self._breaches())
        return self

    def _breaches(self) -> Iterator[Breach]:
        if self.client is not None and self.connections is not None:
            say = f"`client: {self.client}` has no pool whose `connections` could be chosen"
            yield Breach(path=("connections",), say=say, hint="leave one of the two out")
        if self.on_timeout != "fail" and self.timeout == 0:
            say = "`on_timeout` answers, but without a `timeout` no record ever times out"
            yield Breach(path=("on_timeout",), say=say, hint="add `timeout: 300ms`, say")
        if not self.cancels and self.timeout == 0:
            say = "`cancels: false` is of calls that time out, but without a `timeout` none does"
            yield Breach(path=("cancels",), say=say, hint="add `timeout: 300ms`, say")
        if self.retry_delay and self.tries == 1:
            say = "`retry_delay` waits between tries, but `tries: 1` makes no second one"
            yield Breach(path=("retry_delay",), say=say, hint="add `tries: 3`, say")
        if self.tries > 1 and self.timeout == 0:
            say = "`tries` are made within the `timeout`, and there is none (A3)"
            yield Breach(path=("tries",), say=say, hint="add `timeout: 5s`, say")


class Workload(Part):
    """What the deterministic source sends to each subtask, and how fast."""

    kind: Literal["lookups"] = Field(
        default="lookups", description="Each record asks the database for one key."
    )
    records: Whole = Field(gt=0, le=1_000_000, description="Records of each subtask.")
    subtasks: Whole = Field(default=2, gt=0, le=16, description="Parallel instances of the operator.")
    keys: Whole = Field(default=100, gt=0, le=1_000_000, description="Distinct keys in the database's table.")
    rate: Rate = Field(default=500, description="Records a second and subtask, at most.")
    watermark_every: Whole = Field(
        default=10, ge=0, description="Records between two watermarks; 0 sends none."
    )
    checkpoint_every: Whole | None = Field(
        default=50, gt=0, description="Source positions (records and watermarks) between two barriers."
    )
    checkpoint_interval: Span | None = Field(
        default=None,
        description="In place of `checkpoint_every`: the time between two checkpoints, which come as mail.",
    )
    service: Duration = Field(
        default=0, description="Time that the database itself takes for a lookup, at most; drawn per record."
    )
    fanout: Whole = Field(
        default=1, gt=0, le=100, description="Rows of a record: 1 is exactly one; more is none up to so many."
    )
    row_bytes: Whole = Field(
        default=0, ge=0, le=8_000_000, description="To which the database pads each answer; 0: not at all."
    )
    skew: Percent = Field(default=0, description="Records that ask for key 0, of a hundred.")
    watermarks: Literal["rising", "repeating", "wild"] = Field(
        default="rising",
        description="`repeating`: some are equal to the one before; `wild`: some are, or fall.",
    )
    final_watermark: StrictBool = Field(
        default=False, description="Whether the input ends with a watermark that is later than all others."
    )
    timestamps: Literal["all", "some", "none"] = Field(
        default="all", description="Which records have an event time."
    )
    reuses_objects: StrictBool = Field(
        default=False,
        description="Whether the source reads each record into the same object, so the operator must copy it (A27).",
    )
    expected: Literal["told", "untold"] = Field(
        default="told",
        description="Whether the history tells what the results of each record should be (V8).",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_time_or_by_place(cls, data: Any) -> Any:
        """With `checkpoint_interval` the default of `checkpoint_every` does not hold."""
        if isinstance(data, dict) and data.get("checkpoint_interval") is not None:
            return {"checkpoint_every": None, **data}
        return data

    @model_validator(mode="after")
    def _has_one_kind_of_checkpoint(self) -> Self:
        refuse("Workload", self._breaches())
        return self

    def _breaches(self) -> Iterator[Breach]:
        if self.checkpoint_interval is not None and self.checkpoint_every is not None:
            say = "checkpoints come by place (`checkpoint_every`) or by time (`checkpoint_interval`), not by both"
            yield Breach(path=("checkpoint_interval",), say=say, hint="leave one of the two out")
        if self.checkpoint_interval is None and self.checkpoint_every is None:
            say = "without `checkpoint_every` and without `checkpoint_interval` there is no checkpoint"
            yield Breach(path=("checkpoint_every",), say=say, hint="write `checkpoint_every: 50`, say")

    @property
    def positions(self) -> int:
        """Source positions of one subtask: its records and its watermarks."""
        regular = self.records // self.watermark_every if self.watermark_every else 0
        return self.records + regular + self.final_watermark

    @property
    def checkpoints(self) -> int:
        """Barriers that the source of one subtask sends: none before its first element, after its last, or by time."""
        return 0 if self.checkpoint_every is None else (self.positions - 1) // self.checkpoint_every


class Task(Part):
    """What stands in front of the lookups in their task: an operator with state by key, fed by several inputs."""

    keyed: Literal["sessions"] = Field(
        default="sessions",
        description="What it counts: of each key its records, and its sessions, which a timer in event time ends.",
    )
    inputs: Whole = Field(
        default=2,
        gt=0,
        le=2,
        description="Over which the records come; watermarks and barriers stand in each.",
    )
    gap: Duration = Field(
        default=200, gt=0, description="In event time: a key without a record for so long ends its session."
    )
    lag: Duration = Field(
        default=0,
        description="Of input 1: its elements come so much later, and its watermarks say so much less.",
    )

    @model_validator(mode="after")
    def _has_whom_to_lag(self) -> Self:
        refuse("Task", self._breaches())
        return self

    def _breaches(self) -> Iterator[Breach]:
        if self.lag and self.inputs == 1:
            say = "`lag` is of input 1, and there is only input 0"
            yield Breach(path=("lag",), say=say, hint="write `inputs: 2`, or take it out")


class Expectations(Part):
    """What must at least have been observed, or the run is `vacuous` (V23)."""

    records: Whole | None = Field(default=None, ge=0, description="Records taken in, of all subtasks.")
    checkpoints: Whole | None = Field(default=None, ge=0, description="Distinct completed checkpoints.")
    restores: Whole | None = Field(default=None, ge=0, description="Attempts that went on from a checkpoint.")
