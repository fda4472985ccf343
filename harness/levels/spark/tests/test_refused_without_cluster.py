"""What needs a cluster is refused with a sentence where there is none, before anything is started."""

from __future__ import annotations

from typing import Any

import pytest

from harness.levels.spark.level import refuse_of_runner, refuse_without_cluster
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.scenario.order import Order
from harness.system.errors import CannotHere, UsageError

OF_CLUSTERS = ("executor-lost", "driver-lost", "host-lost", "executor-zombie", "speculated")


def order(scenario: str, **given: Any) -> Order:
    return Order(scenario=load(catalogue()[scenario]), level="spark", seed=1, **given)


@pytest.mark.parametrize("name", OF_CLUSTERS)
def test_a_fault_of_a_cluster_is_refused_without_one(name: str) -> None:
    with pytest.raises(CannotHere, match="acts on the processes of a cluster"):
        refuse_without_cluster(order(name))

    refuse_without_cluster(order(name, cluster=2))


def test_a_paused_executor_needs_a_cluster_only_as_a_zombie() -> None:
    refuse_without_cluster(order("executor-paused"))


def test_hosts_of_a_users_own_cluster_are_left_alone() -> None:
    with pytest.raises(CannotHere, match="workers of the harness's own"):
        refuse_without_cluster(order("host-lost", master="spark://127.0.0.1:7077"))

    refuse_without_cluster(order("executor-lost", master="spark://127.0.0.1:7077"))


@pytest.mark.parametrize("runner", ["micro-batch", "stateful"])
def test_batches_are_not_run_on_a_cluster(runner: Any) -> None:
    with pytest.raises(CannotHere, match="does not run on a cluster"):
        refuse_without_cluster(order("nothing-fails", cluster=2, runner=runner))


@pytest.mark.parametrize("runner", ["micro-batch", "stateful"])
def test_the_driver_of_batches_can_be_killed_without_a_cluster_and_an_executor_cannot(runner: Any) -> None:
    refuse_of_runner(order("driver-lost", runner=runner))
    refuse_without_cluster(order("driver-lost", runner=runner))

    with pytest.raises(CannotHere, match="batches run in one driver"):
        refuse_of_runner(order("executor-lost", runner=runner))


@pytest.mark.parametrize("runner", ["micro-batch", "stateful"])
@pytest.mark.parametrize(
    ("mutant", "part"),
    [("commits-blindly", "the sink of a subtask"), ("tools.defects:split_loses_one", "a rescale")],
)
def test_a_defect_of_a_part_that_batches_have_not_is_refused(runner: Any, mutant: str, part: str) -> None:
    with pytest.raises(UsageError, match=f"wrong in {part}"):
        refuse_of_runner(order("nothing-fails", runner=runner, mutant=mutant))

    refuse_of_runner(order("nothing-fails", mutant=mutant))


def test_the_defect_of_a_runner_is_not_refused_with_it() -> None:
    refuse_of_runner(order("kill-after-commit", runner="stateful", mutant="tools.defects:drops_a_seen_batch"))


@pytest.mark.parametrize("master", ["yarn", "spark://", "spark://here:x", "http://127.0.0.1:7077"])
def test_a_master_that_is_none_is_refused(master: str) -> None:
    with pytest.raises(UsageError, match="no address of a Spark master"):
        refuse_without_cluster(order("nothing-fails", master=master))


def test_a_master_elsewhere_could_not_reach_the_database() -> None:
    with pytest.raises(CannotHere, match="on another machine"):
        refuse_without_cluster(order("nothing-fails", master="spark://10.0.0.7:7077"))
