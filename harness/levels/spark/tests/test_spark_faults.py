"""A Python worker of Spark dies in each way, stands still, goes wrong inside; the JVM stands still: a run shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.history.verdict import Outcome
from harness.levels.live.tests.faulty_scenario import faulty, what_bit
from harness.levels.live.tests.outside_kill import AT_WORK, killed_from_outside
from harness.scenario.file import apply_settings, load_many
from harness.scenario.model import Scenario
from harness.scenario.outcome import RunOutcome
from harness.tests.real_world import real_world
from harness.tests.whole_run import told, whole_run
from harness.world.world import World

if TYPE_CHECKING:
    from harness.levels.spark.job import SparkRunner

pytestmark = pytest.mark.spark

Performed = Callable[..., RunOutcome]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A local world for all runs of this module, one after the other."""
    with real_world("local") as opened:
        yield opened


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRunner]:
    """Runs of this module, all in one Spark session."""
    from harness.levels.spark.job import SparkRunner  # noqa: PLC0415 - pyspark, only where it is wanted
    from harness.levels.spark.session import ended_workers, spark_session  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("spark")
    with spark_session(slots=2, folder=folder) as session:
        yield SparkRunner(session, ended=ended_workers(folder))


@pytest.fixture
def performed(world: World, runner: SparkRunner, tmp_path: Path) -> Performed:
    """Runs a scenario in the shared world and session."""

    def run(scenario: Scenario, **order: Any) -> RunOutcome:
        return whole_run(scenario, world=world, within=tmp_path, level="spark", performer=runner, **order)

    return run


def one(do: str, when: dict[str, Any], **fields: Any) -> Scenario:
    fault = {"id": "fault", "do": do, "when": when, **fields}
    levels = ["spark"] if do == "pause_executor" else ["sim", "live", "spark"]
    return faulty(fault, levels=levels, decisive=["V8", "V9"])


@pytest.mark.parametrize(
    ("phase", "how"),
    [
        ("emit", "sigkill"),
        ("emit", "sigsegv"),
        ("emit", "exit"),
        ("emit", "exception"),
        ("commit.pre", "exception"),
        ("commit.post", "exit"),
    ],
)
def test_a_worker_that_dies_is_replaced_and_no_record_is_lost(
    performed: Performed, phase: str, how: str
) -> None:
    outcome = performed(one("kill_worker", {"phase": phase, "hit": 3}, subtask=1, how=how))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert what_bit(outcome).evidence["how"] == how
    assert outcome.accounting["doubled"] == outcome.accounting["missing"] == 0


@pytest.mark.parametrize("when", [{"at": "200ms"}, {"phase": "snap.mid", "hit": 2}], ids=str)
def test_a_worker_that_is_stopped_is_silent_and_goes_on(performed: Performed, when: dict[str, Any]) -> None:
    outcome = performed(one("pause_worker", when, subtask=1, **{"for": "400ms"}))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert what_bit(outcome).evidence["silent_ms"] >= 400


def test_the_executor_that_is_stopped_uses_no_processor_time_and_goes_on(performed: Performed) -> None:
    outcome = performed(one("pause_executor", {"at": "100ms"}, **{"for": "400ms"}))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert what_bit(outcome).evidence["stopped_ms"] >= 400


def test_a_loop_that_stalls_is_measured_inside_spark_too(performed: Performed) -> None:
    outcome = performed(one("loop_stall", {"record": 80}, subtask=1, **{"for": "200ms"}))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert what_bit(outcome).evidence["loop_lag_ms"] >= 200


def test_a_function_that_raises_by_itself_is_convicted_in_calm_trust2(performed: Performed) -> None:
    calm = apply_settings(load_many(["calm"])[0], ("workload.records=200", "expects={}"))

    outcome = performed(calm, mutant="tools.defects:raises_now_and_then")

    (explained,) = (one for one in outcome.judgement.invariants if one.invariant == "V24")
    assert {anomaly.kind for anomaly in explained.anomalies} == {"unexplained-failure"}, told(outcome)


def test_a_kill_that_nobody_planned_is_a_threat_and_judged_as_a_kill_trust2(
    performed: Performed, tmp_path: Path
) -> None:
    with killed_from_outside(tmp_path, subtask=1, after=80):
        outcome = performed(faulty(levels=["spark"], workload=AT_WORK, decisive=["V8", "V24"]))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    (threat,) = outcome.threats
    assert "attempt 1 of subtask 1 was killed by SIGKILL from outside" in threat
