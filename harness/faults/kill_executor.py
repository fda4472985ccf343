"""`kill_executor`: kill one executor of a Spark job: that of the held message, or one that the seed draws.

Answers to a container that a cluster manager takes away. Evidence: the process was gone after the signal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal

import psutil

from harness.choices import Choices
from harness.errors import WorldError
from harness.faults.model.fault import JobFault
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.job_kill import awaited_start, job_of, kill_evidence, kill_processes
from harness.faults.real.sink_message import SINK
from harness.process_identity import ProcessIdentity

__all__ = ["KillExecutor"]


class KillExecutor(JobFault):
    """Kills one executor, once."""

    about = (
        "An executor of the Spark job is killed (SIGKILL): the one whose message is held, else a drawn one."
    )
    must_show = "The process was gone after the signal; the message that was held meanwhile is named."
    can = ()

    do: Literal["kill_executor"]

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """There is nothing to heal: Spark starts another executor."""
        awaited_start(site, fault=self.id)
        executors = job_of(site).executors()
        if not executors:
            message = f"the job has no executor for {self.id} to kill"
            raise WorldError(
                message, fix="run the job on a standalone cluster, or use kill_driver or kill_owner"
            )
        kill_processes(site, [_chosen(site, executors, fault=self.id)], fault=self.id)
        yield

    def evidence(self, seen: Seen) -> Evidence:
        return kill_evidence(seen)


def _chosen(site: Site, executors: Sequence[ProcessIdentity], *, fault: str) -> ProcessIdentity:
    """The executor that sent the held message itself or by a child of its own; else one drawn."""
    owner = None if site.held is None else job_of(site).owner(SINK, site.held.connection)
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
