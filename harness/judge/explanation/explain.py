"""Explains a judgement: each anomaly as a contradiction, the guarantee that still holds, the time to recover.

Answers to Elle's explanations. Invariant: the judge's verdicts stay unchanged; every line is a fact of the history
or of a verdict. Terminal, JUnit, page, Markdown and JSON all show the same lines.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from harness.judge.explanation import calls, cuts, effects, life, order, results, rows
from harness.judge.explanation.cited_events import CitedEvents, gather, survey
from harness.judge.explanation.contradiction import Contradiction
from harness.judge.explanation.events import EventLines, FileLines, HeldLines
from harness.judge.explanation.guarantee import guarantee_of
from harness.judge.explanation.outside import explained_outside

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
    anomalies = [one for verdict in judgement.convicted() for one in verdict.anomalies[:ANOMALIES_IN_FULL]]
    counts = judgement.accounting
    is_counted = {"faults", "attempts", "subtasks"} <= counts.keys()
    if not anomalies and is_counted and not counts["faults"] and counts["attempts"] <= counts["subtasks"]:
        # There was neither a fault nor a restart, so the history need not be read again.
        return replace(judgement, guarantee=guarantee_of(judgement), recovery=Recovery(why=_UNDISTURBED))
    with integers_of_any_length():
        gathered = survey(lines, cited={n for anomaly in anomalies for n in anomaly.events})
        if anomalies:
            gather(gathered, lines, anomalies)
        invariants = tuple(_explained_verdict(verdict, gathered) for verdict in judgement.invariants)
    return replace(
        judgement,
        invariants=invariants,
        guarantee=guarantee_of(judgement, under=_under(gathered)),
        recovery=gathered.recovery if gathered.skeleton.last else Recovery(why=_UNREAD),
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
    """One anomaly as a contradiction; None if the events it cites were not read."""
    if any(n not in gathered.events for n in anomaly.events):
        return None
    reason = REASONS.get(anomaly.kind)
    if reason is not None:
        try:
            return reason(Contradiction(anomaly, gathered))
        except (LookupError, TypeError):
            # An event lacks a required field, so the file is not the one that was judged.
            pass
    plain = Contradiction(anomaly, gathered)
    plain.then_said()
    return plain.however(INVARIANTS.get(invariant, f"{invariant} says otherwise").rstrip("."))


def _under(gathered: CitedEvents) -> Iterator[str]:
    """The faults with evidence, and the numbers of kills and restarts, that the guarantee held under."""
    skeleton = gathered.skeleton
    counts = Counter(shown(span.begin.f) for span in skeleton.faults if span.left_evidence)
    for name, times in counts.items():
        yield f"fault {name}" + (f" ({times} times)" if times > 1 else "")
    for number, what in ((skeleton.kills, "kill"), (skeleton.restarts, "restart")):
        if number:
            yield f"{number} {what}" + "s" * (number > 1)


Reason = Callable[[Contradiction], Explanation]

REASONS: Mapping[str, Reason] = {
    "reordered": order.reordered,
    "overtook-watermark": order.overtook,
    "key-reordered": order.key_reordered,
    "watermark-back": order.watermark_back,
    "crossed": order.crossed,
    "watermark-lost": order.watermark_lost,
    "held": order.held,
    "phantom-watermark": order.phantom_watermark,
    "repeated-watermark": order.repeated_watermark,
    "after-end": order.after_end,
    "phantom": results.phantom,
    "duplicate": results.duplicate,
    "wrong-value": results.wrong_value,
    "lost": results.lost,
    "row-missing": rows.row_missing,
    "row-doubled": rows.row_doubled,
    "row-foreign": rows.row_foreign,
    "row-altered": rows.row_altered,
    "row-disordered": rows.row_disordered,
    "row-deleted": rows.row_deleted,
    "inconsistent": results.inconsistent,
    "stale": results.stale,
    "future": results.future,
    "double-effect": effects.double_effect,
    "phantom-effect": effects.phantom_effect,
    "wrong-effect": effects.wrong_effect,
    "no-effect": effects.no_effect,
    "missing": cuts.missing,
    "already-out": cuts.already_out,
    "torn": cuts.torn,
    "both-sides": cuts.both_sides,
    "foreign": cuts.foreign,
    "twice": cuts.twice,
    "misordered": cuts.misordered,
    "skipped": cuts.skipped,
    "incomplete": cuts.incomplete,
    "two-ends": cuts.two_ends,
    "stale-ack": cuts.stale_ack,
    "bad-restore": cuts.bad_restore,
    "restore-differs": cuts.restore_differs,
    "wrong-position": cuts.wrong_position,
    "left-behind": cuts.redistributed,
    "restored-twice": cuts.redistributed,
    "not-stored": cuts.redistributed,
    "shared-partition": cuts.redistributed,
    "committed-twice": effects.committed_twice,
    "commit-order": effects.commit_order,
    "unknown-epoch": effects.unknown_epoch,
    "early-commit": effects.early_commit,
    "never-committed": effects.never_committed,
    "zombie-effect": effects.zombie_effect,
    "zombie-commit": effects.zombie_commit,
    "over-capacity": calls.over_capacity,
    "over-admitted": calls.over_admitted,
    "two-outcomes": calls.two_outcomes,
    "call-after-final": calls.call_after_final,
    "concurrent-call": calls.concurrent_call,
    "tries": calls.tries,
    "early-timeout": calls.early_timeout,
    "late-timeout": calls.late_timeout,
    "out-before-outcome": calls.out_before_outcome,
    "unknown-record": calls.unknown_record,
    "unknown-call": calls.unknown_call,
    "retry-missing": calls.retry_missing,
    "retry-early": calls.retry_early,
    "retry-late": calls.retry_late,
    "gave-up-early": calls.gave_up_early,
    "retried-anyway": calls.retried_anyway,
    "stuck": life.stuck,
    "checkpoint-gap": effects.checkpoint_gap,
    "foreign-response": calls.foreign_response,
    "nonce-reused": calls.nonce_reused,
    "swallowed": life.swallowed,
    "double-routed": life.double_routed,
    "foreign-thread": life.foreign_thread,
    "outside-life": life.outside_life,
    "interleaved": life.interleaved,
    "unexplained-failure": life.unexplained_failure,
}
