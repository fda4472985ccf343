"""The guarantee that a history shows: the strongest level of a lattice that was observed and not refuted.

Answers to Elle's consistency models. Two directions: delivery (at-most-once and at-least-once, together
effectively-once, then exactly-once-visible, then fenced-exactly-once) and order (unordered-safe, then
unordered-strict and per-key, then ordered). Invariant: a level whose invariant is vacuous, unknown or not judged
is never claimed; an anomaly that refutes a level refutes every stronger one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from harness.history.verdict import Guarantee, InvariantVerdict, Judgement, Outcome, Step

DELIVERY = (
    "at-most-once",
    "at-least-once",
    "effectively-once",
    "exactly-once-visible",
    "fenced-exactly-once",
)
ORDER = ("unordered-safe", "unordered-strict", "per-key", "ordered")

_BELOW: Mapping[str, tuple[str, ...]] = {
    "effectively-once": ("at-most-once", "at-least-once"),
    "exactly-once-visible": ("effectively-once",),
    "fenced-exactly-once": ("exactly-once-visible",),
    "unordered-strict": ("unordered-safe",),
    "per-key": ("unordered-safe",),
    "ordered": ("unordered-strict", "per-key"),
}
_WRONG = frozenset({"wrong-value", "wrong-effect", "row-altered", "inconsistent", "stale", "future"})
"""A wrong result is one too many, and the right one is missing."""
_TOO_MUCH = _WRONG | {"duplicate", "phantom", "double-effect", "phantom-effect", "row-doubled", "row-foreign"}
_TOO_LITTLE = _WRONG | {"lost", "no-effect", "row-missing", "row-deleted"}
_OF_THE_LATTICE = frozenset({"V1", "V2", "V3", "V5", "V8", "V9", "V12", "V13"})
_READS = (
    "Records that a restore brings back are called again, so lookups read at-least-once across a restore;"
    " that refutes no guarantee."
)
_NO_EFFECTS = "No effects are claimed or shown, so the guarantee does not cover rows in the database."


@dataclass(frozen=True, slots=True, kw_only=True)
class _LevelStanding:
    """The state of one level: shown, refuted by anomalies, or not shown for a reason."""

    refuted_by: tuple[str, ...] = ()
    why: str = ""

    @property
    def shown(self) -> bool:
        return not self.refuted_by and not self.why


_SHOWN = _LevelStanding()


def guarantee_of(judgement: Judgement, *, under: Iterable[str] = ()) -> Guarantee:
    """The strongest guarantee that the history shows; `under` names the faults, kills and restarts in it."""
    verdicts = {verdict.invariant: verdict for verdict in judgement.invariants}
    delivery = _with_those_below(_delivery(verdicts))
    order = _with_those_below(_order(verdicts))
    # Marks the weaker levels of a shown order as shown, unless they are refuted
    standings = dict(order)
    for level in reversed(ORDER):
        if standings[level].shown:
            for weaker in _BELOW.get(level, ()):
                if not standings[weaker].refuted_by:
                    standings[weaker] = _SHOWN
    order = standings
    return Guarantee(
        delivery=_strongest(delivery),
        order=_strongest(order),
        not_reached=(*_not_reached(delivery), *_not_reached(order)),
        under=tuple(under),
        remarks=tuple(_remarks(judgement, verdicts)),
    )


def _delivery(verdicts: Mapping[str, InvariantVerdict]) -> dict[str, _LevelStanding]:
    effects = _effects_are_claimed(verdicts)
    whole = ("V8", "V9") if effects else ("V8",)
    return {
        "at-most-once": _all(_of(verdicts, name, _TOO_MUCH) for name in whole),
        "at-least-once": _all(_of(verdicts, name, _TOO_LITTLE, to_the_end=True) for name in whole),
        "effectively-once": _SHOWN,
        "exactly-once-visible": _of(verdicts, "V12"),
        "fenced-exactly-once": _of(verdicts, "V13"),
    }


def _order(verdicts: Mapping[str, InvariantVerdict]) -> dict[str, _LevelStanding]:
    crossing = _of(verdicts, "V5")
    segments = _of(verdicts, "V2")
    rows = verdicts.get("V8")
    is_disordered = rows is not None and any(one.kind == "row-disordered" for one in rows.anomalies)
    disordered = _LevelStanding(refuted_by=("V8 row-disordered",) if is_disordered else ())
    return {
        "unordered-safe": crossing,
        "unordered-strict": segments if segments.refuted_by else _all((segments, crossing)),
        "per-key": _of(verdicts, "V3"),
        "ordered": _all((_of(verdicts, "V1"), disordered)),
    }


def _effects_are_claimed(verdicts: Mapping[str, InvariantVerdict]) -> bool:
    verdict = verdicts.get("V9")
    return verdict is not None and verdict.outcome is not Outcome.NOT_CLAIMED


def _of(
    verdicts: Mapping[str, InvariantVerdict],
    name: str,
    kinds: frozenset[str] | None = None,
    *,
    to_the_end: bool = False,
) -> _LevelStanding:
    """The state of a level that rests on one invariant; only anomalies of `kinds` refute it (None: all)."""
    verdict = verdicts.get(name)
    if verdict is None:
        return _LevelStanding(why=f"{name} was not judged")
    match verdict.outcome:
        case Outcome.PASS:
            return _SHOWN
        case Outcome.FAIL:
            # V16 passes if and only if the run finished normally, without a `giveup`.
            end = verdicts.get("V16")
            finished = end is not None and end.outcome is Outcome.PASS
            return _of_failure(verdict, kinds, finished=finished or not to_the_end)
        case outcome:
            # The last line of a traceback is the exception.
            why = (verdict.why.strip().splitlines() or ["no reason was given"])[-1]
            return _LevelStanding(why=f"{name} is {outcome}: {why}")


def _of_failure(verdict: InvariantVerdict, kinds: frozenset[str] | None, *, finished: bool) -> _LevelStanding:
    found = dict.fromkeys(anomaly.kind for anomaly in verdict.anomalies)
    against = tuple(f"{verdict.invariant} {kind}" for kind in found if kinds is None or kind in kinds)
    if against:
        return _LevelStanding(refuted_by=against)
    if verdict.omitted or not verdict.anomalies:
        return _LevelStanding(why=f"{verdict.invariant} failed, and not all of its anomalies are listed")
    if not finished:
        return _LevelStanding(why="the run is not known to have finished normally, so more may be missing")
    return _SHOWN if verdict.observed else _LevelStanding(why=f"{verdict.invariant} observed nothing else")


def _all(standings: Iterable[_LevelStanding]) -> _LevelStanding:
    """The conjunction: refuted if any is refuted, shown if all are shown."""
    known = list(standings)
    refuted = tuple(by for standing in known for by in standing.refuted_by)
    reasons = [standing.why for standing in known if standing.why]
    return _LevelStanding(refuted_by=refuted, why="" if refuted else "; ".join(reasons))


def _with_those_below(own: Mapping[str, _LevelStanding]) -> dict[str, _LevelStanding]:
    """Passes refutations of weaker levels on to stronger ones; a delivery level also needs all weaker ones shown."""
    standings: dict[str, _LevelStanding] = {}
    for level, standing in own.items():
        below = [standings[weaker] for weaker in _BELOW.get(level, ())]
        if level in ORDER:
            below = [_LevelStanding(refuted_by=weaker.refuted_by) for weaker in below]
        known = _all([*below, standing])
        standings[level] = _LevelStanding(refuted_by=tuple(dict.fromkeys(known.refuted_by)), why=known.why)
    return standings


def _strongest(standings: Mapping[str, _LevelStanding]) -> str:
    """The names of the shown levels that no stronger shown level covers."""
    shown = [level for level, standing in standings.items() if standing.shown]
    covered = {weaker for level in shown for weaker in _BELOW.get(level, ())}
    return " and ".join(level for level in shown if level not in covered) or "none"


def _not_reached(standings: Mapping[str, _LevelStanding]) -> Iterator[Step]:
    for level, standing in standings.items():
        if not standing.shown:
            yield Step(level=level, refuted_by=standing.refuted_by, why=standing.why)


def next_steps(guarantee: Guarantee) -> list[Step]:
    """The lowest levels not reached, and each level with a refutation that no lower level has."""
    known = {step.level: step for step in guarantee.not_reached}
    lowest: list[Step] = []
    for level, step in known.items():
        below = [known[weaker] for weaker in _BELOW.get(level, ()) if weaker in known]
        inherited = {by for weaker in below for by in weaker.refuted_by}
        if not below or set(step.refuted_by) - inherited:
            lowest.append(step)
    return lowest


def _remarks(judgement: Judgement, verdicts: Mapping[str, InvariantVerdict]) -> Iterator[str]:
    besides = [v.invariant for v in judgement.convicted() if v.invariant not in _OF_THE_LATTICE]
    if besides:
        yield f"Also violated, though that refutes no delivery and no order here: {', '.join(besides)}."
    if "V9" in verdicts and not _effects_are_claimed(verdicts):
        yield _NO_EFFECTS
    if judgement.accounting.get("restores", 0):
        yield _READS
