"""The schedule: begins each outside fault when its trigger comes, ends it when its time is over, again if it repeats.

Answers to Jepsen's nemesis process. Invariants: whatever was armed is healed when the `with` block of the schedule
ends, one after the other, in the reverse order of arming; a trigger that never came is remembered as such; a fault
that breaks is raised, so that no run goes on without what it was meant to meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from harness.drawn_times import instant_ms
from harness.engine.acting import Acting, NoteTaker
from harness.faults.model.fault import Fault, OutsideFault
from harness.faults.real.fault_site import Control
from harness.faults.real.seen import Evidence, Seen
from harness.faults.real.server_control import ServerControl
from harness.faults.real.workers import Workers
from harness.history.follower import Progress
from harness.scenario import Call, CheckpointDone, Phase, RecordTaken, Scenario

__all__ = ["Schedule"]

_EVIDENCE_EVERY_US = 100_000
"""Between two looks whether a fault has bitten."""
_UNTIL_BITTEN_US = 10_000_000
"""As long as a fault without a duration may wait to bite."""


@dataclass(slots=True, kw_only=True)
class _Planned:
    """One fault and where it stands; mutable, for the schedule only."""

    fault: OutsideFault
    at_ms: int | None
    """When it is due by the clock; None: by its trigger."""
    first_us: int | None = None
    """When it was due first; None: its trigger has not come."""
    begun: int = 0
    """How many times it has begun."""
    acting: Acting | None = None
    """The time that it acts now, or acted last."""
    looked_us: int = 0
    tells: bool = False
    """Whether its healing is still to be told."""

    def due_us(self, progress: Progress, now_us: int) -> int | None:
        """When its next time is due, if that is known by now."""
        if self.first_us is None:
            self.first_us = _due_us(self.fault, self.at_ms, progress, now_us)
        if self.first_us is None or self.begun >= self.fault.comes:
            return None
        return self.first_us + self.begun * self.fault.every_ms * 1000

    def is_over(self, acting: Acting, now_us: int) -> bool:
        """Whether it has lasted as long as it was meant to: without a duration, until it has bitten."""
        if acting.armed_us is None:
            return False
        lasted_us = now_us - acting.armed_us
        if self.fault.lasts_ms is None:
            return acting.bitten or lasted_us >= _UNTIL_BITTEN_US
        return lasted_us >= self.fault.lasts_ms * 1000


@dataclass(slots=True, kw_only=True)
class Schedule:
    """Call `step` often; leave the block and everything is healed. Mutable.

    `note` records, from any thread: `~due`, `~arming` (it may act from now on), `~armed` (it does), `~bit` (its
    evidence was seen), `~found`, `~deed`, `~healing` (before it is taken away) and `~healed`. What happens between
    `~armed` and `~healing` happened under the fault. `tell` is for people, from the thread that steps.
    """

    scenario: Scenario
    seed: int
    control: Control
    server: ServerControl
    workers: Workers
    note: NoteTaker
    tell: Callable[[str], None] = lambda text: None
    _planned: list[_Planned] = field(default_factory=list)
    _acted: list[Acting] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)
    _progress: Progress = field(default_factory=Progress)
    _now_us: int = 0

    def __post_init__(self) -> None:
        for fault in self.scenario.faults:
            if isinstance(fault, OutsideFault):
                self._planned.append(_Planned(fault=fault, at_ms=instant_ms(fault, seed=self.seed)))

    def active(self) -> dict[str, bool]:
        """The faults that act now, and whether each has left evidence by now."""
        acting = [planned.acting for planned in self._planned if planned.acting is not None]
        return {one.fault.id: one.bitten for one in acting if one.acts}

    def is_settled(self) -> bool:
        """Whether every fault that began has been armed by now, and everyone that is over has healed."""
        return all(acting.is_settled for acting in self._acted)

    def step(self, progress: Progress, *, now_us: int) -> None:
        """Begin what is due, end what is over. Raises what a fault broke with."""
        self._progress, self._now_us = progress, now_us
        for planned in self._planned:
            self._step(planned)

    def _step(self, planned: _Planned) -> None:
        acting = planned.acting
        if acting is None or acting.ended:
            self._tell_healed(planned)
            due_us = planned.due_us(self._progress, self._now_us)
            if due_us is not None and self._now_us >= due_us:
                self._begin(planned, due_us)
            return
        self._look(planned, acting)
        if planned.is_over(acting, self._now_us):
            acting.end()

    def _begin(self, planned: _Planned, due_us: int) -> None:
        fault = planned.fault
        acting = Acting(
            fault=fault,
            control=self.control,
            server=self.server,
            workers=self.workers,
            seed=self.seed,
            note=self.note,
            cycle=planned.begun,
            after=max(
                (acted.after for acted in self._acted if acted.fault.on_link == fault.on_link), default=0
            ),
        )
        self.note("~due", fault.id, cycle=planned.begun, due=due_us)
        self.tell(f"{fault.id} begins")
        planned.acting, planned.begun, planned.tells = acting, planned.begun + 1, True
        self._acted.append(acting)
        self._stack.callback(self._heal, planned, acting)
        acting.start()

    def _tell_healed(self, planned: _Planned) -> None:
        """Once a time that it acted. Raises what it broke with."""
        acting = planned.acting
        if acting is None or not planned.tells:
            return
        planned.tells = False
        if acting.failure is not None:
            raise acting.failure
        evidence = self._evidence(acting)
        left = f"it bit: {_in_words(evidence)}" if evidence else "no evidence so far"
        self.tell(f"{acting.fault.id} has healed; {left}")

    def _look(self, planned: _Planned, acting: Acting) -> None:
        """Whether it has bitten by now."""
        if acting.bitten or not acting.acts or self._now_us - planned.looked_us < _EVIDENCE_EVERY_US:
            return
        planned.looked_us = self._now_us
        evidence = self._evidence(acting)
        if evidence:
            acting.bitten = True
            self.note("~bit", acting.fault.id, cycle=acting.cycle)
            self.tell(f"{acting.fault.id} bites: {_in_words(evidence)}")

    def _evidence(self, acting: Acting) -> Evidence:
        progress = self._progress
        seen = Seen(
            arming_us=acting.arming_us,
            armed_us=acting.armed_us or self._now_us,
            healed_us=acting.healing_us or self._now_us,
            calls=[*progress.timed.calls("lookups"), *progress.timed.calls("sink")],
            losses=progress.losses,
            errors=progress.errors,
            deeds=acting.log,
            found=list(acting.facts),
        )
        return acting.fault.evidence(seen)

    def _heal(self, planned: _Planned, acting: Acting) -> None:
        """At the end of the block; one that has healed long since is left alone."""
        if planned.acting is acting:
            acting.heal()
            self._tell_healed(planned)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()


def _due_us(fault: Fault, at_ms: int | None, progress: Progress, now_us: int) -> int | None:
    """When it is due for the first time; None: its trigger has not come."""
    if at_ms is not None:
        first_us = progress.first_record_us
        return None if first_us is None else first_us + at_ms * 1000
    return now_us if _has_come(fault, progress) else None


def _has_come(fault: Fault, progress: Progress) -> bool:
    match fault.when:
        case CheckpointDone(checkpoint=checkpoint, subtask=subtask):
            return any(c == checkpoint and subtask in {None, s} for s, c in progress.commits)
        case Call(call=call, subtask=subtask):
            return _reaches(progress.calls, call, subtask, whole=True)
        case RecordTaken(record=record, subtask=subtask):
            return _reaches(
                progress.taken, record, fault.of_subtask if subtask is None else subtask, whole=False
            )
        case Phase():
            return fault.id in progress.stopped
        case _:
            return False


def _reaches(counts: Mapping[int, int], wanted: int, subtask: int | None, *, whole: bool) -> bool:
    """Whether the count of `subtask` is that high; of none named: that of all together, or of any."""
    if subtask is not None:
        return counts.get(subtask, 0) >= wanted
    return (sum(counts.values()) if whole else max(counts.values(), default=0)) >= wanted


def _in_words(evidence: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in evidence.items())
