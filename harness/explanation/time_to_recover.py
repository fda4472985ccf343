"""V17: measures what each fault and each kill of a history cost, in one pass.

Answers to Jepsen's latency plots. Invariant: O(n) in events; memory grows with the records that have not left
yet, not with the history: of the lags before a disturbance only the last `LAGS_KEPT` are compared with.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from harness.explanation.disturbance import Meter
from harness.explanation.event_lines import Glimpse, is_empty
from harness.history.values import shown
from harness.recovery import Recovery

__all__ = ["LAGS_KEPT", "RecoveryFold"]

LAGS_KEPT = 4096
_COSTS_MAX = 50
"""Disturbances measured; the rest is counted."""
_ALL = " (all subtasks)"
_UNDISTURBED = "no fault began, and no attempt was killed"


@dataclass(slots=True, kw_only=True)
class _Subtask:
    """One subtask, as far as recovery goes (mutable: it is fed)."""

    since_us: dict[Any, int] = field(default_factory=dict)
    """When each record that has not left yet came in first."""
    expects_nothing: dict[Any, None] = field(default_factory=dict)
    lags_us: deque[int] = field(default_factory=lambda: deque(maxlen=LAGS_KEPT))
    highest: float = float("-inf")
    """The highest position of a record taken in by any attempt."""
    accepted: int = 0
    last_us: dict[int, int] = field(default_factory=dict)
    """Of each attempt, its last own event."""
    replays_to: float = float("-inf")
    """Records up to here are read again by the attempt that started last."""


class RecoveryFold:
    """Fed with every event of a history, in order (mutable)."""

    def __init__(self) -> None:
        self._subtasks: dict[Any, _Subtask] = {}
        self._lags_us: deque[int] = deque(maxlen=LAGS_KEPT)
        self._meters: list[Meter] = []
        self._active: list[Meter] = []
        self._faults: dict[str, list[Meter | None]] = {}
        self._last_kill: dict[Any, Meter | None] = {}
        self._omitted = 0
        self._origin_us: int | None = None

    def recovery(self) -> Recovery:
        """What was measured."""
        if not self._meters:
            return Recovery(why=_UNDISTURBED)
        return Recovery(costs=tuple(meter.cost() for meter in self._meters), omitted=self._omitted)

    def step(self, event: Glimpse, *, restored: int = 0) -> None:
        """Take the next event; of a `restore`, also how many records it brings back."""
        if self._origin_us is None:
            self._origin_us = event.t
        if event.k == "fault":
            self._fault(event)
        elif event.s is not None and event.a is not None:
            self._of_attempt(event, restored)

    def _of_attempt(self, event: Glimpse, restored: int) -> None:
        subtask = self._subtasks.get(event.s)
        if subtask is None:
            subtask = self._subtasks[event.s] = _Subtask()
        match event.k:
            case "in":
                self._taken(event, subtask)
            case "out" | "dead":
                self._left(event, subtask)
            case "res":
                self._settled(event, subtask)
            case "start":
                subtask.replays_to = subtask.highest
                self._replayed(event, 0)
            case "restore":
                self._replayed(event, restored)
            case "failed":
                self._sign(event)
            case "kill":
                self._killed(event, subtask)
                return
            case _:
                pass
        subtask.last_us[event.a] = event.t

    def _taken(self, event: Glimpse, subtask: _Subtask) -> None:
        if event.pos <= subtask.replays_to:
            self._replayed(event, 1)
        if event.pos <= subtask.highest:
            return
        subtask.highest = event.pos
        subtask.accepted += 1
        subtask.since_us[event.id] = event.t
        if is_empty(event.expect):
            subtask.expects_nothing[event.id] = None
        for meter in self._active:
            if meter.s in {None, event.s}:
                meter.accept(event)

    def _left(self, event: Glimpse, subtask: _Subtask) -> None:
        since_us = subtask.since_us.pop(event.id, None)
        lag_us = None if since_us is None else event.t - since_us
        ended = False
        for meter in self._active:
            if meter.s in {None, event.s}:
                meter.left(event, lag_us)
                ended = ended or meter.over
        if lag_us is not None:
            subtask.lags_us.append(lag_us)
            self._lags_us.append(lag_us)
        if ended:
            self._forget_ended()

    def _settled(self, event: Glimpse, subtask: _Subtask) -> None:
        if event.r != "ok":
            self._sign(event)
        if not event.final:
            return
        nothing = event.id in subtask.expects_nothing or is_empty(event.v)
        substitute = event.r == "timeout" and memoryview(event.v).nbytes > 0
        subtask.expects_nothing.pop(event.id, None)
        if not substitute and (nothing or event.r in {"fail", "timeout"}):
            self._left(event, subtask)

    def _sign(self, event: Glimpse) -> None:
        for meter in self._active:
            if not meter.healed:
                meter.sign(event)

    def _replayed(self, event: Glimpse, records: int) -> None:
        if (meter := self._last_kill.get(event.s)) is not None:
            meter.replay(event, records)

    def _fault(self, event: Glimpse) -> None:
        running = self._faults.setdefault(str(event.f), [])
        if event.phase == "begin":
            what = f"fault {shown(event.f)}{_ALL}"
            running.append(self._begin(what, event, s=None, before=list(self._lags_us)))
        elif running and (meter := running.pop(0)) is not None:
            meter.heal(event)

    def _killed(self, event: Glimpse, subtask: _Subtask) -> None:
        self._sign(event)
        what = f"kill of attempt {event.a} of subtask {event.s}"
        meter = self._begin(what, event, s=event.s, before=list(subtask.lags_us))
        self._last_kill[event.s] = meter
        last_us = subtask.last_us.get(event.a)
        if meter is not None:
            silent_us = None if last_us is None else event.t - last_us
            meter.kill(event, silent_us=silent_us, accepted=subtask.accepted)

    def _begin(self, what: str, event: Glimpse, *, s: int | None, before: list[int]) -> Meter | None:
        for other in self._active:
            if other.healed and other.begin_us < event.t and (s is None or other.s in {None, s}):
                other.cut_short(f"the {what.removesuffix(_ALL)} came before it was steady")
        self._forget_ended()
        if len(self._meters) == _COSTS_MAX:
            self._omitted += 1
            return None
        meter = Meter(what=what, begin=event, s=s, origin_us=self._origin_us or 0, before=before)
        self._meters.append(meter)
        self._active.append(meter)
        return meter

    def _forget_ended(self) -> None:
        self._active = [meter for meter in self._active if not meter.over]
