"""The base classes of faults: one fault as a scenario states it, with its fields, its trigger and its acts.

Answers to an operation of Jepsen's nemesis. Each kind is a subclass in its own file in `harness.faults`. It defines its
fields with their defaults, the texts for the documentation, the real act, the simulated act and the evidence
(decision 28). Invariant: an instance has exactly the fields of its kind, and a trigger that its kind supports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from pydantic import (
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from harness.faults.model.fields import Direction, Every, Nth, OnLink, Repeat, Statement, Times, Which
from harness.faults.parts.parts import Breach, Link, Part
from harness.faults.parts.triggers import (
    TRIGGER_FORMS,
    CallMade,
    CheckpointDone,
    RecordTaken,
    Trigger,
    TriggerName,
    name_of,
)
from harness.faults.parts.values import Name, duration_text
from harness.faults.real.fault_site import Messages, Toxic, toxics_on
from harness.faults.simulated.acts import Act, OnLinks, SimulatedRun
from harness.system.json_types import Json
from harness.system.levels import OPERATOR_LEVELS, Level

if TYPE_CHECKING:
    from harness.database.simulated.link import LinkAct
    from harness.faults.real.evidence import Evidence, RecordedFault, Seen
    from harness.faults.real.fault_site import Site
    from harness.faults.real.sites import AttemptSite
    from harness.history.notes import Line

By = Literal["link", "server", "process", "inside", "workload", "job"]
"""Where a fault acts: on a link of the proxy, on the database server, on a worker's process, inside the attempt, or
on the workload (the records of the source and the calls made for them), or on the processes of a user's job or
of Spark."""

Ability = Literal[
    "packets", "server-process", "offline-mode", "small-disk", "server-clock", "executor", "superseding", "two-phase",
    "store", "binlog", "cluster", "replica",
]  # fmt: skip
"""A capability that a fault needs and that some worlds, sinks or levels lack."""

Effect = Literal["failed", "kill", "start", "res", "late"]
"""An event of an attempt, in the history's words: its failure, its death, its start, the outcome of a call, which is
`late` if the fault only takes time.
"""

_SINK_GIVES_UP_MS = 10_000
"""A fault that lasts shorter cannot keep the sink from committing for the 20 s after which the attempt fails, even if
the last answer comes late (connect 3 s, statement 5 s)."""

_OF_ALL = ("id", "do", "when")
_CYCLES = ("repeat", "every")


class Fault(Part):
    """One fault of a scenario: its kind (`do`), its trigger (`when`), and the fields of its kind."""

    model_config = ConfigDict(defer_build=True)

    about: ClassVar[str]
    """What it does, in one sentence, for the documentation."""
    must_show: ClassVar[str]
    """The evidence without which the run counts as vacuous, for the documentation."""
    by: ClassVar[By]
    triggers: ClassVar[tuple[TriggerName, ...]] = ("at", "between", "checkpoint", "call", "record")
    levels: ClassVar[tuple[Level, ...]] = OPERATOR_LEVELS
    abilities: ClassVar[tuple[Ability, ...]] = ()
    stalls: ClassVar[bool] = False
    """Whether it stops or slows the operator's own process, so that late timeouts are no violation."""
    delays_commits: ClassVar[bool] = False
    """Whether checkpoints may be delayed although the fault is not on the sink's link."""
    can: ClassVar[tuple[Effect, ...]]
    """Events of attempts that it can cause without being named in their `by` (V24). `late`: a limit of time, of the
    client or of the record, that passes because the call, or the task that waits for its commit, takes long. `res`:
    that, or an error of the database or of its connection.
    """
    holds_locks: ClassVar[bool] = False
    """Whether the stopped attempt of one subtask may hold locks for which the others' calls wait."""
    not_in_jobs: ClassVar[str] = ""
    """Why no run of a user's job can do it or show that it acted, and what to write there; empty: one can."""
    of_sources: ClassVar[tuple[str, ...]] = ()
    """The kinds of a job's source that it can act on; empty: it does not act on the source."""
    loses_commits: ClassVar[bool] = False
    """Whether the database may lose commits that it has acknowledged; such a loss is not the operator's."""
    acts_alone: ClassVar[bool] = False
    """Whether a second fault with this property has nothing left to act on at the same moment."""
    attempts_own: ClassVar[bool] = False
    """Whether the attempt does it to itself, at the phase that it waits for."""

    id: Name = Field(description="The fault's name in the history and the report, unique in the scenario.")
    do: str = Field(description="The kind of fault; see `floodmark list faults`.")
    when: Trigger = Field(description="When the fault begins; exactly one trigger.")

    # ------------------------------------------------------------------------------- what its kind is

    @classmethod
    def needs(cls) -> tuple[str, ...]:
        """Its required fields, by their names in a scenario file."""
        return tuple(name for name, field in cls._own() if field.is_required())

    @classmethod
    def takes(cls) -> tuple[str, ...]:
        """Its optional fields, by their names in a scenario file."""
        return tuple(name for name, field in cls._own() if not field.is_required())

    @classmethod
    def choices(cls, field: str) -> tuple[str | int, ...]:
        """The values allowed for `field`, if it is `how` or `code`; empty for any other field."""
        own = cls.model_fields.get(field) if field in {"how", "code"} else None
        return () if own is None else get_args(own.annotation)

    @classmethod
    def _own(cls) -> list[tuple[str, FieldInfo]]:
        own = [
            (field.alias or name, field) for name, field in cls.model_fields.items() if name not in _OF_ALL
        ]
        return sorted(own, key=lambda named: named[0] in _CYCLES)

    # ------------------------------------------------------- fields that are asked for whatever the kind

    @property
    def on_link(self) -> Link | None:
        """Its field `link`; None: it has none."""
        return self.__dict__.get("link")

    @property
    def of_subtask(self) -> int | None:
        """Its field `subtask`; None: it has none."""
        return self.__dict__.get("subtask")

    @property
    def lasts_ms(self) -> int | None:
        """How long until it heals; None: until its evidence is found."""
        return self.__dict__.get("lasts")

    @property
    def comes(self) -> int:
        """How many times it begins in a run."""
        return self.__dict__.get("repeat") or 1

    @property
    def every_ms(self) -> int:
        """Time from one beginning to the next; 0: it does not repeat."""
        return self.__dict__.get("every") or 0

    @property
    def may_delay_commits(self) -> bool:
        """Whether the fault may make the sink wait or try again."""
        return self.on_link == "sink" or self.by == "server" or self.delays_commits

    @property
    def needs_cluster(self) -> bool:
        """Whether a run of the operator does it only on a Spark cluster."""
        return "cluster" in self.abilities

    @property
    def effects(self) -> tuple[Effect, ...]:
        """`can`, and `failed` if it lasts so long that the sink may give up."""
        lasts_ms = 0 if self.lasts_ms is None else (self.comes - 1) * self.every_ms + self.lasts_ms
        gives_up = (self.may_delay_commits or self.stalls) and lasts_ms >= _SINK_GIVES_UP_MS
        return ("failed", *self.can) if gives_up and "failed" not in self.can else self.can

    @property
    def claims(self) -> Json:
        """The fields of its `begin` event in a history, besides its name."""
        effects = list(self.effects)
        subtask = None if self.holds_locks else self.of_subtask
        of_one = {"s": subtask} if effects and subtask is not None else {}
        return {
            **({"stalls": True} if self.stalls else {}),
            **({"can": effects} if effects else {}),
            **of_one,
        }

    # ---------------------------------------------------------------------------------- how it is done

    def simulated(self, run: SimulatedRun) -> Act | None:
        """What acts in a simulated run, one time; None: the attempts and sources act it out, as at other levels."""
        del run
        return None

    @property
    def simulated_lasts_ms(self) -> int | None:
        """As `lasts_ms`, but some kinds need an end in a simulated run even if the scenario gives none."""
        return self.lasts_ms

    def act_in_attempt(self, attempt: AttemptSite) -> None:
        """Perform it inside the attempt, at the moment of its trigger."""
        raise NotImplementedError(f"`{self.do}` is not done by an attempt to itself")

    # ------------------------------------------------------------------------------- reading and writing

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: object) -> object:
        """Drops null fields. `when: {call: 120}` means phase `call`, hit 120, for a kind with no trigger `call`."""
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
    def _can_wait_for_it(cls, when: Trigger) -> Trigger:
        """A trigger that the kind does not support is a mistake; one that names a subtask is judged in `breaches`."""
        if name_of(when) in cls.triggers or getattr(when, "subtask", None) is not None:
            return when
        breach = cls._cannot_wait_for(name_of(when))
        raise PydanticCustomError("rule", "{say}", {"say": breach.say, "hint": breach.hint})

    def breaches(self) -> Iterator[Breach]:
        match self.when:
            case CallMade(subtask=int(other)) | RecordTaken(subtask=int(other)) if self.of_subtask not in {
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
        (name,) = get_args(cls.model_fields["do"].annotation)
        say = f"`{name}` {cls._cannot(trigger)}"
        return Breach(path=("when",), say=say, hint=f"write {allowed}")

    @classmethod
    def _cannot(cls, trigger: TriggerName) -> str:
        """Why the kind cannot begin at that trigger: the end of an error message."""
        match cls.by, trigger:
            case "link", "phase":
                return "acts on a link, so it cannot begin at a `phase` of an attempt"
            case "server", "phase":
                return "acts on the server, so it cannot begin at a `phase` of an attempt"
            case "job", _:
                return f"is done to a user's job, so it cannot begin at a `{trigger}`"
            case "workload", _:
                return "acts on the workload, so it can begin only at a `record`"
            case _ if cls.triggers == ("phase",):
                return "can begin only at a phase or a call of its own subtask"
            case _:
                return f"cannot begin at a `{trigger}`"

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> Json:
        """Writes only the fields that were given, no defaults."""
        fields = type(self).model_fields
        given = {name: None for field in self.model_fields_set for name in (field, fields[field].alias)}
        written: dict[str, Any] = handler(self)
        return {name: value for name, value in written.items() if name in given and value is not None}


class Repeats(Fault):
    """A fault that may begin several times (`repeat`, `every`)."""

    repeat: Repeat | None = None
    every: Every | None = None

    def breaches(self) -> Iterator[Breach]:
        yield from super().breaches()
        if (self.repeat is None) != (self.every is None):
            lacking = "every" if self.every is None else "repeat"
            say = f"`repeat` and `every` belong together, and `{lacking}` is missing"
            yield Breach(
                path=("repeat" if lacking == "every" else "every",), say=say, hint=f"add `{lacking}`"
            )
        if self.every is not None and self.lasts_ms is not None and self.every <= self.lasts_ms:
            say = f"it begins again after {duration_text(self.every)}, before it has healed"
            yield Breach(path=("every",), say=say, hint="make it more than `for`")


class OutsideFault(Fault):
    """A fault that the harness injects from outside the attempts: on a link, the server or a process."""

    def inject(self, site: Site) -> AbstractContextManager[None]:
        """Active while the block lasts; healed when the block ends, also by an exception. Runs in its own thread."""
        raise NotImplementedError

    def evidence(self, seen: Seen) -> Evidence:
        """What shows that the fault had an effect; empty: nothing does."""
        raise NotImplementedError

    def why_not_of_job(self, evidence: Evidence) -> str:
        """Why this evidence does not do in the run of a job; empty: it does."""
        del evidence
        return ""


class LinkFault(OutsideFault, Repeats):
    """A fault of the connections of one link."""

    by = "link"
    triggers = (*OutsideFault.triggers, "sink", "lookups", "spark")

    link: OnLink

    def toxic(self) -> Toxic:
        """What the proxy does while the fault lasts."""
        raise NotImplementedError

    def inject(self, site: Site) -> AbstractContextManager[None]:
        return toxics_on(site.control, self.link, self.toxic(), name=self.id)

    def on_links(self) -> LinkAct:
        """The act for a simulated link."""
        raise NotImplementedError

    def simulated(self, run: SimulatedRun) -> Act:
        return OnLinks(self.on_links(), [run.links[self.link]])


class Directed(Fault):
    """A fault that acts on one direction of a link."""

    direction: Direction = "down"

    @property
    def is_upward(self) -> bool:
        """Whether it acts on bytes that flow to the database."""
        return self.direction == "up"

    @property
    def stream(self) -> str:
        """The direction in Toxiproxy's terms."""
        return "upstream" if self.is_upward else "downstream"


class PacketFault(LinkFault):
    """A fault that acts on selected messages, so the proxy must parse MySQL packets."""

    abilities = ("packets",)
    picks_command: ClassVar[str] = "query"
    """The command it selects by default."""

    nth: Nth = 1
    times: Times = 1

    @property
    def messages(self) -> Messages:
        """The messages that it acts on."""
        return Messages(command=self.picks_command, nth=self.nth, times=self.times)


class MessageFault(PacketFault):
    """A fault whose messages the scenario may select by command and statement."""

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
        """The command that it selects if the scenario names none."""
        return self.picks_command


class ServerFault(OutsideFault, Repeats):
    """A fault of the database server itself."""

    by = "server"
    triggers = (*OutsideFault.triggers, "sink", "lookups", "spark")

    def simulated(self, run: SimulatedRun) -> Act:
        raise NotImplementedError


class FaultOfJob(OutsideFault):
    """A fault of the processes of a user's job; only job scenarios have it."""

    by = "job"
    levels: ClassVar[tuple[Level, ...]] = ()
    triggers: ClassVar[tuple[TriggerName, ...]] = ("at", "between", "record", "sink", "lookups", "spark")


class SparkFault(FaultOfJob):
    """A fault of the processes of Spark: of a user's job, or of a run of the operator on a cluster."""

    levels = ("spark",)
    abilities = ("cluster",)
    triggers: ClassVar[tuple[TriggerName, ...]] = (*FaultOfJob.triggers, "checkpoint", "call")


class FoundFault(Fault):
    """A fault that attempts perform themselves; its evidence is in the lines that they recorded."""

    def recorded(self, lines: Sequence[Line]) -> RecordedFault | None:
        """What the recorded lines of a run show of it; None: it never began."""
        raise NotImplementedError


class InsideFault(FoundFault):
    """A fault inside the attempt: its loop, its clock, its checkpoint store."""

    by = "inside"
    attempts_own = True
    triggers = ("at", "between", "checkpoint", "record", "phase")


class WorkloadFault(FoundFault):
    """A fault of the workload: of the records that a source sends, or of the calls made for them."""

    by = "workload"
    triggers = ("record",)

    @property
    def first_record(self) -> int:
        """The number of the record at which it begins, counted from 1."""
        assert isinstance(self.when, RecordTaken), "the workload's faults wait for a record"
        return self.when.record
