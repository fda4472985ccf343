"""`kill_owner`: kill the process that sent, or waits for, a message of the sink's link: the one at work, not any one.

A worker that is killed at random is often idle. Evidence: the process was gone while the message was held.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from harness.faults.model.fault import FaultOfJob
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.job_kill import kill_evidence, kill_processes, owner_of_held


class KillOwner(FaultOfJob):
    """Kills the owner of the connection whose message is held, once."""

    about = "The process that owns the connection of a held message (worker, executor or driver) is killed (SIGKILL)."
    must_show = "That process was gone while the message was held; the message is named."
    triggers = ("sink",)
    can = ()
    acts_alone = True

    do: Literal["kill_owner"]

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """There is nothing to heal: the engine, or the next start of the job, replaces the process."""
        kill_processes(site, [owner_of_held(site, fault=self.id)], fault=self.id)
        yield

    def evidence(self, seen: Seen) -> Evidence:
        return kill_evidence(seen)
