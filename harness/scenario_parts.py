"""The parts of a scenario, each with the rules that it can judge alone.

The operator's settings answer to those of Flink's `AsyncDataStream`; faults answer to Jepsen's nemesis.
Invariant: a part that exists is consistent in itself; what needs two parts is in `harness.scenario_rules`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from harness.scenario_values import Duration, Name, Rate, Span, Whole

__all__ = [
    "FAULT_FIELDS",
    "OWN_FIELDS",
    "TAGS",
    "TRIGGERS",
    "At",
    "Breach",
    "Call",
    "CheckpointDone",
    "Expectations",
    "Fault",
    "FaultFields",
    "FaultName",
    "Level",
    "Link",
    "Operator",
    "Part",
    "Phase",
    "When",
    "Workload",
    "field_breaches",
    "refuse",
]

Level = Literal["sim", "live", "spark"]
Link = Literal["lookups", "sink"]
FaultName = Literal["latency", "blackhole", "down", "reset", "kill_worker"]

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
    """Which of the two forms of `on_timeout` is meant; None: neither."""
    match value:
        case list():
            return "<results>"
        case "fail":
            return "<fail>"
        case _:
            return None


OnTimeout = Annotated[
    Annotated[Literal["fail"], Tag("<fail>")] | Annotated[list[JsonValue], Tag("<results>")],
    Discriminator(
        _answer,
        custom_error_type="choice",
        custom_error_message="should be `fail` or a list of results, as in `[null]` or `[]`",
    ),
]


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
        description="`fail` fails the task (A44); a list holds the results that stand in (A45).",
    )

    @model_validator(mode="after")
    def _answers_what_can_come(self) -> Self:
        if self.on_timeout != "fail" and self.timeout == 0:
            say = "`on_timeout` lists results, but without a `timeout` no record ever times out"
            refuse("Operator", [Breach(path=("on_timeout",), say=say, hint="add `timeout: 300ms`, say")])
        return self


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
    checkpoint_every: Whole = Field(
        default=50, gt=0, description="Source positions (records and watermarks) between two barriers."
    )
    service: Duration = Field(
        default=0, description="Time that the database itself takes for a lookup, at most; drawn per record."
    )

    @property
    def positions(self) -> int:
        """Source positions of one subtask: its records and its watermarks."""
        return self.records + (self.records // self.watermark_every if self.watermark_every else 0)

    @property
    def checkpoints(self) -> int:
        """Barriers that the source of one subtask sends: none before its first element or after its last."""
        return (self.positions - 1) // self.checkpoint_every


class At(Part):
    """When `at` has passed since the first record was taken."""

    at: Duration = Field(description="Time since the first record was taken.")


class CheckpointDone(Part):
    """When checkpoint `checkpoint` of `subtask` (any, if absent) has been acknowledged."""

    checkpoint: Whole = Field(gt=0, description="When this checkpoint has been acknowledged.")
    subtask: Whole | None = Field(default=None, ge=0, description="By this subtask; absent: by any.")


class Call(Part):
    """When the `call`-th external call of `subtask` (any, if absent) begins."""

    call: Whole = Field(gt=0, description="When this external call begins, counted from 1.")
    subtask: Whole | None = Field(default=None, ge=0, description="Of this subtask; absent: of any.")


class Phase(Part):
    """When the task reaches the named phase for the `hit`-th time (of this subtask's whole life)."""

    phase: Literal["snapshot-taken", "committed", "call"] = Field(
        description="`snapshot-taken`: the snapshot is made, its transaction has not committed; "
        "`committed`: it has; `call`: an external call begins."
    )
    hit: Whole = Field(default=1, gt=0, description="Which time, counted over the whole life of the subtask.")


When = At | CheckpointDone | Call | Phase
TRIGGERS: dict[str, type[When]] = {"at": At, "checkpoint": CheckpointDone, "call": Call, "phase": Phase}
"""The field that names a trigger, and what it then is."""


def _trigger(value: object) -> str | None:
    """Which trigger is meant: the one whose own field is there; None if none is, or several are."""
    if isinstance(value, Part):
        return next(f"<{name}>" for name, kind in TRIGGERS.items() if isinstance(value, kind))
    named = [name for name in TRIGGERS if isinstance(value, Mapping) and name in value]
    return f"<{named[0]}>" if len(named) == 1 else None


_Trigger = Annotated[
    Annotated[At, Tag("<at>")]
    | Annotated[CheckpointDone, Tag("<checkpoint>")]
    | Annotated[Call, Tag("<call>")]
    | Annotated[Phase, Tag("<phase>")],
    Discriminator(
        _trigger, custom_error_type="trigger", custom_error_message="should hold exactly one trigger"
    ),
]

TAGS = frozenset({"<fail>", "<results>", *(f"<{name}>" for name in TRIGGERS)})
"""Steps in the place of an error that choose a form and are no field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultFields:
    """Which of a fault's fields a kind of fault needs, and which it may have beside them."""

    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()


FAULT_FIELDS: dict[FaultName, FaultFields] = {
    "latency": FaultFields(needs=("link", "for", "delay"), takes=("jitter", "direction")),
    "blackhole": FaultFields(needs=("link", "for"), takes=("direction",)),
    "down": FaultFields(needs=("link", "for")),
    "reset": FaultFields(needs=("link", "for")),
    "kill_worker": FaultFields(needs=("subtask",)),
}

OWN_FIELDS = ("link", "direction", "delay", "jitter", "subtask", "for")
"""The fields that not every kind of fault has."""

_EXAMPLES = {"link": "lookups", "for": "400ms", "delay": "150ms", "subtask": "1"}


def field_breaches(do: FaultName, given: Collection[str]) -> Iterator[Breach]:
    """What a fault of kind `do` lacks or has too much, if the fields `given` are there."""
    fields = FAULT_FIELDS[do]
    for name in OWN_FIELDS:
        if name not in given and name in fields.needs:
            hint = f"add `{name}: {_EXAMPLES[name]}`, say"
            yield Breach(path=(name,), say=f"`{do}` needs `{name}`", hint=hint)
        if name in given and name not in (*fields.needs, *fields.takes):
            meant = [kind for kind, own in FAULT_FIELDS.items() if name in (*own.needs, *own.takes)]
            hint = f"take it out; it belongs to {', '.join(meant)}"
            yield Breach(path=(name,), say=f"`{do}` takes no `{name}`", hint=hint)


class Fault(Part):
    """One disturbance: what (`do`), where, when it begins and how long it lasts."""

    id: Name = Field(description="Its name in the history and the report, unique in the scenario.")
    do: FaultName = Field(description="What is done; see `floodmark list faults`.")
    link: Link | None = Field(default=None, description="The connections that it disturbs.")
    direction: Literal["up", "down"] | None = Field(
        default=None,
        description="`up`: on the way to the database; `down`: on the way back. "
        "Absent: `latency` acts on the way back, `blackhole` on both.",
    )
    delay: Span | None = Field(default=None, description="Of `latency`: how long each chunk is held.")
    jitter: Duration | None = Field(default=None, description="Of `latency`: more or less by at most this.")
    subtask: Whole | None = Field(default=None, ge=0, description="Of `kill_worker`: whose worker dies.")
    when: _Trigger = Field(description="What it waits for; exactly one trigger.")
    lasts: Span | None = Field(default=None, alias="for", description="Until it heals.")

    @model_validator(mode="before")
    @classmethod
    def _one_form_of_a_call(cls, data: Any) -> Any:
        """Of `kill_worker`, `call: 120` is short for `phase: call, hit: 120`; a fault holds the long form."""
        match data:
            case {"do": "kill_worker", "when": {"call": int(hit), **rest}} if hit > 0 and rest in (
                {},
                {"subtask": data.get("subtask")},
            ):
                return {**data, "when": {"phase": "call", "hit": hit}}
            case _:
                return data

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        alone = field_breaches(self.do, self._given())
        refuse("Fault", [*alone, *self._trigger_breaches(), *self._jitter_breaches()])
        return self

    def _given(self) -> tuple[str, ...]:
        """The fields that are given, of those that not every kind of fault has."""
        given = {"link": self.link, "direction": self.direction, "delay": self.delay}
        given |= {"jitter": self.jitter, "subtask": self.subtask, "for": self.lasts}
        return tuple(name for name, value in given.items() if value is not None)

    def _trigger_breaches(self) -> Iterator[Breach]:
        """A kill happens inside the worker, so it waits for what a worker reaches; a link's fault cannot."""
        match self.do, self.when:
            case "kill_worker", Call(subtask=int(other)) if other != self.subtask:
                say = f"the call is of subtask {other}, the worker to kill is subtask {self.subtask}'s"
                hint = "leave it out: it is the fault's own subtask"
                yield Breach(path=("when", "subtask"), say=say, hint=hint)
            case "kill_worker", At() | CheckpointDone() | Call():
                say = "`kill_worker` waits for a phase or a call of its own subtask, not for this"
                hint = "write {phase: snapshot-taken, hit: 3} or {call: 120}"
                yield Breach(path=("when",), say=say, hint=hint)
            case "latency" | "blackhole" | "down" | "reset", Phase():
                say = f"`{self.do}` acts on a link, which reaches no `phase`"
                hint = "write {at: 400ms}, {checkpoint: 3} or {call: 120}"
                yield Breach(path=("when",), say=say, hint=hint)

    def _jitter_breaches(self) -> Iterator[Breach]:
        if self.delay is not None and self.jitter is not None and self.jitter > self.delay:
            say = "`jitter` is more than `delay`, and no chunk can arrive before it was sent"
            yield Breach(path=("jitter",), say=say, hint="make it at most the delay")


class Expectations(Part):
    """What must at least have been observed, or the run is `vacuous` (V23)."""

    records: Whole | None = Field(default=None, ge=0, description="Records taken in, of all subtasks.")
    checkpoints: Whole | None = Field(default=None, ge=0, description="Distinct completed checkpoints.")
    restores: Whole | None = Field(default=None, ge=0, description="Attempts that went on from a checkpoint.")
