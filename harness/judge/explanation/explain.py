"""Explains a judgement: each anomaly as a contradiction, the guarantee that still holds, the time to recover.

Answers to Elle's explanations. Invariant: the judge's verdicts stay unchanged; every line is a fact of the history
or of a verdict. Terminal, JUnit, page, Markdown and JSON all show the same lines.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import msgspec
from msgspec import UNSET

from harness.history.event import Event, In, Res
from harness.history.header import Header
from harness.history.outside import OUTSIDE, OutsideEvent, OutsideHeader
from harness.history.read import read_whole
from harness.history.strict_json import integers_of_any_length
from harness.history.values import shown
from harness.history.verdict import (
    ANOMALIES_IN_FULL,
    Anomaly,
    Explanation,
    InvariantVerdict,
    Judgement,
    Outcome,
    Recovery,
)
from harness.judge.checkers.judge import judge
from harness.judge.explanation.contradiction import CitedEvents, contradiction, survey
from harness.judge.explanation.events import EventLines, FileLines, HeldLines
from harness.judge.explanation.guarantee import guarantee_of
from harness.judge.explanation.outside import explained_outside

_Read = Callable[[], tuple[Header | OutsideHeader, Sequence[Event] | Sequence[OutsideEvent]]]
_UNDISTURBED = "no fault began, and no attempt followed another"
_UNREAD = "the history could not be read again"


_ANSWERS = "V8"
"""The invariant that compares the results of lookups with what is expected."""
_EVENTS_MAX = 300_000
"""A longer history is not judged a second time for what follows from what."""


def explained_file(judgement: Judgement, path: Path) -> Judgement:
    """The same judgement of the history at `path`, with explanations, as far as the file is still readable."""
    return _explained(judgement, FileLines(path), lambda: read_whole(path))


def explained_events(
    judgement: Judgement, header: Header | OutsideHeader, events: Iterable[Event] | Iterable[OutsideEvent]
) -> Judgement:
    """The same judgement of a history in memory, with explanations."""
    events = [*events]
    return _explained(judgement, HeldLines(header, events), lambda: (header, events))


def _explained(judgement: Judgement, lines: EventLines, read: _Read) -> Judgement:
    try:
        return _explained_in_full(_with_consequences(judgement, read), lines)
    except Exception:  # noqa: BLE001  (a defect of an explanation must not hide a verdict)
        warning = f"the explanation failed, the verdict stands:\n{traceback.format_exc()}"
        return replace(judgement, warnings=(*judgement.warnings, warning))


def _explained_in_full(judgement: Judgement, lines: EventLines) -> Judgement:
    if judgement.view == OUTSIDE:
        with integers_of_any_length():
            return explained_outside(judgement, lines, most=ANOMALIES_IN_FULL)
    anomalies = [one for verdict in judgement.convicted() for one in verdict.anomalies[:ANOMALIES_IN_FULL]]
    counts = judgement.accounting
    is_counted = {"faults", "attempts", "subtasks"} <= counts.keys()
    if not anomalies and is_counted and not counts["faults"] and counts["attempts"] <= counts["subtasks"]:
        # There was neither a fault nor a restart, so the history need not be read again.
        return replace(judgement, guarantee=guarantee_of(judgement), recovery=Recovery(why=_UNDISTURBED))
    with integers_of_any_length():
        gathered = survey(lines, {n for anomaly in anomalies for n in anomaly.named_events})
        invariants = tuple(_explained_verdict(verdict, gathered) for verdict in judgement.invariants)
    return replace(
        judgement,
        invariants=invariants,
        guarantee=guarantee_of(judgement, under=_under(gathered)),
        recovery=gathered.recovery if gathered.first else Recovery(why=_UNREAD),
    )


def _with_consequences(judgement: Judgement, read: _Read) -> Judgement:
    """Marks what follows from wrong results of lookups: the violations that are gone if those are taken as right.

    A record of which a lookup returned nothing is missing in the table, in each snapshot and behind each watermark.
    """
    convicted = {verdict.invariant for verdict in judgement.convicted()}
    if _ANSWERS not in convicted or len(convicted) == 1 or judgement.view == OUTSIDE:
        return judgement
    if judgement.accounting.get("events", 0) > _EVENTS_MAX:
        return judgement
    header, both = read()
    assert isinstance(header, Header), "it is not seen from outside"
    events = cast("Sequence[Event]", both)
    answers = {
        e.id: e.v for e in events if isinstance(e, Res) and e.final and e.r == "ok" and e.v is not UNSET
    }
    as_if_right = [
        msgspec.structs.replace(e, expect=answers[e.id])
        if isinstance(e, In) and e.expect is not UNSET and e.id in answers
        else e
        for e in events
        if isinstance(e, Event)
    ]
    left = {verdict.invariant for verdict in judge(header, as_if_right).convicted()}
    follows = convicted - left - {_ANSWERS}
    invariants = (
        replace(verdict, follows=_ANSWERS) if verdict.invariant in follows else verdict
        for verdict in judgement.invariants
    )
    return replace(judgement, invariants=tuple(invariants))


def _explained_verdict(verdict: InvariantVerdict, gathered: CitedEvents) -> InvariantVerdict:
    if verdict.outcome is not Outcome.FAIL:
        return verdict
    first = (
        replace(anomaly, explanation=explain_anomaly(verdict.invariant, anomaly, gathered))
        for anomaly in verdict.anomalies[:ANOMALIES_IN_FULL]
    )
    return replace(verdict, anomalies=(*first, *verdict.anomalies[ANOMALIES_IN_FULL:]))


def explain_anomaly(invariant: str, anomaly: Anomaly, gathered: CitedEvents) -> Explanation | None:
    """One anomaly as a contradiction; None if the events it names were not read, or are not those judged."""
    try:
        return contradiction(invariant, anomaly, gathered)
    except (LookupError, TypeError):
        return None


def _under(gathered: CitedEvents) -> Iterator[str]:
    """The faults with evidence, and the numbers of kills and restarts, that the guarantee held under."""
    counts = Counter(shown(span.begin.f) for span in gathered.faults if span.left_evidence)
    for name, times in counts.items():
        yield f"fault {name}" + (f" ({times} times)" if times > 1 else "")
    for number, what in ((gathered.kills, "kill"), (gathered.restarts, "restart")):
        if number:
            yield f"{number} {what}" + "s" * (number > 1)
