"""The schedule at level sim: arms each fault of a link at its trigger, heals it when its time is over.

The counterpart of `harness.faults.schedule`. Invariant: whatever was armed is healed, and both are in the history,
the end with what the fault itself counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.history.event import FaultEvent
from harness.scenario import At, Call, CheckpointDone, Fault, Scenario
from harness.sim.hub import Due
from harness.sim.link import LinkFault
from harness.sim.link_faults import link_fault
from harness.sim.simulation import Simulation

__all__ = ["FaultSchedule"]


@dataclass(slots=True, kw_only=True)
class _Planned:
    """A fault and where it stands. Mutable."""

    fault: Fault
    acts: LinkFault
    armed: bool = False
    """Its trigger came."""
    next: Due | None = None
    """Its beginning or its end, whichever is still to come."""
    acting: bool = False


@dataclass(slots=True, kw_only=True)
class FaultSchedule:
    """Told of each phase that is reached. Mutable: counts calls."""

    scenario: Scenario
    run: Simulation
    _planned: list[_Planned] = field(default_factory=list)
    _calls: dict[int | None, int] = field(default_factory=dict)
    _began: bool = False

    def __post_init__(self) -> None:
        self._planned = [
            _Planned(fault=fault, acts=link_fault(fault))
            for fault in self.scenario.faults
            if fault.do != "kill_worker"
        ]

    @property
    def has_any(self) -> bool:
        """Whether it waits for anything at all."""
        return bool(self._planned)

    def reached(self, subtask: int, phase: str) -> None:
        """An attempt of `subtask` is at `phase`."""
        match phase:
            case "call":
                for counted in (None, subtask):
                    self._calls[counted] = self._calls.get(counted, 0) + 1
                self._arm_due(lambda when: isinstance(when, Call) and self._has_called(when))
            case "committed":
                done = self.run.database.epochs.get(subtask, {})
                self._arm_due(
                    lambda when: (
                        isinstance(when, CheckpointDone)
                        and when.subtask in {None, subtask}
                        and when.checkpoint in done
                    )
                )
            case "accept" if not self._began:
                self._began = True
                for planned in self._planned:
                    if isinstance(planned.fault.when, At):
                        self._arm_at(planned, self.run.hub.now_ms + planned.fault.when.at)

    def _has_called(self, when: Call) -> bool:
        return self._calls.get(when.subtask, 0) >= when.call

    def _arm_due(self, is_due: Any) -> None:
        for planned in self._planned:
            if not planned.armed and is_due(planned.fault.when):
                self._arm_at(planned, self.run.hub.now_ms)

    def _arm_at(self, planned: _Planned, instant_ms: int) -> None:
        planned.armed = True
        planned.next = self.run.hub.at(instant_ms, lambda: self._arm(planned))

    def _arm(self, planned: _Planned) -> None:
        run, fault = self.run, planned.fault
        tape = run.tape
        tape.add(FaultEvent(n=tape.n, t=tape.t, f=fault.id, phase="begin"))
        run.links[fault.link or "lookups"].begin(planned.acts)
        planned.acting = True
        planned.next = run.hub.at(run.hub.now_ms + (fault.lasts or 0), lambda: self._heal(planned))

    def close(self) -> None:
        """The run is over: what acts is healed, and nothing begins any more."""
        for planned in self._planned:
            if planned.next is not None:
                self.run.hub.cancel(planned.next)
            if planned.acting:
                self._heal(planned)

    def _heal(self, planned: _Planned) -> None:
        planned.acting, planned.next = False, None
        tape = self.run.tape
        self.run.links[planned.fault.link or "lookups"].heal(planned.acts)
        tape.add(
            FaultEvent(n=tape.n, t=tape.t, f=planned.fault.id, phase="end", evidence=planned.acts.evidence())
        )
