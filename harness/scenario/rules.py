"""Rules between the parts of a scenario: references that must exist, and requests that a run could never fulfil.

They answer to V23: a scenario that can only end `vacuous` is refused before it runs. Invariant: a rule refuses only
what certainly cannot work, and it checks all valid parts, so that one mistake does not hide another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from harness.faults.change_rows import ChangeRows
from harness.faults.completions import AnswerAtTimeout
from harness.faults.model.fault import Fault
from harness.faults.parts.parts import Breach, Expectations, Operator, RescalePlan, Task, Workload
from harness.faults.parts.triggers import (
    PHASE_FORMS,
    At,
    Between,
    CallMade,
    CheckpointDone,
    MomentOfJob,
    Phase,
    RecordTaken,
    SinkMoment,
    name_of,
)
from harness.faults.parts.values import Duration, duration_text
from harness.faults.registry import fault_of
from harness.history.invariants import INVARIANTS, NOT_ON_A_HISTORY

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The parts of a scenario that are valid on their own; invalid parts are None or left out."""

    operator: Operator | None
    workload: Workload | None
    faults: tuple[tuple[int, Fault], ...]
    """The valid faults with their index in the file."""
    ids: tuple[tuple[int, str], ...]
    """The ids of all faults, valid or not, with their index."""
    calm: bool
    """Whether the scenario has no fault at all, valid or not."""
    decisive: tuple[str, ...]
    expects: Expectations | None
    budget: int | None
    levels: tuple[str, ...] = ()
    sink: str | None = None
    task: Task | None = None
    rescales: tuple[RescalePlan, ...] = ()
    has_task: bool = False
    """Whether the scenario has a `task`, valid or not."""
    pitfall: str | None = None
    schema: str | None = None
    data: tuple[str, ...] | None = None
    records: str | None = None
    has_effects: bool = False
    """Whether the scenario has `effects`, valid or not."""
    lookups_from: str | None = None


def standing(data: Mapping[str, object]) -> Standing:
    """The valid parts of a scenario that has mistakes, from its plain data."""
    faults, rescales = data.get("faults"), data.get("rescale") or []
    listed = enumerate(faults if isinstance(faults, list) else [])
    drafts = [(index, fault) for index, fault in listed if isinstance(fault, Mapping)]
    found = ((index, _valid(fault_of, draft)) for index, draft in drafts)
    plans = rescales if isinstance(rescales, list) else [rescales]
    ids = ((index, draft.get("id")) for index, draft in drafts)
    return Standing(
        operator=_sound(Operator, data.get("operator")),
        workload=_sound(Workload, data.get("workload")),
        faults=tuple((index, fault) for index, fault in found if fault is not None),
        ids=tuple((index, name) for index, name in ids if isinstance(name, str)),
        calm=data.get("faults", []) == [],
        decisive=tuple(_sound(list[str], data.get("decisive")) or ()),
        expects=_sound(Expectations, data.get("expects", {})),
        budget=_valid(TypeAdapter[int](Duration).validate_python, data.get("budget", "60s")),
        levels=tuple(_sound(list[str], data.get("levels")) or ()),
        sink=_sound(str, data.get("sink", "atomic")),
        task=_sound(Task, data.get("task")),
        has_task=data.get("task") is not None,
        rescales=tuple(plan for draft in plans if (plan := _sound(RescalePlan, draft)) is not None),
        pitfall=_sound(str, data.get("pitfall")),
        schema=_sound(str, data.get("schema")),
        data=_sound(tuple[str, ...], data.get("data")),
        records=_sound(str, data.get("records")),
        has_effects=data.get("effects") is not None,
        lookups_from=_sound(str, data.get("lookups_from")),
    )


def _sound(kind: type[T], value: object) -> T | None:
    return _valid(TypeAdapter(kind).validate_python, value)


def _valid(validate: Callable[[object], T], value: object) -> T | None:
    try:
        return validate(value)
    except ValidationError:
        return None


def breaches(parts: Standing) -> Iterator[Breach]:
    """Every broken rule between parts, in the order of the file."""
    seen: dict[str, int] = {}
    for index, name in parts.ids:
        if name in seen:
            say = f"faults {seen[name]} and {index} (from 0) are both called `{name}`"
            yield Breach(path=("faults", index, "id"), say=say, hint="give each its own id")
        seen.setdefault(name, index)
    yield from at_one_moment(parts.faults)
    yield from _of_jobs(parts)
    yield from _subtasks(parts)
    yield from _levels(parts)
    yield from _of_another_sink(parts)
    yield from _of_two_servers(parts)
    yield from _of_another_task(parts)
    yield from _of_other_keys(parts)
    yield from _of_timeouts(parts)
    yield from _of_rescales(parts)
    yield from _of_own_tables(parts)
    yield from _of_own_records(parts)
    yield from _checkpoints_by_time(parts)
    yield from _triggers_that_never_come(parts)
    yield from _decisive(parts)
    yield from _expectations(parts)


def at_one_moment(faults: Iterable[tuple[int, Fault]]) -> Iterator[Breach]:
    """Kills and the like of which the second would find nothing left; `faults`: with their index in the file."""
    seen: dict[tuple[object, ...], Fault] = {}
    for index, fault in faults:
        match fault.when:
            case _ if not fault.acts_alone:
                continue
            case Phase(phase=name, hit=nth) | SinkMoment(sink=name, nth=nth):
                moment: tuple[object, ...] = (name, nth, fault.of_subtask)
            case RecordTaken(record=nth, subtask=subtask):
                moment = ("record", nth, fault.of_subtask if subtask is None else subtask)
            case _:
                continue
        other = seen.setdefault(moment, fault)
        if other is not fault:
            say = f"`{fault.do}` comes at the moment of `{other.id}`, which leaves it nothing to act on"
            yield Breach(path=("faults", index, "when"), say=say, hint="let one of them come later")


def _of_jobs(parts: Standing) -> Iterator[Breach]:
    """What needs the processes and the sink's link of a user's job, which only `floodmark job` runs."""
    for index, fault in parts.faults:
        if fault.by == "job" and not fault.levels:
            say = f"`{fault.do}` is done to the processes of a user's job, and this scenario runs an operator"
            yield Breach(path=("faults", index, "do"), say=say, hint=_IN_A_JOB_SCENARIO)
        elif isinstance(fault.when, MomentOfJob):
            say = f"a `{name_of(fault.when)}` moment is of a user's job, and this scenario runs an operator"
            yield Breach(path=("faults", index, "when"), say=say, hint=_IN_A_JOB_SCENARIO)


_IN_A_JOB_SCENARIO = "put it into a job scenario (`job_scenario: NAME`) and run that with `floodmark job`"


def _subtasks(parts: Standing) -> Iterator[Breach]:
    if parts.workload is None:
        return
    count = parts.workload.subtasks + sum(rescale.to for rescale in parts.rescales)
    for index, fault in parts.faults:
        waits_for = (
            fault.when.subtask if isinstance(fault.when, CheckpointDone | CallMade | RecordTaken) else None
        )
        for path, subtask in ((("subtask",), fault.of_subtask), (("when", "subtask"), waits_for)):
            if subtask is not None and subtask >= count:
                has = "the run" if parts.rescales else "the workload"
                say = f"there is no subtask {subtask}: {has} has {count}, numbered from 0"
                yield Breach(path=("faults", index, *path), say=say, hint=f"write 0 to {count - 1}")


def _levels(parts: Standing) -> Iterator[Breach]:
    mistake = None if parts.operator is None else parts.operator.mistake
    if parts.pitfall is not None:
        mistake = f"pitfall: {parts.pitfall}"
    for index, level in enumerate(parts.levels):
        unable = [fault for _, fault in parts.faults if fault.levels and level not in fault.levels]
        if unable:
            able = [other for other in parts.levels if all(other in fault.levels for fault in unable)]
            say = f"`{unable[0].do}` cannot be done at level {level}"
            hint = f"write levels: [{', '.join(able or unable[0].levels)}]"
            yield Breach(path=("levels", index), say=say, hint=hint)
        elif level == "sim" and mistake is not None:
            say = f"`{mistake}` is a mistake of a database client, and level sim has no such client"
            yield Breach(path=("levels", index), say=say, hint="write levels: [live, spark]")


def _of_another_sink(parts: Standing) -> Iterator[Breach]:
    """The atomic sink writes a checkpoint in one transaction: it has no checkpoint store and no notification."""
    if parts.sink != "atomic":
        return
    hint = "write `sink: two-phase` or `sink: idempotent`"
    for index, fault in parts.faults:
        if "store" in fault.abilities:
            say = f"`{fault.do}` needs a checkpoint store, and the atomic sink keeps checkpoints in the database"
            yield Breach(path=("faults", index, "do"), say=say, hint=hint)
        match fault.when:
            case Phase(phase=phase) if PHASE_FORMS[phase].needs == "coordination":
                say = f"the phase `{phase}` never comes: with the atomic sink a checkpoint is one transaction"
                yield Breach(path=("faults", index, "when", "phase"), say=say, hint=hint)


def _of_timeouts(parts: Standing) -> Iterator[Breach]:
    operator = parts.operator
    for index, fault in parts.faults:
        if operator is None or not isinstance(fault, AnswerAtTimeout):
            continue
        if not operator.timeout:
            say = f"`{fault.do}` waits for the timeout of its record, and the operator has none"
            yield Breach(path=("faults", index, "do"), say=say, hint="write `timeout` into `operator`")
        elif fault.how != "after" and operator.tries > 1 and operator.on_timeout == "fail":
            say = (
                "with `tries` a mail judges whether an answer is final, and that of the timer may run before it: "
                "a right operator may fail there"
            )
            yield Breach(
                path=("faults", index, "how"), say=say, hint="write `how: after`, or another `on_timeout`"
            )


_SWITCHES = frozenset({"failover", "split"})
"""The faults after which another server has the tables of the run."""


def _of_two_servers(parts: Standing) -> Iterator[Breach]:
    if parts.lookups_from == "replica" and "sim" in parts.levels:
        say = "the simulated database has no replica that lookups could ask"
        yield Breach(path=("lookups_from",), say=say, hint="write levels: [live, spark]")
    switches = [(index, fault) for index, fault in parts.faults if fault.do in _SWITCHES]
    for index, fault in switches:
        if parts.sink not in {"atomic", None}:
            say = (
                f"after `{fault.do}` only the atomic sink finds its checkpoint in the database that serves then; the "
                f"coordinator of the {parts.sink} sink stays with the old one"
            )
            yield Breach(path=("faults", index, "do"), say=say, hint="write `sink: atomic`")
    for index, fault in parts.faults:
        if switches and "server-process" in fault.abilities:
            say = (
                f"`{fault.do}` ends or stops the old primary, which must answer when the replica is promoted"
            )
            yield Breach(path=("faults", index, "do"), say=say, hint=f"remove it, or `{switches[0][1].do}`")
    for index, fault in switches[1:]:
        say = f"`{fault.do}` promotes the replica, which `{switches[0][1].id}` has done by then"
        yield Breach(path=("faults", index, "do"), say=say, hint="keep one of them, without `repeat`")


def _of_rescales(parts: Standing) -> Iterator[Breach]:
    """What a run cannot have whose source is dealt anew while it runs."""
    workload = parts.workload
    if not parts.rescales or workload is None:
        return
    count, last = workload.subtasks, 0
    for index, rescale in enumerate(parts.rescales):
        if rescale.to == count:
            say = f"there are {count} subtasks already, so a rescale to {rescale.to} is none"
            yield Breach(path=("rescale", index, "to"), say=say, hint="write another number")
        if rescale.at.checkpoint <= last:
            say = f"checkpoint {rescale.at.checkpoint} is not behind that of the rescale before, {last}"
            yield Breach(path=("rescale", index, "at"), say=say, hint=f"write {last + 1} or more")
        count, last = rescale.to, rescale.at.checkpoint
    if workload.subtasks > _KEY_GROUPS:
        say = f"a run that rescales has {_KEY_GROUPS} key groups, and a subtask owns one at least"
        yield Breach(path=("workload", "subtasks"), say=say, hint=f"write {_KEY_GROUPS} or fewer")
    if workload.watermarks != "rising":
        say = "the watermarks of a source that is dealt anew stay below all its records, so they rise"
        yield Breach(path=("workload", "watermarks"), say=say, hint="remove it, or remove `rescale`")
    if workload.reuses_objects:
        say = "a source that is dealt anew gives each record an object of its own"
        yield Breach(path=("workload", "reuses_objects"), say=say, hint="remove it, or remove `rescale`")
    if parts.records is not None or parts.schema is not None:
        say = "the records of a run that rescales are drawn, for the source needs a partition for each key group"
        yield Breach(path=("rescale",), say=say, hint="remove `records` and `schema`, or remove `rescale`")
    yield from _others_of_rescales(parts)


def _others_of_rescales(parts: Standing) -> Iterator[Breach]:
    if parts.operator is not None and parts.operator.upstream is not None:
        say = "what an `upstream` holds is its own state, which `rescale` does not split"
        yield Breach(path=("operator", "upstream"), say=say, hint="remove one of the two")
    if parts.has_task and parts.sink == "idempotent":
        say = (
            "of two values of a key the idempotent sink keeps the first, and what a `task` adds to a record depends on "
            "which subtask reads it"
        )
        yield Breach(path=("sink",), say=say, hint="write `sink: atomic` or `sink: two-phase`")
    for name, wanted in _RESCALED_TASK.items():
        if parts.task is not None and getattr(parts.task, name) != wanted:
            say = f"`{name}` of a `task` needs inputs that go on as before, and a rescale deals them anew"
            yield Breach(path=("task", name), say=say, hint=f"remove `{name}`, or remove `rescale`")
    for index, fault in parts.faults:
        if fault.by == "workload":
            say = f"`{fault.do}` counts the records of a subtask, which a rescale deals anew"
            yield Breach(path=("faults", index, "do"), say=say, hint="remove the fault, or remove `rescale`")


_KEY_GROUPS = 8
_RESCALED_TASK: Mapping[str, object] = {
    "lag": 0, "timers": "event-time", "ttl": 0, "idle": 0, "joined": 0, "async_snapshot": 0, "latency_markers": 0,
    "alignment_timeout": None,
}  # fmt: skip
"""What a `task` has in a run that rescales."""


def _of_another_task(parts: Standing) -> Iterator[Breach]:
    """Timers need a `task` and rising watermarks; barrier alignment needs two inputs."""
    for index, fault in parts.faults:
        match fault.when:
            case Phase(phase=phase) if PHASE_FORMS[phase].needs in {"task", "inputs"} and not parts.has_task:
                say = f"the phase `{phase}` never comes: the task has neither timers nor several inputs"
                yield Breach(path=("faults", index, "when", "phase"), say=say, hint="add `task: {inputs: 2}`")
            case Phase(phase=phase) if (
                PHASE_FORMS[phase].needs == "inputs" and parts.task is not None and parts.task.inputs == 1
            ):
                say = f"the phase `{phase}` never comes: the barriers of one input are not aligned"
                yield Breach(path=("faults", index, "when", "phase"), say=say, hint="write `inputs: 2`")
            case Phase(phase=phase) if (
                PHASE_FORMS[phase].needs == "inputs"
                and parts.task is not None
                and parts.task.alignment_timeout is not None
            ):
                say = f"the phase `{phase}` never comes: the barriers of both inputs arrive at once"
                hint = "wait for another phase, or remove `alignment_timeout`"
                yield Breach(path=("faults", index, "when", "phase"), say=say, hint=hint)
        if parts.has_task and fault.do == "watermark_burst":
            say = (
                "a task passes on only a watermark greater than the one before, and some of a burst are equal"
            )
            yield Breach(path=("faults", index, "do"), say=say, hint="remove the fault, or remove `task`")
    if parts.task is not None:
        yield from _of_a_task(parts, parts.task)
    if not parts.has_task or parts.workload is None:
        return
    if parts.workload.watermark_every == 0 and (needs := _needs_watermarks(parts.task)):
        say = f"{needs} watermarks, and there are none"
        yield Breach(path=("workload", "watermark_every"), say=say, hint="raise it above 0")
    for name, wanted, say in _KEYED:
        if getattr(parts.workload, name) != wanted:
            hint = f"remove it (the default is `{str(wanted).lower()}`), or remove `task`"
            yield Breach(path=("workload", name), say=say, hint=hint)
    if parts.operator is not None and parts.operator.back_pressure == "hard":
        say = "the inputs of a `task` are read only while the lookups have room"
        yield Breach(path=("operator", "back_pressure"), say=say, hint="write `back_pressure: soft`")


def _of_a_task(parts: Standing, task: Task) -> Iterator[Breach]:
    """The asynchronous part of a checkpoint ends before the next one, and what is joined has an expected result."""
    every = None if parts.workload is None else parts.workload.checkpoint_every
    ahead = task.async_snapshot
    if every is not None and ahead >= every:
        say = f"`async_snapshot: {ahead}` reaches the barrier of the next checkpoint, {every} positions later"
        yield Breach(path=("task", "async_snapshot"), say=say, hint=f"write {every - 1} or fewer")
    if task.joined and (untold := _untold(parts)):
        say = f"`joined` adds to each result whether it is late, which {untold} does not expect"
        yield Breach(path=("task", "joined"), say=say, hint="remove one of the two")


def _untold(parts: Standing) -> str | None:
    """The setting by which a result is not compared with what the source tells; None: all are."""
    if parts.operator is not None and isinstance(parts.operator.on_timeout, list):
        return "`on_timeout`"
    if parts.workload is not None and parts.workload.expected == "untold":
        return "`expected: untold`"
    changing = any(isinstance(fault, ChangeRows) for _, fault in parts.faults)
    return "`change_rows`" if changing else None


def _needs_watermarks(task: Task | None) -> str | None:
    """What of the task needs them, with its verb; None: nothing."""
    if task is None or task.timers == "event-time":
        return "the sessions of `task` end by"
    return "the inputs of `task` fall idle at" if task.idle else None


_KEYED = (
    (
        "watermarks",
        "rising",
        "a task passes on only a watermark greater than the one before, and some of these are not",
    ),
    (
        "final_watermark",
        False,
        "the sessions of `task` end by their gap, and a final watermark is not split over its inputs",
    ),
    ("timestamps", "all", "the sessions of `task` need the event time of every record"),
    (
        "reuses_objects",
        False,
        "the inputs of a `task` hold several records at once, so each needs an object of its own",
    ),
)
"""What a `task` requires of the workload: the field, its only valid value, and why."""


def _of_other_keys(parts: Standing) -> Iterator[Breach]:
    """A `task` and `hot_key` need numbers; `change_rows` must leave keys whose results are known beforehand."""
    if parts.workload is None:
        return
    has_numbers = parts.workload.keys_like not in {"unicode", "composite"}
    if parts.has_task and not has_numbers:
        say = "the state of a `task` is kept by number, and these keys are none"
        hint = "write `keys_like: wide` or `signed`, or remove `task`"
        yield Breach(path=("workload", "keys_like"), say=say, hint=hint)
    for index, fault in parts.faults:
        if fault.do == "hot_key" and not has_numbers:
            say = f"`hot_key` asks for key 0, and there is none among keys like `{parts.workload.keys_like}`"
            hint = "write `keys_like: numbers`, or `skew`"
            yield Breach(path=("faults", index, "do"), say=say, hint=hint)
        if isinstance(fault, ChangeRows) and fault.count >= parts.workload.keys:
            say = f"it changes {fault.count} keys, and there are {parts.workload.keys}: no result would be known"
            hint = "lower `count`, or raise `workload.keys`"
            yield Breach(path=("faults", index, "count"), say=say, hint=hint)
    changing = [(index, fault) for index, fault in parts.faults if isinstance(fault, ChangeRows)]
    for index, fault in changing:
        if fault.how == "delete" and len(changing) > 1:
            say = "while it has deleted its keys, another `change_rows` would find other keys at the table's begin"
            yield Breach(path=("faults", index, "how"), say=say, hint="keep one of them, with `repeat`")


_OF_CUSTOMERS = frozenset({"change_rows", "lock_rows", "schema_change", "slow_query"})
"""The faults that act on the table `customer`."""


def _of_own_tables(parts: Standing) -> Iterator[Breach]:
    if parts.schema is None:
        for name, is_there in (("data", parts.data is not None), ("effects", parts.has_effects)):
            if is_there:
                say = f"`{name}` is of a table that `schema` makes, and there is no `schema`"
                yield Breach(path=(name,), say=say, hint="add `schema: FILE.sql`, with CREATE TABLE")
        return
    for index, fault in parts.faults:
        if fault.do in _OF_CUSTOMERS or (fault.do == "kill_query" and fault.on_link == "lookups"):
            say = (
                f"`{fault.do}` acts on the table `customer`, and with `schema` the lookup reads other tables"
            )
            yield Breach(path=("faults", index, "do"), say=say, hint="remove the fault, or `schema`")


_DRAWN = ("skew", "failing_every", "reuses_objects")
"""Settings of the workload that say something of records that are drawn."""


def _of_own_records(parts: Standing) -> Iterator[Breach]:
    if parts.records is None:
        return
    if parts.has_task:
        say = "a `task` counts the records that the seed draws, not those of a file"
        yield Breach(path=("task",), say=say, hint="remove `task` or `records`")
    for name in _DRAWN:
        if parts.workload is not None and getattr(parts.workload, name):
            say = f"`{name}` is of records that the seed draws, and these come from a file"
            yield Breach(path=("workload", name), say=say, hint=f"remove `{name}` or `records`")
    for index, fault in parts.faults:
        if fault.do in {"hot_key", "watermark_burst"}:
            say = f"`{fault.do}` changes what the seed draws, and these records come from a file"
            yield Breach(path=("faults", index, "do"), say=say, hint="remove the fault, or `records`")


def _checkpoints_by_time(parts: Standing) -> Iterator[Breach]:
    """With an interval each subtask takes its own checkpoints, so only the atomic sink can be used."""
    if parts.workload is None or parts.workload.checkpoint_interval is None:
        return
    path = ("workload", "checkpoint_interval")
    if parts.sink not in {"atomic", None}:
        say = f"with an interval each subtask takes its own checkpoints, and the {parts.sink} sink needs common ones"
        yield Breach(path=path, say=say, hint="write `sink: atomic`, or `checkpoint_every: 50`")
    if parts.operator is not None and parts.operator.upstream is not None:
        say = "a checkpoint by time may come while an `upstream` record waits for a slot of the lookups"
        yield Breach(path=path, say=say, hint="write `checkpoint_every: 50`")
    if parts.has_task:
        say = "the inputs of a `task` get their barriers at fixed source positions, not by time"
        yield Breach(path=path, say=say, hint="write `checkpoint_every: 50`")


def _triggers_that_never_come(parts: Standing) -> Iterator[Breach]:
    for index, fault in parts.faults:
        match fault.when:
            case At(at=at) if parts.budget is not None and at >= parts.budget:
                say = f"the run is given up after {duration_text(parts.budget)}, before this begins"
                hint = "raise `budget`, or begin sooner"
                yield Breach(path=("faults", index, "when", "at"), say=say, hint=hint)
            case Between(between=(_, latest)) if parts.budget is not None and latest >= parts.budget:
                say = f"the run is given up after {duration_text(parts.budget)}, before this may begin"
                hint = "raise `budget`, or begin sooner"
                yield Breach(path=("faults", index, "when", "between"), say=say, hint=hint)
            case RecordTaken(record=wanted) if parts.workload is not None and wanted > parts.workload.records:
                say = f"record {wanted} never comes: each source has {parts.workload.records}"
                yield Breach(
                    path=("faults", index, "when", "record"), say=say, hint="wait for an earlier one"
                )
            case CheckpointDone(checkpoint=wanted) if _beyond(parts.workload, wanted):
                say = f"checkpoint {wanted} never comes: {_planned(parts.workload)}"
                hint = "wait for an earlier one, or lower `workload.checkpoint_every`"
                yield Breach(path=("faults", index, "when", "checkpoint"), say=say, hint=hint)


def _beyond(workload: Workload | None, checkpoint: int) -> bool:
    """One more than the number of barriers is allowed, for an operator's own final checkpoint."""
    by_place = workload is not None and workload.checkpoint_every is not None
    return by_place and workload is not None and checkpoint > workload.checkpoints + 1


def _planned(workload: Workload | None) -> str:
    if workload is None:
        return ""
    return (
        f"{workload.positions} source positions, a barrier after every {workload.checkpoint_every}, "
        f"make {workload.checkpoints}"
    )


def _decisive(parts: Standing) -> Iterator[Breach]:
    counts = Counter(parts.decisive)
    for index, name in enumerate(parts.decisive):
        path = ("decisive", index)
        if name in parts.decisive[:index]:
            yield Breach(path=path, say=f"`{name}` is named {counts[name]} times", hint="name it once")
        elif name in NOT_ON_A_HISTORY:
            say = f"`{name}` cannot be decisive: {NOT_ON_A_HISTORY[name]}"
            yield Breach(path=path, say=say, hint="take it out")
        elif name not in INVARIANTS:
            close = get_close_matches(name.upper(), INVARIANTS, n=1)
            meant = f"did you mean `{close[0]}`? " if close else ""
            hint = f"{meant}see `floodmark list invariants`"
            yield Breach(path=path, say=f"there is no invariant `{name}`", hint=hint)
        elif blind := [one for one in _BLIND if name in one.invariants and one.when(parts)]:
            say = f"`{name}` cannot be violated here: {blind[0].say}"
            yield Breach(path=path, say=say, hint=blind[0].hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blind:
    """A condition under which some invariants cannot be violated, so that they must not be `decisive`."""

    invariants: tuple[str, ...]
    when: Callable[[Standing], bool]
    say: str
    hint: str


_BLIND = (
    _Blind(
        invariants=("V1", "V3"),
        when=lambda parts: parts.operator is not None and parts.operator.mode == "unordered",
        say="the operator is unordered",
        hint="take V2, or make the mode ordered",
    ),
    _Blind(
        invariants=("V1",),
        when=lambda parts: parts.operator is not None and parts.operator.mode == "keyed",
        say="the operator keeps the order of each key only",
        hint="take V3, or make the mode ordered",
    ),
    _Blind(
        invariants=("V2",),
        when=lambda parts: parts.operator is not None and parts.operator.mode == "ordered",
        say="the operator is ordered",
        hint="take V1, or make the mode unordered",
    ),
    _Blind(
        invariants=("V2", "V4", "V5", "V6", "V7"),
        when=lambda parts: (
            parts.workload is not None
            and parts.workload.watermark_every == 0
            and not parts.workload.final_watermark
        ),
        say="the workload sends no watermarks",
        hint="raise `workload.watermark_every` above 0",
    ),
    _Blind(
        invariants=("V10",),
        when=lambda parts: (
            parts.workload is not None
            and parts.workload.checkpoint_every is not None
            and parts.workload.checkpoints == 0
        ),
        say="the workload ends before its first barrier",
        hint="lower `workload.checkpoint_every`",
    ),
    _Blind(
        invariants=("V11", "V13"),
        when=lambda parts: parts.calm and not parts.rescales,
        say="without a fault each subtask has only one attempt",
        hint="add a fault, or take it out",
    ),
    _Blind(
        invariants=("V18",),
        when=lambda parts: (
            parts.workload is not None
            and parts.workload.checkpoint_gap is None
            and parts.workload.checkpoint_every is None
            and not (parts.calm and parts.workload.checkpoint_interval is not None)
        ),
        say="nothing bounds the time between two checkpoints",
        hint="write `workload.checkpoint_gap` or `checkpoint_every`, or `checkpoint_interval` and no fault",
    ),
    _Blind(
        invariants=("V23",),
        when=lambda parts: parts.calm and not parts.rescales and parts.expects == Expectations(),
        say="there is no fault, and `expects` asks for nothing",
        hint="add `expects`",
    ),
)


def _expectations(parts: Standing) -> Iterator[Breach]:
    if parts.expects is None:
        return
    wanted, workload = parts.expects, parts.workload
    if workload is not None and (wanted.records or 0) > workload.records * workload.subtasks:
        say = f"{workload.subtasks} subtasks of {workload.records} records cannot show {wanted.records}"
        yield Breach(path=("expects", "records"), say=say, hint="ask for fewer, or send more")
    if workload is not None and _beyond(workload, wanted.checkpoints or 0):
        say = f"{wanted.checkpoints} checkpoints cannot be reached: {_planned(workload)}"
        hint = "ask for fewer, or lower `checkpoint_every`"
        yield Breach(path=("expects", "checkpoints"), say=say, hint=hint)
    if parts.calm and not parts.rescales and wanted.restores:
        say = "without a fault each subtask has only one attempt, so nothing is restored"
        yield Breach(path=("expects", "restores"), say=say, hint="add a fault, or take this out")
