"""What convicts: the text of a conviction, and the counterexample as steps of the timeline.

The text of a conviction: the violated invariant, the contradiction, what still holds, how to repeat the run.

Answers to Elle's explanations. Invariant: terminal, JUnit, page and JSON share this text, with *Let* and *Then* of
`harness.judge.explanation`; every line is a fact of the history or of the verdict.

The counterexample of a run: the events of the record that the banner names, as steps for the timeline.

Answers to the marked operations of a Porcupine or Jepsen timeline. Invariant: each step is an event of the history;
its name (`e1`) is the one that the explanation gives the same event, so that text and drawing can link to each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup, escape

from harness.history.values import brief, visible
from harness.history.verdict import ANOMALIES_IN_FULL, Anomaly, Explanation, InvariantVerdict, Outcome
from harness.judge.explanation.text import explanation_lines, rest_of
from harness.scenario.outcome import RunOutcome
from reports.history_view import HistoryView, Line
from reports.reading import counts_towards, describe_invariant, title_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyStory:
    """One anomaly with the events that show it."""

    number: int
    kind: str
    subject: str
    """What it names, such as `record 100, subtask 0`."""
    say: str
    explanation: Explanation | None
    lineage: tuple[Line, ...]
    around: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conviction:
    """One violated invariant of one run."""

    invariant: str
    title: str
    statement: str
    outcome: RunOutcome
    expected: bool
    """Whether the run has a planted defect that this invariant must convict."""
    found: int
    stories: tuple[AnomalyStory, ...]
    rest: str
    """The counts of further anomalies by class; empty if none."""
    holds: tuple[str, ...]
    undecided: tuple[str, ...]
    guarantee: str
    """The strongest guarantee that is shown; empty if the judgement was not explained."""
    follows: str = ""
    """The violated invariant that this one follows from; empty: none is known."""
    lineage_of: str = "Events of this record and its subtask"
    """What the events of a record are shown with."""
    place: str = "subtask.attempt"


_OF_A_JOB: Final = {"lineage_of": "Events of this record and of the job", "place": "start"}


def convictions_of(
    outcome: RunOutcome, view: HistoryView, *, limit: int = ANOMALIES_IN_FULL
) -> tuple[Conviction, ...]:
    """One for each violated invariant, in the order of the invariants."""
    convicted = outcome.judgement.convicted()
    return tuple(conviction_of(outcome, verdict, view, limit=limit) for verdict in convicted)


def conviction_of(
    outcome: RunOutcome, verdict: InvariantVerdict, view: HistoryView, *, limit: int = ANOMALIES_IN_FULL
) -> Conviction:
    """The conviction of `verdict`, with at most `limit` anomalies in full and the others counted by class."""
    told = verdict.anomalies[: min(limit, ANOMALIES_IN_FULL)]
    guarantee = outcome.judgement.guarantee
    return Conviction(
        invariant=verdict.invariant,
        title=title_of(verdict.invariant),
        statement=describe_invariant(verdict.invariant),
        outcome=outcome,
        expected=verdict.invariant in outcome.convicts,
        found=len(verdict.anomalies) + verdict.omitted,
        stories=tuple(
            AnomalyStory(
                number=number,
                kind=anomaly.kind,
                subject=_subject(anomaly, "record" if view.outside is None else view.outside.noun),
                say=anomaly.say,
                explanation=anomaly.explanation,
                lineage=view.excerpts.lineage(anomaly),
                around=view.excerpts.around(anomaly),
            )
            for number, anomaly in enumerate(told, start=1)
        ),
        rest=rest_of(verdict, told=len(told)),
        holds=tuple(v.invariant for v in outcome.judgement.invariants if v.outcome is Outcome.PASS),
        undecided=tuple(
            f"{verdict.invariant} ({verdict.outcome})"
            for verdict in outcome.judgement.invariants
            if verdict.outcome in {Outcome.UNKNOWN, Outcome.VACUOUS} and counts_towards(outcome, verdict)
        ),
        guarantee="" if guarantee is None else guarantee.statement,
        follows=verdict.follows,
        **({} if view.outside is None else _OF_A_JOB),
    )


def by_its_lineage(conviction: Conviction) -> Conviction:
    """The conviction without the events around its witnesses, where it tells the events of the record."""
    stories = (replace(story, around=()) if story.lineage else story for story in conviction.stories)
    return replace(conviction, stories=tuple(stories))


def _subject(anomaly: Anomaly, noun: str) -> str:
    named = (
        (noun, anomaly.id),
        ("watermark", anomaly.w),
        ("checkpoint", anomaly.c),
        ("subtask", anomaly.s),
    )
    return ", ".join(f"{word} {brief(value)}" for word, value in named if value is not None)


_IF_RIGHT: Final = "with the lookup's results taken as right"


def consequences(convictions: Sequence[Conviction]) -> str:
    """One line for those that follow from another one; empty: none does."""
    rest = [told for told in convictions if told.follows]
    if not rest:
        return ""
    follow = "follows" if len(rest) == 1 else "follow"
    names = ", ".join(f"{told.invariant} {told.title}".rstrip() for told in rest)
    return f"and {len(rest)} that {follow} from {rest[0].follows} ({_IF_RIGHT}, no violation): {names}"


def variant_in_words(mutant: str | None) -> str:
    """The planted defect of the run, or your own operator; empty: the unchanged reference."""
    if not mutant:
        return ""
    return f"variant {mutant}" if ":" in mutant else f"planted defect {mutant}"


def as_text(conviction: Conviction) -> str:
    """The conviction as plain text, safe for a terminal and for XML."""
    return visible("\n".join(_lines(conviction)))


def _lines(told: Conviction) -> Iterator[str]:
    title = f"  {told.title}" if told.title else ""
    yield f"{told.invariant} VIOLATED{title}"
    if told.follows:
        yield f"  follows from {told.follows}: {_IF_RIGHT} it holds"
    yield f"  {told.statement}"
    run = told.outcome
    words = (
        f"  scenario {run.scenario}",
        f"level {run.level}",
        f"seed {run.seed}",
        variant_in_words(run.mutant),
    )
    yield "  ".join(filter(None, words))
    if told.expected:
        yield "  this conviction is expected: the run has a planted defect"
    for story in told.stories:
        yield ""
        yield from _story_lines(story, lineage_of=told.lineage_of)
    if told.rest:
        yield ""
        yield f"  {told.rest}"
    yield ""
    yield f"Still holds:  {' '.join(told.holds) or 'nothing else was shown'}"
    if told.undecided:
        yield f"Undecided:    {' '.join(told.undecided)}"
    if told.guarantee:
        yield f"Guarantee:    {told.guarantee}"
    yield f"Again:        {run.again}"


def _story_lines(story: AnomalyStory, *, lineage_of: str) -> Iterator[str]:
    subject = f": {story.subject}" if story.subject else ""
    yield f"  {story.number}. {story.kind}{subject}"
    yield from (f"     {line}" for line in story.say.splitlines())
    if story.explanation is not None:
        yield from (f"     {line}" for line in explanation_lines(story.explanation))
    if story.lineage:
        yield f"     {lineage_of.lower()} (> marks the witnesses):"
        yield from map(_event_line, story.lineage)
    if story.around:
        yield "     the events around the witnesses (>):"
        yield from map(_event_line, story.around)
    if not story.around and not story.lineage:
        yield "     its events are not in the history that this report could read"


def _event_line(line: Line) -> str:
    gap = "          ...\n" if line.after_gap else ""
    sign = ">" if line.marked else " "
    named = [str(number) for number in (line.s, line.a) if number is not None]
    place = ".".join(named)
    return f"{gap}     {sign} {line.n:>7}  {line.at_s:>9.4f} s  {place:>5}  {line.text}"


def events_of(story: AnomalyStory, *, most: int) -> Sequence[str]:
    """The events that tell the story, in the order of the history: at most so many."""
    names = {int(found[2]): found[1] for found in _lets(story)}
    lines = story.lineage or tuple(line for line in story.around if line.marked)
    chosen = _chosen(lines, names, most=most)
    return [_event_line(replace(line, after_gap=False)).removeprefix(" " * 5) for line in chosen]


_STEPS: Final = 12
_LET: Final = re.compile(r"(e\d+) = .*\(event (\d+)[,)]", re.DOTALL)
_NAME: Final = re.compile(r"\b(e\d+)\b")
_SAVES: Final = frozenset({"snap", "commit"})
_ENDS: Final = frozenset({"kill", "failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One event on the timeline."""

    n: int
    at_s: float
    s: int | None
    label: str
    name: str
    """Its name in the explanation: `e1`; empty if it has none."""
    told: str
    """The event in words, with its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """The steps of one anomaly, in the order of the history."""

    subject: str
    steps: tuple[Step, ...]

    @property
    def names(self) -> dict[str, int]:
        return {step.name: step.n for step in self.steps if step.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where the names in an explanation lead on a page."""

    names: frozenset[str]
    marks: dict[str, str]
    """The links from *Let* to the marks on the timeline."""
    lines: dict[str, str]
    """The links from *Then* to the lines of *Let*."""

    @classmethod
    def of(cls, told: Counterexample, anchor: str) -> Links:
        return cls(
            names=frozenset(told.names),
            marks={name: f"#{anchor}-at-{n}" for name, n in told.names.items()},
            lines={name: f"#{anchor}-{name}" for name in told.names},
        )


def counterexample_of(story: AnomalyStory) -> Counterexample | None:
    """The steps of a story; None if no event of it is known."""
    names = {int(let[2]): let[1] for let in _lets(story)}
    told = story.lineage or tuple(line for line in story.around if line.marked)
    lines = list(_chosen(told, names, most=_STEPS))
    steps = tuple(
        Step(
            n=line.n,
            at_s=line.at_s,
            s=line.s,
            label=line.label,
            name=names.get(line.n, ""),
            told=f"{line.at_s:.4f} s: {line.text}",
        )
        for line in lines
    )
    return (
        Counterexample(subject=story.subject.partition(",")[0] or story.kind, steps=steps) if steps else None
    )


def _lets(story: AnomalyStory) -> Iterator[re.Match[str]]:
    for line in story.explanation.let if story.explanation else ():
        if (found := _LET.match(line)) is not None:
            yield found


def _chosen(lines: Sequence[Line], names: dict[int, str], *, most: int) -> Iterator[Line]:
    """At most `most` events: those that the explanation names, then the first of the others."""
    restored = {(line.s, line.a) for line in lines if line.label.startswith("restore")}
    ended = next((line.n for line in lines if line.label in _ENDS), lines[-1].n + 1 if lines else 0)
    last = {_kind(line): line.n for line in lines if _kind(line) in _SAVES and line.n < ended}
    kept = [line for line in lines if line.n in names or line.marked or not _idle(line, last, restored)]
    cited = [line for line in kept if line.n in names or line.marked][:most]
    others = [line for line in kept if line not in cited][: most - len(cited)]
    yield from sorted([*cited, *others], key=lambda line: line.n)


def _idle(line: Line, last: dict[str, int], restored: set[tuple[int | None, int | None]]) -> bool:
    """Whether the event says nothing of the record's fate.

    Of the snapshots and commits only the last before the first death matters; a start is told by its restore.
    """
    kind = _kind(line)
    if kind in _SAVES:
        return last.get(kind) != line.n
    return kind == "start" and (line.s, line.a) in restored


def _kind(line: Line) -> str:
    return line.label.partition(" ")[0]


def linked(line: str, targets: dict[str, str]) -> Markup:
    """A line of an explanation in which each name that has a target (`e1`: `#run-1-at-7`) is a link to it."""
    parts: list[Markup] = []
    for part in _NAME.split(visible(line)):
        target = targets.get(part)
        parts.append(escape(part) if target is None else Markup('<a href="{}">{}</a>').format(target, part))
    return Markup("").join(parts)
