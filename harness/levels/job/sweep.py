"""The sweep: every crash point of a job's cycle, one run each, found by the calm twin's messages.

Answers to CrashMonkey and ALICE, which crash a program at every write. Invariants: a crash point is a message of a
link and a side of it, `before` the server gets it or `after` its answer and before the client sees that; points are in
the order in which the calm twin passed them; a point is named by what was sent there. In virtual time each message of
both links has its points. Else those of the sink's link have, but not what repeats an earlier message with no effect in
between (an idle poll, the next lookup).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Literal

from harness.engine.level import Opening, RunSite
from harness.engine.worlds import Worlds, abilities_needed
from harness.levels import level_named
from harness.levels.job.job_scenario import JobScenario
from harness.levels.job.order import JobOrder
from harness.levels.job.traffic import Message, requests_over
from harness.system.choices import Choices
from harness.system.whole_file import temporary_folder

SWEPT: Final = "killed-at-message"
"""The shipped scenario that each run of a sweep is."""
SWEPT_TWICE: Final = "killed-twice"
"""The one of a sweep with two kills."""
_FAULT: Final = "kill"
"""The id of its fault, and of the first of two."""
_SECOND: Final = "again"
_PAIRS_MOST: Final = 300
"""So many pairs are tried if no budget says less."""
Say = Callable[[str], None]
_WHOLE_MAX: Final = 40
"""A calm run with so many messages to the sink is swept as a whole."""
_FIRST: Final = 32
_CYCLES: Final = 4
"""Else the messages up to the end of so many transactions that write, at least `_FIRST`, at most `_MOST`."""
_MOST: Final = 200
_MAKES: Final = frozenset({"create", "alter", "drop", "rename"})
"""They commit by themselves and are no writes."""
_VIRTUAL_RUN_S: Final = 0.4
_AROUND_RUN_S: Final = 1.5
"""What a run takes besides its starts: a database of its own, the readings, the judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoint:
    """One point at which the job is killed."""

    place: int
    """The number of the message among the requests of its link, from 1: the place in the strip."""
    nth: int
    """Its number among the requests (`before`) or among the answers (`after`), by which the fault finds it."""
    moment: Literal["before", "after"]
    message: str
    """What was sent: `COMMIT`, `UPDATE offsets`."""
    link: str = "sink"

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


def every_point(messages: Sequence[Message]) -> list[CrashPoint]:
    """Before and after each message of both links, in order: what takes no time may all be tried."""
    answers: dict[tuple[str, int], list[Message]] = {}
    for one in messages:
        if one.side == "answer":
            answers.setdefault((one.link, one.connection), []).append(one)
    points = []
    for one in messages:
        if one.side == "answer":
            continue
        place = CrashPoint(place=one.n, nth=one.n, moment="before", message=one.name, link=one.link)
        points.append(place)
        of_connection = answers.get((one.link, one.connection), [])
        if one.command != "quit" and of_connection:
            points.append(replace(place, nth=of_connection.pop(0).n, moment="after"))
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
    if point.link != "sink":
        told = f"{{{point.link}: message, nth: {point.nth}, moment: {point.moment}}}"
        return [*input_of, f"{when}={told}"]
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
    pairs: bool = False,
) -> list[tuple[CrashPoint, ...]]:
    """The crash points of the job, from a calm run in a world of its own, or pairs; as many as fit into the budget.

    Says how many there are, and about how long their runs will take. Raises WorldError if the job does not work.
    """
    level = level_named(order.level)
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder("floodmark-sweep-"))
        lent = None
        if level.needs_world:
            worlds = stack.enter_context(Worlds(world, proxy=proxy, offline=offline, announce=announce))
            lent = stack.enter_context(worlds.lent(abilities_needed(order)))
        opening = Opening(folder=folder, announce=announce, world=world)
        plays: Any = stack.enter_context(level.open(opening))
        calm = plays.calm_twin(order, RunSite(run_id="sweep-calm", folder=folder / "run", world=lent))
    pace = calm.pace
    if not level.needs_world:
        points, run_s = every_point(calm.messages), _VIRTUAL_RUN_S
    else:
        points = crash_points(calm.messages)
        run_s = (pace.took_us + 2 * pace.first_row_us) / 1e6 + _AROUND_RUN_S
    fit = len(points) if budget_s is None else max(1, int((budget_s - pace.took_us / 1e6) * jobs / run_s))
    chosen: list[tuple[CrashPoint, ...]]
    if pairs:
        count = _PAIRS_MOST if budget_s is None else fit
        chosen = list(pairs_of(points, count, seed=order.seed))
        what = "pairs of crash points, drawn"
    else:
        chosen = [(point,) for point in spread(points, fit, seed=order.seed)]
        is_part = len(chosen) < len(points)
        of_all = f" of {len(points)}, spread over the cycle as the budget allows" if is_part else ""
        what = f"crash points{of_all}"
    announce(f"{len(chosen)} {what}; about {len(chosen) * run_s / jobs:.0f} s, {run_s:.1f} s for each run")
    return chosen


def pairs_of(points: Sequence[CrashPoint], count: int, *, seed: int) -> list[tuple[CrashPoint, CrashPoint]]:
    """Drawn pairs: where the job is killed, and where the start after that is.

    Its messages are counted on, so the second point is behind the first; near ones are drawn more often, for a start
    makes good first of all what the one before it has left.
    """
    choices, found = Choices(seed, "pairs of a sweep"), dict[tuple[CrashPoint, CrashPoint], None]()
    of_sink = [point for point in points if point.link == "sink"]
    most = max((point.place for point in of_sink), default=0)
    for _ in range(10 * count):
        if len(found) == count or not of_sink:
            break
        first = of_sink[choices.index(len(of_sink))]
        behind = 1 + choices.index(1 + choices.index(most))
        moment: Literal["before", "after"] = "before" if choices.index(2) else "after"
        second = replace(first, place=first.place + behind, nth=first.nth + behind, moment=moment, message="")
        found[first, second] = None
    return list(found)


def settings_of_pair(scenario: JobScenario, pair: tuple[CrashPoint, CrashPoint]) -> list[str]:
    """As `settings_of`, for `killed-twice`."""
    first, second = pair
    when = f"faults.{_SECOND}.when"
    return [*settings_of(scenario, first), f"{when}.nth={second.nth}", f"{when}.moment={second.moment}"]


def spread(points: Sequence[CrashPoint], count: int, *, seed: int) -> list[CrashPoint]:
    """So many of the points, one drawn from each equal part of them: a fixed distance might be the job's own rhythm."""
    if count >= len(points):
        return list(points)
    choices = Choices(seed, "points of a sweep")
    edges = [number * len(points) // count for number in range(count + 1)]
    return [points[low + choices.index(high - low)] for low, high in pairwise(edges)]
