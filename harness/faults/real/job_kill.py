"""Killing processes of a user's job by SIGKILL, and what becomes of the message that is held meanwhile.

Answers to Jepsen's `kill`, at a point of the job that the held message chooses. Invariant: a request that is held
`before` the server got it never arrives once its sender is dead; the dead cannot be asked, so the operating system is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.job_site import JobProcesses, LiveStart
from harness.system.clock import Deadline, monotonic_us, wait_until
from harness.system.errors import WorldError
from harness.system.process_identity import ProcessIdentity, is_alive

_START_S = 120.0
"""How long a fault without a held message waits for a start of the job that lives; an engine may take long."""
_GONE_S = 10.0
"""How long a process may take to disappear after SIGKILL."""


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
        if start is not None and is_alive(start.main):
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
    owner = job_of(site).owner(site.held.when.link, site.held.connection)
    if owner is None:
        message = f"no process owns connection {site.held.connection}, whose message is held for {fault}"
        raise WorldError(message, fix="the job must run on this machine, as a user whose sockets can be seen")
    return owner


def kill_processes(site: Site, victims: Sequence[ProcessIdentity], *, fault: str) -> bool:
    """Kills all of `victims`, the first one first, and records what it found; then lets the held message go.

    False, and nothing done: none of them lived. The held request never arrives if its sender is among the dead.
    """
    job, held = job_of(site), site.held
    owner = None if held is None else job.owner(held.when.link, held.connection)
    at_us = monotonic_us()
    killed = [victim for victim in victims if job.kill(victim, fault=fault)]
    if not killed:
        return False
    gone = wait_until(lambda: not any(map(is_alive, killed)), deadline=Deadline(_GONE_S))
    facts: dict[str, Any] = {"pids": [victim.pid for victim in killed], "gone": gone}
    if held is not None:
        if held.when.moment == "before" and owner in killed:
            held.cut()
            facts["never_arrived"] = True
        else:
            held.release()
        if owner is not None:  # else another fault killed it, and nothing waits for the message any more
            facts["held"] = held.name
    site.note_fact(what="killed", at_us=at_us, **facts)
    return True


def kill_evidence(seen: Seen) -> Evidence:
    """The processes that are gone after the signal, and the message that was held meanwhile."""
    killed: Mapping[str, Any] | None = seen.fact("killed")
    if killed is None or not killed["gone"]:
        return {}
    told = {name: killed[name] for name in ("held", "never_arrived") if name in killed}
    pids = killed["pids"]
    return {"pid": pids[0], **({"pids": pids} if len(pids) > 1 else {}), **told}
