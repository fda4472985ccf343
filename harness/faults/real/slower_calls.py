"""Slower calls: how much longer calls took under a fault than the others did.

Answers to the latency part of the evidence table (5b). Invariant: the comparison is with the quicker side of the
fault's window, for before it a run may still be warming up, after it be catching up, and either is slow for
reasons of its own; where the proxy's own log shows what it did, calls need not be slower than those of a busy
machine, only as slow as that.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles

from harness.faults.real.evidence import Evidence, Seen
from harness.history.follower import TimedCall

__all__ = ["slower_calls"]

_CALLS_MIN = 5
_CLOCK_MS = 2
"""How much earlier than asked a proxy's timer may seem to fire, by our clock."""


def slower_calls(seen: Seen, *, by_ms: float, none_below_ms: float = 0.0) -> Evidence:
    """That calls under the fault took longer, by `by_ms` or more.

    With a proxy's log, which the caller asks for what the proxy did, five of them must have suffered so much.
    Without one the median must have risen by it. A call that timed out took as long as it was given, so it can
    show half of that at most. And as a busy machine shifts a median, too: no answer came before `none_below_ms`;
    or, where an answer may come at any time, three quarters of the calls took longer than three quarters of the
    others.
    """
    inside, sides = seen.inside(), _sides(seen)
    if seen.deeds is None:
        return _shift(inside, sides, by_ms=by_ms, none_below_ms=none_below_ms)
    suffered = _suffered(seen, by_ms=by_ms)
    return {"calls_as_slow": suffered, **_numbers(inside, sides)} if suffered >= _CALLS_MIN else {}


def _suffered(seen: Seen, *, by_ms: float) -> int:
    """How many calls took that long under the fault, or all that they were given, or still waited when it healed."""
    inside = seen.inside()
    ended = sum(1 for call in inside if call.ending == "timeout" or (call.took_ms or 0.0) >= by_ms)
    latest_us = seen.healed_us - by_ms * 1000
    waiting = sum(1 for call in seen.waiting() if seen.armed_us <= call.began_us <= latest_us)
    return ended + waiting


def _shift(
    inside: Sequence[TimedCall], sides: Sequence[Sequence[float]], *, by_ms: float, none_below_ms: float
) -> Evidence:
    took = _took_ms(inside)
    if len(took) < _CALLS_MIN or not sides:
        return {}
    timeouts = _took_ms([call for call in inside if call.ending == "timeout"])
    if median(took) - min(map(median, sides)) < min([by_ms, *(limit / 2 for limit in timeouts)]):
        return {}
    answers = _took_ms([call for call in inside if call.ending == "ok"])
    if not _cannot_be_noise(took, sides, answers=answers, none_below_ms=none_below_ms):
        return {}
    return _numbers(inside, sides)


def _numbers(inside: Sequence[TimedCall], sides: Sequence[Sequence[float]]) -> Evidence:
    took, answers = _took_ms(inside), _took_ms([call for call in inside if call.ending == "ok"])
    timeouts = sum(1 for call in inside if call.ending == "timeout")
    return {
        "calls_inside": len(took),
        **({"timed_out": timeouts} if timeouts else {}),
        **({"fastest_ms_inside": round(min(answers), 1)} if answers else {}),
        **({"median_ms_inside": round(median(took), 1)} if took else {}),
        **({"median_ms_outside": round(min(map(median, sides)), 1)} if sides else {}),
    }


def _cannot_be_noise(
    took: Sequence[float], sides: Sequence[Sequence[float]], *, answers: Sequence[float], none_below_ms: float
) -> bool:
    if none_below_ms:
        return not answers or min(answers) >= none_below_ms - _CLOCK_MS
    return quantiles(took, n=4)[0] > min(quantiles(side, n=4)[2] for side in sides)


def _sides(seen: Seen) -> list[list[float]]:
    """What calls took before the fault and after it, of the sides that have calls enough."""
    sides = (_took_ms(seen.before()), _took_ms(seen.after()))
    return [side for side in sides if len(side) >= _CALLS_MIN]


def _took_ms(calls: Sequence[TimedCall]) -> list[float]:
    return [call.took_ms for call in calls if call.took_ms is not None]
