"""Features of a recorded run, and which fault was effective at which phase and level, and how often.

`features_of` answers to the edges of AFL, by which a fuzzer knows that an input reached something new. Invariants:
everything is told by the history alone, never by the plan; a fault counts only if an end with evidence follows its
begin.

The counts of faults answer to etcd's lesson that a test without any stress passes. Invariants: a count is a number of
runs whose history shows the fault with evidence at that phase; what was never reached is named, each with a reason or
as open.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

from msgspec import UNSET

from harness.faults.parts.triggers import PHASE_FORMS, PHASE_SHOWN, PHASES, PhaseName
from harness.faults.registry import FAULTS
from harness.history.event import (
    Abort,
    Ack,
    AttemptEvent,
    Call,
    Change,
    Commit,
    Dead,
    Done,
    Effect,
    End,
    Event,
    Failed,
    FaultEvent,
    GiveUp,
    Id,
    In,
    OfAttempt,
    Out,
    Owm,
    Res,
    Rescale,
    Restore,
    Row,
    Snap,
    Start,
    TableRead,
    Wm,
)
from harness.history.header import Header
from harness.system.json_types import JsonView

Feature = tuple[str, ...]
"""A pair `(what happened, its phase)` or `(what happened, a word of the state)`; of a crash also all three."""

_CRASHES: Final = frozenset({"kill_worker", "zombie"})
"""The kinds of faults that end an attempt."""
_SILENT: Final = frozenset({Effect, Row, TableRead, Change, GiveUp, Ack})
_FAILURES_TO_OPEN: Final = 5
"""Calls that fail one after the other, after which the history lets suppose that the circuit of the pool is open."""
_CROWDED: Final = 3
"""Events of one attempt at one instant from which on its mailbox counts as crowded."""
_PHASE_OF_KIND: Final[Mapping[str, str]] = {
    **PHASE_SHOWN,
    "restore": "restore",
    "dead": "emit",
    "close": "close",
    "failed": "failed",
    "kill": "killed",
}
"""The phase that an event of an attempt shows; `restore`, `failed` and `killed` are no phases of triggers."""
_PHASE_OF: Final[Mapping[type[object], str]] = {
    kind: phase
    for kind in get_args(OfAttempt)
    if (phase := _PHASE_OF_KIND.get(str(kind.__struct_config__.tag))) is not None
}
PHASES_SHOWN: Final = tuple(dict.fromkeys(_PHASE_OF_KIND.values()))


class _Subtask:
    """The state of one subtask's operator, as its events tell it. Mutable."""

    def __init__(self, *, capacity: int, sink: str) -> None:
        self.capacity = capacity
        self.sink = sink
        self.attempt = 0
        self.completed = 0
        self.snap = 0
        self._begin(1, is_restored=False)

    def _begin(self, attempt: int, *, is_restored: bool) -> None:
        self.attempt = attempt
        self.phase = "open"
        self.pending: dict[Id, int] = {}
        """The records that were taken and have not left, with the number of their last call."""
        self.watermarks = 0
        self.waits = 0
        """Records whose result is there and has not left."""
        self.calls = 0
        self.failures = 0
        self.drains = False
        self.restores = is_restored
        self.snap_is = "none"
        self.open_outputs = False
        self.at_us = -1
        self.crowd = 0

    def hear(self, event: AttemptEvent) -> None:
        """Follow one event of this subtask."""
        self.crowd = self.crowd + 1 if event.t == self.at_us else 1
        self.at_us = event.t
        self.phase = _PHASE_OF.get(type(event), self.phase)
        match event:
            case In(id=record):
                self.pending[record] = 0
                self.restores = False
            case Call(id=record, try_=number):
                self.pending[record] = self.calls = number
            case Res(r=ending, final=final):
                self.failures = 0 if ending == "ok" else self.failures + 1
                self.waits += final
            case Out(id=record) | Dead(id=record):
                self.waits -= self.pending.pop(record, None) is not None and self.waits > 0
                self.open_outputs = True
            case Wm():
                self.watermarks += 1
                self.restores = False
            case Owm():
                self.watermarks = max(0, self.watermarks - 1)
            case Snap(c=number):
                self.snap, self.snap_is = number, "pending"
                self.open_outputs = False
            case End():
                self.drains = True
            case Start(a=attempt, from_=restored):
                self._begin(attempt, is_restored=restored is not None)
            case Restore(elements=elements):
                self.restores = True
                self.pending = {element["id"]: 0 for element in elements if "id" in element}
                self.watermarks = sum("w" in element for element in elements)

    def state(self) -> tuple[str, ...]:
        """What its queue, calls, life, checkpoint, sink, circuit and mailbox are like, a few words for each."""
        held = len(self.pending) + self.watermarks
        queue = "empty" if not held else "full" if held >= self.capacity else "some"
        segments = "" if not self.watermarks else ", segments" if self.watermarks > 1 else ", two segments"
        failing = "shut" if self.failures >= _FAILURES_TO_OPEN else "failing" if self.failures else "well"
        life = "restoring" if self.restores else "draining" if self.drains else "running"
        sink = f"{self.sink} open" if self.open_outputs else f"{self.sink} clean"
        mailbox = "crowded" if self.crowd >= _CROWDED else "results wait" if self.waits else "quiet"
        return (
            f"queue {queue}{segments}",
            f"call {min(self.calls, 3)}",
            life,
            f"checkpoint {self.snap_is}",
            f"sink {sink}",
            f"circuit {failing}",
            f"mailbox {mailbox}",
            f"attempt {min(self.attempt, 3)}",
        )


def features_of(header: Header, events: Sequence[Event], *, kinds: Mapping[str, str]) -> frozenset[Feature]:
    """Everything that the run reached; `kinds`: the kind of each fault by its name in the history."""
    found: dict[Feature, None] = {}
    design = f"{header.operator.mode}{' by key' if header.operator.per_key_order else ''}, {header.sink}"
    acting: dict[str, str] = {}
    for moment in _moments(header, events):
        kind = moment.what
        if moment.fault is not None:
            kind = kinds.get(moment.fault, moment.fault)
            found.update(((kind, "beside", other), None) for other in acting.values())
            acting[moment.fault] = kind
        elif moment.over is not None:
            acting.pop(moment.over, None)
            continue
        found[kind, moment.phase] = None
        found[kind, design] = None
        for word in moment.state:
            found[kind, word] = None
            if kind in _CRASHES:
                found[kind, moment.phase, word] = None
    return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """Something that happened, and the state of its subtask before it."""

    what: str
    phase: str
    state: tuple[str, ...]
    fault: str | None = None
    """The fault that begins, and will have evidence."""
    over: str | None = None
    """The fault that ends."""


def _effective(events: Sequence[Event]) -> dict[int, JsonView]:
    """The index of each begin of a fault whose end has evidence, with that evidence."""
    begun: dict[str, list[int]] = {}
    found: dict[int, Mapping[str, Any]] = {}
    for index, event in enumerate(events):
        if type(event) is not FaultEvent:
            continue
        if event.phase == "begin":
            begun.setdefault(event.f, []).append(index)
        elif begun.get(event.f):
            first = begun[event.f].pop(0)
            if event.evidence is not UNSET and event.evidence:
                found[first] = event.evidence
    return found


def _moments(header: Header, events: Sequence[Event]) -> Iterator[_Moment]:
    """Effective faults, checkpoints, restores, timeouts, retries and failures.

    A fault that names no subtask is looked at in the subtask that acted last.
    """
    subtasks: dict[int, _Subtask] = {}
    capacity, sink = header.operator.capacity, header.sink
    last = _Subtask(capacity=capacity, sink=sink)
    effective = _effective(events)
    for index, event in enumerate(events):
        if isinstance(event, AttemptEvent):
            known = subtasks.get(event.s)
            last = subtasks[event.s] = known or _Subtask(capacity=capacity, sink=sink)
            what = _happening(event)
            if what is not None:
                yield _Moment(what=what, phase=last.phase, state=last.state())
            if event.a >= last.attempt or isinstance(event, Start):
                last.hear(event)
        elif isinstance(event, FaultEvent):
            if index in effective:
                evidence = effective[index]
                of = subtasks.get(evidence.get("subtask", event.s), last)
                phase = evidence.get("phase")
                known_phase = phase if isinstance(phase, str) else of.phase
                yield _Moment(what="fault", phase=known_phase, state=of.state(), fault=event.f)
            elif event.phase == "end":
                yield _Moment(what="fault", phase="", state=(), over=event.f)
        elif type(event) not in _SILENT:
            yield from _of_checkpoint(event, subtasks)


_HAPPENINGS: Final[Mapping[type[object], str]] = {
    Snap: "checkpoint",
    Restore: "restore",
    Failed: "attempt fails",
    Dead: "dead letter",
    End: "end of input",
}
_ENDINGS: Final[Mapping[str, str | None]] = {
    "timeout": "timeout",
    "fail": "call fails",
    "unknown": "call fails",
    "ok": None,
}


def _happening(event: AttemptEvent) -> str | None:
    """The name of an event whose moment is looked at; None: the events between."""
    match event:
        case Res(r=ending):
            return _ENDINGS[ending]
        case Call(try_=number):
            return "call again" if number > 1 else None
    return _HAPPENINGS.get(type(event))


def _of_checkpoint(event: Event, subtasks: Mapping[int, _Subtask]) -> Iterator[_Moment]:
    """Completion, abortion and commit of a checkpoint, or a rescale at one, in the subtasks that took part."""
    match event:
        case Commit(s=subtask, c=number) if subtask in subtasks:
            of = subtasks[subtask]
            is_late = of.snap > number
            yield _Moment(
                what="commit notified late" if is_late else "commit", phase=of.phase, state=of.state()
            )
            if not is_late:
                of.snap_is = "none"
        case Done(c=number) | Abort(c=number):
            word = "complete" if isinstance(event, Done) else "aborted"
            for of in subtasks.values():
                if of.snap == number and of.snap_is == "pending":
                    yield _Moment(what=f"checkpoint {word}", phase=of.phase, state=of.state())
                    of.snap_is = word
        case Rescale():
            for of in subtasks.values():
                yield _Moment(what="rescale", phase=of.phase, state=of.state())


COUNTS: Final = Path(__file__).with_name("reached.json")
"""Written by `python -m tools.pages.coverage_page --count`."""

Pairs = Mapping[str, Mapping[str, int]]
"""Kind of fault -> phase -> runs in which it was effective there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Runs that were counted together."""

    what: str
    """`catalogue` or `exploration`."""
    level: str
    runs: int
    seed: int
    pairs: Pairs

    @property
    def title(self) -> str:
        return f"{self.what} at {self.level}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A pair that no exploration reached; `phase` is empty if the kind was effective nowhere."""

    kind: str
    phase: str
    why: str
    """Empty: nothing is known against it."""


def pairs_of(counted: Mapping[Feature, int]) -> dict[str, dict[str, int]]:
    """The pairs of a kind of fault and a phase among features, with their counts."""
    phases = set(phases_of_faults())
    found: dict[str, dict[str, int]] = {}
    for feature, runs in counted.items():
        match feature:
            case (kind, phase) if kind in FAULTS and phase in phases:
                found.setdefault(kind, {})[phase] = runs
    return {kind: dict(sorted(phases.items())) for kind, phases in sorted(found.items())}


def phases_of_faults() -> tuple[str, ...]:
    """The phases of an attempt in order, and `restore`, `failed` and `killed`, which events show."""
    return tuple(dict.fromkeys((*PHASES, *PHASES_SHOWN)))


@cache
def sources() -> tuple[Source, ...]:
    """What was counted, from the file."""
    document = json.loads(COUNTS.read_text("utf-8"))
    return tuple(Source(**one) for one in document["sources"])


def written(counted: Mapping[tuple[str, str], Source]) -> str:
    """The text of the file."""
    ordered = [counted[key] for key in sorted(counted)]
    return json.dumps({"sources": [asdict(source) for source in ordered]}, indent=1) + "\n"


def holes(counted: tuple[Source, ...]) -> Iterator[Hole]:
    """Each kind of fault that no exploration made effective, and each phase at which it made no crash."""
    explored = _summed(source for source in counted if source.what == "exploration")
    otherwise = _summed(source for source in counted if source.what != "exploration")
    for kind in FAULTS:
        if not any(of == kind for of, _ in explored):
            runs = sum(count for (of, _), count in otherwise.items() if of == kind)
            yield Hole(kind=kind, phase="", why=_elsewhere(runs) or _why_kind(kind))
    for kind in ("kill_worker", "zombie"):
        for phase in PHASES:
            if not explored[kind, phase]:
                why = _elsewhere(otherwise[kind, phase]) or _why_phase(kind, phase)
                yield Hole(kind=kind, phase=phase, why=why)


def _summed(counted: Iterable[Source]) -> Counter[tuple[str, str]]:
    """Runs by kind and phase."""
    summed: Counter[tuple[str, str]] = Counter()
    for source in counted:
        for kind, pairs in source.pairs.items():
            summed.update({(kind, phase): runs for phase, runs in pairs.items()})
    return summed


def _elsewhere(runs: int) -> str:
    return f"reached by scenarios of the catalogue only, in {runs} runs" if runs else ""


def _why_kind(kind: str) -> str:
    fault = FAULTS[kind]
    if fault.by == "job" and not fault.levels:
        return "done to a user's job only, by `floodmark job`; `floodmark list scenarios --jobs` has its scenarios"
    if "sim" not in fault.levels:
        return f"not at level sim: the catalogue has it at {' and '.join(fault.levels)}, which were not counted here"
    return ""


def _why_phase(kind: str, phase: PhaseName) -> str:
    if kind == "zombie" and phase == "close":
        return "an attempt that has drained ends before a successor could start"
    if kind == "zombie" and not PHASE_FORMS[phase].shown_by:
        return (
            "a history names the phase of a kill only; a zombie that begins here is counted at the phase of the last "
            "event before"
        )
    return ""
