"""How a scenario can be smaller: which fields, in which order, which values, and triggers by event for times.

Answers to the strategies of a shrinker, for fields of a scenario instead of choices. A scenario is here its JSON form
without defaults. Invariant: a step only removes something, or lowers a number, or rounds a time: so steps come to an
end; whether the result is a scenario at all, its model decides.

`by_event` replaces times, since a time depends on the machine and on every wait before it; the n-th call, record or
checkpoint does not. Invariant: a trigger is one that the fault's kind supports, and its event is the last before the
fault began, or the first after.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from harness.faults.model.fault import Fault
from harness.faults.parts.triggers import At, Between
from harness.faults.parts.values import duration_ms, duration_text, is_duration
from harness.history.event import Call, Done, Event, FaultEvent, In
from harness.system.choices import Draw
from harness.system.json_types import Json


def by_event(fault: Fault, events: Sequence[Event]) -> Iterator[Json]:
    """Triggers in place of the time of `fault`, the likeliest first; none if it begins by an event, or never began."""
    began = next(
        (
            index
            for index, event in enumerate(events)
            if isinstance(event, FaultEvent) and event.f == fault.id and event.phase == "begin"
        ),
        None,
    )
    if began is None or not isinstance(fault.when, At | Between):
        return
    calls, records, done = Counter[int](), Counter[int](), 0
    for event in events[:began]:
        match event:
            case Call(s=subtask):
                calls[subtask] += 1
            case In(s=subtask):
                records[subtask] += 1
            case Done(c=checkpoint):
                done = max(done, checkpoint)
    own = fault.of_subtask
    made = {"call": calls, "record": records}
    for name in ("call", "record"):
        if name not in type(fault).triggers:
            continue
        count = made[name].total() if own is None else made[name][own]
        of = {} if own is None or name == "record" else {"subtask": own}
        if name == "record" and own is None:
            count = max(made[name].values(), default=0)  # the first source that reaches it
        yield from ({name: number, **of} for number in (count, count + 1) if number)
    if done and "checkpoint" in type(fault).triggers:
        yield {"checkpoint": done}


Data = dict[str, Any]
Path = tuple[str | int, ...]

OF_SIZE: Final[dict[Path, int]] = {
    ("workload", "records"): 1,
    ("workload", "keys"): 1,
    ("operator", "capacity"): 1,
    ("workload", "checkpoint_every"): 1,
    ("workload", "watermark_every"): 1,
}
"""What is smaller with a small number than left out, and the least number."""
_KEPT: Final = frozenset({*OF_SIZE, ("workload", "subtasks"), ("operator", "mode"), ("workload", "kind")})
"""Fields of the operator and the workload that are lowered or simplified, never removed."""
_PREFERRED: Final[dict[Path, str]] = {("operator", "mode"): "ordered"}
_TOGETHER: Final[tuple[tuple[Path, ...], ...]] = (
    (("operator", "tries"), ("operator", "retry_delay"), ("operator", "retry_multiplier"),
     ("operator", "retry_delay_max")),
    (("operator", "retry_multiplier"), ("operator", "retry_delay_max")),
    (("operator", "timeout"), ("operator", "on_timeout"), ("operator", "cancels"), ("operator", "tries"),
     ("operator", "retry_delay"), ("operator", "retry_multiplier"), ("operator", "retry_delay_max")),
    (("operator", "upstream"), ("operator", "back_pressure")),
    (("workload", "failing_every"), ("workload", "failing_calls")),
    (("task", "idle"), ("task", "catch_up"), ("task", "joined")),
    (("task", "catch_up"), ("task", "joined")),
)  # fmt: skip
"""Fields that need each other, so that they are removed at once."""
_SECTIONS: Final = (
    "rescale", "task", "tags", "expects", "sink", "lookups_from", "pitfall", "mutant", "effects", "levels", "budget",
    "sql",
)  # fmt: skip
_NICE_MS: Final = (
    *(n * 10**power for power in range(3) for n in (1, 2, 5)),
    *(n * 1000 for n in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600)),
)
_PERIODS: Final = frozenset({"checkpoint_interval", "checkpoint_gap", "every"})
"""Times that are lowered last, and not below `_PERIOD_MS`: with a shorter one more happens."""
_PERIOD_MS: Final = 5
_RATE: Final = "500/s"
"""The default."""
_NOT_A_SIZE: Final = frozenset({"code", "version"})
"""Numbers that are names."""
_COUNTED: Final = ("hit", "call", "record", "checkpoint")
"""The fields of a trigger that count events."""


def at(data: Data, path: Path) -> Any:
    """The value at `path`; None if there is none."""
    value: Any = data
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def without(data: Data, *paths: Path) -> Data:
    """A copy without the fields at `paths`, and without a section that has become empty."""
    made = copy.deepcopy(data)
    for path in paths:
        around = at(made, path[:-1])
        if isinstance(around, dict):
            around.pop(path[-1], None)
            if not around and len(path) > 1 and path[0] not in {"operator", "workload", "task"}:
                made.pop(str(path[0]), None)
    return made


def with_value(data: Data, path: Path, value: object) -> Data:
    """A copy with `value` at `path`, whose section exists or is made."""
    made = copy.deepcopy(data)
    around: Any = made
    for step in path[:-1]:
        around = around.setdefault(step, {}) if isinstance(around, dict) else around[step]
    around[path[-1]] = value
    return made


def in_words(path: Path) -> str:
    """`faults.0.when.hit`."""
    return ".".join(map(str, path))


def features(data: Data) -> Iterator[tuple[Path, ...]]:
    """The fields whose removal makes it smaller, those at once that need each other; the largest first."""
    yield from (((name,),) for name in _SECTIONS if name in data)
    for group in _TOGETHER:
        there = tuple(path for path in group if at(data, path) is not None)
        if len(there) > 1:
            yield there
    for section in ("operator", "workload", "task"):
        for name, value in (data.get(section) or {}).items():
            path: Path = (section, name)
            if path not in _KEPT:
                yield (path,)
            if isinstance(value, dict):
                yield from (((*path, inner),) for inner in value)
    for index, fault in enumerate(data.get("faults", ())):
        yield from _of_fault(fault, ("faults", index))


def _of_fault(fault: Data, path: Path) -> Iterator[tuple[Path, ...]]:
    if "repeat" in fault:
        yield ((*path, "repeat"), (*path, "every"))
    for name in fault:
        if name not in {"id", "do", "when", "repeat", "every"}:
            yield ((*path, name),)
    if "subtask" in fault["when"]:
        yield ((*path, "when", "subtask"),)


def checkpoints_by_place(data: Data) -> Iterator[Data]:
    """Copies whose checkpoints come at places of the source instead of by time."""
    if "checkpoint_interval" in data["workload"]:
        for every in (1, 2, 3, 5):
            yield with_value(
                without(data, ("workload", "checkpoint_interval")), ("workload", "checkpoint_every"), every
            )


def simplest(data: Data) -> Iterator[tuple[Path, str]]:
    """The fields with a simpler value than they have, and that value."""
    for path, value in _PREFERRED.items():
        if at(data, path) not in {None, value}:
            yield path, value


def numbers(data: Data) -> Iterator[Path]:
    """The fields that hold a number or a time, those of size first."""
    yield from OF_SIZE
    found: list[Path] = [
        path
        for section in ("faults", "operator", "workload", "task", "rescale", "expects", "budget")
        for path in _leaves(data.get(section), (section,))
        if path not in OF_SIZE and path != ("workload", "subtasks")
    ]
    found += [
        ("choices", "calls", index, "takes") for index in range(len(at(data, ("choices", "calls")) or ()))
    ]
    yield from (path for path in found if path[-1] not in _PERIODS)
    yield from (path for path in found if path[-1] in _PERIODS)


def _leaves(value: object, path: Path) -> Iterator[Path]:
    match value:
        case dict():
            for name, inner in value.items():
                if name not in _NOT_A_SIZE:
                    yield from _leaves(inner, (*path, name))
        case list():
            for index, inner in enumerate(value):
                yield from _leaves(inner, (*path, index))
        case bool():
            return
        case int() | float():
            yield path
        case str() if is_duration(value):
            yield path


def lesser(path: Path, value: str | float) -> Sequence[str] | range:
    """The simpler values, the simplest first, with which a search by halves can begin."""
    if isinstance(value, str):
        ms = duration_ms(value)
        below = [duration_text(nice) for nice in _NICE_MS if nice < ms]
        return below if path[-1] not in _PERIODS else below[_NICE_MS.index(_PERIOD_MS) :]
    floor = OF_SIZE.get(path, 0 if path[-1] == "subtask" else 1)
    return range(floor, int(value))


def rounded_up(value: object) -> str | None:
    """The next round time; None: it is no time, or round already."""
    if not isinstance(value, str) or (ms := duration_ms(value)) in _NICE_MS:
        return None
    return next((duration_text(nice) for nice in _NICE_MS if nice > ms), None)


def halved(data: Data) -> Iterator[Data]:
    """Copies whose records, and all that counts records, are an eighth, a quarter, a half; as fast, or as long."""
    for part, as_long in ((8, False), (8, True), (4, False), (4, True), (2, False), (2, True)):
        if data["workload"]["records"] == 1:
            return
        made = copy.deepcopy(data)
        workload = made["workload"]
        for name in ("records", "checkpoint_every", "watermark_every"):
            if workload.get(name):
                workload[name] = max(1, workload[name] // part)
        if as_long:
            rate = int(workload.get("rate", _RATE).removesuffix("/s"))
            workload["rate"] = f"{max(1, rate // part)}/s"
        for fault in made.get("faults", ()):
            for name in _COUNTED:
                if name in fault["when"]:
                    fault["when"][name] = max(1, fault["when"][name] // part)
        yield made


def leap(data: Data, draw: Draw, *, faults: int) -> Data:
    """A small variant: few records, at most `faults` faults early on, with waits or without."""
    made = without(data, ("expects",), ("tags",), ("choices",))
    workload, operator = made["workload"], made["operator"]
    workload |= {"records": draw.one_of(1, 2, 2, 3, 4, 5, 6), "subtasks": 1, "keys": draw.one_of(1, 2, 3)}
    workload["watermark_every"] = draw.one_of(1, 1, 2, 3)
    if workload.get("checkpoint_interval") is None or draw.chance(_BY_PLACE):
        workload.pop("checkpoint_interval", None)
        workload["checkpoint_every"] = draw.one_of(1, 2, 3, 4, 50)
    workload.pop("service", None)
    if draw.chance(_WAITING):
        workload["service"] = draw.one_of("5ms", "20ms", "100ms")
    workload.pop("rate", None)
    if draw.chance(_SLOW):
        workload["rate"] = draw.one_of("2/s", "5/s", "20/s")
    operator["capacity"] = draw.one_of(1, 2, 3, 5)
    there = made.pop("faults", [])
    kept = there if draw.chance(_DISTURBED) else []
    while len(kept) > faults:
        kept.pop(draw.index(len(kept)))
    for fault in kept:
        for around in (fault, fault["when"]):
            if "subtask" in around:
                around["subtask"] = 0
        for name in _COUNTED:
            if name in fault["when"]:
                fault["when"][name] = 1 + draw.index(workload["records"] + 1)
    if kept:
        made["faults"] = kept
    if draw.chance(_IN_ORDER):
        made["choices"] = {"seed": 0, "order": "fifo"}
    return made


def alone(data: Data, *, records: int) -> Iterator[Data]:
    """For each fault a copy with that fault only, and that many records, so slow that some are left after a restart."""
    for fault in data.get("faults", ()):
        made = without(data, ("expects",), ("tags",), ("choices",))
        subtasks = made["workload"].get("subtasks", 2)
        made["workload"] |= {"records": max(1, records // subtasks), "rate": "1/s"}
        made["faults"] = [copy.deepcopy(fault)]
        yield made


_SLOW: Final = 250
_BY_PLACE: Final = 700
_WAITING: Final = 600
_DISTURBED: Final = 750
_IN_ORDER: Final = 300
"""Chances per thousand of a leap: a slow source; checkpoints by place instead of by time; lookups take time; a fault
is kept, if there is one; first come, first served."""


def one_subtask(data: Data) -> Iterator[Data]:
    """Copies with fewer subtasks, of which the last have the faults."""
    now = data["workload"].get("subtasks", 2)
    for count in range(1, now):
        made = with_value(data, ("workload", "subtasks"), count)
        for fault in made.get("faults", ()):
            for around in (fault, fault["when"]):
                if "subtask" in around:
                    around["subtask"] = min(around["subtask"], count - 1)
        yield made
