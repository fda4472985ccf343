"""`lose_host`: a host of the cluster is lost with its worker and its executors, all at once; it is back when it heals.

Answers to a machine that loses its power. Evidence: worker and executors were gone after the signal, and the tasks that
they ran were started on another host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from harness.faults.model.fault import OutsideFault
from harness.faults.model.fields import Subtask, UntilEffective
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.job_kill import (
    await_end,
    await_replaced,
    drawn_executor,
    newest_attempts,
    replaced_evidence,
    spark_of,
)
from harness.system.clock import monotonic_us


class LoseHost(OutsideFault):
    """Kills the worker and the executors of the address that runs `subtask`, or of a drawn one that runs any."""

    about = (
        "A host of the cluster is lost: its worker and its executors are killed (SIGKILL) at once, those of the "
        "address that runs `subtask`, or of a drawn one; its worker is started again when the fault heals."
    )
    must_show = (
        "Worker and executors were gone after the signal, and their tasks were started again elsewhere."
    )
    by = "process"
    levels = ("spark",)
    abilities = ("cluster",)
    can = ("kill", "start", "failed")

    do: Literal["lose_host"]
    subtask: Subtask | None = None
    lasts: UntilEffective = None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The block begins when the tasks run elsewhere."""
        executor = drawn_executor(site, fault=self.id, subtask=self.subtask)
        spark = spark_of(site)
        gone = [one for one in spark.executors() if one.host == executor.host]
        workers = {subtask: who for one in gone for subtask, who in one.workers.items()}
        before, at_us = newest_attempts(site, workers), monotonic_us()
        with spark.lost_host(executor.host) as killed:
            await_end(site, killed, at_us=at_us, dependents=list(workers.values()), host=executor.host)
            await_replaced(site, before)
            yield

    def evidence(self, seen: Seen) -> Evidence:
        return replaced_evidence(seen)
