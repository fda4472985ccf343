"""The faults of the workload at level sim: calls that go wrong by themselves, and what a source sends that is odd.

Answers to `harness.sut.inside.calls` and `harness.workloads.shape`, which do it; here it is counted and told.
Invariant: a fault begins with the first call or element that it touched, and what it touched is counted once, however
often an attempt takes it up again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.history.event import FaultEvent, In, Wm
from harness.scenario import Fault, RecordTaken, Scenario
from harness.sut.inside.calls import CallFault, FaultyCalls
from harness.workloads.lookups import HOT_KEY, LookupSource, nth_ids

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.sim.attempt import Attempt
    from harness.sim.simulation import Simulation
    from reference_impl.async_function import AsyncFunction

__all__ = ["WorkloadFaults"]

_DOES: Final = {"poison": "", "duplicate_completion": "twice", "missing_completion": "never"}
_COMES_LATER: Final = {"twice": "completion repeated", "never": "completion lost"}
"""What shows it is not the call, but its end."""
_SHAPES: Final = ("hot_key", "watermark_burst", "idle_input")


@dataclass(slots=True, kw_only=True)
class _Stand:
    """A fault of the workload and where it stands. Mutable."""

    fault: Fault
    begun: bool = False
    ended: bool = False
    touched: dict[Any, None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    silent_ms: int = 0

    def evidence(self) -> dict[str, Any]:
        """What it touched; empty: nothing."""
        match self.fault.do:
            case "idle_input":
                return {"silent_ms": self.silent_ms} if self.silent_ms else {}
            case "hot_key" | "watermark_burst":
                named = "records" if self.fault.do == "hot_key" else "watermarks"
                return {named: len(self.touched)} if self.touched else {}
            case _:
                return dict(sorted(self.counts.items()))


class WorkloadFaults:
    """Those of a scenario in a simulated run. Mutable."""

    def __init__(self, scenario: Scenario, run: Simulation, *, seed: int) -> None:
        self._run = run
        self._workload = scenario.workload
        faults = [fault for fault in scenario.faults if fault.form.by == "workload"]
        self._stands = {fault.id: _Stand(fault=fault) for fault in faults}
        self._left = {fault.id: fault.times or 1 for fault in faults if fault.do in _DOES}
        self._last_ms: dict[int, int] = {}
        shaping = [fault for fault in faults if fault.do in _SHAPES]
        self._places = {
            (fault.id, subtask): _place(fault, scenario, seed=seed, subtask=subtask)
            for fault in shaping
            for subtask in range(scenario.workload.subtasks)
            if fault.subtask in {None, subtask}
        }

    @property
    def has_any(self) -> bool:
        """Whether anything is to be told at all."""
        return bool(self._stands)

    # ------------------------------------------------------------------------------------------------ calls

    def around_calls(self, function: AsyncFunction, attempt: Attempt) -> AsyncFunction:
        """`function`, with the faults of this attempt's calls."""
        faults = [self._call_fault(name, attempt.subtask) for name in self._left]
        mine = [fault for fault in faults if fault is not None]
        if not mine:
            return function
        assert attempt.journal is not None, "an attempt has its journal before its function"
        return FaultyCalls(function, mine, journal=attempt.journal, die=lambda _: attempt.actor.kill())

    def _call_fault(self, name: str, subtask: int) -> CallFault | None:
        fault = self._stands[name].fault
        if fault.subtask not in {None, subtask} or not isinstance(fault.when, RecordTaken):
            return None
        does = _DOES[fault.do] or fault.how or fault.form.hows[0]
        ids = nth_ids(
            self._workload,
            subtask=subtask,
            first=fault.when.record,
            count=1 if fault.do == "poison" else fault.times or 1,
        )
        return CallFault(fault=name, does=does, ids=ids, left=self._left[name])

    def hears(self, name: str, what: str, facts: Mapping[str, Any]) -> None:
        """An attempt has done it, or measured what came of it."""
        del facts
        stand = self._stands.get(name)
        if stand is None:
            return
        later = _COMES_LATER.get(what)
        self._begin(stand)
        if what in _COMES_LATER.values():
            stand.counts[what] += 1
        else:
            self._left[name] -= 1
            stand.counts.update({what: 1} if later is None else {})
        shown = sum(stand.counts.values())
        if shown >= (stand.fault.times or 1):
            self._end(stand)

    # ----------------------------------------------------------------------------------------- the source

    def accepted(self, subtask: int) -> None:
        """An attempt of `subtask` has taken what the tape tells last."""
        if not self._places:
            return
        taken = self._run.tape.events[-1]
        if not isinstance(taken, In | Wm):
            return
        for (name, of), place in self._places.items():
            if of == subtask:
                self._touch(self._stands[name], subtask, taken, place)
        if isinstance(taken, In):
            self._last_ms[subtask] = self._run.hub.now_ms

    def _touch(self, stand: _Stand, subtask: int, taken: In | Wm, place: _Place) -> None:
        key = (subtask, taken.pos)
        if stand.ended or key in stand.touched:
            return
        match stand.fault.do:
            case "hot_key" if place.first <= taken.pos < place.behind:
                if isinstance(taken, In) and taken.key == HOT_KEY:
                    self._begin(stand)
                    stand.touched[key] = None
            case "watermark_burst" if place.first <= taken.pos < place.behind:
                self._begin(stand)
                stand.touched[key] = None
                if taken.pos == place.behind - 1 and stand.fault.subtask is not None:
                    self._end(stand)
            case "idle_input" if taken.pos == place.behind - 1:
                self._begin(stand)
                stand.silent_ms = self._run.hub.now_ms - self._last_ms.get(subtask, 0)
                self._end(stand)
            case "idle_input" if taken.pos == place.first:
                self._begin(stand)

    # ---------------------------------------------------------------------------------------- the history

    def _begin(self, stand: _Stand) -> None:
        if not stand.begun:
            stand.begun = True
            tape = self._run.tape
            tape.add(FaultEvent(n=tape.n, t=tape.t, f=stand.fault.id, phase="begin"))

    def _end(self, stand: _Stand) -> None:
        if stand.begun and not stand.ended:
            stand.ended = True
            tape = self._run.tape
            evidence = stand.evidence()
            tape.add(FaultEvent(n=tape.n, t=tape.t, f=stand.fault.id, phase="end", evidence=evidence))

    def close(self) -> None:
        """The run is over."""
        for stand in self._stands.values():
            self._end(stand)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where in a source a fault is: from its first position to the one behind it."""

    first: int
    behind: int


def _place(fault: Fault, scenario: Scenario, *, seed: int, subtask: int) -> _Place:
    assert isinstance(fault.when, RecordTaken), "the workload's faults wait for a record"
    workload = scenario.workload
    source = LookupSource(workload=workload, seed=seed, subtask=subtask, faults=scenario.faults)
    first = source.position_of(min(fault.when.record, workload.records))
    match fault.do:
        case "watermark_burst":
            return _Place(first=first - (fault.count or 0), behind=first)
        case "hot_key" if fault.count is not None:
            last = min(workload.records, fault.when.record + fault.count - 1)
            return _Place(first=first, behind=source.position_of(last) + 1)
        case "hot_key":
            return _Place(first=first, behind=len(source))
        case _:  # from the record before the silence to the one behind it
            before = source.position_of(max(1, min(fault.when.record, workload.records) - 1))
            return _Place(first=before, behind=first + 1)
