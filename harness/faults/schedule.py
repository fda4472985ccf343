"""The schedule: arms each network fault when its trigger comes, heals it when its time is over.

Answers to Jepsen's nemesis process. Invariant: whatever was armed is healed when the `with` block of the
schedule ends, in the reverse order; a trigger that never came is remembered as such.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from harness.faults.blackhole import Blackhole
from harness.faults.down import Down
from harness.faults.fault import Control, Evidence, NetworkFault, Seen
from harness.faults.latency import Latency
from harness.faults.reset import Reset
from harness.history.follower import Progress
from harness.scenario import At, Call, CheckpointDone, Fault, Scenario, When

__all__ = ["Schedule", "network_fault"]

_STREAMS = {"up": "upstream", "down": "downstream", None: None}


def network_fault(fault: Fault) -> NetworkFault | None:
    """The fault that the scenario's entry names; None for those that an attempt does to itself."""
    link, stream = fault.link or "lookups", _STREAMS[fault.direction]
    match fault.do:
        case "latency":
            return Latency(
                name=fault.id,
                link=link,
                stream=stream or "downstream",
                delay_ms=fault.delay or 0,
                jitter_ms=fault.jitter or 0,
            )
        case "blackhole":
            return Blackhole(name=fault.id, link=link, stream=stream)
        case "down":
            return Down(name=fault.id, link=link)
        case "reset":
            return Reset(name=fault.id, link=link, stream=stream or "downstream")
        case "kill_worker":
            return None


@dataclass(slots=True, kw_only=True)
class _Planned:
    """One network fault and where it stands; mutable, for the schedule only."""

    fault: Fault
    action: NetworkFault
    armed_us: int | None = None
    held: AbstractContextManager[None] | None = None

    def is_over(self, now_us: int) -> bool:
        """Whether it has lasted as long as it was meant to."""
        return self.armed_us is not None and now_us - self.armed_us >= (self.fault.lasts or 0) * 1000


class Schedule:
    """Call `step` often; leave the block and everything is healed.

    `note(kind, fault, evidence)` records `~armed` (after the fault acts) and `~healing` (before it is taken
    away), so that what happens between the two notes happened under the fault; `evidence` is what it has left
    so far, for people: the run's findings are made afterwards, from everything.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        control: Control,
        note: Callable[[str, str, Evidence], int],
    ) -> None:
        actions = [(fault, network_fault(fault)) for fault in scenario.faults]
        self._planned = [_Planned(fault=fault, action=action) for fault, action in actions if action]
        self._control = control
        self._note = note
        self._stack = ExitStack()
        self._progress = Progress()
        self._now_us = 0

    def active(self, *, now_us: int) -> dict[str, bool]:
        """The faults that act now, and whether each has left evidence by now."""
        acting = [planned for planned in self._planned if planned.held is not None]
        return {planned.fault.id: bool(self._evidence(planned, now_us)) for planned in acting}

    def _evidence(self, planned: _Planned, now_us: int) -> Evidence:
        seen = Seen(
            armed_us=planned.armed_us or now_us,
            healed_us=now_us,
            calls=self._progress.timed.calls(planned.action.link),
            losses=self._progress.losses,
        )
        return planned.action.evidence(seen)

    def step(self, progress: Progress, *, now_us: int) -> None:
        """Arm what is due, heal what is over."""
        self._progress, self._now_us = progress, now_us
        for planned in self._planned:
            if planned.armed_us is None and _is_due(planned.fault.when, progress, now_us):
                self._arm(planned)
            elif planned.held is not None and planned.is_over(now_us):
                self._heal(planned)

    def _arm(self, planned: _Planned) -> None:
        planned.held = planned.action.inject(self._control)
        planned.held.__enter__()
        self._stack.callback(self._heal, planned)
        planned.armed_us = self._note("~armed", planned.fault.id, {})

    def _heal(self, planned: _Planned) -> None:
        held, planned.held = planned.held, None
        if held is None:
            return
        try:
            evidence = self._evidence(planned, self._now_us)
            self._note("~healing", planned.fault.id, evidence)
        finally:  # a full disk must not leave a fault on a link that other runs will use
            held.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()


def _is_due(when: When, progress: Progress, now_us: int) -> bool:
    match when:
        case At(at=at_ms):
            first = progress.first_record_us
            return first is not None and now_us - first >= at_ms * 1000
        case CheckpointDone(checkpoint=checkpoint, subtask=subtask):
            return any(c == checkpoint and subtask in {None, s} for s, c in progress.commits)
        case Call(call=call, subtask=subtask):
            made = sum(progress.calls.values()) if subtask is None else progress.calls[subtask]
            return made >= call
        case _:
            return False
