"""Carries a failed run of level live or spark down to level sim: its faults by event, its calls as recorded.

Answers to record and replay, with a simulation in place of the recorded machine. Invariants: what is tried at level
sim is a scenario, so it can be shrunk and saved; what of the run no scenario can hold is named in a sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from harness.explore.find import Find
from harness.explore.shrink import Runs
from harness.explore.smaller import Data, by_event
from harness.faults.parts.triggers import PHASE_SHOWN, PhaseName
from harness.faults.parts.values import duration_text
from harness.faults.registry import FAULTS
from harness.history.event import AttemptEvent, Call, Event, Kill, Res
from harness.scenario.model import Scenario
from harness.system.json_types import Json

_SEEDS: Final = 5
"""How many seeds are tried for each form, since the schedule of the machine was not recorded."""
_CALLS_MAX: Final = 20_000
"""Recorded calls that a scenario gets."""
_DIES_OF: Final = frozenset({"lose_host", "kill_executor"})
"""Faults of the cluster of which an attempt feels only that it is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run of any level, as its report and its history tell it."""

    find: Find
    """Its scenario, seed and system; its invariant and kind are one of `shown`."""
    level: str
    runner: str
    shown: tuple[tuple[str, str], ...]
    """The violations (invariant, kind of anomaly), the most telling first."""
    events: Sequence[Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """The result of carrying a run down."""

    find: Find | None
    """What level sim shows; None: nothing that the run showed."""
    form: str
    """The level and the operator with which the find was shown, in words."""
    tried: int
    left: tuple[str, ...]
    """What could not be carried, a sentence each."""


def carry_down(recorded: Recorded, run: Runs) -> Carried:
    """The first form of the run in which level sim shows one of its violations, and the reference does not."""
    left, tried = list[str](), 0
    forms = list(_forms(recorded, left))
    for words, find in forms:
        tried += 1
        seen = run(find)
        own = [] if seen is None else [shown for shown in recorded.shown if shown in seen.judgement.shown]
        if not own:
            continue
        if not find.is_reference:
            honest = run(find.of_reference)
            of_anybody = () if honest is None else honest.judgement.shown
            own = [shown for shown in own if shown not in of_anybody]
        if own:
            return Carried(find=find.showing(*own[0]), form=words, tried=tried, left=tuple(left))
    if not left:
        left.append(
            "all that a scenario can hold was carried over; the rest, the times of commits, restarts and threads on "
            "that machine, is recorded by no history"
        )
    return Carried(find=None, form="", tried=tried, left=tuple(left))


def _forms(recorded: Recorded, left: list[str]) -> Iterator[tuple[str, Find]]:
    """The scenarios to try, the most faithful first; adds to `left` what none of them holds."""
    find = recorded.find
    data = find.scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for name in ("levels", "shows", "choices", "lookups_from", "pitfall", "expects", "mutant", "tags"):
        if name in data and name in _OF_REAL_SERVERS:
            left.append(_OF_REAL_SERVERS[name])
        data.pop(name, None)
    if recorded.runner != "continuous":
        left.append(
            f"runner {recorded.runner} of Spark: level sim runs the operator in one task for the whole run"
        )
    data["levels"] = ["sim"]
    data["decisive"] = [recorded.shown[0][0]]
    timed = {**data, "faults": list(_faults(recorded, left, by_events=False))}
    evented = {**data, "faults": list(_faults(recorded, [], by_events=True))}
    every = list(calls_of(recorded.events))
    calls = every[:_CALLS_MAX]
    if len(every) > len(calls):
        left.append(
            f"{len(every) - len(calls)} of {len(every)} recorded calls: the first {_CALLS_MAX} are kept"
        )
    table: Data = {"calls": calls} if calls else {}
    orders: tuple[Data, ...] = ({"order": "fifo"}, {})
    made = [
        *((evented, f"faults by event, {len(calls)} recorded calls", {**order, **table}) for order in orders),
        *((evented, "faults by event", order) for order in orders),
        (timed, f"faults as in the file, {len(calls)} recorded calls", table),
        (timed, "faults as in the file", {}),
    ]
    for extra in range(_SEEDS):
        for form, words, choices in made:
            seed = find.seed + extra
            try:
                scenario = Scenario.model_validate({**form, "choices": {"seed": seed, **choices}})
            except ValidationError as error:
                sentence = f"a form of it is no scenario: {error.errors()[0]['msg']}"
                if sentence not in left:
                    left.append(sentence)
                continue
            yield words, find.with_scenario(scenario, seed=seed)


_OF_REAL_SERVERS: Final = {
    "lookups_from": "`lookups_from`: the simulated database has no replica",
    "pitfall": "`pitfall`: a mistake of a real client, which level sim has not",
}


def _faults(recorded: Recorded, left: list[str], *, by_events: bool) -> Iterator[Data]:
    """The faults that level sim has; one of another level becomes the kills that it caused, or is left."""
    for fault in recorded.find.scenario.faults:
        written = fault.model_dump(mode="json", by_alias=True, exclude_none=True)
        if "sim" in FAULTS[fault.do].levels:
            triggers = list(by_event(fault, recorded.events)) if by_events else []
            yield {**written, "when": triggers[0]} if triggers else written
            continue
        kills = list(_kills(fault.id, recorded.events)) if fault.do in _DIES_OF else []
        if kills:
            yield from kills
        else:
            at = ", ".join(FAULTS[fault.do].levels)
            left.append(
                f"fault {fault.id}: `{fault.do}` acts at level {at} only, and no attempt died of it alone"
            )


def _kills(fault: str, events: Sequence[Event]) -> Iterator[Data]:
    """A `kill_worker` for each attempt that `fault` killed, at the last phase that the attempt had reached."""
    hits, last = Counter[tuple[int, str]](), dict[int, PhaseName]()
    number = 0
    for event in events:
        phase = PHASE_SHOWN.get(str(event.__struct_config__.tag))
        if phase is not None and isinstance(event, AttemptEvent):
            hits[event.s, phase] += 1
            last[event.s] = phase
        elif isinstance(event, Kill) and event.by == fault and event.s in last:
            number += 1
            reached = last[event.s]
            when = {"phase": reached, "hit": hits[event.s, reached]}
            yield {"id": f"{fault}-{number}", "do": "kill_worker", "subtask": event.s, "when": when}


def calls_of(events: Sequence[Event]) -> Iterator[Json]:
    """The recorded calls: how long each took, and whether it failed without a fault that would fail it again."""
    made = Counter[int | str]()
    begun: dict[tuple[int, int, int | str, int], tuple[int, int]] = {}
    for event in events:
        match event:
            case Call(s=s, a=a, id=id_, try_=number):
                made[id_] += 1
                begun[s, a, id_, number] = event.t, made[id_]
            case Res(s=s, a=a, id=id_, try_=number) if (s, a, id_, number) in begun:
                at_us, nth = begun.pop((s, a, id_, number))
                took = {
                    "id": id_,
                    "call": nth,
                    "takes": duration_text(max(0, round((event.t - at_us) / 1000))),
                }
                fails = event.r == "fail" and not isinstance(event.by, str)
                yield {**took, "ends": "error"} if fails else took
