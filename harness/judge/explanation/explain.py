"""Explains a judgement: each anomaly as a contradiction, the guarantee that still holds, the time to recover.

Answers to Elle's explanations. Invariant: the judge's verdicts stay unchanged; every line is a fact of the history
or of a verdict. Terminal, JUnit, page, Markdown and JSON all show the same lines.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from harness.history.event import Event
from harness.history.header import Header
from harness.history.outside import OUTSIDE, OutsideEvent, OutsideHeader
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
from harness.judge.explanation.contradiction import CitedEvents, contradiction, survey
from harness.judge.explanation.events import EventLines, FileLines, HeldLines
from harness.judge.explanation.guarantee import guarantee_of
from harness.judge.explanation.outside import explained_outside

_UNDISTURBED = "no fault began, and no attempt followed another"
_UNREAD = "the history could not be read again"


def explained_file(judgement: Judgement, path: Path) -> Judgement:
    """The same judgement of the history at `path`, with explanations, as far as the file is still readable."""
    return _explained(judgement, FileLines(path))


def explained_events(
    judgement: Judgement, header: Header | OutsideHeader, events: Iterable[Event] | Iterable[OutsideEvent]
) -> Judgement:
    """The same judgement of a history in memory, with explanations."""
    return _explained(judgement, HeldLines(header, events))


def _explained(judgement: Judgement, lines: EventLines) -> Judgement:
    try:
        return _explained_in_full(judgement, lines)
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
