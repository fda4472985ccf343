"""V17: measures the cost of each fault and each kill of a history, in one pass.

Answers to Jepsen's latency plots. O(n) in events; memory grows with the records that have not left yet, plus the
last `LAGS_KEPT` lags that later lags are compared with. A `Meter` measures from the begin of its disturbance (a
fault or a kill) until results are steady again or another disturbance begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.history.values import shown
from harness.history.verdict import Cost, Recovery
from harness.judge.explanation.events import EventSummary, is_empty

STEADY_RESULTS = 20
"""Results are steady again after this many in a row that are within the 99th percentile of before."""
_BUCKET_US = 100_000


class Meter:
    """Measures one disturbance; takes the events of the history until it is `over`. Mutable."""

    def __init__(
        self, *, what: str, begin: EventSummary, s: int | None, origin_us: int, before: Sequence[int]
    ) -> None:
        self.s = s
        """The disturbed subtask; None: all subtasks."""
        self._what = what
        self._begin = begin
        self._origin_us = origin_us
        self._limit_us: int | None = None
        """The 99th percentile of the lags before; None if they were too few."""
        if len(before) >= STEADY_RESULTS:
            self._limit_us = sorted(before)[(len(before) * 99 - 1) // 100]
        self._healed_us: int | None = None
        self._died: int | None = None
        self._detect_us: int | None = None
        self._first_us: int | None = None
        self._steady_us: int | None = None
        self._slow_us: int | None = None
        self._row = 0
        self._row_us = 0
        self._replayed: int | None = None
        self._accepted: int | None = None
        self._bucket = 0
        self._behind = 0
        self._deficit = 0
        self._cut_short = ""

    @property
    def begin_us(self) -> int:
        """When it began; a fault and the kill that it causes may begin at the same time."""
        return self._begin.t

    @property
    def healed(self) -> bool:
        """Whether the fault has ended; always true for a kill."""
        return self._healed_us is not None

    @property
    def over(self) -> bool:
        return self._steady_us is not None or bool(self._cut_short)

    def kill(self, event: EventSummary, *, silent_us: int | None, accepted: int) -> None:
        """Make this the meter of a kill; the attempt's last own event was `silent_us` earlier."""
        self._detect_us = silent_us
        self._died = event.a
        self._healed_us = event.t
        self._accepted = accepted

    def heal(self, event: EventSummary) -> None:
        self._healed_us = event.t

    def cut_short(self, why: str) -> None:
        """Stop: a later disturbance would distort the measures."""
        if not self.over:
            self._cut_short = why

    def sign(self, event: EventSummary) -> None:
        """The first failed call, failed attempt or kill detects the fault."""
        if self._detect_us is None and self._died is None:
            self._detect_us = event.t - self._begin.t

    def replay(self, event: EventSummary, records: int) -> None:
        """The next attempt restores or reads again `records` that were accepted before."""
        if self._died is not None and event.a > self._died:
            self._replayed = (self._replayed or 0) + records

    def accept(self, event: EventSummary) -> None:
        """A record is taken in for the first time."""
        self._turn(event.t)
        self._behind += 1

    def left(self, event: EventSummary, lag_us: int | None) -> None:
        """A record leaves `lag_us` after it came in (None: it had left before)."""
        self._turn(event.t)
        if lag_us is not None:
            self._behind -= 1
        if self._healed_us is None or event.k != "out":
            return
        if self._died is not None and event.a <= self._died and event.s == self.s:
            return
        if self._first_us is None:
            self._first_us = event.t - self._healed_us
        if lag_us is not None:
            self._steady(event.t, lag_us)

    def _steady(self, at_us: int, lag_us: int) -> None:
        if self._limit_us is None or lag_us > self._limit_us:
            self._row = 0
            self._slow_us = at_us
            return
        self._row += 1
        if self._row == 1:
            self._row_us = at_us
        if self._row == STEADY_RESULTS and self._healed_us is not None:
            self._steady_us = self._row_us - self._healed_us

    def _turn(self, at_us: int) -> None:
        """At the begin of a new tenth of a second, add the last one to the deficit."""
        bucket = (at_us - self._begin.t) // _BUCKET_US
        if bucket != self._bucket:
            self._deficit += max(0, self._behind)
            self._bucket, self._behind = bucket, 0

    @property
    def steady_at_least_us(self) -> int:
        """A lower bound of the time until results are steady: that to the last slow one, if they never were."""
        if self._steady_us is not None:
            return self._steady_us
        if self._healed_us is None or self._slow_us is None:
            return 0
        return self._slow_us - self._healed_us

    def cost(self) -> Cost:
        killed = self._died is not None
        return Cost(
            what=self._what,
            event=self._begin.n,
            begin_us=self._begin.t - self._origin_us,
            detect_us=self._detect_us,
            first_output_us=self._first_us,
            steady_us=self._steady_us,
            replayed=self._replayed,
            replayed_of=self._accepted if killed else None,
            deficit=self._deficit + max(0, self._behind),
            absent=self._absent(),
        )

    def _absent(self) -> dict[str, str]:
        killed = self._died is not None
        reasons: dict[str, str] = {}
        if self._detect_us is None:
            reasons["detect"] = (
                "the attempt wrote no event" if killed else "no call failed and no attempt died"
            )
        unhealed = "" if self.healed else "the fault did not end"
        if self._first_us is None:
            reasons["first output"] = unhealed or "no result followed"
        if self._steady_us is None:
            reasons["steady"] = unhealed or self._why_not_steady()
        if self._replayed is None:
            reasons["replayed"] = "no attempt followed" if killed else "a fault by itself restarts nothing"
        return reasons

    def _why_not_steady(self) -> str:
        if self._limit_us is None:
            return f"fewer than {STEADY_RESULTS} results had left before, too few to compare with"
        if self._cut_short:
            return self._cut_short
        return f"no {STEADY_RESULTS} results in a row were as quick as before"


LAGS_KEPT = 4096
_COSTS_MAX = 50
"""Most disturbances measured; further ones are counted."""
_ALL = " (all subtasks)"
_UNDISTURBED = "no fault began, and no attempt was killed"


@dataclass(slots=True, kw_only=True)
class _Subtask:
    """What the measurement needs of one subtask. Mutable."""

    since_us: dict[Any, int] = field(default_factory=dict)
    """For each record that has not left, when it first came in."""
    expects_nothing: dict[Any, None] = field(default_factory=dict)
    lags_us: deque[int] = field(default_factory=lambda: deque(maxlen=LAGS_KEPT))
    highest: float = float("-inf")
    """The highest position of any record taken in."""
    accepted: int = 0
    last_us: dict[int, int] = field(default_factory=dict)
    """For each attempt, the time of its last own event."""
    replays_to: float = float("-inf")
    """The newest attempt reads records up to this position for a second time."""


class RecoveryFold:
    """The measurement of a whole history; takes its events in order. Mutable."""

    def __init__(self, *, lags_us: list[int] | None = None) -> None:
        """`lags_us` gets the lag of each record that leaves."""
        self._all_lags_us = lags_us
        self._subtasks: dict[Any, _Subtask] = {}
        self._lags_us: deque[int] = deque(maxlen=LAGS_KEPT)
        self._meters: list[Meter] = []
        self._active: list[Meter] = []
        self._faults: dict[str, list[Meter | None]] = {}
        self._last_kill: dict[Any, Meter | None] = {}
        self._omitted = 0
        self._origin_us: int | None = None

    def recovery(self) -> Recovery:
        if not self._meters:
            return Recovery(why=_UNDISTURBED)
        return Recovery(costs=tuple(meter.cost() for meter in self._meters), omitted=self._omitted)

    @property
    def steady_at_least_us(self) -> list[int]:
        """For each measured disturbance, the time until results were steady, or a lower bound of it."""
        return [meter.steady_at_least_us for meter in self._meters]

    def waiting_us(self) -> Iterator[int]:
        """When each record that has not left first came in."""
        for subtask in self._subtasks.values():
            yield from subtask.since_us.values()

    def step(self, event: EventSummary, *, restored: int = 0) -> None:
        """Take the next event; `restored` is the number of records in a `restore`."""
        if self._origin_us is None:
            self._origin_us = event.t
        if event.k == "fault":
            self._fault(event)
        elif event.s is not None and event.a is not None:
            self._of_attempt(event, restored)

    def _of_attempt(self, event: EventSummary, restored: int) -> None:
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

    def _taken(self, event: EventSummary, subtask: _Subtask) -> None:
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

    def _left(self, event: EventSummary, subtask: _Subtask) -> None:
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
            if self._all_lags_us is not None:
                self._all_lags_us.append(lag_us)
        if ended:
            self._forget_ended()

    def _settled(self, event: EventSummary, subtask: _Subtask) -> None:
        if event.r != "ok":
            self._sign(event)
        if not event.final:
            return
        nothing = event.id in subtask.expects_nothing or is_empty(event.v)
        substitute = event.r == "timeout" and memoryview(event.v).nbytes > 0
        subtask.expects_nothing.pop(event.id, None)
        if not substitute and (nothing or event.r in {"fail", "timeout"}):
            self._left(event, subtask)

    def _sign(self, event: EventSummary) -> None:
        for meter in self._active:
            if not meter.healed:
                meter.sign(event)

    def _replayed(self, event: EventSummary, records: int) -> None:
        if (meter := self._last_kill.get(event.s)) is not None:
            meter.replay(event, records)

    def _fault(self, event: EventSummary) -> None:
        running = self._faults.setdefault(str(event.f), [])
        if event.phase == "begin":
            what = f"fault {shown(event.f)}{_ALL}"
            running.append(self._begin(what, event, s=None, before=list(self._lags_us)))
        elif running and (meter := running.pop(0)) is not None:
            meter.heal(event)

    def _killed(self, event: EventSummary, subtask: _Subtask) -> None:
        self._sign(event)
        what = f"kill of attempt {event.a} of subtask {event.s}"
        meter = self._begin(what, event, s=event.s, before=list(subtask.lags_us))
        self._last_kill[event.s] = meter
        last_us = subtask.last_us.get(event.a)
        if meter is not None:
            silent_us = None if last_us is None else event.t - last_us
            meter.kill(event, silent_us=silent_us, accepted=subtask.accepted)

    def _begin(self, what: str, event: EventSummary, *, s: int | None, before: list[int]) -> Meter | None:
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
