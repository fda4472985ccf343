"""A fault as a scenario holds it: the fields of its kind, what can begin it, where it can be done, how it acts.

Answers to an operation of Jepsen's nemesis. A kind is a subclass in a file of its own in `harness.faults`; it holds
its fields with their defaults, its words, its real act, its simulated act and its evidence (decision 28).
Invariant: a fault that exists has exactly the fields of its kind and a trigger that its kind can wait for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from pydantic import (
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from harness.faults.model.fields import Direction, Every, Nth, OnLink, Repeat, Statement, Times, Which
from harness.faults.real.fault_site import Messages
from harness.faults.simulated.act import Act, LinkAct, OnLinks
from harness.scenario_parts.parts import Breach, Level, Link, Part, refuse
from harness.scenario_parts.triggers import (
    TRIGGER_FORMS,
    Call,
    CheckpointDone,
    RecordTaken,
    Trigger,
    TriggerName,
    name_of,
)
from harness.scenario_parts.values import Name, duration_text

if TYPE_CHECKING:
    from harness.faults.real.attempt_site import AttemptSite
    from harness.faults.real.evidence import Evidence, Found, Line, Seen
    from harness.faults.real.fault_site import Site
    from harness.levels.sim.simulation import Simulation

__all__ = [
    "LEVELS",
    "Ability",
    "By",
    "Directed",
    "Fault",
    "FoundFault",
    "InsideFault",
    "LinkFault",
    "MessageFault",
    "OutsideFault",
    "PacketFault",
    "Repeats",
    "ServerFault",
    "WorkloadFault",
]

By = Literal["link", "server", "process", "inside", "workload"]
"""Where a fault acts: on a link of the proxy, on the database server, on a worker's process, inside the attempt, or
in what the source sends and the adapter answers."""

Ability = Literal[
    "packets", "server-process", "offline-mode", "small-disk", "server-clock", "executor", "superseding", "two-phase",
    "store",
]  # fmt: skip
"""What not every world, sink or level has."""

LEVELS: tuple[Level, ...] = get_args(Level)
_OF_ALL = ("id", "do", "when")
_CYCLES = ("repeat", "every")


class Fault(Part):
    """One disturbance: what (`do`), when it begins, and the fields of its kind."""

    model_config = ConfigDict(defer_build=True)

    about: ClassVar[str]
    """What it does, one sentence."""
    must_show: ClassVar[str]
    """What must be found in a run, or the run is vacuous."""
    by: ClassVar[By]
    triggers: ClassVar[tuple[TriggerName, ...]] = ("at", "between", "checkpoint", "call", "record")
    levels: ClassVar[tuple[Level, ...]] = LEVELS
    abilities: ClassVar[tuple[Ability, ...]] = ()
    stalls: ClassVar[bool] = False
    """Whether it stops or slows the operator's own process or clock, so that the operator may be late."""
    delays_commits: ClassVar[bool] = False
    """Whether the task may be held up at a checkpoint, whatever link it names."""
    attempts_own: ClassVar[bool] = False
    """Whether an attempt does it to itself, at the very place that it waits for."""

    id: Name = Field(description="Its name in the history and the report, unique in the scenario.")
    do: str = Field(description="What is done; see `floodmark list faults`.")
    when: Trigger = Field(description="What it waits for; exactly one trigger.")

    # ------------------------------------------------------------------------------- what its kind is

    @classmethod
    def needs(cls) -> tuple[str, ...]:
        """The fields that it must have, by the names that they have in a file."""
        return tuple(name for name, field in cls._own() if field.is_required())

    @classmethod
    def takes(cls) -> tuple[str, ...]:
        """The fields that it may have."""
        return tuple(name for name, field in cls._own() if not field.is_required())

    @classmethod
    def choices(cls, field: str) -> tuple[Any, ...]:
        """The values that `field` leaves to choose from, where it is `how` or `code`."""
        own = cls.model_fields.get(field) if field in {"how", "code"} else None
        return () if own is None else get_args(own.annotation)

    @classmethod
    def _own(cls) -> list[tuple[str, Any]]:
        own = [
            (field.alias or name, field) for name, field in cls.model_fields.items() if name not in _OF_ALL
        ]
        return sorted(own, key=lambda named: named[0] in _CYCLES)

    # ------------------------------------------------------- fields that are asked for whatever the kind

    @property
    def on_link(self) -> Link | None:
        """The link that it names."""
        return getattr(self, "link", None)

    @property
    def of_subtask(self) -> int | None:
        """The subtask that it names."""
        return getattr(self, "subtask", None)

    @property
    def lasts_ms(self) -> int | None:
        """How long until it heals; None: until its evidence is there."""
        return getattr(self, "lasts", None)

    @property
    def comes(self) -> int:
        """How often it comes, in all."""
        return getattr(self, "repeat", None) or 1

    @property
    def every_ms(self) -> int:
        """From one beginning to the next."""
        return getattr(self, "every", None) or 0

    # ---------------------------------------------------------------------------------- how it is done

    def simulated(self, run: Simulation) -> Act | None:
        """What acts in a simulated run, one time; None: the attempts and sources act it out, as at other levels."""
        del run
        return None

    @property
    def simulated_lasts_ms(self) -> int | None:
        """As `lasts_ms`, where a simulated act says for itself how long it takes."""
        return self.lasts_ms

    def inside(self, attempt: AttemptSite) -> None:
        """Do it, in the attempt itself, at the moment that it waits for."""
        raise NotImplementedError(f"`{self.do}` is not done by an attempt to itself")

    # ------------------------------------------------------------------------------- reading and writing

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        """Null is absent. Where a phase can begin it and a call cannot, `call: 120` is short for a phase."""
        if not isinstance(data, Mapping):
            return data
        given = {name: value for name, value in data.items() if value is not None}
        match given:
            case {"when": {"call": int(hit), **rest}} if (
                hit > 0
                and rest in ({}, {"subtask": given.get("subtask")})
                and "phase" in cls.triggers
                and "call" not in cls.triggers
            ):
                return {**given, "when": {"phase": "call", "hit": hit}}
            case _:
                return given

    @field_validator("when")
    @classmethod
    def _can_wait_for_it(cls, when: Any) -> Any:
        """What happens inside a worker waits for what a worker reaches; what happens outside cannot."""
        if name_of(when) in cls.triggers or getattr(when, "subtask", None) is not None:
            return when
        breach = cls._cannot_wait_for(name_of(when))
        raise PydanticCustomError("rule", "{say}", {"say": breach.say, "hint": breach.hint})

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        refuse("Fault", self.breaches())
        return self

    def breaches(self) -> Iterator[Breach]:
        """The rules between its own fields that are broken."""
        match self.when:
            case Call(subtask=int(other)) | RecordTaken(subtask=int(other)) if self.of_subtask not in {
                None,
                other,
            }:
                yield self._of_another(other)
            case CheckpointDone(subtask=int(other)) if self.by == "inside" and self.of_subtask not in {
                None,
                other,
            }:
                yield self._of_another(other)
            case when if name_of(when) not in self.triggers:
                yield self._cannot_wait_for(name_of(when))

    def _of_another(self, other: int) -> Breach:
        named = name_of(self.when)
        say = f"the {named} is of subtask {other}, the fault is of subtask {self.of_subtask}"
        return Breach(path=("when", "subtask"), say=say, hint="leave it out: it is the fault's own subtask")

    @classmethod
    def _cannot_wait_for(cls, trigger: TriggerName) -> Breach:
        allowed = " or ".join(TRIGGER_FORMS[name] for name in cls.triggers)
        say = f"`{_do_of(cls)}` {cls._cannot(trigger)}"
        return Breach(path=("when",), say=say, hint=f"write {allowed}")

    @classmethod
    def _cannot(cls, trigger: TriggerName) -> str:
        """Why it cannot wait for that."""
        match cls.by, trigger:
            case "link", "phase":
                return "acts on a link, which reaches no `phase`"
            case "server", "phase":
                return "acts on the server, which reaches no `phase`"
            case "workload", _:
                return "is in what the source sends, so it waits for a record, not for this"
            case _ if cls.triggers == ("phase",):
                return "waits for a phase or a call of its own subtask, not for this"
            case _:
                return f"cannot wait for a `{trigger}`"

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What was given; a default is not written."""
        fields = type(self).model_fields
        given = {name: None for field in self.model_fields_set for name in (field, fields[field].alias)}
        written: dict[str, Any] = handler(self)
        return {name: value for name, value in written.items() if name in given and value is not None}


def _do_of(kind: type[Fault]) -> str:
    (name,) = get_args(kind.model_fields["do"].annotation)
    return str(name)


class Repeats(Fault):
    """A fault that may come again."""

    repeat: Repeat | None = None
    every: Every | None = None

    def breaches(self) -> Iterator[Breach]:
        yield from super().breaches()
        if (self.repeat is None) != (self.every is None):
            lacking = "every" if self.every is None else "repeat"
            say = f"`repeat` and `every` belong together, and `{lacking}` is not there"
            yield Breach(
                path=("repeat" if lacking == "every" else "every",), say=say, hint=f"add `{lacking}`"
            )
        if self.every is not None and self.lasts_ms is not None and self.every <= self.lasts_ms:
            say = f"it begins again after {duration_text(self.every)}, and has not healed by then"
            yield Breach(path=("every",), say=say, hint="make it more than `for`")


class OutsideFault(Fault):
    """A fault that the harness does from outside the attempts: to a link, to the server, to a process."""

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """On while the block lasts; healed when it ends, however it ends. May take a second: it has its own thread."""
        raise NotImplementedError

    def evidence(self, seen: Seen) -> Evidence:
        """What shows that it was effective; empty if nothing does."""
        raise NotImplementedError


class LinkFault(OutsideFault, Repeats):
    """A fault of the connections of one link."""

    by = "link"

    link: OnLink

    def on_links(self) -> LinkAct:
        """What acts on simulated links."""
        raise NotImplementedError

    def simulated(self, run: Simulation) -> Act:
        return OnLinks(self.on_links(), [run.links[self.link]])


class Directed(Fault):
    """A fault of what flows in one direction."""

    direction: Direction = "down"

    @property
    def is_upward(self) -> bool:
        """Whether it is about what flows to the database."""
        return self.direction == "up"

    @property
    def stream(self) -> str:
        """The direction in Toxiproxy's word."""
        return "upstream" if self.is_upward else "downstream"


class PacketFault(LinkFault):
    """A fault that picks messages, for which the proxy must understand MySQL's packets."""

    abilities = ("packets",)
    picks_command: ClassVar[str] = "query"
    """The command that is meant if none is named."""

    nth: Nth = 1
    times: Times = 1

    @property
    def messages(self) -> Messages:
        """The messages that it picks."""
        return Messages(command=self.picks_command, nth=self.nth, times=self.times)


class MessageFault(PacketFault):
    """A fault that may say by command and statement which messages it picks."""

    command: Which | None = None
    statement: Statement = ""

    @property
    def messages(self) -> Messages:
        return Messages(
            command=self.command or self.usual_command,
            statement=self.statement,
            nth=self.nth,
            times=self.times,
        )

    @property
    def usual_command(self) -> str:
        """The command that is meant if none is named."""
        return self.picks_command


class ServerFault(OutsideFault, Repeats):
    """A fault of the database server."""

    by = "server"

    def simulated(self, run: Simulation) -> Act:
        raise NotImplementedError


class FoundFault(Fault):
    """A fault that attempts do to themselves; it is found in what they recorded."""

    def found(self, lines: Sequence[Line]) -> Found | None:
        """What a run's lines show of it; None: it never began."""
        raise NotImplementedError


class InsideFault(FoundFault):
    """A fault inside the attempt: its loop, its clock, its checkpoint store."""

    by = "inside"
    attempts_own = True
    triggers = ("at", "between", "checkpoint", "record", "phase")


class WorkloadFault(FoundFault):
    """A fault in what the source sends and the adapter answers."""

    by = "workload"
    triggers = ("record",)

    @property
    def first_record(self) -> int:
        """The number of the record at which it begins, counted from 1."""
        assert isinstance(self.when, RecordTaken), "the workload's faults wait for a record"
        return self.when.record
