"""Exploration of a job in virtual time: drawn kills, pairs of them, and the shipped scenarios, then at other moments.

Answers to `exploration` for whole jobs. Invariants: what is tried depends on the seed and on the calm twin's messages
alone, however many processes make the runs; a violation counts if the calm twin itself is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import ValidationError

from harness.explore.job_find import JobFind, JobRuns
from harness.explore.smaller import Data
from harness.history.verdict import Outcome
from harness.levels.job.job_scenario import JobScenario
from harness.levels.job.traffic import Message, requests_over
from harness.system.choices import Draw

_RECORDS: Final = (10, 20, 30, 45, 60)
_KILL: Final = 450
_PAIR: Final = 250
"""Chances per thousand: one kill at a message, two; else a shipped scenario with another moment."""
_OF_LOOKUPS: Final = 150
_NOT_DRAWN: Final = ("tags", "shows", "thresholds")
_ABOUT: Final = "Drawn by an exploration of a job."
_ROUND: Final = 6
"""How many are drawn at once."""
_UNMET_MAX: Final = 2
"""A shipped scenario that the job could not meet so often is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What is explored."""

    find: JobFind
    """Job, environment and import path; its scenario is replaced."""
    seed: int
    calm: Sequence[Message]
    """What the calm twin sends, of as many records as a drawn scenario has at most."""
    shelf: Sequence[JobScenario]
    """The scenarios that are changed: the named ones, or the shipped ones that the job can meet."""
    lanes: int = 1


@dataclass(slots=True, kw_only=True)
class JobExplored:
    """What was tried so far. Mutable."""

    runs: int = 0
    verdicts: dict[Outcome, int] = field(default_factory=dict)
    not_made: int = 0
    """Drawn scenarios that the job cannot meet."""

    @property
    def has_passed(self) -> bool:
        return bool(self.verdicts.get(Outcome.PASS))


def base_scenario() -> JobScenario:
    """That of the calm twin whose messages are counted."""
    return JobScenario.model_validate(
        {"job_scenario": "explored", "about": _ABOUT, "engines": ["plain"], "records": max(_RECORDS)}
    )


def explore_job(
    plan: JobPlan, *, run: JobRuns, explored: JobExplored, goes_on: Callable[[], bool]
) -> Iterator[JobFind]:
    """Each violation, in the order of the drawing."""
    draw, number = Draw(plan.seed, "exploration of a job"), 0
    unmet: Counter[str] = Counter()
    with ThreadPoolExecutor(max_workers=plan.lanes) as pool:
        while goes_on():
            shelf = [one for one in plan.shelf if unmet[one.scenario] < _UNMET_MAX] or plan.shelf
            now = replace(plan, shelf=plan.shelf if number < 2 * len(plan.shelf) else shelf)
            drawn = [_drawn(now, draw, number + place) for place in range(_ROUND)]
            number += len(drawn)
            for find, seen in zip(drawn, pool.map(run, drawn), strict=True):
                if seen is None:
                    explored.not_made += 1
                    unmet[find.scenario.scenario] += 1
                    continue
                explored.runs += 1
                outcome = seen.judgement.outcome
                explored.verdicts[outcome] = explored.verdicts.get(outcome, 0) + 1
                for invariant, kind in seen.judgement.violations[:1]:  # the others are of the same run
                    yield find.showing(str(invariant), kind)


def _drawn(plan: JobPlan, draw: Draw, number: int) -> JobFind:
    """The next candidate; every second one is a shipped scenario as it is, until each was tried."""
    as_it_is, is_second = divmod(number, 2)
    while True:
        is_shelved = is_second and as_it_is < len(plan.shelf)
        data = _shelved(plan.shelf[as_it_is]) if is_shelved else _drawn_data(plan, draw)
        try:
            scenario = JobScenario.model_validate(data)
        except ValidationError:
            continue
        return replace(plan.find, scenario=scenario, seed=draw.index(1000), invariant="", kind=f"{number}")


def _drawn_data(plan: JobPlan, draw: Draw) -> Data:
    records = draw.one_of(*_RECORDS)
    base: Data = {"job_scenario": "explored", "about": _ABOUT, "engines": ["plain"], "records": records}
    base["keys"] = draw.one_of(3, 10, 40)
    if draw.chance(_KILL):
        return {**base, "faults": [_kill("kill", _point(plan, draw, records=records))]}
    if draw.chance(1000 * _PAIR // (1000 - _KILL)):
        first = _point(plan, draw, link="sink", records=records)
        behind = 1 + draw.index(1 + draw.index(_count(plan, "sink", records=records)))
        second = {**first, "nth": first["nth"] + behind, "moment": draw.one_of("before", "after")}
        return {**base, "faults": [_kill("kill", first), _kill("again", second)]}
    data = _shelved(plan.shelf[draw.index(len(plan.shelf))])
    data["records"] = records if draw.chance(700) else data.get("records", records)
    for fault in data.get("faults", ()):
        when = fault.get("when", {})
        if "nth" in when:
            when["nth"] = 1 + draw.index(6)
            when["moment"] = draw.one_of("before", "after")
    return data


def _shelved(scenario: JobScenario) -> Data:
    """It keeps its name."""
    data: Data = scenario.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {**{name: data[name] for name in data if name not in _NOT_DRAWN}, "about": _ABOUT}


def _kill(id_: str, when: Data) -> dict[str, Any]:
    return {"id": id_, "do": "kill_at_message", "when": when}


def _point(plan: JobPlan, draw: Draw, *, link: str = "", records: int) -> Data:
    is_of_lookups = draw.chance(_OF_LOOKUPS) and requests_over(plan.calm, "lookups")
    link = link or ("lookups" if is_of_lookups else "sink")
    nth = 1 + draw.index(_count(plan, link, records=records))
    return {link: "message", "nth": nth, "moment": draw.one_of("before", "after")}


def _count(plan: JobPlan, link: str, *, records: int) -> int:
    """About how many messages the job sends over a link for so many records."""
    return max(1, len(requests_over(plan.calm, link)) * records // max(_RECORDS))
