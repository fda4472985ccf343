"""`kill_executor`: kill one executor of Spark: of a job that of the held message, or one that the seed draws.

Answers to a container that a cluster manager takes away. Evidence: the process was gone after the signal; of a run of
the operator on a cluster also that its tasks were started again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal

import psutil

from harness.faults.model.fault import SparkFault
from harness.faults.model.fields import Subtask
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.job_kill import (
    await_end,
    await_replaced,
    awaited_start,
    drawn_executor,
    job_of,
    kill_evidence,
    kill_processes,
    newest_attempts,
    replaced_evidence,
)
from harness.system.choices import Choices
from harness.system.clock import monotonic_us
from harness.system.errors import WorldError
from harness.system.process_identity import ProcessIdentity, end_process


class KillExecutor(SparkFault):
    """Kills one executor, once."""

    about = (
        "An executor of Spark is killed (SIGKILL): in a job the one whose message is held, else a drawn one; in a run "
        "of the operator on a cluster the one that runs `subtask`, else a drawn one that runs any."
    )
    must_show = (
        "The process was gone after the signal; the message that was held meanwhile is named, or the attempts that "
        "took the places of those that it ran."
    )
    can = ("kill", "start", "failed")
    acts_alone = True

    do: Literal["kill_executor"]
    subtask: Subtask | None = None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """There is nothing to heal: Spark starts another executor."""
        if site.spark is not None:
            self._kill(site)
            yield
            return
        awaited_start(site, fault=self.id)
        executors = job_of(site).executors()
        if not executors:
            message = f"the job has no executor for {self.id} to kill"
            raise WorldError(
                message, fix="run the job on a standalone cluster, or use kill_driver or kill_owner"
            )
        kill_processes(site, [_chosen(site, executors, fault=self.id)], fault=self.id)
        yield

    def _kill(self, site: Site) -> None:
        """Kill an executor, in a run of the operator."""
        executor = drawn_executor(site, fault=self.id, subtask=self.subtask)
        before, at_us = newest_attempts(site, executor.workers), monotonic_us()
        killed = [executor.process] if end_process(executor.process) else []
        workers = list(executor.workers.values())
        await_end(site, killed, at_us=at_us, dependents=workers, host=executor.host)
        await_replaced(site, before)

    def evidence(self, seen: Seen) -> Evidence:
        killed = seen.fact("killed")
        return replaced_evidence(seen) if killed is not None and "host" in killed else kill_evidence(seen)


def _chosen(site: Site, executors: Sequence[ProcessIdentity], *, fault: str) -> ProcessIdentity:
    """The executor that sent the held message itself or by a child of its own; else one drawn."""
    owner = None if site.held is None else job_of(site).owner(site.held.when.link, site.held.peer)
    lineage = [] if owner is None else _lineage(owner.pid)
    at_work = [executor for executor in executors if executor.pid in lineage]
    if at_work:
        return at_work[0]
    return executors[Choices(site.seed, f"executor of fault {fault}").index(len(executors))]


def _lineage(pid: int) -> list[int]:
    """The process and its ancestors."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [pid, *(parent.pid for parent in process.parents())]
    return [pid]
