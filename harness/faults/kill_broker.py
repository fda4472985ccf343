"""`kill_broker`: kill the broker of a job's source (Kafka) by SIGKILL, and start it again.

Answers to Jepsen's `kill!` of a Kafka node. Evidence: the process was gone after the signal, and another one, on the
same port and data, served afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from harness.faults.model.fault import FaultOfJob
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.job_kill import job_of
from harness.system.clock import monotonic_us
from harness.system.errors import WorldError


class KillBroker(FaultOfJob):
    """The source's broker is gone for a while."""

    about = (
        "The Kafka broker of the job's source is killed (SIGKILL) and, `for` later, started again on the same port and "
        "data."
    )
    must_show = "The process was gone after the signal, and another one served afterwards."
    of_sources = ("kafka",)
    can = ()

    do: Literal["kill_broker"]
    lasts: Lasts = 1_000

    @property
    def lasts_ms(self) -> int | None:
        """None: the broker serves again before the fault counts as active, whatever the source waits for."""
        return None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """It serves again before the block begins, or when anything fails."""
        broker = job_of(site).broker()
        if broker is None:
            message = f"the job's source has no broker for {self.id} to kill"
            raise WorldError(message, fix='run it with `source.kind = "kafka"`')
        began_us = monotonic_us()
        try:
            broker.kill()
            site.note_fact(pid=broker.pid, gone=not broker.alive)
            if site.held is not None:
                site.held.release()
            site.over.wait(self.lasts / 1000)
        finally:
            broker.start()
        site.note_fact(next_pid=broker.pid, down_ms=(monotonic_us() - began_us) // 1000)
        yield

    def evidence(self, seen: Seen) -> Evidence:
        if not seen.last_fact("gone") or seen.last_fact("next_pid") is None:
            return {}
        return {name: seen.last_fact(name) for name in ("pid", "next_pid", "down_ms")}
