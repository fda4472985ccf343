"""`pause_executor`: the process that runs the workers (Spark's JVM) is stopped by SIGSTOP until the fault heals.

Answers to a long garbage collection of an executor. Evidence: the system says that the process is stopped, and it has
used no processor time when it goes on.
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
"""Of a process that was stopped: what it had begun before the signal is counted a little later."""


class PauseExecutor(OutsideFault, Repeats):
    """Stops it, whichever it is."""

    about = "The process that runs the workers (Spark's JVM) is stopped (SIGSTOP) for a while."
    must_show = "The system calls the process stopped, and it used no processor time until it went on."
    stalls = True
    by = "process"
    abilities = ("executor",)
    levels = ("spark",)

    do: Literal["pause_executor"]
    lasts: Lasts

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Where there is no such process, nothing is done."""
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
        """The process, how long it stood, and what it used meanwhile."""
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
