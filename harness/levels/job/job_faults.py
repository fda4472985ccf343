"""The faults of one run of a job: they wait for their moment, act from outside, and are judged by the proxy's log.

The schedule is the engine's. What differs: a fault may wait for a held message of a link and takes effect only
then, its failure ends the fault and not the run, and its evidence comes from the proxy's log, for a job keeps no
journal of ours. Invariants: everything is healed when the block ends; the error of a fault that failed is recorded with
its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self, cast

from harness.engine.findings import fault_record
from harness.engine.outside_faults import Activation, OutsideFaults, in_words
from harness.faults.model.fault import Fault
from harness.faults.parts.triggers import LookupMoment, SinkMoment, SparkGap
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import MessageControl, Site, Workers
from harness.faults.real.held_moment import held_at
from harness.faults.real.job_kill import why_too_late
from harness.faults.real.sites import JobProcesses
from harness.faults.real.witnesses import witnesses_of
from harness.history.follower import Progress
from harness.levels.job.recording import JobRecording
from harness.levels.job.spark_engine import wait_for_gap
from harness.levels.job.traffic import Traffic, noted
from harness.scenario.outcome import FaultRecord, FaultTime
from harness.system.clock import Deadline, monotonic_us, wait_until
from harness.system.errors import WorldError

_ARM_S: Final = 60.0
"""How long the proxy may take to set the holds: a few calls, on a machine that may be busy."""


class _NoWorkers:
    """What is asked of workers before a fault of a job begins."""

    def spark(self) -> None:
        """None: the Spark of a job is the job's own."""
        return


@dataclass(slots=True, kw_only=True)
class JobFaults(OutsideFaults):
    """Enter it before the job's first start, call `arm`, then `advance` often, and `finish` when the job has stopped.

    Mutable.
    """

    control: MessageControl
    job: JobProcesses
    log: JobRecording
    table: str = ""
    """The table that the job writes to; empty: its statements do not name it."""
    state: Path
    """The job's state folder, in which a Spark query keeps its checkpoint."""
    workers: Workers = field(default_factory=lambda: cast("Workers", _NoWorkers()))
    """A job has no workers of ours; the faults that need them are refused."""
    traffic: Traffic = field(init=False)
    _notes: Any = None

    def __post_init__(self) -> None:
        OutsideFaults.__post_init__(self)
        self.traffic = Traffic(control=self.control)

    def __enter__(self) -> Self:
        self.traffic.skip()
        self._notes = noted(self.control)
        self._notes.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        try:
            OutsideFaults.__exit__(self, *error)
        finally:
            self._notes.__exit__(None, None, None)

    def arm(self) -> None:
        """Sets the holds of the faults that wait for a moment. Raises WorldError if the proxy does not."""
        self.advance(offered=0, first_offer_us=None)
        waiting = [one for one in self.begun if one.waits]
        ready = wait_until(
            lambda: all(one.ready.is_set() or one.ended for one in waiting), deadline=Deadline(_ARM_S)
        )
        if not ready:
            raise WorldError(f"the proxy did not set the holds of the faults within {_ARM_S:g} s")

    def advance(self, *, offered: int, first_offer_us: int | None) -> None:
        """Begins and ends what is due: `offered` records are in the source, the first since `first_offer_us`.

        No record counts before the job has sent its first message: a JVM takes seconds to start.
        """
        self.traffic.poll()
        progress = Progress(began_us={} if first_offer_us is None else {0: first_offer_us})
        if offered and self.traffic.messages:
            progress.taken[0] = offered
        self.step(progress, now_us=monotonic_us())

    def is_idle(self, fault: Fault) -> bool:
        """Never: what a job has in flight is not known."""
        del fault
        return False

    def clients(self) -> Seen:
        """From the proxy's log."""
        return Seen(
            armed_us=0,
            healed_us=0,
            calls=[*self.traffic.calls, *self.traffic.waiting()],
            losses=self.traffic.losses,
            errors=self.traffic.errors,
            failed_starts_us=self.job.failed_us,
        )

    def acts_now(self, one: Activation) -> int:
        self.log.begins(one.fault.id)
        return monotonic_us()

    def acted(self, one: Activation) -> int:
        self.log.ends(one.fault.id)
        return monotonic_us()

    def report(self, one: Activation) -> None:
        """Its failure is recorded, and the run goes on."""
        if one.failure is not None:
            self.tell(f"{one.fault.id} failed: {one.failure}")
        elif one.arming_us is not None:
            self.tell(f"{one.fault.id} is over; {in_words(self.evidence(one)) or 'no evidence so far'}")
        else:
            self.tell(f"{one.fault.id} never began: its moment did not come")

    @contextmanager
    def moment(self, one: Activation, site: Site) -> Iterator[Site | None]:
        site = replace(site, job=self.job, sink_table=self.table)
        match one.fault.when:
            case (SinkMoment() | LookupMoment()) as when:
                with held_at(
                    when,
                    name=f"{one.fault.id}.moment",
                    control=self.control,
                    server=self.server,
                    over=one.over,
                    table=self.table or "*",
                    armed=one.ready.set,
                    standing_still=self.job.standing_still if one.fault.acts_alone else None,
                ) as held:
                    yield None if held is None else replace(site, held=held)
            case SparkGap() as when:
                one.ready.set()
                yield site if wait_for_gap(self.state, batch=when.batch, over=one.over) else None
            case _:
                yield site

    def finish(self) -> list[FaultRecord]:
        """After the block: what each fault did, recorded with its evidence."""
        self.traffic.poll()
        times: dict[str, list[FaultTime]] = {}
        for one in self.begun:
            if one.arming_us is None:
                continue
            evidence: Evidence = {}
            why = ""
            witnesses: tuple[str, ...] = ()
            if one.armed_us is not None and one.healing_us is not None and one.failure is None:
                seen = one.seen(self.clients())
                found = one.fault.evidence(seen)
                why = one.fault.why_not_of_job(found) if found else why_too_late(seen)
                evidence = {} if why else found
                witnesses = witnesses_of(one.fault.evidence, seen, by=one.fault.by) if evidence else ()
            time = FaultTime(
                armed_us=one.arming_us, healed_us=one.over_us, evidence=evidence, witnesses=witnesses
            )
            times.setdefault(one.fault.id, []).append(time)
            error = None if one.failure is None else str(one.failure)
            self.log.evidence(one.fault.id, one.cycle, evidence=evidence, error=error, why=why)
        return [fault_record(fault, times.get(fault.id, ())) for fault in self.faults]
