"""The text of a failure: what was violated, the events that show it, what still holds, how to see it again.

Answers to Elle's explanations. Invariant: terminal, JUnit, page and JSON share these words; every line is a
fact of the history or of the verdict, and no cause is named that was not computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from harness.outcome import RunOutcome
from harness.verdict import Anomaly, InvariantVerdict, Outcome
from reports.excerpt import ANOMALIES_IN_FULL, Line
from reports.history_view import HistoryView
from reports.invariants import describe_invariant, title_of
from reports.reading import counts_towards
from reports.visible import brief, visible

__all__ = ["AnomalyStory", "Explanation", "as_text", "explain", "explain_all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyStory:
    """One anomaly with the events that show it."""

    number: int
    kind: str
    subject: str
    """`record 100, subtask 0`."""
    say: str
    lineage: tuple[Line, ...]
    around: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One violated invariant of one run."""

    invariant: str
    title: str
    statement: str
    scenario: str
    level: str
    seed: int
    mutant: str | None
    expected: bool
    """The conviction of a planted defect by an invariant that is meant for it."""
    found: int
    stories: tuple[AnomalyStory, ...]
    not_told: tuple[tuple[str, int], ...]
    """Class and count of the anomalies that are listed but not told in full."""
    omitted: int
    """Further ones that the checker counted without keeping them."""
    holds: tuple[str, ...]
    undecided: tuple[str, ...]
    again: str


def explain_all(
    outcome: RunOutcome, view: HistoryView, *, limit: int = ANOMALIES_IN_FULL
) -> tuple[Explanation, ...]:
    """One explanation for each violated invariant, in the order of the invariants."""
    return tuple(explain(outcome, verdict, view, limit=limit) for verdict in outcome.judgement.convicted())


def explain(
    outcome: RunOutcome, verdict: InvariantVerdict, view: HistoryView, *, limit: int = ANOMALIES_IN_FULL
) -> Explanation:
    """What `verdict` found, at most `limit` anomalies in full and the rest as counts by class."""
    told = verdict.anomalies[: min(limit, ANOMALIES_IN_FULL)]
    rest = Counter(anomaly.kind for anomaly in verdict.anomalies[len(told) :])
    return Explanation(
        invariant=verdict.invariant,
        title=title_of(verdict.invariant),
        statement=describe_invariant(verdict.invariant),
        scenario=outcome.scenario,
        level=outcome.level,
        seed=outcome.seed,
        mutant=outcome.mutant,
        expected=verdict.invariant in outcome.convicts,
        found=len(verdict.anomalies) + verdict.omitted,
        stories=tuple(_story(number, anomaly, view) for number, anomaly in enumerate(told, start=1)),
        not_told=tuple(sorted(rest.items())),
        omitted=verdict.omitted,
        holds=_with(outcome, Outcome.PASS),
        undecided=_undecided(outcome),
        again=outcome.again,
    )


def _story(number: int, anomaly: Anomaly, view: HistoryView) -> AnomalyStory:
    return AnomalyStory(
        number=number,
        kind=anomaly.kind,
        subject=_subject(anomaly),
        say=anomaly.say,
        lineage=view.excerpts.lineage(anomaly),
        around=view.excerpts.around(anomaly),
    )


def _subject(anomaly: Anomaly) -> str:
    named = (
        ("record", anomaly.id),
        ("watermark", anomaly.w),
        ("checkpoint", anomaly.c),
        ("subtask", anomaly.s),
    )
    return ", ".join(f"{word} {brief(value)}" for word, value in named if value is not None)


def _with(outcome: RunOutcome, wanted: Outcome) -> tuple[str, ...]:
    return tuple(v.invariant for v in outcome.judgement.invariants if v.outcome is wanted)


def _undecided(outcome: RunOutcome) -> tuple[str, ...]:
    return tuple(
        f"{verdict.invariant} ({verdict.outcome})"
        for verdict in outcome.judgement.invariants
        if verdict.outcome in {Outcome.UNKNOWN, Outcome.VACUOUS} and counts_towards(outcome, verdict)
    )


def as_text(explanation: Explanation) -> str:
    """The explanation as plain text, safe for a terminal and for XML."""
    return visible("\n".join(_lines(explanation)))


def _lines(told: Explanation) -> Iterator[str]:
    title = f"  {told.title}" if told.title else ""
    yield f"{told.invariant} VIOLATED{title}"
    yield f"  {told.statement}"
    planted = f"  planted defect {told.mutant}" if told.mutant else ""
    yield f"  scenario {told.scenario}  level {told.level}  seed {told.seed}{planted}"
    if told.expected:
        yield "  this conviction is what the run was to show"
    for story in told.stories:
        yield ""
        yield from _story_lines(story)
    yield from _rest_lines(told)
    yield ""
    yield f"Still holds:  {' '.join(told.holds) or 'nothing else was shown'}"
    if told.undecided:
        yield f"Undecided:    {' '.join(told.undecided)}"
    yield f"Again:        {told.again}"


def _story_lines(story: AnomalyStory) -> Iterator[str]:
    subject = f": {story.subject}" if story.subject else ""
    yield f"  {story.number}. {story.kind}{subject}"
    yield from (f"     {line}" for line in story.say.splitlines())
    if story.lineage:
        yield "     what befell this record (> marks the witnesses):"
        yield from map(_event_line, story.lineage)
    if story.around:
        yield "     the events around the witnesses (>):"
        yield from map(_event_line, story.around)
    if not story.around and not story.lineage:
        yield "     its events are not in the history that this report could read"


def _event_line(line: Line) -> str:
    gap = "          ...\n" if line.after_gap else ""
    sign = ">" if line.marked else " "
    place = f"{'' if line.s is None else line.s}" + (f".{line.a}" if line.a is not None else "")
    return f"{gap}     {sign} {line.n:>7}  {line.at_s:>9.4f} s  {place:>5}  {line.text}"


def _rest_lines(told: Explanation) -> Iterator[str]:
    if told.not_told or told.omitted:
        parts = [f"{count} {kind}" for kind, count in told.not_told]
        parts += [f"{told.omitted} that the checker only counted"] if told.omitted else []
        yield ""
        yield f"  {told.found} found in all; not told in full: {', '.join(parts)}"
