"""Evidence in doubt: who witnessed a fault, and whether it made calls slower.

The witnesses of a fault: those without whose word there would be no evidence of it (T10).

Answers to cross-examination: what each witness recorded is withheld in turn, and the evidence is asked for again.
Invariant: a name is never claimed, only found; a fault with one witness is believed on that one's word alone.

Whether calls took longer during a fault than the other calls of the run.

Answers to the latency part of the evidence table (5b). Invariant: the comparison uses the faster of the times before
and after the fault, because a run may be slow before it while warming up, and after it while catching up. If the
proxy's log shows the delay, calls need only take that long; they need not be slower than other calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from statistics import median, quantiles
from typing import Any, Final

from harness.faults.real.evidence import Evidence, RecordedFault, Seen, is_speech
from harness.history.follower import TimedCall
from harness.history.notes import Acted, Dies, Line, Measured, Stops, Withheld

_CALLS_MIN = 5
_CLOCK_MS = 2
"""How much too early, by our clock, a timer of the proxy may seem to fire."""
_ANSWERS_FOR_ONE_SOONER = 20


def slower_calls(seen: Seen, *, by_ms: float, none_below_ms: float = 0.0) -> Evidence:
    """Evidence that calls during the fault took longer, by at least `by_ms`; empty if they did not.

    With a proxy log (which the caller checks), at least five calls must have taken that long. Without one, the median
    must have risen by `by_ms`, or by half of the timeout for calls that timed out. Because a loaded machine shifts the
    median too, there is a second condition: at most one answer in 20 came sooner than `none_below_ms` (a proxy hands a
    toxic to one connection after the other); or, if that is 0, the lower quartile of these calls is above the upper
    quartile of the others.
    """
    inside = seen.calls_within()
    sides = [side for side in (_took_ms(seen.before()), _took_ms(seen.after())) if len(side) >= _CALLS_MIN]
    if seen.log is None:
        return _shift(inside, sides, by_ms=by_ms, none_below_ms=none_below_ms)
    suffered = _suffered(seen, by_ms=by_ms)
    return {"calls_as_slow": suffered, **_numbers(inside, sides)} if suffered >= _CALLS_MIN else {}


def _suffered(seen: Seen, *, by_ms: float) -> int:
    """How many calls took that long during the fault, timed out, or were still waiting when it healed."""
    inside = seen.calls_within()
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
    if none_below_ms:
        sooner = sum(1 for took_ms in answers if took_ms < none_below_ms - _CLOCK_MS)
        is_clear = sooner * _ANSWERS_FOR_ONE_SOONER <= len(answers)
    else:
        is_clear = quantiles(took, n=4)[0] > min(quantiles(side, n=4)[2] for side in sides)
    return _numbers(inside, sides) if is_clear else {}


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


def _took_ms(calls: Sequence[TimedCall]) -> list[float]:
    return [call.took_ms for call in calls if call.took_ms is not None]


PROXY: Final = "the proxy's log"
CLIENTS: Final = "the clients' calls and errors"
ATTEMPTS: Final = "the attempts' journals"
HARNESS: Final = "the harness, which reaps processes"
FAULT: Final = "the fault itself"
_NOTED: Final[Mapping[str, str]] = {
    "server": "the server",
    "process": "the operating system",
    "job": "the operating system",
}
"""The source of a fault's notes, by what the fault acts on; for every other fault, the fault itself."""
_OWN: Final = Acted | Measured | Dies | Stops
"""The notes that a fault makes about itself inside an attempt."""


def witnesses_of(evidence: Callable[[Seen], Evidence], seen: Seen, *, by: str) -> tuple[str, ...]:
    """Who is needed for what `evidence` finds in `seen`; `by`: what the fault acts on (`Fault.by`)."""
    noted = _NOTED.get(by, FAULT)

    def holds_without(names: Collection[str]) -> bool:
        rest: dict[str, Any] = {}
        if PROXY in names and seen.log is not None:
            rest["log"] = ()
        if CLIENTS in names:
            rest |= {"calls": (), "losses": (), "errors": ()}
        if noted in names:
            rest["facts"] = ()
        elif PROXY in names:  # which told the fault what it held
            rest["facts"] = [fact for fact in seen.facts if "held" not in fact]
        if HARNESS in names:
            rest["failed_starts_us"] = ()
        rest["events"] = _without(seen.events, names)
        return bool(evidence(replace(seen, **rest)))

    return _needed(holds_without, (PROXY, CLIENTS, noted, ATTEMPTS, HARNESS))


def witnesses_of_found(
    found: Callable[[Sequence[Line]], RecordedFault | None], lines: Sequence[Line]
) -> tuple[str, ...]:
    """As `witnesses_of`, for a fault that attempts perform themselves."""

    def holds_without(names: Collection[str]) -> bool:
        shown = found(_without(lines, names))
        return shown is not None and bool(shown.evidence)

    return _needed(holds_without, (FAULT, ATTEMPTS, HARNESS))


def _without(lines: Sequence[Line], names: Collection[str]) -> Sequence[Line]:
    withheld = [line for line in lines if _writer(line) not in names]
    return withheld or [Withheld()]  # where there is no line at all, the run still goes on


def _writer(line: Line) -> str:
    if isinstance(line, _OWN):
        return FAULT
    return ATTEMPTS if is_speech(line) else HARNESS


def _needed(holds_without: Callable[[Collection[str]], bool], names: Sequence[str]) -> tuple[str, ...]:
    """The witnesses without which the evidence fails; if one is needed and not enough, also those that complete it."""
    needed = [name for name in names if not holds_without({name})]
    if len(needed) == 1:
        others = [name for name in names if name not in needed]
        if not holds_without(others):
            needed += [name for name in others if holds_without([other for other in others if other != name])]
    return tuple(needed)
