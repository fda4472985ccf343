"""`index.html`: the report as one self-contained page that needs no script, no network and no server.

Answers to Schemathesis' HTML report: verdict, then threats, then failures, then the rest. Invariant: every value
passes `visible` and autoescape; the page stays under `PAGE_BYTES_MAX` by drawing less detail, first of the runs
that went as expected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.explanation.text import reasons_of
from harness.history.values import brief, visible, without_credentials
from harness.runs.outcome import CountedRun, RunOutcome
from harness.verdict import InvariantVerdict, Outcome
from reports.banner import banner_of_all, gravest
from reports.cards import with_cards
from reports.chart_job import JobTimeline, job_timeline_of
from reports.chart_latency import LatencyChart, latency_of
from reports.chart_scale import points
from reports.chart_timeline import Timeline, timeline_of
from reports.conviction import Conviction
from reports.counterexample import Links, counterexample_of, linked
from reports.history_view import CheckpointRow
from reports.reading import (
    OUTCOME_MEANING,
    Causes,
    Tone,
    counted_in,
    counts_of,
    counts_towards,
    describe_invariant,
    headline_of,
    title_of,
    tone_of,
)
from reports.run_section import NOT_CLAIMED, RunSection
from reports.sweep_strip import crash_point_of, strips_of

__all__ = ["PAGE_BYTES_MAX", "page_text"]

PAGE_BYTES_MAX = 1_000_000
_CHECKPOINT_ROWS = 40
_RUNS_OPEN = 4
"""Up to this many runs are all unfolded; of more, only those that did not go as expected."""
_FACT_CHARS = 160
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Detail:
    """The level of detail of each run."""

    slices: int
    points: int
    good_runs_too: bool
    stories: int


_DETAILS = (
    _Detail(slices=280, points=1500, good_runs_too=True, stories=10),
    _Detail(slices=140, points=500, good_runs_too=True, stories=5),
    _Detail(slices=140, points=500, good_runs_too=False, stories=3),
    _Detail(slices=0, points=0, good_runs_too=False, stories=1),
    _Detail(slices=0, points=0, good_runs_too=False, stories=0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRow:
    """Invariants that did not pass, for one reason."""

    outcome: Outcome
    why: str
    counts: bool
    """Whether they decide the run's verdict."""
    verdicts: Sequence[InvariantVerdict]


def _open_rows(outcome: RunOutcome) -> list[OpenRow]:
    """Violations one by one, the gravest first; then the undecided, grouped by reason."""
    rows = [
        OpenRow(outcome=v.outcome, why=v.why, counts=counts_towards(outcome, v), verdicts=(v,))
        for v in gravest(outcome)
    ]
    reasons: dict[tuple[Outcome, str, bool], list[InvariantVerdict]] = {}
    for verdict in outcome.judgement.invariants:
        if verdict.outcome in {Outcome.UNKNOWN, Outcome.VACUOUS}:
            key = verdict.outcome, verdict.why, counts_towards(outcome, verdict)
            reasons.setdefault(key, []).append(verdict)
    return rows + [
        OpenRow(outcome=word, why=why, counts=counts, verdicts=verdicts)
        for (word, why, counts), verdicts in sorted(reasons.items(), key=lambda reason: not reason[0][2])
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """A section with its charts, for the template."""

    anchor: str
    section: RunSection
    open: bool
    timeline: Timeline | None
    job_timeline: JobTimeline | None
    latency: LatencyChart | None
    checkpoints: Sequence[CheckpointRow]
    checkpoints_left_out: int
    longest_gap: CheckpointRow | None
    stories: int
    convictions: Sequence[Conviction]
    """The gravest first; its first story is the counterexample."""
    lead: Links | None
    """Of the counterexample, if the timeline marks it."""
    open_rows: Sequence[OpenRow]
    passed: Sequence[InvariantVerdict]
    not_claimed: Sequence[InvariantVerdict]
    first: str | None
    """The anchor of the earlier run that has the details of its cause."""
    point: tuple[int, str] | None
    """Of a sweep: the message at which the job was killed, and `before` or `after`."""


def page_text(sections: Sequence[RunSection], *, title: str, counted: Sequence[CountedRun] = ()) -> str:
    """The page with the most detail that fits `PAGE_BYTES_MAX`, else with the least.

    `counted`: every run of a campaign of which `sections` are only those shown in full.
    """
    text = ""
    for detail in _DETAILS:
        text = _page(sections, title=title, detail=detail, counted=counted)
        if len(text.encode("utf-8", "replace")) <= PAGE_BYTES_MAX:
            break
    return text


@cache
def templates() -> Environment:
    """The environment of all templates: undefined names are errors, hidden characters are escaped."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(brief=brief, points=points, title_of=title_of, sentence_of=describe_invariant)
    environment.filters.update(facts=_facts, seconds=_seconds, without_name=_without_name)
    environment.filters.update(reasons=reasons_of, counted_in=counted_in, linked=linked)
    return environment


def _finalize(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _facts(values: Mapping[str, object]) -> list[tuple[str, str]]:
    """A mapping as names and short values, credentials withheld."""
    clean = without_credentials(values)
    return [(name, _fact(value)) for name, value in clean.items()]


def _fact(value: object) -> str:
    """One value as text, such as `checkpoint 1, subtask 0` instead of JSON."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(inner)}" for name, inner in value.items())
    return value if isinstance(value, str) else brief(value, limit=_FACT_CHARS)


def _without_name(plan: Mapping[str, object]) -> dict[str, object]:
    """A fault's plan without the fields that its first column shows."""
    return {field: value for field, value in plan.items() if field not in {"id", "do"}}


def _seconds(at_us: int | None, origin_us: int = 0) -> str:
    return "never" if at_us is None else f"{(at_us - origin_us) / 1e6:.3f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class _CountedGroup:
    """All runs of one scenario, with one planted defect or none, that have one verdict."""

    scenario: str
    mutant: str | None
    level: str
    verdict: str
    tone: Tone
    runs: int
    events: int
    seeds: str
    """The seeds in ranges: `1-40, 44`."""


def _groups(counted: Sequence[CountedRun]) -> list[_CountedGroup]:
    groups: dict[tuple[str, str | None, str, str, Tone], list[CountedRun]] = {}
    for run in counted:
        key = (run.scenario, run.mutant, run.level, run.outcome.value, tone_of(run))
        groups.setdefault(key, []).append(run)
    return [
        _CountedGroup(
            scenario=scenario,
            mutant=mutant,
            level=level,
            verdict=verdict,
            tone=tone,
            runs=len(runs),
            events=sum(run.events for run in runs),
            seeds=ranges(sorted(run.seed for run in runs)),
        )
        for (scenario, mutant, level, verdict, tone), runs in groups.items()
    ]


def ranges(numbers: Sequence[int]) -> str:
    """Sorted numbers as ranges: `1-40, 44`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number <= parts[-1][-1] + 1:
            parts[-1][-1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def _page(
    sections: Sequence[RunSection], *, title: str, detail: _Detail, counted: Sequence[CountedRun]
) -> str:
    outcomes = [section.outcome for section in sections]
    causes = Causes.of(outcomes)
    runs = [
        _drawn(section, index, len(sections), detail, first=causes.first_of(index))
        for index, section in enumerate(sections)
    ]
    headline = headline_of(outcomes, counted)
    banners = [(section.outcome, section.banner) for section in sections]
    return with_cards(
        templates()
        .get_template("index.html.j2")
        .render(
            title=title,
            headline=headline,
            told=banner_of_all(banners, headline, whole=not counted),
            groups=_groups(counted),
            all_runs=len(counted),
            counts=counts_of(outcomes),
            tones=list(Tone),
            runs=runs,
            causes=list(causes.sentences()),
            strips=strips_of(outcomes),
            anchor_of=_anchor,
            meanings=OUTCOME_MEANING,
            not_claimed=NOT_CLAIMED,
            style=Markup((_TEMPLATES / "page.css").read_text(encoding="utf-8")),  # noqa: S704  a file of ours
            counts_towards=counts_towards,
            detail=detail,
        )
    )


def _drawn(section: RunSection, index: int, total: int, detail: _Detail, *, first: int | None) -> _Drawn:
    """`first`: the earlier run that has the details of its cause."""
    alone = first is None
    wanted = alone and detail.slices > 0 and (detail.good_runs_too or section.reading.tone is not Tone.GOOD)
    faults, view = section.outcome.faults, section.view
    placed = section.outcome.extras.get("cluster", ())
    rows = view.checkpoints
    kept = rows if len(rows) <= _CHECKPOINT_ROWS else [*rows[: _CHECKPOINT_ROWS - 10], *rows[-10:]]
    anchor, judged = _anchor(index), section.outcome.judgement.invariants
    ranks = {v.invariant: rank for rank, v in enumerate(gravest(section.outcome))}
    convictions = sorted(section.convictions, key=lambda told: ranks.get(told.invariant, len(ranks)))
    stories = detail.stories if alone else 0
    told = None
    if wanted and stories and convictions and convictions[0].stories:
        told = counterexample_of(convictions[0].stories[0])
    timeline = timeline_of(view, faults, slices=detail.slices, placed=placed, told=told) if wanted else None
    job_timeline = job_timeline_of(view, faults, slices=detail.slices, told=told) if wanted else None
    return _Drawn(
        anchor=anchor,
        section=section,
        open=alone and (total <= _RUNS_OPEN or section.reading.tone is not Tone.GOOD),
        timeline=timeline,
        job_timeline=job_timeline,
        latency=latency_of(view, faults, shown=detail.points) if wanted else None,
        checkpoints=kept,
        checkpoints_left_out=len(rows) - len(kept),
        longest_gap=max((r for r in rows if r.gap_us is not None), key=lambda r: r.gap_us or 0, default=None),
        stories=stories,
        convictions=convictions,
        lead=Links.of(told, anchor) if told and (timeline or job_timeline) else None,
        open_rows=_open_rows(section.outcome),
        passed=[v for v in judged if v.outcome is Outcome.PASS],
        not_claimed=[v for v in judged if v.outcome is Outcome.NOT_CLAIMED],
        first=None if first is None else _anchor(first),
        point=crash_point_of(section.outcome),
    )


def _anchor(index: int) -> str:
    return f"run-{index + 1}"
