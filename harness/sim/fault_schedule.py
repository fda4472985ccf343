"""The schedule at level sim: begins each fault at its trigger, ends it when its time is over, again if it repeats.

The counterpart of `harness.engine.schedule`. Invariant: whatever was begun is healed, in the reverse order when the
run is over, and both are in the history, the end with what the fault itself counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

from harness.engine.moments import Moments, due_us, shown_by
from harness.faults.kill_worker import KillWorker
from harness.faults.model.fault import Fault
from harness.faults.simulated.act import Act, Evidence
from harness.history.event import FaultEvent, In
from harness.scenario import At, Between, Scenario
from harness.sim.hub import Due
from harness.sim.simulation import Simulation
from harness.sim.workload_faults import WorkloadFaults

__all__ = ["FaultSchedule", "Noted"]

_LOOK_MS: Final = 10
"""Between two looks whether a fault has bitten."""
_UNTIL_BITTEN_MS: Final = 10_000
"""As long as it may wait to bite."""


@dataclass(slots=True, kw_only=True)
class Noted:
    """What the history's events do not tell of one time that a fault acted. Mutable."""

    planned_us: int
    measured_us: int | None = None


@dataclass(slots=True, kw_only=True)
class _Acting:
    """One time that a fault acts. Mutable."""

    fault: Fault
    act: Act
    noted: Noted
    began_ms: int
    next: Due | None = None
    """Its end, or the last word on it."""
    is_ended: bool = False
    """Healed, and there may be more to tell."""
    is_told: bool = False


@dataclass(slots=True, kw_only=True)
class _Planned:
    """A fault and where it stands. Mutable."""

    fault: Fault
    first_ms: int | None = None
    """When it was due first; None: its trigger has not come."""
    begun: int = 0
    acting: _Acting | None = None


@dataclass(slots=True, kw_only=True)
class FaultSchedule:
    """Told of each phase that is reached. Mutable: counts calls and hits."""

    scenario: Scenario
    run: Simulation
    seed: int
    noted: dict[str, list[Noted]] = field(default_factory=dict)
    """Of each fault: one for each time that it acted."""
    workload: WorkloadFaults = field(init=False)
    """Those that attempts and sources act out."""
    _planned: list[_Planned] = field(default_factory=list)
    _acted: list[_Acting] = field(default_factory=list)
    _waiting: list[Due] = field(default_factory=list)
    _moments: Moments = field(default_factory=Moments)
    _listens_to: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.workload = WorkloadFaults(self.scenario, self.run, seed=self.seed)
        faults = [
            fault
            for fault in self.scenario.faults
            if fault.by != "workload" and not isinstance(fault, KillWorker)
        ]
        self._planned = [_Planned(fault=fault) for fault in faults]
        self._listens_to = frozenset(shown_by(fault.when) for fault in faults)

    @property
    def has_any(self) -> bool:
        """Whether it waits for anything at all."""
        return bool(self._planned) or self.workload.has_any

    # --------------------------------------------------------------------------------------------- triggers

    def reached(self, subtask: int, phase: str) -> None:
        """An attempt of `subtask` is at `phase`."""
        moments = self._moments
        if phase == "accept":
            self.workload.accepted(subtask)
            self._accepted(subtask)
        if phase not in self._listens_to:
            return
        moments.reach(subtask, phase)
        if phase == "commit.post":
            moments.commits.update((subtask, checkpoint) for checkpoint in self.run.completed(subtask))
        self._come(subtask, phase)

    def _accepted(self, subtask: int) -> None:
        """Of what the tape tells last."""
        if self._moments.first_record_us is None:
            self._moments.first_record_us = self.run.hub.now_ms * 1000
        taken = self.run.tape.events[-1] if self.run.tape.events else None
        if isinstance(taken, In) and isinstance(taken.id, int):
            record = taken.id // self.scenario.workload.subtasks + 1
            self._moments.taken[subtask] = max(record, self._moments.taken[subtask])

    def _come(self, subtask: int, phase: str) -> None:
        """Begin those whose trigger this is; what an attempt does to itself, it does here and now."""
        now_ms = self.run.hub.now_ms
        for planned in self._planned:
            fault = planned.fault
            if planned.first_ms is not None or shown_by(fault.when) != phase:
                continue
            instant_us = due_us(fault, self._moments, seed=self.seed, now_us=now_ms * 1000)
            if instant_us is None:
                continue
            by_time = isinstance(fault.when, At | Between)
            if fault.attempts_own and not by_time and fault.of_subtask in {None, subtask}:
                planned.first_ms = now_ms
                self._begin(planned, now_ms)
            else:  # a cut connection would be told to a loop that is in the middle of a call
                self._due_at(planned, instant_us // 1000)

    def _due_at(self, planned: _Planned, instant_ms: int) -> None:
        if planned.first_ms is None:
            planned.first_ms = instant_ms
        self._waiting.append(self.run.hub.at(instant_ms, partial(self._begin, planned, instant_ms)))

    # ----------------------------------------------------------------------------------------- acting

    def _begin(self, planned: _Planned, planned_ms: int) -> None:
        run, fault = self.run, planned.fault
        act = fault.simulated(run)
        assert act is not None, "only what is acted out from here is planned"
        noted = Noted(planned_us=planned_ms * 1000)
        self.noted.setdefault(fault.id, []).append(noted)
        planned.acting = acting = _Acting(fault=fault, act=act, noted=noted, began_ms=run.hub.now_ms)
        planned.begun += 1
        self._acted.append(acting)
        self._tell_begin(acting)
        lasts = fault.simulated_lasts_ms
        if lasts is not None:
            acting.next = run.hub.at(run.hub.now_ms + lasts, partial(self._end, planned, acting))
        run.hub.at(run.hub.now_ms, partial(self._look, planned, acting))
        acting.act.begins()

    def _look(self, planned: _Planned, acting: _Acting) -> None:
        """Whether it has bitten; without a duration that is its end, and so is a long wait."""
        if acting.is_ended:
            return
        hub = self.run.hub
        self._measure(acting, acting.act.evidence())
        bitten, waited_ms = acting.noted.measured_us is not None, hub.now_ms - acting.began_ms
        if acting.fault.simulated_lasts_ms is None and (bitten or waited_ms >= _UNTIL_BITTEN_MS):
            self._end(planned, acting)
        elif not bitten:
            hub.at(hub.now_ms + _LOOK_MS, partial(self._look, planned, acting))

    def _end(self, planned: _Planned, acting: _Acting) -> None:
        """Heal it; its next time may come when this one is over."""
        hub, fault = self.run.hub, planned.fault
        self._heal(acting)
        if planned.begun < fault.comes:
            assert planned.first_ms is not None, "what has acted was due"
            next_ms = planned.first_ms + planned.begun * fault.every_ms
            self._due_at(planned, max(hub.now_ms, next_ms))

    def _heal(self, acting: _Acting) -> None:
        hub = self.run.hub
        acting.is_ended = True
        self._measure(acting, acting.act.evidence())
        acting.act.ends()
        if acting.act.settles_ms and not hub.over:
            acting.next = hub.at(hub.now_ms + acting.act.settles_ms, partial(self._tell_end, acting))
        else:
            self._tell_end(acting)

    def _measure(self, acting: _Acting, evidence: Evidence) -> None:
        if evidence and acting.noted.measured_us is None:
            acting.noted.measured_us = self.run.hub.now_ms * 1000

    def close(self) -> None:
        """The run is over: what acts is healed, the last that began first, and nothing begins any more."""
        for due in self._waiting:
            self.run.hub.cancel(due)
        for acting in reversed(self._acted):
            if acting.is_told:
                continue
            if acting.next is not None:
                self.run.hub.cancel(acting.next)
            if acting.is_ended:
                self._tell_end(acting)
            else:
                self._heal(acting)
        self.workload.close()

    def _tell_begin(self, acting: _Acting) -> None:
        tape, fault = self.run.tape, acting.fault
        if acting.act.stalls:
            tape.add(FaultEvent(n=tape.n, t=tape.t, f=fault.id, phase="begin", stalls=True))
        else:
            tape.add(FaultEvent(n=tape.n, t=tape.t, f=fault.id, phase="begin"))

    def _tell_end(self, acting: _Acting) -> None:
        tape, evidence = self.run.tape, acting.act.evidence()
        acting.is_told = True
        self._measure(acting, evidence)
        tape.add(FaultEvent(n=tape.n, t=tape.t, f=acting.fault.id, phase="end", evidence=evidence))
