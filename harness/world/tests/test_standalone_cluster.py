"""How executors are found on this machine, without Spark."""

from __future__ import annotations

from harness.system.process_identity import this_process
from harness.world.standalone_cluster import driver_port, find_executors, host_of

EXECUTOR = ("java", "-Xmx1g", "org.apache.spark.executor.CoarseGrainedExecutorBackend")
URL = "spark://CoarseGrainedScheduler@localhost:42893"


def test_an_executor_is_known_by_its_drivers_port() -> None:
    assert driver_port([*EXECUTOR, "--driver-url", URL, "--executor-id", "1"]) == 42893
    assert driver_port([*EXECUTOR, "--driver-url"]) is None
    assert driver_port(["java", "org.apache.spark.deploy.worker.Worker", "--driver-url", URL]) is None


def test_a_plain_process_has_no_executors_and_no_host() -> None:
    assert not find_executors([this_process()])
    assert host_of(this_process()) == ""
