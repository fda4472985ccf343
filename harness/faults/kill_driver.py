"""`kill_driver`: kill the main process of a user's job (Spark's driver) by SIGKILL, and not its children.

Answers to a driver that the kernel's OOM killer ends. Evidence: the process was gone after the signal; of a run of the
operator on a cluster or in batches also that a new driver's attempts have taken over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from harness.faults.model.fault import SparkFault
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.job_kill import (
    await_end,
    await_replaced,
    awaited_start,
    kill_evidence,
    kill_processes,
    newest_attempts,
    replaced_evidence,
    spark_of,
)
from harness.system.clock import Deadline, monotonic_us, wait_until
from harness.system.errors import WorldError
from harness.system.process_identity import end_process

_DRIVER_S = 60.0
"""How long the fault waits for a driver that lives."""


class KillDriver(SparkFault):
    """Kills the job's main process, or the driver of a run on a cluster or in batches, once."""

    about = (
        "The job's main process (Spark's driver) is killed (SIGKILL); its children are left to themselves. A run of "
        "the operator on a cluster, or in batches, goes on in a new driver, from what is stored."
    )
    must_show = (
        "The process was gone after the signal; the message that was held meanwhile is named, or the attempts of the "
        "new driver that took over."
    )
    can = ("kill", "start", "failed")
    acts_alone = True

    do: Literal["kill_driver"]

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """There is nothing to heal: the driver is started again after every exit."""
        if site.spark is None:
            while not kill_processes(site, [awaited_start(site, fault=self.id).main], fault=self.id):
                pass  # another fault killed that start in between: its successor is awaited
        else:
            self._kill(site)
        yield

    def _kill(self, site: Site) -> None:
        """Kill the driver's Python process, in a run of the operator; its JVM and executors then end by themselves."""
        spark = spark_of(site)
        wait_until(lambda: spark.live_driver() is not None, deadline=Deadline(_DRIVER_S))
        driver = spark.live_driver()
        if driver is None:
            raise WorldError(f"no driver lived when {self.id} was to act", fix="let the fault begin earlier")
        workers = [who for executor in spark.executors() for who in executor.workers.values()]
        before, at_us = newest_attempts(site, {s for s, _ in spark.progress().attempts}), monotonic_us()
        main, *others = driver.processes
        killed = [main] if end_process(main) else []
        await_end(site, killed, at_us=at_us, dependents=[*others, *workers], driver=driver.number)
        await_replaced(site, before)

    def evidence(self, seen: Seen) -> Evidence:
        killed = seen.fact("killed")
        return replaced_evidence(seen) if killed is not None and "driver" in killed else kill_evidence(seen)
