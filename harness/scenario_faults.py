"""A fault in a scenario: what is done, where, when it begins, how long it lasts and how often it comes again.

Answers to an operation of Jepsen's nemesis. Invariant: a fault that exists has exactly the fields that its kind
needs or takes (`harness.scenario_fault_kinds`), and waits for something that its kind can wait for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from harness.scenario_fault_kinds import FAULT_FORMS, OWN_FIELDS, FaultForm, FaultName
from harness.scenario_parts import Breach, Link, Part, refuse
from harness.scenario_triggers import TRIGGER_FORMS, TRIGGERS, Call, RecordTaken, Trigger, TriggerName
from harness.scenario_values import Bandwidth, Duration, Name, Percent, Shift, Span, Whole, duration_text

__all__ = ["Command", "Fault", "field_breaches"]

Command = Literal[
    "any", "handshake", "query", "prepare", "execute", "commit", "rollback", "ping", "quit", "other"
]
"""What a MySQL packet asks for, or answers."""

_EXAMPLES = {
    "link": "lookups", "direction": "down", "delay": "150ms", "jitter": "50ms", "rate": "64kB/s", "bytes": "100",
    "gap": "50ms", "open": "200ms", "closed": "300ms", "code": "1205", "count": "10", "share": "90%", "how": "raises",
    "shift": "60m", "subtask": "1", "for": "400ms",
}  # fmt: skip
_NAMED_MAX = 6
"""More kinds than this are not listed in a hint."""


def field_breaches(do: FaultName, given: Collection[str]) -> Iterator[Breach]:
    """What a fault of kind `do` lacks or has too much, if the fields `given` are there."""
    form = FAULT_FORMS[do]
    for name in OWN_FIELDS:
        if name not in given and name in form.needs:
            hint = f"add `{name}: {_EXAMPLES[name]}`, say"
            yield Breach(path=(name,), say=f"`{do}` needs `{name}`", hint=hint)
        if name in given and name not in (*form.needs, *form.takes):
            yield Breach(path=(name,), say=f"`{do}` takes no `{name}`", hint=f"take it out{_owners(name)}")


def _owners(field: str) -> str:
    owners = [kind for kind, own in FAULT_FORMS.items() if field in (*own.needs, *own.takes)]
    return f"; it belongs to {', '.join(owners)}" if len(owners) <= _NAMED_MAX else ""


class Fault(Part):
    """One disturbance: what (`do`), where, when it begins and how long it lasts."""

    id: Name = Field(description="Its name in the history and the report, unique in the scenario.")
    do: FaultName = Field(description="What is done; see `floodmark list faults`.")
    link: Link | None = Field(default=None, description="The connections that it disturbs.")
    direction: Literal["up", "down"] | None = Field(
        default=None,
        description="`up`: on the way to the database; `down`: on the way back. "
        "Absent: `blackhole` acts on both, every other on the way back.",
    )
    delay: Span | None = Field(default=None, description="How long something is held, or takes more.")
    jitter: Duration | None = Field(default=None, description="More or less by at most this.")
    rate: Bandwidth | None = Field(default=None, description="What may flow, at most.")
    bytes: Whole | None = Field(
        default=None, gt=0, description="How many bytes, of whatever the kind counts."
    )
    gap: Span | None = Field(default=None, description="Between two acts of one fault.")
    open: Span | None = Field(default=None, description="Of `flap`: how long the link is up in each turn.")
    closed: Span | None = Field(default=None, description="Of `flap`: how long it is down.")
    command: Command | None = Field(
        default=None,
        description="Which messages: by what they ask for, or answer. Absent: as the kind means it.",
    )
    statement: str | None = Field(
        default=None, min_length=1, description="Which messages: those whose statement begins like this."
    )
    packet: Whole | None = Field(
        default=None, gt=0, description="Which packet of the message; absent: all of it."
    )
    nth: Whole | None = Field(
        default=None,
        gt=0,
        description="The first matching message to act on, counted from arming; absent: 1.",
    )
    times: Whole | None = Field(default=None, gt=0, description="How many to act on; absent: one.")
    code: Whole | None = Field(default=None, description="The server's error number.")
    connections: Whole | None = Field(default=None, gt=0, description="How many connections.")
    count: Whole | None = Field(default=None, gt=0, description="How many of what the kind counts.")
    share: Percent | None = Field(default=None, description="How many of a hundred.")
    how: str | None = Field(default=None, description="Which way; each kind names its own.")
    shift: Shift | None = Field(default=None, description="How far a clock jumps; back with a minus.")
    subtask: Whole | None = Field(default=None, ge=0, description="Whose worker, or whose source.")
    when: Trigger = Field(description="What it waits for; exactly one trigger.")
    lasts: Span | None = Field(
        default=None, alias="for", description="Until it heals; absent, where it may be: until it has bitten."
    )
    repeat: Whole | None = Field(default=None, gt=1, le=1000, description="How often it comes, in all.")
    every: Span | None = Field(default=None, description="From one beginning to the next, if it repeats.")

    @property
    def form(self) -> FaultForm:
        """How faults of its kind are written."""
        return FAULT_FORMS[self.do]

    @model_validator(mode="before")
    @classmethod
    def _one_form_of_a_call(cls, data: Any) -> Any:
        """Where a phase can begin it and a call cannot, `call: 120` is short for `phase: call, hit: 120`."""
        match data:
            case {"do": str(do), "when": {"call": int(hit), **rest}} if (
                hit > 0 and rest in ({}, {"subtask": data.get("subtask")}) and _takes_phases_only(do)
            ):
                return {**data, "when": {"phase": "call", "hit": hit}}
            case _:
                return data

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        alone = field_breaches(self.do, self._given())
        refuse(
            "Fault",
            [
                *alone,
                *self._trigger_breaches(),
                *self._jitter_breaches(),
                *self._choice_breaches(),
                *self._cycle_breaches(),
            ],
        )
        return self

    def _given(self) -> tuple[str, ...]:
        """The fields that are given, of those that not every kind of fault has."""
        return tuple(
            name for name in OWN_FIELDS if getattr(self, "lasts" if name == "for" else name) is not None
        )

    def _trigger_breaches(self) -> Iterator[Breach]:
        """What happens inside a worker waits for what a worker reaches; what happens outside cannot."""
        named = _name_of(self.when)
        match self.when:
            case Call(subtask=int(other)) | RecordTaken(subtask=int(other)) if (
                self.subtask is not None and other != self.subtask
            ):
                say = f"the {named} is of subtask {other}, the fault is of subtask {self.subtask}"
                hint = "leave it out: it is the fault's own subtask"
                yield Breach(path=("when", "subtask"), say=say, hint=hint)
            case _ if named not in self.form.triggers:
                allowed = " or ".join(TRIGGER_FORMS[name] for name in self.form.triggers)
                yield Breach(
                    path=("when",), say=f"`{self.do}` {_cannot(self.form, named)}", hint=f"write {allowed}"
                )

    def _jitter_breaches(self) -> Iterator[Breach]:
        if self.delay is not None and self.jitter is not None and self.jitter > self.delay:
            say = "`jitter` is more than `delay`, and no chunk can arrive before it was sent"
            yield Breach(path=("jitter",), say=say, hint="make it at most the delay")

    def _choice_breaches(self) -> Iterator[Breach]:
        hows, codes = self.form.hows, self.form.codes
        if self.how is not None and hows and self.how not in hows:
            yield Breach(
                path=("how",), say=f"`{self.do}` knows no way `{self.how}`", hint=f"write {', '.join(hows)}"
            )
        if self.code is not None and codes and self.code not in codes:
            hint = f"write {', '.join(map(str, codes))}"
            yield Breach(path=("code",), say=f"`{self.do}` cannot answer {self.code}", hint=hint)

    def _cycle_breaches(self) -> Iterator[Breach]:
        if (self.repeat is None) != (self.every is None):
            lacking = "every" if self.every is None else "repeat"
            say = f"`repeat` and `every` belong together, and `{lacking}` is not there"
            yield Breach(
                path=("repeat" if lacking == "every" else "every",), say=say, hint=f"add `{lacking}`"
            )
        if self.every is not None and self.lasts is not None and self.every <= self.lasts:
            say = f"it begins again after {duration_text(self.every)}, and has not healed by then"
            yield Breach(path=("every",), say=say, hint="make it more than `for`")


def _takes_phases_only(do: str) -> bool:
    form = next((form for name, form in FAULT_FORMS.items() if name == do), None)
    return form is not None and "phase" in form.triggers and "call" not in form.triggers


def _name_of(when: object) -> TriggerName:
    return next(name for name, kind in TRIGGERS.items() if isinstance(when, kind))


def _cannot(form: FaultForm, trigger: TriggerName) -> str:
    """Why a fault of that form cannot wait for it."""
    match form.by, trigger:
        case "link", "phase":
            return "acts on a link, which reaches no `phase`"
        case "server", "phase":
            return "acts on the server, which reaches no `phase`"
        case "workload", _:
            return "is in what the source sends, so it waits for a record, not for this"
        case _ if form.triggers == ("phase",):
            return "waits for a phase or a call of its own subtask, not for this"
        case _:
            return f"cannot wait for a `{trigger}`"
