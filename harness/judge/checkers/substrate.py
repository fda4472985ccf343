"""V22: whether the database kept what it acknowledged, by the history of its probe.

Answers to Elle's checks of a list-append history, for one list and one client: no acknowledged append is missing from a
later reading, nothing is read that was not appended or that was refused, nothing twice, and all readings agree on one
order. The isolation level of every session is the same. Invariant: a finding here convicts the database, never the
system under test: at worst the run says nothing about that one (`unknown`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.history.probe import ProbeOperation
from harness.history.verdict import Anomaly, InvariantVerdict, Outcome

_LISTED_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LossAsked:
    """A fault that makes the database lose what it acknowledged, and when it was over, on the probe's clock."""

    fault: str
    ended_us: int | None


def judge_substrate(
    operations: Sequence[ProbeOperation], *, asked: Sequence[LossAsked] = ()
) -> InvariantVerdict:
    """V22. `asked`: the faults that began; what was acknowledged before such a one was over it may take with it."""
    readings = [one for one in operations if one.do == "read" and one.outcome == "ok"]
    appends = {one.value: one for one in operations if one.do == "append"}
    kept = [one for one in appends.values() if one.outcome == "ok"]
    verdict = InvariantVerdict(invariant="V22", outcome=Outcome.PASS, observed=len(kept))
    if not kept or not readings or readings[-1].began < max(one.ended for one in kept):
        why = "the probe of the database has no acknowledged commit with a reading behind it"
        return replace(verdict, outcome=Outcome.VACUOUS, why=why)
    missing = _missing(kept, readings)
    lost = [one for one in kept if one.value in missing and missing[one.value] == len(readings)]
    by_fault = [
        one for one in lost if any(loss.ended_us is None or one.began <= loss.ended_us for loss in asked)
    ]
    anomalies = [
        *(
            Anomaly(
                kind="lost-commit",
                say=(
                    f"append {one.value} was acknowledged by server {one.server} and is missing from every later"
                    " reading"
                ),
                events=(),
                id=one.value,
            )
            for one in lost
            if one not in by_fault
        ),
        *(
            Anomaly(
                kind="stale-reading",
                say=f"the acknowledged append {value} is missing from a later reading, and there again in the last",
                events=(),
                id=value,
            )
            for value, until in missing.items()
            if until < len(readings)
        ),
        *_wrong_readings(appends, readings),
    ]
    if anomalies:
        why = "the database did not keep its word, which no fault asked of it: nothing is said about who used it"
        shown = tuple(anomalies[:_LISTED_MAX])
        omitted = len(anomalies) - len(shown)
        return replace(verdict, outcome=Outcome.UNKNOWN, why=why, anomalies=shown, omitted=omitted)
    if not by_fault:
        return verdict
    names = " and ".join(f"`{loss.fault}`" for loss in asked)
    servers = ", ".join(str(one) for one in sorted({append.server for append in by_fault}))
    why = (
        f"blamed on the database: of {len(kept)} commits that it acknowledged to the probe, {len(by_fault)} "
        f"(by server {servers}) are gone, as fault {names} asks of it"
    )
    return replace(verdict, why=why)


def _missing(kept: Sequence[ProbeOperation], readings: Sequence[ProbeOperation]) -> Mapping[int, int]:
    """Of each acknowledged append that a later reading lacks: up to which reading it is missing (their number: all)."""
    missing: dict[int, int] = {}
    for number, reading in enumerate(readings, start=1):
        there = frozenset(reading.seen)
        for one in kept:
            if one.ended < reading.began and one.value not in there:
                missing[one.value] = number
    return missing


def _wrong_readings(
    appends: Mapping[int, ProbeOperation], readings: Sequence[ProbeOperation]
) -> Iterator[Anomaly]:
    for number, reading in enumerate(readings, start=1):
        where = f"reading {number} of the probe"
        seen = reading.seen
        for value in seen:
            append = appends.get(value)
            if append is None or append.began > reading.ended:
                yield Anomaly(
                    kind="phantom", say=f"{where} has {value}, which nobody had appended", events=()
                )
            elif append.outcome == "fail":
                say = f"{where} has {value}, whose append the server had refused"
                yield Anomaly(kind="aborted-read", say=say, events=(), id=value)
        if len(seen) != len(frozenset(seen)):
            yield Anomaly(kind="doubled", say=f"{where} has a value twice", events=())
        elif seen != sorted(seen):
            say = f"{where} has values in another order than one client appended them"
            yield Anomaly(kind="misordered", say=say, events=())
        if reading.isolation != readings[0].isolation:
            say = f"{where} ran at isolation {reading.isolation}, the first one at {readings[0].isolation}"
            yield Anomaly(kind="isolation", say=say, events=())
