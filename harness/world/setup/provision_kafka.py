"""The step of `floodmark setup --kafka`: a broker's jars, and those with which Spark reads a topic."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from harness.system.clock import monotonic_us
from harness.world.kafka.jars import find_java_for_kafka, install_kafka, kafka_folder
from harness.world.setup.provision import Provision, ProvisionStep, timed_step


def provide_kafka(task: Provision) -> Iterator[ProvisionStep]:
    """Download the pinned jars into the cache, unless they are there."""
    begun_us = monotonic_us()
    find_java_for_kafka(task.settings)
    home = kafka_folder(task.settings.places)
    if task.rebuild:
        shutil.rmtree(home, ignore_errors=True)
    if home.is_dir():
        outcome = f"{home}, already there"
    else:
        outcome = f"jars in {install_kafka(task.settings, scratch=task.ledger.folder, say=task.say)}"
    yield timed_step("Kafka", outcome, begun_us)
