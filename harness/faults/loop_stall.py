"""`loop_stall`: block the task's thread, and with it its event loop, for a while.

Answers to a long garbage collection, or to a blocking call in a coroutine. Evidence: a callback that was due when the
stall began ran late by at least the stall's duration, as measured in the attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from harness.faults.model.fault import InsideFault, Repeats
from harness.faults.model.fields import Lasts, Subtask
from harness.faults.real.evidence import RecordedFault, acts, measurements
from harness.faults.real.sites import AttemptSite
from harness.faults.simulated.acts import Act, Evidence, RunningAttempt, SimulatedRun
from harness.history.notes import Acted, Line, Measured, NoteLog
from harness.system.clock import monotonic_us, pause


class LoopStall(InsideFault, Repeats):
    """Blocks the event loop of one subtask's attempt."""

    about = "The task's thread is blocked for a while, and with it its event loop."
    must_show = "A callback that was due when it began ran late by at least that time."
    stalls = True
    can = ("late",)

    do: Literal["loop_stall"]
    subtask: Subtask
    lasts: Lasts

    def act_in_attempt(self, attempt: AttemptSite) -> None:
        """Blocks the calling thread; a callback scheduled before records how late it ran."""
        attempt.journal.note(Acted(fault=self.id, what="stall", facts={"asked_ms": self.lasts}))
        attempt.loop.call_soon_threadsafe(self._turned, attempt.journal, monotonic_us())
        pause(self.lasts / 1000)

    def _turned(self, journal: NoteLog, due_us: int) -> None:
        lag_ms = round((monotonic_us() - due_us) / 1000, 1)
        journal.note(Measured(fault=self.id, what="loop lag", facts={"lag_ms": lag_ms}))

    def recorded(self, lines: Sequence[Line]) -> RecordedFault | None:
        """Covers all its repetitions; the loop must have been late each time."""
        stalls = acts(self.id, lines)
        if not stalls:
            return None
        began_us = stalls[0].t
        lags = list(measurements(self.id, lines))
        late = [lag for lag in lags if lag.facts["lag_ms"] >= self.lasts]
        if not late or len(late) < len(lags):
            return RecordedFault(began_us=began_us, ended_us=lags[-1].t if lags else None)
        evidence = {
            "subtask": stalls[0].s,
            "asked_ms": self.lasts,
            "loop_lag_ms": min(lag.facts["lag_ms"] for lag in late),
            "times": len(late),
        }
        return RecordedFault(began_us=began_us, measured_us=late[0].t, ended_us=late[-1].t, evidence=evidence)

    def simulated(self, run: SimulatedRun) -> Act:
        return SimulatedLoopStall(run, self.subtask, lasts_ms=self.lasts)


class SimulatedLoopStall:
    """Blocks the thread of a simulated task. Mutable."""

    settles_ms = 0

    def __init__(self, run: SimulatedRun, subtask: int, *, lasts_ms: int) -> None:
        self._run = run
        self._subtask = subtask
        self._lasts_ms = lasts_ms
        self._since_ms: int | None = None
        self._lag_ms = 0

    def begins(self) -> None:
        """Blocks right here if the attempt is the current actor; else in the next callback of its loop."""
        attempt = self._run.attempts.get(self._subtask)
        if attempt is None or not attempt.actor.alive or attempt.loop is None or attempt.loop.is_closed():
            return
        if attempt.actor.is_current:
            self._stall(attempt)
        else:
            attempt.loop.call_soon_threadsafe(self._stall, attempt)

    def _stall(self, attempt: RunningAttempt) -> None:
        self._since_ms = self._run.hub.now_ms
        attempt.sleep_until(self._since_ms + self._lasts_ms)
        self._lag_ms = self._run.hub.now_ms - self._since_ms

    def ends(self) -> None:
        """The stall ends by itself."""

    def evidence(self) -> Evidence:
        if self._since_ms is None:
            return {}
        lag_ms = self._lag_ms or self._run.hub.now_ms - self._since_ms
        return {"subtask": self._subtask, "lag_ms": lag_ms} if lag_ms else {}
