"""The fault schedule of level sim: acts on simulated links, servers and attempts in virtual time.

Invariant: the begin and the end of each act are in the history, the end with the evidence that the act counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from harness.database.simulated.hub import Due
from harness.engine.findings import refuse_invented
from harness.engine.schedule import Schedule
from harness.faults.kill_worker import KillWorker
from harness.faults.model.fault import Fault
from harness.faults.model.workload import CallFault, ShapingFault
from harness.faults.simulated.acts import Act
from harness.history.event import FaultEvent, In, Wm
from harness.levels.sim.simulation import Simulation
from harness.scenario.moments import Moments, shown_by
from harness.scenario.workloads.lookups import LookupSource, nth_ids
from harness.sut.inside_faults import FaultyCalls, PlannedCalls
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.faults.simulated.acts import Shaped
    from harness.levels.sim.place import SimulatedAttempt
    from reference_impl.operator.functions import AsyncFunction


_LOOK_MS: Final = 10
"""Interval of the checks for evidence."""


@dataclass(slots=True, kw_only=True)
class ActingHere:
    """One act of a fault; an `Acting`. Mutable."""

    fault: Fault
    act: Act
    run: Simulation
    planned_us: int
    armed_us: int
    measured_us: int | None = None
    """The time of its first effect."""
    ended: bool = False
    """The fault is healed; its evidence may still grow."""
    is_told: bool = False
    settles: Due | None = None

    @property
    def effective(self) -> bool:
        """Whether evidence was found."""
        return self.measured_us is not None

    def start(self) -> None:
        self.act.begins()

    def look(self) -> None:
        if self.act.evidence() and self.measured_us is None:
            self.measured_us = self.run.hub.now_ms * 1000

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

    def report(self) -> None:
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

    run: Simulation
    noted: dict[str, list[ActingHere]] = field(default_factory=dict)
    """The acts of each fault, by its id."""
    workload: WorkloadFaults = field(init=False)
    """The faults that attempts and sources perform themselves."""
    watches_to_the_end: bool = False
    prolongs_us: int = 0
    _schedule: Schedule[ActingHere] = field(init=False)
    _moments: Moments = field(default_factory=Moments)
    _listens_to: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.workload = WorkloadFaults(self.run)
        faults = [
            fault
            for fault in self.run.scenario.faults
            if fault.by != "workload" and not isinstance(fault, KillWorker)
        ]
        self._schedule = Schedule(faults=faults, seed=self.run.plan.seed, place=self)
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
                if self._moments.begun_us is None:
                    self._moments.begun_us = self.now_us
                # The record of the last `in` event.
                if self.run.tape.events and isinstance(self.run.tape.events[-1], In):
                    self._moments.taken[subtask] += 1
            case "commit.post":
                done = self.run.completed(subtask)
                self._moments.commits.update((subtask, checkpoint) for checkpoint in done)
        self._schedule.come(self._moments, subtask=subtask, phase=phase)

    def close(self) -> None:
        self._schedule.close()
        self.workload.close()

    @property
    def now_us(self) -> int:
        return self.run.hub.now_ms * 1000

    def at(self, instant_us: int, callback: Callable[[], None]) -> Callable[[], None]:
        return partial(self.run.hub.cancel, self.run.hub.at(instant_us // 1000, callback))

    def is_idle(self, fault: Fault) -> bool:
        """Never: attempts follow each other at once."""
        del fault
        return False

    def look_again(self, callback: Callable[[], None], *, soon: bool) -> None:
        hub = self.run.hub
        hub.at(hub.now_ms + (0 if soon else _LOOK_MS), callback)

    def lasts_ms(self, fault: Fault) -> int | None:
        return fault.simulated_lasts_ms

    def begins(self, fault: Fault, *, cycle: int, due_us: int) -> ActingHere:
        del cycle
        act, tape = fault.simulated(self.run), self.run.tape
        assert act is not None, "only what is acted out from here is planned"
        refuse_invented(fault, act.evidence())
        acting = ActingHere(fault=fault, act=act, run=self.run, planned_us=due_us, armed_us=self.now_us)
        self.noted.setdefault(fault.id, []).append(acting)
        tape.add(FaultEvent(n=tape.n, t=tape.t, f=fault.id, phase="begin", **fault.claims))
        return acting


@dataclass(slots=True, kw_only=True)
class _OfCalls:
    """A fault of calls and its counts. Mutable."""

    fault: CallFault
    left: int
    begun: bool = False
    over: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    def hears(self, what: str) -> None:
        """Count an act of the fault, or a measurement that is its evidence."""
        self.begun = True
        if what == self.fault.shows:
            self.counts[what] += 1
        else:
            self.left -= 1
            self.counts.update({what: 1} if self.fault.shows is None else {})
        self.over = self.over or self.counts.total() >= self.fault.times

    def evidence(self) -> Json:
        """The number of calls for each act or measurement."""
        return dict(sorted(self.counts.items()))


class WorkloadFaults:
    """The workload faults of one scenario. Mutable.

    Attempts and sources perform these faults themselves. Invariant: each changed call or element is counted once.
    """

    def __init__(self, run: Simulation) -> None:
        scenario, seed = run.scenario, run.plan.seed
        self._run = run
        self._workload = scenario.workload
        self._own = scenario.own_records
        self._of_calls = {
            fault.id: _OfCalls(fault=fault, left=fault.times)
            for fault in scenario.faults
            if isinstance(fault, CallFault)
        }
        self._shaped: dict[str, Shaped] = {}
        self._places: dict[tuple[str, int], range] = {}
        for fault in scenario.faults:
            if isinstance(fault, ShapingFault):
                self._shaped[fault.id] = fault.watched()
                for subtask in range(self._workload.subtasks):
                    if fault.of_subtask in {None, subtask}:
                        source = LookupSource(
                            workload=self._workload,
                            seed=seed,
                            subtask=subtask,
                            faults=scenario.faults,
                            own=self._own,
                        )
                        self._places[fault.id, subtask] = fault.place(source, records=len(source.records))
        self._claims = {fault.id: fault.claims for fault in scenario.faults}
        self._order = [fault.id for fault in scenario.faults if fault.by == "workload"]
        self._told: dict[str, list[str]] = {name: [] for name in self._order}
        self._last_ms: dict[int, int] = {}

    @property
    def has_any(self) -> bool:
        """Whether the scenario has workload faults."""
        return bool(self._order)

    def around_calls(self, function: AsyncFunction, attempt: SimulatedAttempt) -> AsyncFunction:
        """`function` with the faults of this attempt's calls around it."""
        mine = [self._planned(one) for one in self._of_calls.values() if one.fault.subtask == attempt.subtask]
        if not mine:
            return function
        assert attempt.journal is not None, "an attempt has its journal before its function"
        loop, timeout_ms = attempt.loop, self._run.scenario.operator.timeout
        assert loop is not None, "an attempt has its loop before its function"
        return FaultyCalls(
            function,
            mine,
            journal=attempt.journal,
            die=lambda _, fault: attempt.die(fault),
            at_timer=lambda turn, act: loop.at_edge(loop.now_ms() + timeout_ms, act, is_last=turn == "at"),
        )

    def _planned(self, one: _OfCalls) -> PlannedCalls:
        fault = one.fault
        ids = nth_ids(
            self._workload,
            subtask=fault.subtask,
            first=fault.first_record,
            count=fault.records,
            own=self._own,
        )
        return PlannedCalls(fault=fault, ids=ids, left=one.left)

    def hears(self, name: str, what: str) -> None:
        """Count an act of the fault, or a measurement that is its evidence."""
        one = self._of_calls.get(name)
        if one is not None:
            one.hears(what)
            self._tell(name)

    def accepted(self, subtask: int) -> None:
        """Called when an attempt of `subtask` has taken the element of the last event."""
        if not self._places:
            return
        taken = self._run.tape.events[-1]
        if not isinstance(taken, In | Wm):
            return
        quiet_ms = self._run.hub.now_ms - self._last_ms.get(subtask, 0)
        for (name, of), place in self._places.items():
            if of == subtask:
                self._shaped[name].accepted(taken, place, subtask=subtask, quiet_ms=quiet_ms)
                self._tell(name)
        if isinstance(taken, In):
            self._last_ms[subtask] = self._run.hub.now_ms

    def _tell(self, name: str) -> None:
        """Record when the fault begins and ends, each as soon as it is known."""
        stand = self._of_calls.get(name) or self._shaped[name]
        told, tape = self._told[name], self._run.tape
        claims = self._claims[name]
        event = partial(FaultEvent, f=name)
        if stand.begun and not told:
            told.append("begin")
            tape.add(event(n=tape.n, t=tape.t, phase="begin", **claims))
        if stand.begun and stand.over and told == ["begin"]:
            told.append("end")
            tape.add(event(n=tape.n, t=tape.t, phase="end", evidence=stand.evidence()))

    def close(self) -> None:
        """Record the ends of the faults that are still active."""
        for name in self._order:
            stand = self._of_calls.get(name) or self._shaped[name]
            stand.over = True
            self._tell(name)
