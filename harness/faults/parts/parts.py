"""The parts of a scenario, each with the rules that concern it alone.

The operator's settings answer to those of Flink's `AsyncDataStream`; faults are in `harness.faults`. Invariant: an
instance is consistent in itself; rules between parts are in `harness.scenario.rules`.
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
    StringConstraints,
    Tag,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from harness.faults.parts.values import Duration, Percent, Rate, Span, Whole
from harness.system.json_types import Json

Link = Literal["lookups", "sink"]
Sink = Literal["atomic", "two-phase", "idempotent"]
LookupsFrom = Literal["primary", "replica"]
"""The server that the lookups' link leads to; with `replica` there are two, and the second follows the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkForm:
    """Properties of a kind of sink; its class is chosen in `harness.sut.sink_choice`."""

    claimed_as: Literal["atomic", "two-phase", "rollback"]
    """The name of its guarantee in a history's header."""
    has_output_key: bool = False
    """Whether the output table has a unique key, so that a repeated write replaces the row."""


SINK_FORMS: Mapping[Sink, SinkForm] = {
    "atomic": SinkForm(claimed_as="atomic"),
    "two-phase": SinkForm(claimed_as="two-phase"),
    # A replayed output replaces its first version, as if the restart had rolled that back.
    "idempotent": SinkForm(claimed_as="rollback", has_output_key=True),
}

Step = str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One broken rule: the path of the field, what is wrong, and what to do."""

    path: tuple[Step, ...]
    say: str
    hint: str = ""


def refuse(title: str, breaches: Iterable[Breach]) -> None:
    """Raises one ValidationError with all `breaches`, each at its own field; does nothing if there are none."""
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
    """A part of a scenario: frozen; an unknown field is an error; a field that is None is not written."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> Json:
        written: dict[str, Any] = handler(self)
        return {name: value for name, value in written.items() if value is not None}

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        refuse(type(self).__name__, self.breaches())
        return self

    def breaches(self) -> Iterator[Breach]:
        """The rules between its own fields that it breaks."""
        yield from ()


def _answer(value: object) -> str | None:
    """The tag of the form of `on_timeout`; None: it has no valid form."""
    if isinstance(value, list):
        return "<results>"
    return f"<{value}>" if isinstance(value, str) and value in {"fail", "nothing", "dead-letter"} else None


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
    """A downstream that repeatedly has no output buffer available (A33)."""

    takes: Whole = Field(gt=0, description="How many results it takes before it blocks.")
    shut: Span = Field(description="How long it blocks each time.")


class Upstream(Part):
    """A second asynchronous operator in front of the lookups, in the same chain; it emits in order (A30)."""

    capacity: Whole = Field(gt=0, description="The largest number of elements in its queue.")
    delay: Duration = Field(
        default=0, description="The longest time until it passes a record on; drawn per record."
    )


_CONNECTIONS_MAX = 50
"""The default limit of a subtask's pool; two subtasks stay below a server's default limit of 151 connections."""


class Operator(Part):
    """The settings of the asynchronous operator under test (A1-A3, A44, A45)."""

    mode: Literal["ordered", "unordered", "keyed"] = Field(
        description="`ordered`: results leave in the order of their records; `unordered`: as they come, "
        "but not across a watermark; `keyed`: as `unordered`, but the results of one key leave in the order of "
        "their records (FLIP-519)."
    )
    capacity: Whole = Field(
        default=100, gt=0, description="The largest number of elements in the queue (A2, A8)."
    )
    timeout: Duration = Field(
        default=0, description="Timeout of a record, counted from its call; 0ms: no timeout (A3)."
    )
    on_timeout: OnTimeout = Field(
        default="fail",
        description="`fail` fails the task (A44); a list: default results (A45); `dead-letter`: the record goes "
        "to the dead letters, with no result; `nothing` is a mistake: the record keeps its slot (A46).",
    )
    cancels: StrictBool = Field(
        default=True,
        description="Whether a timeout cancels the call; if not, its answer comes late and is ignored (A45).",
    )
    on_error: Literal["fail", "dead-letter"] = Field(
        default="fail",
        description="For a record whose last try failed: `fail` fails the task; `dead-letter`: the record goes "
        "to the dead letters, with no result.",
    )
    tries: Whole = Field(default=1, gt=0, le=100, description="The largest number of calls for one record.")
    retry_delay: Duration = Field(
        default=0, description="Time from a failed try to the next one; less than 1ms counts as 1ms."
    )
    retry_multiplier: float | None = Field(
        default=None,
        ge=1,
        le=100,
        description="Exponential backoff: each delay is the one before times this, rounded down; absent: all delays "
        "are `retry_delay`.",
    )
    retry_delay_max: Span | None = Field(
        default=None,
        description="Exponential backoff: the longest delay from the second on; absent: the `timeout`.",
    )
    connections: Whole | None = Field(
        default=None,
        gt=0,
        le=200,
        description="Size of the lookups' connection pool; absent: the capacity, at most 50.",
    )
    back_pressure: Literal["soft", "hard"] = Field(
        default="soft",
        description="`soft`: the operator takes a record only if the queue has room; `hard`: it takes it and waits for "
        "a slot, and checkpoints by time go on meanwhile, as in Flink before FLINK-39835.",
    )
    downstream: Downstream | None = Field(
        default=None,
        description="A downstream that blocks repeatedly; absent: it never blocks.",
    )
    upstream: Upstream | None = Field(
        default=None,
        description="A second asynchronous operator that passes records on to the lookups; needs "
        "`back_pressure: hard`, so that its records wait for the slots of the lookups.",
    )
    client: Literal["blocking", "one-connection", "connection-a-call", "open-connections"] | None = Field(
        default=None,
        description="A faulty client in place of the pool, for a run that must report the mistake "
        "(docs/explanation/pitfalls.md).",
    )

    @property
    def first_delay_ms(self) -> int:
        """The delay before the second call of a record; a strategy needs at least 1 ms."""
        return max(1, self.retry_delay)

    @property
    def longest_delay_ms(self) -> int:
        """The limit of an exponential backoff; beyond the timeout no retry is made."""
        return self.timeout if self.retry_delay_max is None else self.retry_delay_max

    @property
    def pool_size(self) -> int:
        """How many connections the pool has, or a blocking lookup threads."""
        return self.connections or min(self.capacity, _CONNECTIONS_MAX)

    @property
    def mistake(self) -> str | None:
        """The setting that is a mistake of a real client; None: there is none."""
        if self.client is not None:
            return f"client: {self.client}"
        return "on_timeout: nothing" if self.on_timeout == "nothing" else None

    def breaches(self) -> Iterator[Breach]:
        if self.client is not None and self.connections is not None:
            say = f"`client: {self.client}` has no pool whose `connections` could be chosen"
            yield Breach(path=("connections",), say=say, hint="leave one of the two out")
        if self.on_timeout != "fail" and self.timeout == 0:
            say = "`on_timeout` needs a `timeout`: without one no record ever times out"
            yield Breach(path=("on_timeout",), say=say, hint="add for example `timeout: 300ms`")
        if not self.cancels and self.timeout == 0:
            say = "`cancels: false` needs a `timeout`: without one no call ever times out"
            yield Breach(path=("cancels",), say=say, hint="add for example `timeout: 300ms`")
        if self.upstream is not None and self.back_pressure != "hard":
            say = "`upstream` passes a record on while the lookups' queue is full, and then waits for a slot"
            yield Breach(path=("upstream",), say=say, hint="write `back_pressure: hard`")
        if self.retry_delay and self.tries == 1:
            say = "`retry_delay` waits between tries, but `tries: 1` allows no second one"
            yield Breach(path=("retry_delay",), say=say, hint="add for example `tries: 3`")
        if self.retry_multiplier is not None and not self.retry_delay:
            say = "`retry_multiplier` multiplies `retry_delay`, which is missing"
            yield Breach(path=("retry_multiplier",), say=say, hint="add for example `retry_delay: 20ms`")
        if self.retry_delay_max is not None and self.retry_multiplier is None:
            say = "`retry_delay_max` limits growing delays, and without `retry_multiplier` they do not grow"
            yield Breach(path=("retry_delay_max",), say=say, hint="add for example `retry_multiplier: 2`")
        if self.tries > 1 and self.timeout == 0:
            say = "`tries` needs a `timeout`, within which all tries are made (A3)"
            yield Breach(path=("tries",), say=say, hint="add for example `timeout: 5s`")


class Workload(Part):
    """The elements that the deterministic source sends to each subtask, and how fast."""

    kind: Literal["lookups"] = Field(
        default="lookups", description="Each record looks up one key in the database."
    )
    records: Whole = Field(gt=0, le=1_000_000, description="Number of records per subtask.")
    subtasks: Whole = Field(default=2, gt=0, le=16, description="Parallel instances of the operator.")
    keys: Whole = Field(
        default=100, gt=0, le=1_000_000, description="Number of distinct keys in the database table."
    )
    keys_like: Literal["numbers", "wide", "signed", "unicode", "composite"] = Field(
        default="numbers",
        description="What the keys are: `numbers` from 0 on; `wide`: numbers equal in their low 8, 16 or 32 bits; "
        "`signed`: numbers and their negatives; `unicode`: texts equal but for case, accents or normal form; "
        "`composite`: a text and a number.",
    )
    rows_like: Literal["plain", "odd"] = Field(
        default="plain",
        description="What the rows hold: `plain`: names, cities and small numbers; `odd`: texts and numbers that a "
        "careless client alters, and NULL.",
    )
    rate: Rate = Field(default=500, description="The largest rate per subtask, in records a second.")
    watermark_every: Whole = Field(
        default=10, ge=0, description="Number of records between two watermarks; 0: no watermarks."
    )
    checkpoint_every: Whole | None = Field(
        default=50,
        gt=0,
        description="Number of source positions (records and watermarks) between two barriers.",
    )
    checkpoint_interval: Span | None = Field(
        default=None,
        description="Instead of `checkpoint_every`: the time between two checkpoints, triggered through the mailbox.",
    )
    checkpoint_gap: Span | None = Field(
        default=None,
        description="The longest time without a completed checkpoint (V18), faults included, besides a slack for the "
        "level.",
    )
    service: Duration = Field(
        default=0, description="The longest service time of a lookup in the database; drawn per record."
    )
    fanout: Whole = Field(
        default=1,
        gt=0,
        le=100,
        description="Result rows per record: 1: exactly one; n > 1: a random number from 0 to n.",
    )
    row_bytes: Whole = Field(
        default=0,
        ge=0,
        le=8_000_000,
        description="Size to which the database pads each answer; 0: no padding.",
    )
    skew: Percent = Field(default=0, description="Percentage of records that ask for the first key.")
    failing_every: Whole = Field(
        default=0,
        ge=0,
        description="Every n-th record's first calls fail, `failing_calls` of them in each attempt; 0: none.",
    )
    failing_calls: Whole = Field(
        default=1, gt=0, le=100, description="How many calls of a failing record fail."
    )
    watermarks: Literal["rising", "repeating", "wild"] = Field(
        default="rising",
        description="`repeating`: some are equal to the one before; `wild`: some are equal or lower.",
    )
    final_watermark: StrictBool = Field(
        default=False, description="Whether the input ends with a watermark later than all others."
    )
    timestamps: Literal["all", "some", "none"] = Field(
        default="all", description="Which records have an event timestamp."
    )
    reuses_objects: StrictBool = Field(
        default=False,
        description="Whether the source reads each record into the same object, so the operator must copy it (A27).",
    )
    expected: Literal["told", "untold"] = Field(
        default="told",
        description="Whether the history contains the expected results of each record (V8).",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_time_or_by_place(cls, data: object) -> object:
        """`checkpoint_interval` switches the default of `checkpoint_every` off."""
        if isinstance(data, dict) and data.get("checkpoint_interval") is not None:
            return {"checkpoint_every": None, **data}
        return data

    def breaches(self) -> Iterator[Breach]:
        if self.checkpoint_interval is not None and self.checkpoint_every is not None:
            say = "checkpoints come by position (`checkpoint_every`) or by time (`checkpoint_interval`), not by both"
            yield Breach(path=("checkpoint_interval",), say=say, hint="remove one of the two")
        if self.checkpoint_interval is None and self.checkpoint_every is None:
            say = "without `checkpoint_every` and without `checkpoint_interval` there is no checkpoint"
            yield Breach(path=("checkpoint_every",), say=say, hint="add for example `checkpoint_every: 50`")
        if self.failing_calls > 1 and not self.failing_every:
            say = "`failing_calls` counts the calls of failing records, and `failing_every: 0` has none"
            yield Breach(path=("failing_calls",), say=say, hint="add for example `failing_every: 20`")

    @property
    def positions(self) -> int:
        """Number of source positions of one subtask: its records and its watermarks."""
        regular = self.records // self.watermark_every if self.watermark_every else 0
        return self.records + regular + self.final_watermark

    @property
    def checkpoints(self) -> int:
        """Number of barriers from the source of one subtask; none before its first or after its last element."""
        return 0 if self.checkpoint_every is None else (self.positions - 1) // self.checkpoint_every


class AtCheckpoint(Part):
    """The moment of a rescale."""

    checkpoint: Whole = Field(
        gt=0,
        description="Each subtask stops when this checkpoint, or the first complete one after it, is complete.",
    )


class RescalePlan(Part):
    """A restart with another number of subtasks, from a checkpoint (A64)."""

    at: AtCheckpoint = Field(description="When the subtasks stop.")
    to: Whole = Field(gt=0, le=8, description="The number of subtasks that go on.")


class Task(Part):
    """An operator with keyed state in front of the lookups in the same task, with one or two inputs."""

    keyed: Literal["sessions"] = Field(
        default="sessions",
        description="`sessions`: counts each key's records and its sessions, which an event-time timer ends.",
    )
    inputs: Whole = Field(
        default=2,
        gt=0,
        le=2,
        description="Number of inputs that share the records; each has its own watermarks and barriers.",
    )
    gap: Duration = Field(
        default=200, gt=0, description="Event time without a record after which a key's session ends."
    )
    lag: Duration = Field(
        default=0,
        description="How much later the elements of input 1 arrive, and how much its watermarks are behind.",
    )
    timers: Literal["event-time", "processing-time"] = Field(
        default="event-time",
        description="The timers that end sessions. `processing-time`: `gap` counts by the time at which records are "
        "due, so that equal seeds give equal sessions.",
    )
    ttl: Duration = Field(
        default=0,
        description="Time to live of the counts of a key on an input, since their last change, by the time at which "
        "records are due; 0ms: for ever.",
    )
    idle: Whole = Field(
        default=0,
        description="The inputs fall idle in turn, each for this many watermarks, with as many between; "
        "0: both always active.",
    )
    catch_up: Whole = Field(
        default=0,
        description="For how many watermarks an input that wakes up is behind what has left (W2): it goes on where it "
        "stopped; 0: it says at once what the other says.",
    )
    joined: Duration = Field(
        default=0,
        description="The task behind this one has a second input, whose watermarks rise in steps of so much; each "
        "result tells whether it is late there, as it is after the inputs of this task were all idle. 0ms: no such "
        "task.",
    )
    async_snapshot: Whole = Field(
        default=0,
        le=1000,
        description="Number of elements that the operator takes between the synchronous and the asynchronous part of "
        "a snapshot; 0: none.",
    )

    latency_markers: Whole = Field(
        default=0,
        description="Number of source positions from one latency marker to the next; the task fails if one does not "
        "leave before the next element comes (A54); 0: none.",
    )
    alignment_timeout: Duration | None = Field(
        default=None,
        description="Time after which barriers overtake what waits in front of them (C26); 0ms: at once; absent: "
        "never.",
    )

    def breaches(self) -> Iterator[Breach]:
        if self.lag and self.inputs == 1:
            say = "`lag` applies to input 1, and there is only input 0"
            yield Breach(path=("lag",), say=say, hint="write `inputs: 2`, or remove `lag`")
        if self.idle and self.inputs == 1:
            say = "`idle` lets one input go on without the other, and there is only input 0"
            yield Breach(path=("idle",), say=say, hint="write `inputs: 2`, or remove `idle`")
        if self.idle and self.lag:
            say = (
                "an input that is behind and was idle counts once it has caught up, but after a restart at once, so "
                "nobody could say when sessions end"
            )
            yield Breach(
                path=("idle",), say=say, hint="write `catch_up` in place of `lag`, or remove one of the two"
            )
        if self.catch_up and (self.idle < LEAST_IDLE or self.catch_up >= self.idle):
            say = (
                f"an input is behind when it wakes up if it was idle for {LEAST_IDLE} watermarks or more, and it must "
                "have caught up before the other falls idle"
            )
            yield Breach(
                path=("catch_up",), say=say, hint=f"write `idle: {max(LEAST_IDLE, self.catch_up + 1)}`"
            )
        if self.joined and not self.idle:
            say = (
                "`joined` tells which results are late behind inputs that were all idle, and these never are"
            )
            yield Breach(path=("joined",), say=say, hint="add for example `idle: 2`")
        if self.alignment_timeout is not None and (self.lag or self.inputs == 1):
            say = "barriers that overtake arrive in two inputs at once, so that a checkpoint is one step of the task"
            yield Breach(path=("alignment_timeout",), say=say, hint="write `inputs: 2`, and remove `lag`")
        for name, say in OF_ALIGNED_BARRIERS.items():
            if self.alignment_timeout is not None and getattr(self, name):
                yield Breach(path=(name,), say=say, hint=f"remove `{name}` or `alignment_timeout`")


LEAST_IDLE = 3
"""An input that was idle for fewer watermarks says, when it goes on where it stopped, at least what has left."""

OF_ALIGNED_BARRIERS = {
    "idle": "what a checkpoint holds of inputs that are overtaken is no status of an input",
    "async_snapshot": "with barriers that overtake, a checkpoint is written at once, with what its inputs hold",
}
"""What a `task` has only without `alignment_timeout`, and why."""


Column = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_$]{1,64}$")]


class OwnEffects(Part):
    """The rows that the lookup itself writes into a table of `schema`; V9 counts them by SQL."""

    table: Column = Field(description="The table that it writes to.")
    id: Column = Field(
        description="The column with the `id` of the record for which a row was written. A record with a result must "
        "have one row, any other none."
    )


class Expectations(Part):
    """What a run must observe at least, or it counts as `vacuous` (V23)."""

    records: Whole | None = Field(default=None, ge=0, description="Number of records taken by all subtasks.")
    checkpoints: Whole | None = Field(
        default=None, ge=0, description="Number of distinct completed checkpoints."
    )
    restores: Whole | None = Field(
        default=None, ge=0, description="Number of attempts that restored a checkpoint."
    )
    rescales: Whole | None = Field(default=None, ge=0, description="Number of rescales that took place.")
