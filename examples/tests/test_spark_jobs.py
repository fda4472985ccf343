"""Structured Streaming and a Spark batch under fire: the wrong ones are convicted, on a cluster too."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from examples.tests.fire import Fire, convicted, outcomes
from harness.scenario.outcome import RunOutcome

pytestmark = [pytest.mark.spark, pytest.mark.real, pytest.mark.timeout(900)]

FEW = ("offer=all", "records=6", "keys=4")
SHORT = [
    Fire(
        job="spark_batch/transaction_per_task.toml",
        scenario="owner-killed-after-commit",
        convicts="V8",
        settings=FEW,
    ),
]
LONG = [
    Fire(job="structured_streaming/job.toml", scenario="killed-after-commit", settings=FEW),
    Fire(
        job="structured_streaming/executors_append.toml",
        scenario="killed-after-commit",
        convicts="V8",
        settings=FEW,
    ),
    Fire(
        job="structured_streaming/two_transactions.toml",
        scenario="killed-after-commit",
        convicts="V8",
        settings=FEW,
    ),
    Fire(
        job="structured_streaming/cluster_append.toml",
        scenario="owner-killed-after-commit",
        convicts="V8",
        settings=FEW,
    ),
    Fire(job="structured_streaming/cluster.toml", scenario="executor-killed", settings=FEW),
    Fire(job="spark_batch/job.toml", scenario="owner-killed-after-commit", settings=FEW),
]


@pytest.mark.parametrize("fire", SHORT, ids=str)
def test_a_batch_with_a_transaction_per_task_is_convicted(
    fire: Fire, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (outcome,) = outcomes([fire], report=tmp_path_factory.mktemp("report")).values()

    assert convicted(outcome) == [fire.convicts]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Fire, RunOutcome]:
    return outcomes(LONG, report=tmp_path_factory.mktemp("report"))


@pytest.mark.soak  # minutes for each: Spark starts three times in a run
@pytest.mark.parametrize("fire", LONG, ids=str)
def test_the_wrong_query_is_convicted_and_its_right_twin_passes(
    fire: Fire, ran: Mapping[Fire, RunOutcome]
) -> None:
    assert convicted(ran[fire]) == ([fire.convicts] if fire.convicts else [])
