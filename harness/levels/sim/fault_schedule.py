"""The schedule at level sim: begins each fault at its trigger, ends it when its time is over, again if it repeats.

The counterpart of `harness.engine.schedule`. Invariant: whatever was begun is healed, in the reverse order when the
run is over, and both are in the history, the end with what the fault itself counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from harness.drawn_times import instant_ms
from harness.faults.kill_worker import KillWorker
from harness.faults.model.fault import Fault
from harness.faults.simulated.act import Act, Evidence
from harness.history.event import FaultEvent, In
from harness.levels.sim.hub import Due
from harness.levels.sim.simulation import Simulation
from harness.levels.sim.workload_faults import WorkloadFaults
from harness.scenario import Call, CheckpointDone, Phase, RecordTaken, Scenario

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
    _calls: Counter[int | None] = field(default_factory=Counter)
    _hits: Counter[tuple[int, str]] = field(default_factory=Counter)
    _listens_to: frozenset[str] = frozenset()
    _began: bool = False

    def __post_init__(self) -> None:
        self.workload = WorkloadFaults(self.scenario, self.run, seed=self.seed)
        faults = [
            fault
            for fault in self.scenario.faults
            if fault.by != "workload" and not isinstance(fault, KillWorker)
        ]
        self._planned = [_Planned(fault=fault) for fault in faults]
        whens = [fault.when for fault in faults]
        self._listens_to = frozenset(when.phase for when in whens if isinstance(when, Phase))

    @property
    def has_any(self) -> bool:
        """Whether it waits for anything at all."""
        return bool(self._planned) or self.workload.has_any

    # --------------------------------------------------------------------------------------------- triggers

    def reached(self, subtask: int, phase: str) -> None:
        """An attempt of `subtask` is at `phase`."""
        match phase:
            case "call":
                self._calls[None] += 1
                self._calls[subtask] += 1
                self._come(subtask, lambda fault: _has_called(fault, self._calls))
            case "commit.post":
                done = self.run.completed(subtask)
                self._come(subtask, lambda fault: _is_committed(fault, subtask, done))
            case "accept":
                self.workload.accepted(subtask)
                self._accepted(subtask)
        if phase in self._listens_to:
            self._hits[subtask, phase] += 1
            hit = self._hits[subtask, phase]
            self._come(subtask, lambda fault: _is_reached(fault, subtask, phase, hit))

    def _accepted(self, subtask: int) -> None:
        if not self._began:
            self._began = True
            for planned in self._planned:
                after_ms = instant_ms(planned.fault, seed=self.seed)
                if after_ms is not None:
                    self._due_at(planned, self.run.hub.now_ms + after_ms)
        taken = self.run.tape.events[-1] if self.run.tape.events else None
        if isinstance(taken, In) and isinstance(taken.id, int):
            record = taken.id // self.scenario.workload.subtasks + 1
            self._come(subtask, lambda fault: _is_taken(fault, subtask, record))

    def _come(self, subtask: int, is_due: Callable[[Fault], bool]) -> None:
        """Begin those whose trigger this is; what an attempt does to itself, it does here and now."""
        now_ms = self.run.hub.now_ms
        for planned in self._planned:
            if planned.first_ms is None and is_due(planned.fault):
                own = planned.fault.attempts_own and planned.fault.of_subtask in {None, subtask}
                if own:
                    planned.first_ms = now_ms
                    self._begin(planned, now_ms)
                else:  # a cut connection would be told to a loop that is in the middle of a call
                    self._due_at(planned, now_ms)

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
        self._settle(acting, since_ms=hub.now_ms)

    def _settle(self, acting: _Acting, *, since_ms: int) -> None:
        """Tell its end when there is no more to come of it."""
        hub = self.run.hub
        due_ms = since_ms + acting.act.settles_ms
        if hub.now_ms < due_ms and not hub.over:
            acting.next = hub.at(due_ms, partial(self._settle, acting, since_ms=since_ms))
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


def _has_called(fault: Fault, calls: Counter[int | None]) -> bool:
    when = fault.when
    if not isinstance(when, Call):
        return False
    of = fault.of_subtask if when.subtask is None and fault.attempts_own else when.subtask
    return calls[of] >= when.call


def _is_committed(fault: Fault, subtask: int, done: frozenset[int]) -> bool:
    when = fault.when
    return isinstance(when, CheckpointDone) and when.subtask in {None, subtask} and when.checkpoint in done


def _is_taken(fault: Fault, subtask: int, record: int) -> bool:
    when = fault.when
    if not isinstance(when, RecordTaken):
        return False
    of = fault.of_subtask if when.subtask is None else when.subtask
    return of in {None, subtask} and record >= when.record


def _is_reached(fault: Fault, subtask: int, phase: str, hit: int) -> bool:
    when = fault.when
    if not isinstance(when, Phase):
        return False
    return fault.of_subtask in {None, subtask} and when.phase == phase and when.hit == hit
