"""The workload faults at level sim: counts their acts and records their begin and end.

Attempts and sources perform these faults themselves, as at every level. Invariant: a fault begins with the first call
or element that it changed, and each changed call or element is counted once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.faults.model.workload import CallFault, ShapingFault
from harness.history.event import FaultEvent, In, Wm
from harness.scenario.model import Scenario
from harness.scenario.workloads.lookups import LookupSource, nth_ids, own_records
from harness.sut.faulty_calls import FaultyCalls, PlannedCalls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.faults.simulated.on_attempt import Shaped
    from harness.levels.sim.place import SimulatedAttempt
    from harness.levels.sim.simulation import Simulation
    from reference_impl.operator.functions import AsyncFunction


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

    def evidence(self) -> dict[str, Any]:
        """The number of calls for each act or measurement."""
        return dict(sorted(self.counts.items()))


class WorkloadFaults:
    """The workload faults of one scenario. Mutable."""

    def __init__(self, scenario: Scenario, run: Simulation, *, seed: int) -> None:
        self._run = run
        self._workload = scenario.workload
        self._own = own_records(scenario)
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
                self._place(fault, scenario, seed=seed)
        self._claims = {fault.id: fault.claims for fault in scenario.faults}
        self._order = [fault.id for fault in scenario.faults if fault.by == "workload"]
        self._told: dict[str, list[str]] = {name: [] for name in self._order}
        self._last_ms: dict[int, int] = {}

    def _place(self, fault: ShapingFault, scenario: Scenario, *, seed: int) -> None:
        workload = scenario.workload
        for subtask in range(workload.subtasks):
            if fault.of_subtask in {None, subtask}:
                source = LookupSource(
                    workload=workload, seed=seed, subtask=subtask, faults=scenario.faults, own=self._own
                )
                self._places[fault.id, subtask] = fault.place(source, records=len(source.records))

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
        return FaultyCalls(function, mine, journal=attempt.journal, die=lambda _, fault: attempt.die(fault))

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

    def hears(self, name: str, what: str, facts: Mapping[str, Any]) -> None:
        """Count an act of the fault, or a measurement that is its evidence."""
        del facts
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
        """Record the begin and the end of the fault, each as soon as it is known."""
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
