"""The sweep: every crash point of a job's cycle, one run each, found by the calm twin's messages to the sink.

Answers to CrashMonkey and ALICE, which crash a program at every write. Invariants: a crash point is a message
of the sink's link and a side of it, `before` the server gets it or `after` its answer and before the client sees that;
points are in the order in which the calm twin passed them; a point is named by what was sent there. What repeats an
earlier message with no effect in between (an idle poll, the next lookup) is no point of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from harness.engine.level import Opening, RunSite
from harness.engine.worlds import Worlds, abilities_needed
from harness.levels.job.job_scenario import JobScenario
from harness.levels.job.level import JobLevel
from harness.levels.job.order import JobOrder
from harness.levels.job.traffic import Message, requests_over
from harness.system.choices import Choices
from harness.system.whole_file import temporary_folder

SWEPT: Final = "killed-at-message"
"""The shipped scenario that each run of a sweep is."""
_FAULT: Final = "kill"
"""The id of its fault."""
Say = Callable[[str], None]
_WHOLE_MAX: Final = 40
"""A calm run with so many messages to the sink is swept as a whole."""
_FIRST: Final = 32
_CYCLES: Final = 4
"""Else the messages up to the end of so many transactions that write, at least `_FIRST`, at most `_MOST`."""
_MOST: Final = 200
_MAKES: Final = frozenset({"create", "alter", "drop", "rename"})
"""They commit by themselves and are no writes."""
_AROUND_RUN_S: Final = 1.5
"""What a run takes besides its starts: a database of its own, the readings, the judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoint:
    """One point at which the job is killed."""

    place: int
    """The number of the message among the requests to the sink, from 1: the place in the strip."""
    nth: int
    """Its number among the requests (`before`) or among the answers (`after`), by which the fault finds it."""
    moment: Literal["before", "after"]
    message: str
    """What was sent: `COMMIT`, `UPDATE offsets`."""

    @property
    def name(self) -> str:
        """The point in words: `12 before COMMIT`."""
        return f"{self.place} {self.moment} {self.message}"


def crash_points(messages: Sequence[Message]) -> list[CrashPoint]:
    """The points of one cycle, or of the whole run if it is short, in order; `messages`: of a run without faults."""
    requests = requests_over(messages, "sink")
    said: dict[str, None] = {}
    """What was sent since the last effect."""
    answers: dict[int, list[Message]] = {}
    for one in messages:
        if one.link == "sink" and one.side == "answer":
            answers.setdefault(one.connection, []).append(one)
    points: list[CrashPoint] = []
    effects = [place for place, one in enumerate(requests, start=1) if _has_effect(one)]
    # A kill after the last message that can have an effect leaves nothing to do.
    window, last = _window(requests), max(effects, default=len(requests) + 1)
    for place, request in enumerate(requests, start=1):
        of_connection = answers.get(request.connection, [])
        answer = of_connection.pop(0) if of_connection and request.command != "quit" else None
        if place > min(window, last):
            break
        if _has_effect(request):
            said.clear()
        elif request.name in said:
            continue
        else:
            said[request.name] = None
        points.append(CrashPoint(place=place, nth=request.n, moment="before", message=request.name))
        if answer is not None and place < last:
            points.append(CrashPoint(place=place, nth=answer.n, moment="after", message=request.name))
    return points


def _has_effect(request: Message) -> bool:
    """Whether the database may be another one after it: a COMMIT of a transaction that only reads changes nothing."""
    return bool(request.writes or (request.commits and request.tables)) or request.statement in _MAKES


def _window(requests: Sequence[Message]) -> int:
    """How many of the first requests are swept."""
    if len(requests) <= _WHOLE_MAX:
        return len(requests)
    cycles, writing = 0, dict[int, bool]()
    for place, request in enumerate(requests, start=1):
        if request.writes:
            writing[request.connection] = True
        if request.commits and writing.pop(request.connection, False):
            cycles += 1
            if cycles == _CYCLES:
                return min(max(place, _FIRST), _MOST)
    return _FIRST


def settings_of(scenario: JobScenario, point: CrashPoint) -> list[str]:
    """What `--set` gives to `killed-at-message`, so that it kills a run of `scenario` at that point."""
    data = scenario.model_dump(mode="json", by_alias=True)
    input_of = [f"{name}={data[name]}" for name in ("records", "keys", "keys_come", "offer", "budget")]
    when = f"faults.{_FAULT}.when"
    return [*input_of, f"{when}.nth={point.nth}", f"{when}.moment={point.moment}"]


def calm_points(
    order: JobOrder,
    *,
    world: str,
    proxy: str,
    offline: bool,
    announce: Say,
    budget_s: float | None = None,
    jobs: int = 1,
) -> list[CrashPoint]:
    """The crash points of the job, from a calm run in a world of its own; as many as fit into the budget.

    Says how many there are, and about how long their runs will take. Raises WorldError if the job does not work.
    """
    with (
        Worlds(world, proxy=proxy, offline=offline, announce=announce) as worlds,
        worlds.lent(abilities_needed(order)) as lent,
        temporary_folder("floodmark-sweep-") as folder,
        JobLevel().open(Opening(folder=folder, announce=announce)) as plays,
    ):
        calm = plays.calm_twin(order, RunSite(run_id="sweep-calm", folder=folder / "run", world=lent))
    points, pace = crash_points(calm.messages), calm.pace
    run_s = (pace.took_us + 2 * pace.first_row_us) / 1e6 + _AROUND_RUN_S
    fit = len(points) if budget_s is None else max(1, int((budget_s - pace.took_us / 1e6) * jobs / run_s))
    chosen = spread(points, fit, seed=order.seed)
    of_all = (
        f" of {len(points)}, spread over the cycle as the budget allows" if len(chosen) < len(points) else ""
    )
    announce(
        f"{len(chosen)} crash points{of_all}; about {len(chosen) * run_s / jobs:.0f} s, {run_s:.1f} s for each run"
    )
    return chosen


def spread(points: Sequence[CrashPoint], count: int, *, seed: int) -> list[CrashPoint]:
    """So many of the points, one drawn from each equal part of them: a fixed distance might be the job's own rhythm."""
    if count >= len(points):
        return list(points)
    choices = Choices(seed, "points of a sweep")
    edges = [number * len(points) // count for number in range(count + 1)]
    return [points[low + choices.index(high - low)] for low, high in pairwise(edges)]
