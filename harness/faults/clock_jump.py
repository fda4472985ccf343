"""`clock_jump`: the attempt's wall clock is set (`jump`), stands still (`freeze`) or drifts by `shift` (`smear`).

A correct operator never reads the wall clock: its timers use the loop's monotonic clock (T1). Evidence: the offset
between the two clocks changed by the requested amount, as measured in the attempt through `attempt.clock`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

from harness.faults.model.fault import InsideFault
from harness.faults.model.fields import ShiftBy, Subtask, UntilEffective, Way
from harness.faults.real.evidence import RecordedFault, acts, measurements
from harness.faults.real.sites import AttemptSite, Shift
from harness.faults.simulated.acts import Act, Evidence, SimulatedRun
from harness.history.notes import Acted, Line, Measured
from harness.system.clock import monotonic_us

if TYPE_CHECKING:
    from harness.database.simulated.hub import Due

_NS_PER_US = 1_000
_NS_PER_MS = 1_000_000
_SHARE = 0.9
"""The share of the requested shift that must be measured; the two clocks are not read at the same instant."""
_TICK_MS: Final = 10
_TO_THE_END_MS: Final = 1_000_000_000


class ClockJump(InsideFault):
    """Shifts the wall clock of every attempt, or of one subtask's attempts."""

    about = (
        "The attempt's wall clock is set forward or back, stands still, or drifts; timers must not change."
    )
    must_show = (
        "The offset between wall clock and monotonic clock changed as requested, measured in the attempt."
    )
    can = ()

    do: Literal["clock_jump"]
    how: Annotated[Literal["jump", "freeze", "smear"], Way] = "jump"
    shift: ShiftBy = 0
    subtask: Subtask | None = None
    lasts: UntilEffective = None
    """Absent: until the attempt ends."""

    @property
    def simulated_lasts_ms(self) -> int:
        return self.lasts_ms or _TO_THE_END_MS

    def act_in_attempt(self, attempt: AttemptSite) -> None:
        """Shifts the clock from now on, for `for` or until the attempt ends."""
        clock = attempt.clock
        facts = {"how": self.how, "shift_ms": self.shift}
        attempt.journal.note(Acted(fault=self.id, what="clock", facts=facts))
        before_ms = clock.offset_ms()
        clock.shift = self._shift(began_ns=monotonic_us() * _NS_PER_US)
        self._measure(attempt, "begin", before_ms)
        if self.lasts is not None:
            attempt.loop.call_soon_threadsafe(attempt.loop.call_later, self.lasts / 1000, self._end, attempt)

    def _shift(self, *, began_ns: int) -> Shift:
        by_ns, lasts_ns = self.shift * _NS_PER_MS, (self.lasts or 1) * _NS_PER_MS
        match self.how:
            case "freeze":
                return lambda at_ns: began_ns - at_ns
            case "smear":
                return lambda at_ns: by_ns * min(at_ns - began_ns, lasts_ns) // lasts_ns
            case _:
                return lambda _at_ns: by_ns

    def _end(self, attempt: AttemptSite) -> None:
        moved_ms = attempt.clock.offset_ms()
        attempt.clock.set_right()
        self._measure(attempt, "end", moved_ms)

    def _measure(self, attempt: AttemptSite, when: str, before_ms: float) -> None:
        facts = {"when": when, "before_ms": before_ms, "after_ms": attempt.clock.offset_ms()}
        attempt.journal.note(Measured(fault=self.id, what="offset", facts=facts))

    def recorded(self, lines: Sequence[Line]) -> RecordedFault | None:
        """Looks at the first attempt that performed it."""
        jumps = acts(self.id, lines)
        if not jumps:
            return None
        first = jumps[0]
        measured = [one for one in measurements(self.id, lines) if (one.s, one.a) == (first.s, first.a)]
        end = next((one for one in measured if one.facts["when"] == "end"), None)
        ended_us = end.t if end is not None else lines[-1].t if self.lasts is None else None
        asked_ms = -(self.lasts or 0) if first.facts["how"] == "freeze" else self.shift
        moved = next((one for one in measured if _as_asked(_change_ms(one), asked_ms)), None)
        if moved is None:
            return RecordedFault(began_us=first.t, ended_us=ended_us)
        evidence = {
            "subtask": first.s,
            "how": first.facts["how"],
            "asked_ms": asked_ms,
            "offset_changed_ms": max(map(_change_ms, measured), key=abs),
        }
        return RecordedFault(began_us=first.t, measured_us=moved.t, ended_us=ended_us, evidence=evidence)

    def simulated(self, run: SimulatedRun) -> Act:
        return SimulatedJump(run, how=self.how, shift_ms=self.shift, lasts_ms=self.lasts)


def _as_asked(change_ms: float, asked_ms: int) -> bool:
    return change_ms * asked_ms > 0 and abs(change_ms) >= abs(asked_ms) * _SHARE


def _change_ms(measured: Measured) -> float:
    """How far the fault had moved the clock: forward change at its beginning, negated change at its end."""
    before_ms, after_ms = measured.facts["before_ms"], measured.facts["after_ms"]
    change_ms: float = after_ms - before_ms if measured.facts["when"] == "begin" else before_ms - after_ms
    return round(change_ms, 1)


class SimulatedJump:
    """Changes the simulated wall clock: at once (`jump`), gradually (`smear`), or stops it (`freeze`). Mutable."""

    settles_ms = 0

    def __init__(self, run: SimulatedRun, *, how: str, shift_ms: int, lasts_ms: int | None) -> None:
        self._run = run
        self._how = how
        self._shift_ms = shift_ms
        self._lasts_ms = lasts_ms or 1
        self._by_ms = 0
        self._moved_ms = 0
        self._attempts = 0
        self._began_ms = 0
        self._next: Due | None = None

    def begins(self) -> None:
        hub = self._run.hub
        self._began_ms = hub.now_ms
        self._attempts = sum(attempt.actor.alive for attempt in self._run.attempts.values())
        if self._how == "jump":
            self._move(self._shift_ms)
        else:
            self._tick()

    def _tick(self) -> None:
        hub = self._run.hub
        past_ms = hub.now_ms - self._began_ms
        whole_ms = self._shift_ms * min(past_ms, self._lasts_ms) // self._lasts_ms
        self._move(-past_ms if self._how == "freeze" else whole_ms)
        self._next = hub.at(hub.now_ms + _TICK_MS, self._tick)

    def _move(self, by_ms: int) -> None:
        self._run.hub.wall_offset_ms += by_ms - self._by_ms
        self._by_ms = by_ms
        if abs(by_ms) > abs(self._moved_ms):
            self._moved_ms = by_ms

    def ends(self) -> None:
        """Sets the clock right again, which is a jump too."""
        if self._next is not None:
            self._run.hub.cancel(self._next)
        self._move(0)

    def evidence(self) -> Evidence:
        if not self._attempts or not self._moved_ms:
            return {}
        return {"offset_ms": self._moved_ms, "attempts": self._attempts}
