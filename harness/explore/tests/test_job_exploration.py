"""What an exploration of a job tries depends on the seed alone, and each shipped scenario is among it."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

from harness.explore.job_exploration import JobExplored, JobPlan, base_scenario, explore_job
from harness.explore.job_find import JobFind, SeenJob
from harness.history.verdict import Outcome
from harness.levels.job.job_scenarios import load_jobs
from harness.levels.job.order import job_named
from harness.levels.job.traffic import Message
from harness.tests.tidy import ROOT

SHELF = [scenario for _, scenario in load_jobs(["all"]) if scenario.faults]
CALM = [
    Message(
        t_us=n,
        link=link,
        side="request",
        n=n,
        connection=1,
        peer=1,
        command="query",
        statement="insert",
        table="",
    )
    for link in ("sink", "lookups")
    for n in range(1, 61)
]


PASSED: Any = SimpleNamespace(judgement=SimpleNamespace(outcome=Outcome.PASS, violations=()))


def tried(*, seed: int, lanes: int, runs: int = 90, unmet: str = "") -> list[JobFind]:
    """What it draws; no run of the scenario `unmet` can be made."""
    job, named = job_named(ROOT / "examples" / "asyncio_consumer" / "job.toml")
    find = JobFind(
        scenario=base_scenario(), job=job, named=named, seed=seed, invariant="", kind="", environment={}
    )
    drawn: list[JobFind] = []

    def run(one: JobFind) -> SeenJob | None:
        drawn.append(one)
        return None if one.scenario.scenario == unmet else PASSED

    plan = JobPlan(find=find, seed=seed, calm=CALM, shelf=SHELF, lanes=lanes)
    ticks = count()
    list(explore_job(plan, run=run, explored=JobExplored(), goes_on=lambda: 6 * next(ticks) < runs))
    return sorted(drawn, key=lambda one: int(one.kind))


def test_what_is_tried_depends_on_the_seed_and_not_on_how_many_make_the_runs() -> None:
    alone, many, other = tried(seed=1, lanes=1), tried(seed=1, lanes=4), tried(seed=2, lanes=1)

    assert alone == many
    assert alone != other


def test_each_scenario_of_the_shelf_is_tried_as_it_is_and_one_that_cannot_be_made_is_left_out_then() -> None:
    unmet = SHELF[0].scenario

    names = [one.scenario.scenario for one in tried(seed=1, lanes=2, runs=600, unmet=unmet)]

    assert names[1 : 2 * len(SHELF) : 2] == [one.scenario for one in SHELF]
    assert names.count(unmet) == 2 < max(names.count(one.scenario) for one in SHELF[1:])


def test_a_drawn_kill_is_at_a_message_that_so_many_records_make() -> None:
    kills = [one for one in tried(seed=3, lanes=2) if one.scenario.scenario == "explored"]

    assert len(kills) > 20
    for one in kills:
        when: Any = one.scenario.faults[0].when
        assert when.nth <= one.scenario.records  # 60 messages for 60 records
