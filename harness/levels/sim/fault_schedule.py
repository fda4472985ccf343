"""The fault schedule of level sim: acts on simulated links, servers and attempts in virtual time.

Invariant: the begin and the end of each act are in the history, the end with the evidence that the act counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from harness.database.simulated.hub import Due
from harness.engine.findings import refuse_invented
from harness.engine.schedule import Schedule
from harness.faults.kill_worker import KillWorker
from harness.faults.model.fault import Fault
from harness.faults.simulated.act import Act
from harness.history.event import FaultEvent, In
from harness.levels.sim.simulation import Simulation
from harness.levels.sim.workload_faults import WorkloadFaults
from harness.scenario.model import Scenario
from harness.scenario.moments import Moments, shown_by

_LOOK_MS: Final = 10
"""Interval of the checks for evidence."""


@dataclass(slots=True, kw_only=True)
class Noted:
    """What the history does not contain about one act: its planned time, and the time of its first effect. Mutable."""

    planned_us: int
    measured_us: int | None = None


@dataclass(slots=True, kw_only=True)
class _Acting:
    """One act of a fault; an `Acting`. Mutable."""

    fault: Fault
    act: Act
    noted: Noted
    run: Simulation
    armed_us: int
    ended: bool = False
    """The fault is healed; its evidence may still grow."""
    is_told: bool = False
    settles: Due | None = None

    @property
    def effective(self) -> bool:
        """Whether evidence was found."""
        return self.noted.measured_us is not None

    def start(self) -> None:
        self.act.begins()

    def look(self) -> None:
        if self.act.evidence() and self.noted.measured_us is None:
            self.noted.measured_us = self.run.hub.now_ms * 1000

    def end(self) -> None:
        """Heal the fault; `_settle` records its end when its evidence is final."""
        hub = self.run.hub
        self.ended = True
        self.look()
        self.act.ends()
        self._settle(since_ms=hub.now_ms)

    def _settle(self, *, since_ms: int) -> None:
        """Record the end of the act once `settles_ms` have passed; that time may grow meanwhile."""
        hub = self.run.hub
        due_ms = since_ms + self.act.settles_ms
        if hub.now_ms < due_ms and not hub.over:
            self.settles = hub.at(due_ms, lambda: self._settle(since_ms=since_ms))
        else:
            self._tell_end()

    def told(self) -> None:
        """Nothing: `_tell_end` records the end."""

    def close(self) -> None:
        if self.settles is not None:
            self.run.hub.cancel(self.settles)
        if self.ended and not self.is_told:
            self._tell_end()
        elif not self.ended:
            self.end()

    def _tell_end(self) -> None:
        tape, evidence = self.run.tape, self.act.evidence()
        self.is_told = True
        self.look()
        tape.add(FaultEvent(n=tape.n, t=tape.t, f=self.fault.id, phase="end", evidence=evidence))


@dataclass(slots=True, kw_only=True)
class FaultSchedule:
    """A `Place` that gets each phase that an attempt reaches. Mutable: counts phases."""

    scenario: Scenario
    run: Simulation
    seed: int
    noted: dict[str, list[Noted]] = field(default_factory=dict)
    """The acts of each fault, by its id."""
    workload: WorkloadFaults = field(init=False)
    """The faults that attempts and sources perform themselves."""
    watches_to_the_end: bool = False
    prolongs_us: int = 0
    _schedule: Schedule[_Acting] = field(init=False)
    _moments: Moments = field(default_factory=Moments)
    _listens_to: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.workload = WorkloadFaults(self.scenario, self.run, seed=self.seed)
        faults = [
            fault
            for fault in self.scenario.faults
            if fault.by != "workload" and not isinstance(fault, KillWorker)
        ]
        self._schedule = Schedule(faults=faults, seed=self.seed, place=self)
        self._listens_to = frozenset(shown_by(fault.when) for fault in faults)

    @property
    def has_any(self) -> bool:
        """Whether the scenario has a fault that this schedule handles."""
        return not self._schedule.is_empty or self.workload.has_any

    def reached(self, subtask: int, phase: str) -> None:
        """Called when an attempt of `subtask` reaches `phase`."""
        if phase == "accept":
            self.workload.accepted(subtask)
        if phase not in self._listens_to:
            return
        self._moments.reach(subtask, phase)
        match phase:
            case "accept":
                self._accepted(subtask)
            case "commit.post":
                done = self.run.completed(subtask)
                self._moments.commits.update((subtask, checkpoint) for checkpoint in done)
        self._schedule.come(self._moments, subtask=subtask, phase=phase)

    def _accepted(self, subtask: int) -> None:
        """Count the record of the last `in` event."""
        if self._moments.begun_us is None:
            self._moments.begun_us = self.now_us
        taken = self.run.tape.events[-1] if self.run.tape.events else None
        if isinstance(taken, In):
            self._moments.taken[subtask] += 1

    def close(self) -> None:
        self._schedule.close()
        self.workload.close()

    @property
    def now_us(self) -> int:
        return self.run.hub.now_ms * 1000

    def at(self, instant_us: int, callback: Callable[[], None]) -> Due:
        return self.run.hub.at(instant_us // 1000, callback)

    def cancel(self, alarm: Any) -> None:
        self.run.hub.cancel(alarm)

    def is_idle(self, fault: Fault) -> bool:
        """Never: attempts follow each other at once."""
        del fault
        return False

    def look_again(self, callback: Callable[[], None], *, soon: bool) -> None:
        hub = self.run.hub
        hub.at(hub.now_ms + (0 if soon else _LOOK_MS), callback)

    def lasts_ms(self, fault: Fault) -> int | None:
        return fault.simulated_lasts_ms

    def begins(self, fault: Fault, *, cycle: int, due_us: int) -> _Acting:
        del cycle
        act, tape = fault.simulated(self.run), self.run.tape
        assert act is not None, "only what is acted out from here is planned"
        refuse_invented(fault, act.evidence())
        noted = Noted(planned_us=due_us)
        self.noted.setdefault(fault.id, []).append(noted)
        tape.add(FaultEvent(n=tape.n, t=tape.t, f=fault.id, phase="begin", **fault.claims))
        return _Acting(fault=fault, act=act, noted=noted, run=self.run, armed_us=self.now_us)
