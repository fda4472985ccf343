"""`pause_executor`: stop the process that runs the workers (Spark's JVM) by SIGSTOP until the fault heals.

Answers to a long garbage collection of an executor and, on a cluster without `for`, to a zombie: Spark takes the
executor for lost and runs its tasks elsewhere, while its Python workers, which are not stopped, go on writing.
Evidence: the operating system reports the process as stopped, and it used no CPU time until it went on; of a zombie
that its attempt wrote events after its successor had begun, and what became of its commit, which V13 judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Literal

import psutil

from harness.faults.model.fault import OutsideFault, Repeats
from harness.faults.model.fields import Subtask, UntilEffective
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.job_kill import (
    await_commits,
    await_over,
    await_replaced,
    drawn_executor,
    last_words,
    newest_attempts,
)
from harness.faults.real.sites import LiveExecutor
from harness.system.clock import Deadline, wait_until
from harness.system.json_types import JsonView
from harness.system.process_identity import ProcessIdentity, end_process, is_alive

_CPU_MS_MAX = 20
"""CPU time allowed to a stopped process: the kernel accounts some of the time before the signal late."""
_COMMITS_S = 60.0
"""How long the successors may take to commit before the zombie is woken."""
_LAST_WORDS_S = 15.0
"""How long the zombie's attempts may take to find out that they were replaced, once they have been."""
_ENDS_S = 20.0
"""How long an executor that was taken for lost may take to end once it is awake; then it is killed."""


class PauseExecutor(OutsideFault, Repeats):
    """Stops the executor's process for a while, or until its tasks have been replaced."""

    about = (
        "The process that runs the workers (Spark's JVM) is stopped (SIGSTOP) for a while. Without `for`, on a "
        "cluster, until its tasks were replaced while its Python workers go on writing; then it is woken, and ends."
    )
    must_show = (
        "The operating system reported the process as stopped, and it used no CPU time until it went on; without `for` "
        "also that a replaced attempt wrote events after its successor had begun."
    )
    stalls = True
    by = "process"
    abilities = ("executor",)
    levels = ("spark",)
    can = ("res", "kill", "start", "failed")

    do: Literal["pause_executor"]
    subtask: Subtask | None = None
    lasts: UntilEffective = None

    @property
    def needs_cluster(self) -> bool:
        return self.lasts is None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Does nothing if the run has no executor process."""
        from harness.faults.real.suspension import awaited, suspended

        executor = None
        if site.spark is not None:
            executor = drawn_executor(site, fault=self.id, subtask=self.subtask)
        who = awaited(site.workers.executor) if executor is None else executor.process
        if who is None:
            yield
            return
        supervisor = None if executor is None or self.lasts is not None else executor.supervisor
        with ExitStack() as still:
            if supervisor is not None:  # it would kill the zombie after 10 s: the whole host stands still
                still.enter_context(suspended(supervisor, lambda **facts: None))
            still.enter_context(suspended(who, site.note_fact))
            before_ms = _cpu_ms(who)
            if self.lasts is not None:
                yield
                site.note_fact(what="used", cpu_ms=_cpu_ms(who) - before_ms)
            else:
                assert executor is not None, "without a cluster such a fault is refused"
                _await_successors(site, executor)
                with suppress(psutil.NoSuchProcess):  # Spark kills it 10 s after it was taken for lost
                    site.note_fact(what="used", cpu_ms=_cpu_ms(who) - before_ms)
        if self.lasts is None:
            _end(site, who)
            yield

    def evidence(self, seen: Seen) -> Evidence:
        facts = {fact["what"]: fact for fact in seen.facts}
        if "stopped" not in facts:
            return {}
        stopped = facts["stopped"]
        evidence: Evidence = {"pid": stopped["pid"], "state": stopped["state"]}
        if self.lasts is None and "resumed" not in facts and facts.get("ended", {}).get("by") == "spark":
            return _of_zombie({**evidence, "ended": "while it was stopped"}, facts, seen)
        if "used" not in facts or "resumed" not in facts:
            return {} if seen.events else evidence
        if facts["used"]["cpu_ms"] > _CPU_MS_MAX:
            return {}
        stopped_ms = round((facts["resumed"]["at_us"] - stopped["at_us"]) / 1000, 1)
        evidence |= {"stopped_ms": stopped_ms, "cpu_ms": facts["used"]["cpu_ms"]}
        return evidence if self.lasts is not None else _of_zombie(evidence, facts, seen)


def _await_successors(site: Site, executor: LiveExecutor) -> None:
    """Waits until the tasks of a stopped executor run elsewhere and have committed there."""
    before = newest_attempts(site, executor.workers)
    await_replaced(site, before)
    await_commits(site, executor.workers, limit_s=_COMMITS_S)
    await_over(site, before, limit_s=_LAST_WORDS_S)


def _end(site: Site, who: ProcessIdentity) -> None:
    """Spark has told the executor to end while it slept; it does so when it is awake."""
    ended = wait_until(lambda: not is_alive(who), deadline=Deadline(_ENDS_S), every_s=0.05)
    site.note_fact(what="ended", by="spark" if ended else "floodmark")
    end_process(who)


def _of_zombie(evidence: Evidence, facts: Mapping[str, JsonView], seen: Seen) -> Evidence:
    """What its attempts did after they had been replaced; nothing: the evidence is not enough."""
    if not seen.events:
        return evidence
    replaced = facts.get("replaced", {"attempts": []})["attempts"]
    words = [last_words(seen.events, subtask=s, attempt=old) for s, old, _ in replaced]
    spoken = [word for word in words if word is not None]
    return {**evidence, "zombies": spoken} if spoken else {}


def _cpu_ms(who: ProcessIdentity) -> int:
    times = psutil.Process(who.pid).cpu_times()
    return round((times.user + times.system) * 1000)
