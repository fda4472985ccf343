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
    INVARIANTS,
    Anomaly,
    Explanation,
    InvariantVerdict,
    Judgement,
    Outcome,
    Recovery,
)
from harness.judge.explanation.contradiction import Contradiction
from harness.judge.explanation.dossier import Dossier, gather, survey
from harness.judge.explanation.events import EventLines, FileLines, HeldLines
from harness.judge.explanation.guarantee import guarantee_of
from harness.judge.explanation.outside import explained_outside
from harness.judge.explanation.reasons import REASONS

ANOMALIES_IN_FULL = 10
"""Anomalies explained for each invariant; further ones are counted by class."""
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
    anomalies = list(_to_explain(judgement))
    if not anomalies and _undisturbed(judgement):
        return replace(judgement, guarantee=guarantee_of(judgement), recovery=Recovery(why=_UNDISTURBED))
    with integers_of_any_length():
        dossier = survey(lines, cited={n for anomaly in anomalies for n in anomaly.events})
        if anomalies:
            gather(dossier, lines, anomalies)
        invariants = tuple(_explained_verdict(verdict, dossier) for verdict in judgement.invariants)
    return replace(
        judgement,
        invariants=invariants,
        guarantee=guarantee_of(judgement, under=_under(dossier)),
        recovery=dossier.recovery if dossier.skeleton.last else Recovery(why=_UNREAD),
    )


def _undisturbed(judgement: Judgement) -> bool:
    """Whether there was neither a fault nor a restart, so the history need not be read again."""
    counts = judgement.accounting
    return {"faults", "attempts", "subtasks"} <= counts.keys() and (
        counts["faults"] == 0 and counts["attempts"] <= counts["subtasks"]
    )


def _to_explain(judgement: Judgement) -> Iterator[Anomaly]:
    for verdict in judgement.invariants:
        if verdict.outcome is Outcome.FAIL:
            yield from verdict.anomalies[:ANOMALIES_IN_FULL]


def _explained_verdict(verdict: InvariantVerdict, dossier: Dossier) -> InvariantVerdict:
    if verdict.outcome is not Outcome.FAIL:
        return verdict
    first = (
        replace(anomaly, explanation=explain_anomaly(verdict.invariant, anomaly, dossier))
        for anomaly in verdict.anomalies[:ANOMALIES_IN_FULL]
    )
    return replace(verdict, anomalies=(*first, *verdict.anomalies[ANOMALIES_IN_FULL:]))


def explain_anomaly(invariant: str, anomaly: Anomaly, dossier: Dossier) -> Explanation | None:
    """One anomaly as a contradiction; None if the events it cites were not read."""
    if any(n not in dossier.events for n in anomaly.events):
        return None
    reason = REASONS.get(anomaly.kind)
    if reason is not None:
        try:
            return reason(Contradiction(anomaly, dossier))
        except (LookupError, TypeError):
            # An event lacks a required field, so the file is not the one that was judged.
            pass
    plain = Contradiction(anomaly, dossier)
    plain.then_said()
    return plain.however(INVARIANTS.get(invariant, f"{invariant} says otherwise").rstrip("."))


def _under(dossier: Dossier) -> Iterator[str]:
    """The faults with evidence, and the numbers of kills and restarts, that the guarantee held under."""
    skeleton = dossier.skeleton
    counts = Counter(shown(span.begin.f) for span in skeleton.faults if span.left_evidence)
    for name, times in counts.items():
        yield f"fault {name}" + (f" ({times} times)" if times > 1 else "")
    for number, what in ((skeleton.kills, "kill"), (skeleton.restarts, "restart")):
        if number:
            yield f"{number} {what}" + "s" * (number > 1)
