"""The meter of one disturbance: fed with a history's events, it gives what the disturbance cost (V17).

Invariant: only what happened after its begin is counted; it stops for good once results are steady again, or
another disturbance begins.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.explanation.event_lines import Glimpse
from harness.recovery import Cost

__all__ = ["STEADY_RESULTS", "Meter"]

STEADY_RESULTS = 20
"""So many results in a row, each as quick as 99 in 100 before the disturbance: steady again."""
_BUCKET_US = 100_000


class Meter:
    """Mutable: it is fed until it is `over`."""

    def __init__(
        self, *, what: str, begin: Glimpse, s: int | None, origin_us: int, before: Sequence[int]
    ) -> None:
        self.s = s
        """The subtask that is disturbed; None: all."""
        self._what = what
        self._begin = begin
        self._origin_us = origin_us
        self._limit_us = _quick(before)
        self._healed_us: int | None = None
        self._died: int | None = None
        self._detect_us: int | None = None
        self._first_us: int | None = None
        self._steady_us: int | None = None
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
        """When it began: a fault that kills and the kill itself may share the moment."""
        return self._begin.t

    @property
    def healed(self) -> bool:
        """Whether the disturbance itself is past."""
        return self._healed_us is not None

    @property
    def over(self) -> bool:
        """Whether there is nothing left to measure."""
        return self._steady_us is not None or bool(self._cut_short)

    def kill(self, event: Glimpse, *, silent_us: int | None, accepted: int) -> None:
        """It is the kill of an attempt, whose last own event was `silent_us` before."""
        self._detect_us = silent_us
        self._died = event.a
        self._healed_us = event.t
        self._accepted = accepted

    def heal(self, event: Glimpse) -> None:
        """The fault has ended."""
        self._healed_us = event.t

    def cut_short(self, why: str) -> None:
        """Nothing after this can be told from what follows."""
        if not self.over:
            self._cut_short = why

    def sign(self, event: Glimpse) -> None:
        """A call failed, or an attempt failed or died."""
        if self._detect_us is None and self._died is None:
            self._detect_us = event.t - self._begin.t

    def replay(self, event: Glimpse, records: int) -> None:
        """The next attempt takes up `records` that had been accepted before."""
        if self._died is not None and event.a > self._died:
            self._replayed = (self._replayed or 0) + records

    def accept(self, event: Glimpse) -> None:
        """A record comes in for the first time."""
        self._turn(event.t)
        self._behind += 1

    def left(self, event: Glimpse, lag_us: int | None) -> None:
        """A record has left, so long after it came in (None: it had left before)."""
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
            return
        self._row += 1
        if self._row == 1:
            self._row_us = at_us
        if self._row == STEADY_RESULTS and self._healed_us is not None:
            self._steady_us = self._row_us - self._healed_us

    def _turn(self, at_us: int) -> None:
        """Close the tenths of a second that are past."""
        bucket = (at_us - self._begin.t) // _BUCKET_US
        if bucket != self._bucket:
            self._deficit += max(0, self._behind)
            self._bucket, self._behind = bucket, 0

    def cost(self) -> Cost:
        """What it came to."""
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
                "the attempt left no event of its own" if killed else "no call failed and no attempt died"
            )
        unhealed = "" if self.healed else "the fault did not end"
        if self._first_us is None:
            reasons["first output"] = unhealed or "no result followed"
        if self._steady_us is None:
            reasons["steady"] = unhealed or self._why_not_steady()
        if self._replayed is None:
            reasons["replayed"] = "no attempt followed" if killed else "a fault restarts nothing by itself"
        return reasons

    def _why_not_steady(self) -> str:
        if self._limit_us is None:
            return f"fewer than {STEADY_RESULTS} results had left before, so there is nothing to compare with"
        if self._cut_short:
            return self._cut_short
        return f"no {STEADY_RESULTS} results in a row were as quick as before"


def _quick(before: Sequence[int]) -> int | None:
    """The lag that 99 in 100 did not exceed; None of too few."""
    if len(before) < STEADY_RESULTS:
        return None
    return sorted(before)[(len(before) * 99 - 1) // 100]
