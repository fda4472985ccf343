"""The catalogue of job scenarios is sound and covers what it must; what no job can do is refused with a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from harness.faults.registry import FAULTS
from harness.levels.job.job_scenario import JobScenario
from harness.levels.job.job_scenarios import job_catalogue, load_jobs
from harness.levels.job.sweep import SWEPT
from harness.scenario.catalogue import catalogue

SHIPPED = {path.stem: scenario for path, scenario in load_jobs(["all"])}
TAGS = {
    "calm", "cluster", "database", "gate", "kafka", "kill", "late", "moment", "network", "order", "plain", "random",
    "spark", "sweep",
}  # fmt: skip


def test_a_shipped_job_scenario_is_named_like_its_file_and_like_no_other() -> None:
    assert [name for name, scenario in SHIPPED.items() if scenario.scenario != name] == []
    assert not set(SHIPPED) & set(catalogue())
    assert set(SHIPPED) == set(job_catalogue())


def test_every_fault_of_jobs_has_a_scenario() -> None:
    used = {fault.do for scenario in SHIPPED.values() for fault in scenario.faults}

    assert {name for name, kind in FAULTS.items() if kind.by == "job"} <= used


def test_the_tags_of_a_scenario_say_for_which_engines_it_is() -> None:
    for name, scenario in SHIPPED.items():
        assert set(scenario.tags) <= TAGS, name
        assert {"plain", "spark"} & set(scenario.tags) == set(scenario.engines), name


def test_a_few_plain_scenarios_make_the_gate() -> None:
    gate = [name for name, scenario in SHIPPED.items() if "gate" in scenario.tags]

    assert sorted(gate) == ["calm-job", "commit-reply-lost", "killed-after-commit", "late-commit"]


def test_the_swept_scenario_has_the_one_fault_whose_moment_a_sweep_sets() -> None:
    (fault,) = SHIPPED[SWEPT].faults

    assert (fault.id, fault.do) == ("kill", "kill_at_message")


def scenario(*faults: dict[str, Any], **fields: Any) -> JobScenario:
    told = {"job_scenario": "some", "about": "A scenario for tests.", "faults": [*faults], **fields}
    return JobScenario.model_validate(told)


AT = {"at": "1s"}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            {"do": "kill_worker", "subtask": 0, "when": {"phase": "emit"}},
            "acts inside Floodmark's own operator",
        ),
        ({"do": "loop_stall", "subtask": 0, "for": "1s", "when": AT}, "acts inside Floodmark's own operator"),
        ({"do": "deadlocks", "for": "1s", "when": AT}, "tables of Floodmark's own sink"),
        (
            {"do": "refuse_connects", "link": "sink", "for": "1s", "when": AT},
            "leaves no trace outside the job",
        ),
        ({"do": "cut", "link": "sink", "when": {"call": 3}}, "a `call` happens inside an operator"),
        (
            {"do": "cut", "link": "sink", "when": {"checkpoint": 3}},
            "a `checkpoint` happens inside an operator",
        ),
        ({"do": "kill_executor", "when": AT}, "`kill_executor` is of Spark jobs only"),
        ({"do": "kill_driver", "when": {"spark": "gap"}}, "a `spark` moment is of Spark jobs only"),
        ({"do": "kill_owner", "when": AT}, "cannot begin at a `at`"),
    ],
)
def test_what_a_job_cannot_have_is_refused_with_a_sentence(fault: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        scenario({"id": "f", **fault})


def test_two_faults_of_one_name_are_refused() -> None:
    cut = {"id": "f", "do": "cut", "link": "sink", "when": AT}

    with pytest.raises(ValidationError, match="are both called `f`"):
        scenario(cut, cut)


def test_a_second_kill_at_a_moment_is_refused_and_another_fault_is_not() -> None:
    def at_commit(name: str, do: str, **fields: Any) -> dict[str, Any]:
        return {"id": name, "do": do, "when": {"sink": "commit", "nth": 2}, **fields}

    kill, slow = at_commit("a", "kill_driver"), at_commit("b", "latency", link="sink", delay="5ms")
    slow["for"] = "1s"

    assert len(scenario(kill, slow).faults) == 2
    with pytest.raises(ValidationError, match="at the moment of `a`, which leaves it nothing to act on"):
        scenario(kill, at_commit("b", "kill_owner"))


def test_a_spark_scenario_may_wait_for_a_gap() -> None:
    fault = {"id": "f", "do": "kill_executor", "when": {"spark": "gap", "batch": 2}}

    assert scenario(fault, engines=["spark"]).faults[0].do == "kill_executor"
