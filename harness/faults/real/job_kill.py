"""Killing processes by SIGKILL: those of a user's job, and those of a Spark cluster.

Of a job: its processes, and what becomes of the message that is held meanwhile.

Answers to Jepsen's `kill`, at a point of the job that the held message chooses. Invariant: a request that is held
`before` the server got it never arrives once its sender is dead; the dead cannot be asked, so the operating system is.

Of a Spark cluster: killing and replacing processes of a run, and what that leaves in the lines of the run.

Answers to Jepsen's `kill` of a node. Invariant: a fault counts as over only when Spark, or a new driver, runs the tasks
again that it has ended, so that nothing that happens meanwhile is without its cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.faults.real.evidence import Evidence, Seen, is_speech, successor_of
from harness.faults.real.fault_site import Site
from harness.faults.real.sites import JobProcesses, LiveExecutor, LiveStart, SparkProcesses
from harness.history.event import Commit, Failed
from harness.history.follower import Progress
from harness.history.notes import CommitBegun, Line
from harness.system.choices import Choices
from harness.system.clock import Deadline, monotonic_us, wait_until
from harness.system.errors import WorldError
from harness.system.process_identity import ProcessIdentity, is_alive

_AT_WORK_S = 60.0
"""How long a fault waits for an executor that runs a subtask; an executor takes a few seconds to start."""
_PROCESSES_GONE_S = 20.0
"""How long processes may take to disappear after SIGKILL of the one that started them."""
_REPLACED_S = 180.0
"""How long Spark, or a new driver, may take until the tasks run again; usually it is 1 to 20 s."""
_LOOK_S = 0.05


def spark_of(site: Site) -> SparkProcesses:
    """The run's Spark. A scenario that needs a cluster is refused without one, so there is one."""
    assert site.spark is not None, "a fault of a cluster is begun only in the run on one"
    return site.spark


def drawn_executor(site: Site, *, fault: str, subtask: int | None = None) -> LiveExecutor:
    """An executor that runs `subtask`, or one at work that the seed draws; waits for one. Raises WorldError."""
    spark = spark_of(site)
    found: list[LiveExecutor] = []

    def is_there() -> bool:
        at_work = [executor for executor in spark.executors() if executor.workers]
        if subtask is not None:
            found.extend(one for one in at_work if subtask in one.workers)
        elif at_work:
            ordered = sorted(at_work, key=lambda one: (one.host, min(one.workers)))
            found.append(ordered[Choices(site.seed, f"executor of fault {fault}").index(len(ordered))])
        return bool(found) or site.over.is_set()

    wait_until(is_there, deadline=Deadline(_AT_WORK_S), every_s=_LOOK_S)
    if not found:
        message = f"no executor on this machine ran a subtask when {fault} was to act"
        raise WorldError(message, fix="let the fault begin earlier, or use --cluster: its executors are here")
    return found[0]


def await_end(
    site: Site,
    killed: Sequence[ProcessIdentity],
    *,
    at_us: int,
    dependents: Sequence[ProcessIdentity],
    **facts: str | int,
) -> None:
    """Waits until what was killed `at_us` is gone, and what depends on it, and records that."""
    gone = wait_until(
        lambda: not any(map(is_alive, [*killed, *dependents])),
        deadline=Deadline(_PROCESSES_GONE_S),
        every_s=0.005,
    )
    pids = [victim.pid for victim in killed]
    site.note_fact(what="killed", at_us=at_us, pids=pids, gone=gone and bool(killed), **facts)


def newest_attempts(site: Site, subtasks: Iterable[int]) -> Mapping[int, int]:
    """The number of the newest attempt of each of these; to be asked before they end."""
    newest = _newest(spark_of(site))
    return {subtask: newest.get(subtask, 0) for subtask in subtasks}


def await_replaced(site: Site, before: Mapping[int, int]) -> None:
    """Waits until each of these subtasks has an attempt that came later, and records which."""
    spark = spark_of(site)

    def all_replaced() -> bool:
        now = _newest(spark)
        return site.over.is_set() or all(now.get(subtask, 0) > number for subtask, number in before.items())

    wait_until(all_replaced, deadline=Deadline(_REPLACED_S), every_s=_LOOK_S)
    now = _newest(spark)
    later = [[s, number, now[s]] for s, number in before.items() if now.get(s, 0) > number]
    site.note_fact(what="replaced", at_us=monotonic_us(), attempts=later)


def await_over(site: Site, attempts: Mapping[int, int], *, limit_s: float) -> None:
    """Waits until each of these attempts, by subtask, has ended or failed, or its process is gone."""
    spark = spark_of(site)

    def are_over() -> bool:
        views = spark.progress().attempts
        mine = [views[name] for name in attempts.items() if name in views]
        return all(view.over or view.process is None or not is_alive(view.process) for view in mine)

    wait_until(lambda: site.over.is_set() or are_over(), deadline=Deadline(limit_s), every_s=_LOOK_S)


def await_commits(site: Site, subtasks: Iterable[int], *, limit_s: float) -> None:
    """Waits until each of these subtasks has committed once more, or its newest attempt is over."""
    spark, before = spark_of(site), _commits(spark_of(site).progress())

    def have_committed() -> bool:
        progress = spark.progress()
        now, newest = _commits(progress), _newest(spark)
        return all(
            now[s] > before[s] or progress.attempts[s, newest[s]].over for s in subtasks if s in newest
        )

    wait_until(lambda: site.over.is_set() or have_committed(), deadline=Deadline(limit_s), every_s=_LOOK_S)


def _newest(spark: SparkProcesses) -> Mapping[int, int]:
    """The number of each subtask's newest attempt that has recorded something."""
    return dict(sorted(spark.progress().attempts))


def _commits(progress: Progress) -> Counter[int]:
    """How many commits each subtask has made."""
    made: Counter[int] = Counter()
    for (subtask, _), times in progress.commits.items():
        made[subtask] += times
    return made


def replaced_evidence(seen: Seen) -> Evidence:
    """The processes that are gone, and the attempts that have taken the places of theirs."""
    killed, after = seen.fact("killed"), seen.fact("replaced")
    if killed is None or not killed["gone"]:
        return {}
    if seen.events and (after is None or not after["attempts"]):
        return {}
    told = {name: killed[name] for name in ("host", "driver") if name in killed}
    evidence: Evidence = {"pids": killed["pids"], **told}
    if after is not None:
        evidence["replaced"] = [
            {"subtask": s, "attempt": old, "next_attempt": new} for s, old, new in after["attempts"]
        ]
        evidence["restart_ms"] = round((after["at_us"] - killed["at_us"]) / 1000, 1)
    return evidence


def last_words(lines: Sequence[Line], *, subtask: int, attempt: int) -> Evidence | None:
    """What a replaced attempt did after its successor had begun; None: nothing, or it has no successor."""
    successor = successor_of(lines, subtask=subtask, attempt=attempt)
    if successor is None:
        return None
    own = [line for line in lines if is_speech(line) and (line.s, line.a) == (subtask, attempt)]
    after = [line for line in own if line.t > successor.t]
    if not after:
        return None
    return {
        "subtask": subtask,
        "attempt": attempt,
        "successor": successor.a,
        "events_after_its_start": len(after),
        "commit": _commit_of(after),
    }


def _commit_of(after: Sequence[Line]) -> str:
    """The outcome of the replaced attempt's commit."""
    if any(isinstance(line, Commit) for line in after):
        return "accepted"
    if any(isinstance(line, Failed) and "Fenced" in line.error for line in after):
        return "refused"
    return "unanswered" if any(isinstance(line, CommitBegun) for line in after) else "none"


_START_S = 120.0
"""How long a fault without a held message waits for a start of the job that lives; an engine may take long."""
_GONE_S = 10.0
"""How long a process may take to disappear after SIGKILL."""
LAG_MAX_MS = 100
"""A job that ran on for longer than this after its message was held, and did something, was not hit at that moment."""


def job_of(site: Site) -> JobProcesses:
    """The job's processes. A job scenario is refused anywhere else, so there are some."""
    assert site.job is not None, "a fault of a job is begun only in the run of one"
    return site.job


def awaited_start(site: Site, *, fault: str) -> LiveStart:
    """The newest start that lives; waits for one between two starts, or where another fault has just killed one."""
    job = job_of(site)
    found: list[LiveStart] = []

    def lives() -> bool:
        start = job.newest()
        if start is not None and job.is_alive(start.main):
            found.append(start)
        return bool(found) or site.over.is_set()

    wait_until(lives, deadline=Deadline(_START_S))
    if not found:
        raise WorldError(
            f"no start of the job lived when {fault} was to act", fix="let the fault begin earlier"
        )
    return found[0]


def owner_of_held(site: Site, *, fault: str) -> ProcessIdentity:
    """The process that sent the held request, or waits for the held answer."""
    assert site.held is not None, "the kind has no trigger without a held message"
    owner = job_of(site).owner(site.held.when.link, site.held.peer)
    if owner is None:
        message = f"no process owns connection {site.held.connection}, whose message is held for {fault}"
        raise WorldError(message, fix="the job must run on this machine, as a user whose sockets can be seen")
    return owner


def kill_processes(site: Site, victims: Sequence[ProcessIdentity], *, fault: str) -> bool:
    """Kills all of `victims`, the first one first, and records what it found; then lets the held message go.

    False, and nothing done: none of them lived. The held request never arrives if its sender is among the dead. Those
    who live on stood still until then.
    """
    job, held = job_of(site), site.held
    owner = None if held is None else job.owner(held.when.link, held.peer)
    at_us = monotonic_us()
    killed = [victim for victim in victims if job.kill(victim, fault=fault)]
    if not killed:
        return False
    gone = wait_until(lambda: not any(map(job.is_alive, killed)), deadline=Deadline(_GONE_S))
    facts: dict[str, Any] = {"pids": [victim.pid for victim in killed], "gone": gone}
    if held is not None:
        if held.when.moment == "before" and owner in killed:
            held.cut()
            facts["never_arrived"] = True
        else:
            held.release()
        if owner is not None:  # else another fault killed it, and nothing waits for the message any more
            facts |= {"held": held.name, "lag_ms": held.lag_ms, "meanwhile": held.meanwhile}
        held.still.close()
    site.note_fact(what="killed", at_us=at_us, **facts)
    return True


def kill_evidence(seen: Seen) -> Evidence:
    """The processes that are gone after the signal, and the message that was held meanwhile."""
    killed: Mapping[str, Any] | None = seen.fact("killed")
    if killed is None or not killed["gone"] or why_too_late(seen):
        return {}
    told = {name: killed[name] for name in ("held", "lag_ms", "never_arrived") if name in killed}
    pids = killed["pids"]
    return {"pid": pids[0], **({"pids": pids} if len(pids) > 1 else {}), **told}


def why_too_late(seen: Seen) -> str:
    """Why a kill at a held message does not count; empty: it came in time, or waited for no message."""
    told = (fact for fact in seen.facts if (fact.get("lag_ms") or 0) > LAG_MAX_MS)
    late = next((fact for fact in told if fact["meanwhile"]), None)
    if late is None:
        return ""
    return (
        f"the job ran on for {late['lag_ms']:.0f} ms after its message was held ({late['held']}), in which"
        f" {late['meanwhile']} messages of its other connections passed; only {LAG_MAX_MS} ms count as one moment"
    )
