"""`kill_driver`: kill the main process of a user's job (Spark's driver) by SIGKILL, and not its children.

Answers to a driver that the kernel's OOM killer ends. Evidence: the process was gone after the signal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from harness.faults.model.fault import JobFault
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.job_kill import awaited_start, kill_evidence, kill_processes

__all__ = ["KillDriver"]


class KillDriver(JobFault):
    """Kills the job's main process, once."""

    about = (
        "The job's main process (Spark's driver) is killed (SIGKILL); its children are left to themselves."
    )
    must_show = "The process was gone after the signal; the message that was held meanwhile is named."
    can = ()

    do: Literal["kill_driver"]

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """There is nothing to heal: the job is started again after every exit."""
        kill_processes(site, [awaited_start(site, fault=self.id).main], fault=self.id)
        yield

    def evidence(self, seen: Seen) -> Evidence:
        return kill_evidence(seen)
