"""The faults of one run of a job: they wait for their moment, act from outside, and are judged by the proxy's log.

The schedule is the engine's. What differs: a fault may wait for a held message of a link and takes effect only
then, its failure ends the fault and not the run, and its evidence comes from the proxy's log, for a job keeps no
journal of ours. Invariants: everything is healed when the block ends; the error of a fault that failed is recorded with
its end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, Self, cast

from harness.engine.outside_faults import FaultActivation, OutsideFaults, in_words
from harness.faults.model.fault import Fault
from harness.faults.parts.triggers import LookupMoment, MomentOfJob, SinkMoment, SparkGap
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import MessageControl, Workers
from harness.faults.real.held_message import HeldMessage
from harness.faults.real.held_moment import held_at
from harness.faults.real.sites import JobProcesses
from harness.faults.real.witnesses import witnesses_of
from harness.history.follower import Progress
from harness.levels.job.spark_engine import wait_for_gap
from harness.levels.job.traffic import Traffic, noted
from harness.scenario.outcome import FaultRecord, FaultTime
from harness.system.clock import Deadline, monotonic_us, wait_until
from harness.system.errors import WorldError

_ARM_S: Final = 60.0
"""How long the proxy may take to set the holds: a few calls, on a machine that may be busy."""


class FaultLog(Protocol):
    """Where a run records its faults; every method may be called from any thread."""

    def begins(self, fault: str) -> None:
        """It takes effect now."""

    def ends(self, fault: str) -> None:
        """It is over now."""

    def evidence(
        self,
        fault: str,
        cycle: int,
        *,
        evidence: Mapping[str, object] | None = None,
        error: str | None = None,
    ) -> None:
        """What an activation that has ended shows, or why the fault failed by itself."""


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
    log: FaultLog
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
        waiting = [one for one in self._begun if isinstance(one, _JobFaultActing) and one.waits]
        ready = wait_until(
            lambda: all(one.waits_now.is_set() or one.ended for one in waiting), deadline=Deadline(_ARM_S)
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

    def activation(self) -> type[FaultActivation]:
        return _JobFaultActing

    def evidence(self, acting: Any) -> Evidence:
        """The evidence of an activation so far, from the proxy's log and what the fault found out itself."""
        return cast("Evidence", acting.fault.evidence(self._seen(acting)))

    def _seen(self, acting: Any) -> Seen:
        return Seen(
            arming_us=acting.began_us,
            armed_us=acting.armed_us or self.now_us,
            healed_us=acting.healing_us or self.now_us,
            calls=[*self.traffic.calls, *self.traffic.waiting()],
            losses=self.traffic.losses,
            errors=self.traffic.errors,
            failed_starts_us=self.job.failed_us,
            log=acting.log,
            facts=list(acting.facts),
        )

    def finish(self) -> list[FaultRecord]:
        """After the block: what each fault did, recorded with its evidence."""
        self.traffic.poll()
        times: dict[str, list[FaultTime]] = {}
        for one in self._begun:
            assert isinstance(one, _JobFaultActing), "this place begins no others"
            if one.began_us is None:
                continue
            time = self._time(one)
            times.setdefault(one.fault.id, []).append(time)
            error = None if one.failure is None else str(one.failure)
            self.log.evidence(one.fault.id, one.cycle, evidence=time.evidence, error=error)
        return [
            FaultRecord(
                id=fault.id,
                kind=fault.do,
                plan=fault.model_dump(mode="json", by_alias=True, exclude_none=True),
                times=tuple(times.get(fault.id, ())),
            )
            for fault in self.faults
        ]

    def _time(self, one: _JobFaultActing) -> FaultTime:
        evidence: Evidence = {}
        witnesses: tuple[str, ...] = ()
        if one.armed_us is not None and one.healing_us is not None and one.failure is None:
            seen = self._seen(one)
            evidence = one.fault.evidence(seen)
            witnesses = witnesses_of(one.fault.evidence, seen, by=one.fault.by) if evidence else ()
        return FaultTime(armed_us=one.began_us, healed_us=one.over_us, evidence=evidence, witnesses=witnesses)


@dataclass(slots=True, kw_only=True)
class _JobFaultActing(FaultActivation):
    """One activation of a fault of a job's run. Mutable; its own thread fills it in."""

    began_us: int | None = None
    """When it took effect; None: its moment has not come."""
    over_us: int | None = None
    waits_now: threading.Event = field(default_factory=threading.Event)
    """Set when no message can be missed any more."""

    @property
    def place(self) -> JobFaults:
        """The faults of the run, of which this is one."""
        return cast("JobFaults", self.outside)

    @property
    def waits(self) -> bool:
        """Whether it waits for a moment of the job, from before its first start."""
        return isinstance(self.fault.when, MomentOfJob)

    @property
    def is_settled(self) -> bool:
        """See `OutsideFaults.is_settled`; also while its moment has not come, for nothing has begun then."""
        return self.ended or self.began_us is None or (self.acts and not self._over.is_set())

    def told(self) -> None:
        """Its failure is recorded, and the run goes on."""
        if self.is_told:
            return
        self.is_told = True
        if self.failure is not None:
            self.outside.tell(f"{self.fault.id} failed: {self.failure}")
        elif self.began_us is not None:
            evidence = self.outside.evidence(self)
            self.outside.tell(f"{self.fault.id} is over; {in_words(evidence) or 'no evidence so far'}")
        else:
            self.outside.tell(f"{self.fault.id} never began: its moment did not come")

    def _act(self) -> None:
        self._skip_events()
        site = replace(self._site(), job=self.place.job, sink_table=self.place.table)
        try:
            with self._moment() as moment:
                if moment is not None:
                    self._begin()
                    self._inject(replace(site, held=moment.held))
        except BaseException:
            self._begin()
            raise
        finally:
            if self.began_us is not None:
                self.place.log.ends(self.fault.id)
                self.over_us = monotonic_us()

    def _begin(self) -> None:
        """Records the beginning, once; also of a fault that fails before its moment: it was to act, and could not."""
        if self.began_us is None:
            self.place.log.begins(self.fault.id)
            self.began_us = self.arming_us = monotonic_us()

    @contextmanager
    def _moment(self) -> Iterator[_Moment | None]:
        """Waits for the fault's moment; None: the run ended before."""
        match self.fault.when:
            case (SinkMoment() | LookupMoment()) as when:
                with held_at(
                    when,
                    name=f"{self.fault.id}.moment",
                    control=self.place.control,
                    server=self.place.server,
                    over=self._over,
                    table=self.place.table or "*",
                    armed=self.waits_now.set,
                ) as held:
                    yield None if held is None else _Moment(held=held)
            case SparkGap() as when:
                self.waits_now.set()
                comes = wait_for_gap(self.place.state, batch=when.batch, over=self._over)
                yield _Moment() if comes else None
            case _:
                yield _Moment()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """What a fault sees when its moment has come."""

    held: HeldMessage | None = None
