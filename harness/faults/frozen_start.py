"""`frozen_start`: stop a start of the job (SIGSTOP), start the job a second time, and let the first one go on.

Answers to a pause so long that a supervisor takes the job for dead: a virtual machine that migrates, a laptop that
sleeps. Evidence: the processes stood still, a second start began meanwhile, and the first one did something after it
woke: it sent a message to the sink, or ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, Literal

from harness.faults.model.fault import FaultOfJob
from harness.faults.model.fields import UntilEffective
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.real.job_kill import awaited_start, job_of
from harness.faults.real.sink_log import SinkLog, sink_noted
from harness.system.clock import Deadline, monotonic_us, wait_until

_COMMITS_S: Final = 120.0
"""How long the second start may take to its first commit; an engine takes up to a minute."""
_LAST_WORDS_S: Final = 15.0
"""How long the first start, awake again, may take to send a message or to end."""
_BLOCKED_S: Final = 3.0
"""A second start that gets no answer for so long waits for locks that the first one has."""
_LOOK_S: Final = 0.05


class FrozenStart(FaultOfJob):
    """Stops all processes of the newest start until the second start has committed, or for `for`."""

    about = (
        "All processes of the job are stopped (SIGSTOP), the job is started a second time, and the first start goes on "
        "once the second has committed, or `for` after it began."
    )
    must_show = (
        "The first start stood still while the second began, and then sent a message to the sink, or ended."
    )
    can = ()
    acts_alone = True

    do: Literal["frozen_start"]
    lasts: UntilEffective = None

    @property
    def lasts_ms(self) -> int | None:
        """None: the first start is awake again before the fault counts as active."""
        return None

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The first start is resumed before the block begins, or when anything fails."""
        job, first = job_of(site), awaited_start(site, fault=self.id)
        with sink_noted(site.control, self.id) as log:
            with ExitStack() as frozen:
                family = job.family(first)
                for process in family:
                    frozen.enter_context(job.suspended(process, site.note_fact))
                ports = job.ports(family)
                if site.held is not None:
                    site.held.release()
                job.expect_death(first, fault=self.id)
                commits = job.seen_commits()
                second = frozen.enter_context(job.start_beside(fault=self.id))
                self._await_second(site, log, ports=ports, commits=commits)
            woke_us = monotonic_us()
            wait_until(
                lambda: (
                    site.over.is_set()
                    or job.wait_for_exit(first, limit_s=0)
                    or log.requests_from(ports, since_us=woke_us) > 0
                ),
                deadline=Deadline(_LAST_WORDS_S),
                every_s=_LOOK_S,
            )
            site.note_fact(
                what="woke",
                first=first.number,
                second=second.number,
                commits_of_the_second=job.seen_commits() - commits,
                messages_after_it_woke=log.requests_from(ports, since_us=woke_us),
                ended=job.wait_for_exit(first, limit_s=0),
            )
            yield

    def _await_second(self, site: Site, log: SinkLog, *, ports: set[int], commits: int) -> None:
        """Waits until the second start has committed, or waits for locks of the first; or for `for`."""
        limit = Deadline(_COMMITS_S if self.lasts is None else self.lasts / 1000)
        while not limit.passed and not site.over.is_set():
            works = job_of(site).seen_commits() > commits or log.waits_s(but=ports) > _BLOCKED_S
            if works and self.lasts is None:
                return
            site.over.wait(_LOOK_S)

    def evidence(self, seen: Seen) -> Evidence:
        woke = seen.fact("woke")
        if woke is None or not (woke["messages_after_it_woke"] or woke["ended"]):
            return {}
        stopped = [fact["pid"] for fact in seen.facts if fact["what"] == "stopped"]
        return {"stopped": stopped, **{name: value for name, value in woke.items() if name != "what"}}
