"""`pause_executor`: stop the process that runs the workers (Spark's JVM) by SIGSTOP until the fault heals.

Answers to a long garbage collection of an executor. Evidence: the operating system reports the process as stopped, and
it used no CPU time until it went on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from harness.faults.model.fault import OutsideFault, Repeats
from harness.faults.model.fields import Lasts
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.process_identity import ProcessIdentity

__all__ = ["PauseExecutor"]

_CPU_MS_MAX = 20
"""CPU time allowed to a stopped process: the kernel accounts some of the time before the signal late."""


class PauseExecutor(OutsideFault, Repeats):
    """Stops the executor's process for a while."""

    about = "The process that runs the workers (Spark's JVM) is stopped (SIGSTOP) for a while."
    must_show = (
        "The operating system reported the process as stopped, and it used no CPU time until it went on."
    )
    stalls = True
    by = "process"
    abilities = ("executor",)
    levels = ("spark",)
    can = ("res",)

    do: Literal["pause_executor"]
    lasts: Lasts

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Does nothing if the run has no executor process."""
        from harness.faults.real.suspension import awaited, suspended

        who = awaited(site.workers.executor)
        if who is None:
            yield
            return
        with suspended(who, site.found):
            before_ms = _cpu_ms(who)
            yield
            site.found(what="used", cpu_ms=_cpu_ms(who) - before_ms)

    def evidence(self, seen: Seen) -> Evidence:
        facts = {fact["what"]: fact for fact in seen.found}
        if "stopped" not in facts:
            return {}
        stopped = facts["stopped"]
        evidence: Evidence = {"pid": stopped["pid"], "state": stopped["state"]}
        if "used" not in facts or "resumed" not in facts:
            return {} if seen.events else evidence
        if facts["used"]["cpu_ms"] > _CPU_MS_MAX:
            return {}
        stopped_ms = round((facts["resumed"]["at_us"] - stopped["at_us"]) / 1000, 1)
        return {**evidence, "stopped_ms": stopped_ms, "cpu_ms": facts["used"]["cpu_ms"]}


def _cpu_ms(who: ProcessIdentity) -> int:
    import psutil

    times = psutil.Process(who.pid).cpu_times()
    return round((times.user + times.system) * 1000)
