"""The moments, against a real server and a real job: the wrong variant is convicted at the point that says why."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.engine.level import Opening, RunSite
from harness.history.verdict import Judgement, Outcome
from harness.levels.job.job_file import JobFile
from harness.levels.job.job_scenario import JobScenario
from harness.levels.job.job_scenarios import load_jobs
from harness.levels.job.level import JobLevel, JobPlays
from harness.levels.job.order import JobOrder
from harness.levels.job.processes import JobStarts
from harness.system.errors import CannotHere
from harness.tests.real_world import real_world
from harness.world.world import World

pytestmark = [pytest.mark.real, pytest.mark.long]

JOB = Path(__file__).parent / "jobs" / "asyncio_job.py"
KILL = {"id": "kill", "do": "kill_at_message"}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with real_world("local", proxy="own", needs=JobOrder.needs) as opened:
        yield opened


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobPlays]:
    """Shares the calm twins of the module's jobs."""
    with JobLevel().open(Opening(folder=tmp_path_factory.mktemp("jobs"))) as opened:
        yield opened


class Bench:
    """Runs variants of the job in one world."""

    def __init__(self, plays: JobPlays, world: World, folder: Path) -> None:
        self._plays, self._world, self._folder, self._runs = plays, world, folder, 0

    def judged(self, variant: str, *faults: dict[str, Any], **fields: Any) -> Judgement:
        """The judgement of one run of `variant` with these faults."""
        record = self._plays(self._order(variant, *faults, **fields), self._site())
        return record.judge(record.header, record.events)

    def _site(self) -> RunSite:
        self._runs += 1
        folder = self._folder / f"run-{self._runs}"
        folder.mkdir()
        return RunSite(run_id=folder.name, folder=folder, world=self._world)

    def _order(
        self,
        variant: str,
        *faults: dict[str, Any],
        delivery: str = "exactly-once",
        order: str = "none",
        **fields: Any,
    ) -> JobOrder:
        job = {
            "job": {"command": [sys.executable, str(JOB), variant, "10"], "ends": "exit"},
            "source": {"kind": "file"},
            "sink": {
                "table": "enriched", "id": ["id"], "key": "k", "values": ["name", "city", "tier"], "write": "append"
            },
            "claims": {"delivery": delivery, "order": order},
        }  # fmt: skip
        scenario = JobScenario.model_validate(
            {
                "job_scenario": "moment",
                "about": "A moment of a job.",
                "records": 60,
                "faults": [*faults],
                **fields,
            }
        )
        return JobOrder(
            scenario=scenario,
            job=JobFile.model_validate(job),
            seed=1,
            environment={"PATH": "/usr/bin:/bin"},
        )


@pytest.fixture
def bench(plays: JobPlays, world: World, tmp_path: Path) -> Bench:
    return Bench(plays, world, tmp_path)


def classes(judgement: Judgement) -> set[str]:
    """The classes of what convicts."""
    return {
        anomaly.kind
        for one in judgement.invariants
        if one.outcome is Outcome.FAIL
        for anomaly in one.anomalies
    }


def test_a_late_commit_doubles_a_transaction_that_does_not_compare(bench: Bench) -> None:
    late = {"id": "late", "do": "late_commit", "when": {"sink": "commit", "nth": 3}}

    assert classes(bench.judged("one-transaction", late)) == {"duplicate"}
    assert bench.judged("compare-and-set", late).outcome is Outcome.PASS


def test_a_frozen_start_that_wakes_beside_its_successor_acts_after_it(bench: Bench) -> None:
    frozen = {"id": "frozen", "do": "frozen_start", "when": {"sink": "commit", "nth": 3, "moment": "after"}}

    assert classes(bench.judged("one-transaction", frozen)) >= {"duplicate"}


@pytest.mark.parametrize(
    "scenario", ["killed-before-commit", "killed-after-commit", "killed-while-insert-waits"]
)
def test_a_kill_finds_at_work_what_was_at_work_when_its_message_was_held(bench: Bench, scenario: str) -> None:
    """While the harness looks for the process to kill, the other connection commits nothing."""
    [(_, shipped)] = load_jobs([scenario])
    faults = shipped.model_dump(mode="json", by_alias=True)["faults"]

    newest, lowest = (
        bench.judged(variant, *faults, delivery="at-least-once")
        for variant in ("newest-saved", "lowest-saved")
    )

    assert classes(newest) == {"lost"}
    assert lowest.outcome is Outcome.PASS, lowest


@pytest.mark.parametrize(
    ("variant", "found"), [("as-they-arrive", {"key-reordered"}), ("in-order", set[str]())]
)
def test_a_held_answer_of_a_lookup_is_overtaken_by_a_later_one_of_its_key(
    bench: Bench, variant: str, found: set[str]
) -> None:
    [(_, shipped)] = load_jobs(["answers-held"])
    told = shipped.model_dump(mode="json", by_alias=True)
    setting = {"records": 200, "keys": 3, **{name: told[name] for name in ("keys_come", "offer")}}

    judgement = bench.judged(variant, *told["faults"], order="key", **setting)

    assert classes(judgement) == found, judgement
    assert judgement.outcome is (Outcome.FAIL if found else Outcome.PASS), judgement


def test_a_fault_that_fails_by_itself_convicts_nobody(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that sent the held message is not found."""
    monkeypatch.setattr(JobStarts, "owner", lambda self, link, port: None)
    fault = {"id": "kill", "do": "kill_owner", "when": {"sink": "commit", "nth": 3}}

    judgement = bench.judged("compare-and-set", fault)

    assert judgement.outcome is Outcome.UNKNOWN
    assert classes(judgement) == set()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"sink": "write", "nth": 2}, {"sink": "write", "nth": 2}),
        ({"sink": "commit", "nth": 2}, {"sink": "commit", "nth": 2, "moment": "after"}),
        ({"sink": "commit", "nth": 2, "moment": "after"}, {"sink": "commit", "nth": 2, "moment": "after"}),
    ],
    ids=["write", "before-and-after", "after"],
)
def test_two_faults_at_one_moment_both_take_effect(
    bench: Bench, first: dict[str, Any], second: dict[str, Any]
) -> None:
    slow = {"do": "latency", "delay": "5ms", "for": "2s"}
    faults = (
        {"id": "a", "link": "lookups", "when": first, **slow},
        {"id": "b", "link": "sink", "when": second, **slow},
    )

    judgement = bench.judged("compare-and-set", *faults)

    (evidence,) = (one for one in judgement.invariants if one.invariant == "V23")
    assert (evidence.outcome, evidence.observed) == (Outcome.PASS, 2)


def test_a_moment_that_the_job_never_reaches_is_refused_before_the_run(bench: Bench) -> None:
    fault = {**KILL, "when": {"sink": "message", "nth": 10_000}}

    with pytest.raises(CannotHere, match="waits for message 10000"):
        bench.judged("compare-and-set", fault)
