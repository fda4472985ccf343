"""`late_commit`: hold a COMMIT that writes, kill its sender, and let it through when the next start is at work.

Answers to a packet that waits in a network device longer than its sender lives. The server cannot know that the sender
is dead, so it commits. Evidence: the COMMIT of a writing transaction was held, its sender was gone, and the server
answered it with OK after a later start had begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from harness.faults.model.fault import FaultOfJob
from harness.faults.model.fields import UntilEffective
from harness.faults.parts.parts import Breach
from harness.faults.parts.triggers import SinkMoment
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.job_kill import job_of, owner_of_held, why_too_late
from harness.faults.real.sink_log import SinkLog, sink_noted
from harness.faults.real.sites import JobProcesses, LiveStart
from harness.system.clock import Deadline, monotonic_us, wait_until
from harness.system.errors import WorldError
from harness.system.process_identity import is_alive

_RESTART_S: Final = 180.0
"""How long the next start may take to begin and to write; an engine takes up to a minute."""
_GONE_S: Final = 10.0
_COMMIT_S: Final = 30.0
"""How long the server may take to carry out the COMMIT that was let through."""
_LOOK_S: Final = 0.01
_BLOCKED_S: Final = 3.0
"""A successor that gets no answer for so long waits for locks that the held transaction has."""


class LateCommit(FaultOfJob):
    """Holds the COMMIT until the successor's first write, or for `for`, then lets it through."""

    about = (
        "A COMMIT that writes is held, its sender is killed (SIGKILL), and it reaches the server when the next start "
        "has sent its first write, or `for` after the kill."
    )
    must_show = (
        "The held transaction had changed rows, its sender was gone, and the server carried out the COMMIT after the "
        "next start had begun."
    )
    triggers = ("sink",)
    can = ()
    acts_alone = True

    do: Literal["late_commit"]
    lasts: UntilEffective = None

    @property
    def lasts_ms(self) -> int | None:
        """None: the wait is over before the fault counts as active."""
        return None

    def breaches(self) -> Iterator[Breach]:
        yield from super().breaches()
        when = self.when
        if isinstance(when, SinkMoment) and (when.sink, when.moment) != ("commit", "before"):
            say = "`late_commit` holds a COMMIT before the server gets it"
            yield Breach(path=("when",), say=say, hint=f"write {{sink: commit, nth: {when.nth}}}")

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The COMMIT is let through before the block begins, or when the run ends."""
        held, job = site.held, job_of(site)
        assert held is not None, "a late COMMIT is held first"
        owner, start = owner_of_held(site, fault=self.id), job.newest()
        with sink_noted(site.control, self.id) as log:
            newest, killed_us = log.newest_connection(known=held.connection), monotonic_us()
            if not job.kill(owner, fault=self.id):
                raise WorldError(f"the sender of the COMMIT had ended before {self.id} could kill it")
            gone = wait_until(lambda: not is_alive(owner), deadline=Deadline(_GONE_S))
            held.still.close()
            successor = self._await_successor(site, log, since=newest) or _has_started(job, start)
            let_through_us = monotonic_us()
            held.release()
            committed = wait_until(
                lambda: log.has_committed(held.connection, since_us=held.held_us),
                deadline=Deadline(_COMMIT_S),
                every_s=_LOOK_S,
            )
            site.note_fact(
                what="late",
                pid=owner.pid,
                gone=gone,
                held=held.name,
                lag_ms=held.lag_ms,
                meanwhile=held.meanwhile,
                rows_modified=held.rows_modified,
                held_ms=(let_through_us - held.held_us) // 1000,
                after_the_kill_ms=(let_through_us - killed_us) // 1000,
                successor=successor,
                committed=committed,
            )
            yield

    def _await_successor(self, site: Site, log: SinkLog, *, since: int) -> str:
        """Waits until a connection that was opened since has sent a write to the sink's table, or waits for locks."""
        deadline = Deadline(_RESTART_S if self.lasts is None else self.lasts / 1000)
        came = ""
        while not deadline.passed and not site.over.is_set():
            if log.has_written(table=site.sink_table, since=since):
                came = "writes"
            elif not came and log.waits_s(since=since) > _BLOCKED_S:
                came = "waits for the held transaction"
            if came and self.lasts is None:
                break
            site.over.wait(_LOOK_S)
        return came

    def evidence(self, seen: Seen) -> Evidence:
        late = seen.fact("late")
        if (
            late is None
            or not (late["gone"] and late["committed"] and late["successor"])
            or why_too_late(seen)
        ):
            return {}
        names = ("pid", "held", "lag_ms", "rows_modified", "held_ms", "after_the_kill_ms", "successor")
        return {name: late[name] for name in names}


def _has_started(job: JobProcesses, before: LiveStart | None) -> str:
    """Whether a start after `before` is alive, in words."""
    newest = job.newest()
    return "has started" if newest is not None and (before is None or newest.number > before.number) else ""
