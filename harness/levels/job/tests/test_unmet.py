"""What a job cannot meet is known by its file or by its calm twin, and told with the need that it lacks."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest

from harness.levels.job.job_file import JobFile
from harness.levels.job.job_run import CalmRun
from harness.levels.job.job_scenario import JobScenario
from harness.levels.job.job_scenarios import load_jobs
from harness.levels.job.level import JobLevel
from harness.levels.job.order import JobOrder
from harness.levels.job.records import read_input
from harness.levels.job.traffic import Message
from harness.levels.job.unmet import refuse_unmet, refuse_unmet_by_calm
from harness.scenario.outcome import LeftOut, left_out_line
from harness.system.errors import CannotHere

SHIPPED = {path.stem: scenario for path, scenario in load_jobs(["all"])}


def job(**fields: Any) -> JobFile:
    whole: dict[str, dict[str, Any]] = {"job": {"command": ["true"]}, "source": {"kind": "folder"}}
    return JobFile.model_validate(
        {name: {**whole.get(name, {}), **more} for name, more in fields.items()}
        | {name: part for name, part in whole.items() if name not in fields}
    )


def order(name: str, of: JobFile, **fields: Any) -> JobOrder:
    return JobOrder(scenario=SHIPPED[name], job=of, seed=7, environment={"PATH": "/bin:/usr/bin"}, **fields)


def needs_of_file(of: JobFile) -> dict[str, str]:
    """The shipped scenarios that the job's file shows to be unmet, with what they need."""
    found = {}
    for name, scenario in SHIPPED.items():
        try:
            refuse_unmet(of, scenario, read_input(of, scenario, seed=7))
        except CannotHere as lacking:
            found[name] = lacking.need
    return found


GAPS = {"gaps-fill-late": "a source with gaps"}
PLAIN = job(job={"engine": "plain"})
SPARK = job(job={"engine": "spark"}, source={"kind": "kafka"})


@pytest.mark.parametrize(
    ("of", "needs"),
    [
        (
            PLAIN,
            {"broker-killed": "Kafka", "executor-killed": "Spark", "killed-in-spark-gap": "Spark", **GAPS},
        ),
        (SPARK, {"killed-at-message": "a plain job", "killed-twice": "a plain job", **GAPS}),
        (job(), {"broker-killed": "Kafka", **GAPS}),
        (
            job(source={"kind": "table", "gaps": True}),
            {
                "broker-killed": "Kafka",
                "server-fails-over": "a source outside the database",
                "server-splits": "a source outside the database",
            },
        ),
    ],
    ids=["plain", "spark-and-kafka", "auto", "table"],
)
def test_the_file_of_a_job_shows_which_scenarios_it_cannot_meet(of: JobFile, needs: dict[str, str]) -> None:
    assert needs_of_file(of) == needs


def test_a_record_that_the_source_never_offers_is_not_waited_for() -> None:
    scenario = SHIPPED["server-fails-over"]

    with pytest.raises(CannotHere, match="waits for record 60, and there are 59") as lacking:
        refuse_unmet(PLAIN, scenario, read_input(PLAIN, scenario.model_copy(update={"records": 59}), seed=7))

    assert lacking.value.need == "60 records"


def test_a_named_scenario_that_is_not_for_the_job_is_refused_before_anything_starts() -> None:
    with pytest.raises(CannotHere, match="needs Spark, and this job is a plain one"):
        JobLevel().refuse(order("executor-killed", PLAIN))
    JobLevel().refuse(order("executor-killed", PLAIN, named=False))
    JobLevel().refuse(order("executor-killed", PLAIN, calm_only=True))


def message(link: str, statement: str, n: int = 1, table: str = "enriched", connection: int = 1) -> Message:
    return Message(
        t_us=n, link=link, side="request", n=n, connection=connection, peer=1, command="query", statement=statement,
        table=table, tables=("enriched",), writes=statement == "insert",
        commits=statement == "commit",
    )  # fmt: skip


def calm(
    *,
    lookups: int = 20,
    driver: bool = False,
    executors: bool = False,
    batches: int = 0,
    place: Literal["files", "tables", "rows", "none"] = "tables",
) -> CalmRun:
    """A calm twin with nine writes and nine COMMITs; `place`: where its position is."""
    sent = [message("sink", statement, n) for n in range(9) for statement in ("insert", "commit")]
    return cast(
        "CalmRun",
        SimpleNamespace(
            messages=[
                *([message("sink", "select")] if place == "rows" else []),
                *sent,
                *(message("lookups", "select", n, "customer", connection=n % 2) for n in range(lookups)),
            ],
            batches=batches,
            keeps_files=place == "files",
            keeps_tables=place == "tables",
            names_table=True,
            run=SimpleNamespace(has_driver=driver, has_executors=executors),
        ),
    )


def needs_of_calm(of: JobFile, twin: CalmRun) -> dict[str, str]:
    found = {}
    for name in SHIPPED:
        try:
            refuse_unmet_by_calm(order(name, of, named=False), twin)
        except CannotHere as lacking:
            found[name] = lacking.need
    return found


ONE_LINK = "lookups over their own link"


@pytest.mark.parametrize(
    ("of", "twin", "needs"),
    [
        (job(), calm(), {"executor-killed": "Spark", "killed-in-spark-gap": "Spark"}),
        (
            job(),
            calm(driver=True, batches=2),
            {
                "killed-at-message": "a plain job",
                "killed-twice": "a plain job",
                "executor-killed": "executors",
            },
        ),
        (SPARK, calm(executors=True, batches=1), {"killed-in-spark-gap": "a checkpoint of 2 batches"}),
        (
            SPARK,
            calm(executors=True, batches=2, place="files"),
            {
                "server-fails-over": "the position in the sink's database",
                "server-splits": "the position in the sink's database",
            },
        ),
        (
            job(),
            calm(place="none", lookups=19),
            {
                "executor-killed": "Spark",
                "killed-in-spark-gap": "Spark",
                "lookups-cut": "20 messages to the lookups",
                "server-fails-over": "the position in the sink's database",
                "server-splits": "the position in the sink's database",
            },
        ),
        (job(), calm(place="rows"), {"executor-killed": "Spark", "killed-in-spark-gap": "Spark"}),
        (
            PLAIN,
            calm(lookups=0),
            {
                "answers-held": ONE_LINK,
                "executor-killed": "executors",
                "killed-in-spark-gap": "a checkpoint of 2 batches",
                "lookups-cut": ONE_LINK,
                "lookups-on-lagging-replica": ONE_LINK,
                "slow-network": ONE_LINK,
            },
        ),
    ],
    ids=[
        "plain",
        "local-spark",
        "batch-on-a-cluster",
        "position-in-files",
        "no-position",
        "position-in-its-rows",
        "one-link",
    ],
)
def test_the_calm_twin_shows_which_further_scenarios_a_job_cannot_meet(
    of: JobFile, twin: CalmRun, needs: dict[str, str]
) -> None:
    assert needs_of_calm(of, twin) == needs


@pytest.mark.parametrize(
    ("connections", "is_met"),
    [([1] * 9, False), ([1, 1, 2, 2, 3, 3], False), ([1, 1, 2, 2, 1], True), ([1, 2, 1, 2], True)],
    ids=["one", "one-after-the-other", "two-that-rarely-work", "two"],
)
def test_a_job_with_one_connection_for_lookups_has_none_that_overtakes_another(
    connections: list[int], *, is_met: bool
) -> None:
    lookups = [
        message("lookups", "select", n, "customer", connection) for n, connection in enumerate(connections)
    ]
    twin = cast(
        "CalmRun",
        SimpleNamespace(**{**vars(calm(lookups=0)), "messages": [*calm(lookups=0).messages, *lookups]}),
    )

    with (
        nullcontext() if is_met else pytest.raises(CannotHere, match="never has two connections for lookups")
    ):
        refuse_unmet_by_calm(order("answers-held", PLAIN), twin)


def test_a_moment_that_is_missed_by_little_is_waited_for_only_if_its_scenario_was_named() -> None:
    scenario: JobScenario = SHIPPED["killed-after-commit"]
    far = scenario.model_validate(
        {
            "job_scenario": "far",
            "about": "A moment that is missed by one.",
            "faults": [
                {"id": "kill", "do": "kill_driver", "when": {"sink": "commit", "nth": 10, "moment": "after"}}
            ],
        }
    )
    of_many = JobOrder(scenario=far, job=job(), seed=7, named=False)

    with pytest.raises(CannotHere, match="waits for commit 10") as lacking:
        refuse_unmet_by_calm(of_many, calm())
    refuse_unmet_by_calm(JobOrder(scenario=far, job=job(), seed=7), calm())

    assert lacking.value.need == "10 COMMITs to the sink"


def test_what_was_left_out_is_counted_by_need_in_one_line() -> None:
    left_out = [LeftOut(scenario="x", need=need, why="") for need in ("Spark", "Kafka", "Spark")]

    assert left_out_line(left_out) == "3 left out: 2 need Spark, 1 needs Kafka"
    assert left_out_line([]) == ""
