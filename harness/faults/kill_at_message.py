"""`kill_at_message`: kill the whole job, all its processes, at one message of its sink link.

Answers to a machine that loses power at that point; a sweep (`--sweep`) does it at every message in turn. Evidence: the
processes were gone while the message was held.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from harness.faults.model.fault import FaultOfJob
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.job_kill import awaited_start, job_of, kill_evidence, kill_processes


class KillAtMessage(FaultOfJob):
    """Kills every process of the newest start, once."""

    about = (
        "All processes of the job are killed (SIGKILL) at a message of its sink link: before the server gets it "
        "(then it never does), or after its answer and before the client sees that."
    )
    must_show = "The processes were gone while the message was held; it is named."
    triggers = ("sink", "lookups")
    can = ()
    acts_alone = True

    do: Literal["kill_at_message"]

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """There is nothing to heal: the job is started again after every exit."""
        start = awaited_start(site, fault=self.id)
        kill_processes(site, job_of(site).family(start), fault=self.id)
        yield

    def evidence(self, seen: Seen) -> Evidence:
        return kill_evidence(seen)
