"""`index.html`: the report as one self-contained page that needs no script, no network and no server.

Answers to Schemathesis' HTML report: verdict, then threats, then failures, then the rest. Invariant: every value
passes `visible` and autoescape; the page stays under `PAGE_BYTES_MAX` by drawing less detail, first of the runs
that went as expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.history.values import brief, visible, without_credentials
from harness.history.verdict import InvariantVerdict, Outcome
from harness.judge.explanation.text import reasons_of
from harness.scenario.outcome import RunOutcome
from reports.banner import gravest
from reports.campaign_view import COLUMNS, CampaignView, Kind, Row, ranges
from reports.cards import with_cards
from reports.chart_job import JobTimeline, job_timeline_of
from reports.chart_latency import LatencyChart, latency_of
from reports.chart_scale import points
from reports.chart_timeline import Timeline, timeline_of
from reports.conviction import Conviction, Links, consequences, counterexample_of, linked
from reports.history_view import CheckpointRow
from reports.reading import (
    OUTCOME_MEANING,
    Tone,
    counted_in,
    counts_towards,
    describe_invariant,
    title_of,
)
from reports.run_section import NOT_CLAIMED, RunSection
from reports.sweep_strip import crash_point_of

PAGE_BYTES_MAX = 1_000_000
"""What the runs shown in full may take."""
_BYTES_OF_A_ROW = 300
"""What each run of a campaign may take besides, with its cell and its row."""
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
    folded: str
    """The line that stands for those that follow from another one."""
    """The gravest first; its first story is the counterexample."""
    lead: Links | None
    """The links of the counterexample, if the timeline marks it."""
    open_rows: Sequence[OpenRow]
    passed: Sequence[InvariantVerdict]
    not_claimed: Sequence[InvariantVerdict]
    point: tuple[int, str, str] | None
    """In a sweep: the message at which the job was killed, and `before` or `after`."""


def page_text(view: CampaignView, *, title: str, earlier: str = "") -> str:
    """The page with the most detail that fits `PAGE_BYTES_MAX`, else with the least.

    `earlier`: the folder of the report that had been in the place of this one.
    """
    text, most = "", _BYTES_OF_A_ROW * (len(view.rows) - len(view.sections))
    for detail in _DETAILS:
        text = _page(view, title=title, detail=detail, earlier=earlier)
        if len(text.encode("utf-8", "replace")) <= PAGE_BYTES_MAX + most:
            break
    return text


@cache
def templates() -> Environment:
    """The environment of all templates: undefined names are errors, hidden characters are escaped."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: (
            visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
        ),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(brief=brief, points=points, title_of=title_of, sentence_of=describe_invariant)
    environment.filters.update(
        facts=lambda values: [(name, _fact(value)) for name, value in without_credentials(values).items()],
        seconds=lambda at_us, origin_us=0: "never" if at_us is None else f"{(at_us - origin_us) / 1e6:.3f} s",
        # A fault's plan without the fields that its first column shows.
        without_name=lambda plan: {
            field: value for field, value in plan.items() if field not in {"id", "do"}
        },
    )
    environment.filters.update(reasons=reasons_of, counted_in=counted_in, linked=linked)
    environment.filters.update(duration=duration, tally=tally_of, seeds=seeds_of, by_scenario=by_scenario)
    return environment


def _fact(value: object) -> str:
    """One value as text, such as `checkpoint 1, subtask 0` instead of JSON."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(inner)}" for name, inner in value.items())
    return value if isinstance(value, str) else brief(value, limit=_FACT_CHARS)


def _page(view: CampaignView, *, title: str, detail: _Detail, earlier: str) -> str:
    few = len(view.rows) <= ROWS_MAX
    return with_cards(
        templates()
        .get_template("index.html.j2")
        .render(
            title=title,
            headline=view.headline,
            told=view.banner,
            campaign=view,
            lines=[(kind, cells_of(kind, view, each=few)) for kind in view.kinds],
            few=few,
            earlier=earlier,
            tones=list(Tone),
            runs=[
                _drawn(section, index, len(view.rows), detail) for index, section in enumerate(view.sections)
            ],
            strips=view.strips,
            anchor_of=view.anchor_of,
            meanings=OUTCOME_MEANING,
            not_claimed=NOT_CLAIMED,
            style=style_of("page.css", "campaign.css"),
            counts_towards=counts_towards,
            detail=detail,
        )
    )


def style_of(*names: str) -> Markup:
    """The style sheets of these names, for the head of a page."""
    return Markup("".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in names))  # noqa: S704  files of ours


def _drawn(section: RunSection, index: int, total: int, detail: _Detail) -> _Drawn:
    wanted = detail.slices > 0 and (detail.good_runs_too or section.reading.tone is not Tone.GOOD)
    faults, view = section.outcome.faults, section.view
    placed = section.outcome.extras.get("cluster", ())
    rows = view.checkpoints
    kept = rows if len(rows) <= _CHECKPOINT_ROWS else [*rows[: _CHECKPOINT_ROWS - 10], *rows[-10:]]
    anchor, judged = f"run-{index + 1}", section.outcome.judgement.invariants
    ranks = {v.invariant: rank for rank, v in enumerate(gravest(section.outcome))}
    convictions = sorted(section.convictions, key=lambda told: ranks.get(told.invariant, len(ranks)))
    stories = detail.stories
    told = None
    if wanted and stories and convictions and convictions[0].stories:
        told = counterexample_of(convictions[0].stories[0])
    timeline = timeline_of(view, faults, slices=detail.slices, placed=placed, told=told) if wanted else None
    job_timeline = job_timeline_of(view, faults, slices=detail.slices, told=told) if wanted else None
    return _Drawn(
        anchor=anchor,
        section=section,
        open=(total <= _RUNS_OPEN or section.reading.tone is not Tone.GOOD),
        timeline=timeline,
        job_timeline=job_timeline,
        latency=latency_of(view, faults, shown=detail.points) if wanted else None,
        checkpoints=kept,
        checkpoints_left_out=len(rows) - len(kept),
        longest_gap=max((r for r in rows if r.gap_us is not None), key=lambda r: r.gap_us or 0, default=None),
        stories=stories,
        convictions=convictions,
        folded=consequences(convictions),
        lead=Links.of(told, anchor) if told and (timeline or job_timeline) else None,
        open_rows=_open_rows(section.outcome),
        passed=[v for v in judged if v.outcome is Outcome.PASS],
        not_claimed=[v for v in judged if v.outcome is Outcome.NOT_CLAIMED],
        point=crash_point_of(section.outcome),
    )


ROWS_MAX: Final = 5_000
"""Up to this many runs the page has a cell and a row for each; of more, a row for each with a cause."""
_SEEDS_TOLD: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run, or several neighbours that are alike."""

    tone: str
    """`good`, `bad`, `open`, or `none` for what was not run."""
    told: str
    """Seed and verdict in words, for the screen reader and the tooltip."""
    sign: str
    to: str = ""
    """The anchor of the section that says more; empty: there is nothing more to say."""


def cells_of(kind: Kind, view: CampaignView, *, each: bool) -> Sequence[Cell]:
    """The cells of one line; `each`: one for each run, even if thousands of them simply passed.

    A run that was not made has a grey cell; of very many, the rest have one together.
    """
    made = [_cell(row, view) for row in kind.rows] if each else list(_joined(kind.rows, view))
    seeds = [(seed, told.why) for told in kind.missing for seed in told.seeds]
    not_run = [
        Cell(tone="none", told=f"seed {seed} not run: {why}", sign="-") for seed, why in seeds[:_SEEDS_TOLD]
    ]
    if rest := sorted(seed for seed, _ in seeds[_SEEDS_TOLD:]):
        told = f"seed {ranges(rest)} not run"
        not_run.append(Cell(tone="none", told=told, sign=f"-{len(rest)}"))
    return [*made, *not_run]


def _cell(row: Row, view: CampaignView) -> Cell:
    because = f": {row.run.cause}" if row.run.cause else ""
    return Cell(
        tone=row.tone.value,
        told=f"seed {row.run.seed} {row.word}{because}",
        sign=row.tone.sign,
        to=view.anchor_of(row.index) if row.run.cause else "",
    )


def _joined(rows: Sequence[Row], view: CampaignView) -> Iterator[Cell]:
    """Cells of runs with a cause, and one for all neighbours between them."""
    passed: list[int] = []
    for row in rows:
        if row.run.cause:
            yield from _passed(passed)
            passed = []
            yield _cell(row, view)
        else:
            passed.append(row.run.seed)
    yield from _passed(passed)


def _passed(seeds: Sequence[int]) -> Iterator[Cell]:
    if seeds:
        told = f"seed {ranges(sorted(seeds))}: {len(seeds)} pass"
        yield Cell(tone="good", told=told, sign=f"{Tone.GOOD.sign}{len(seeds)}")


def tally_of(kind: Kind) -> str:
    """`40 runs: 38 pass, 2 fail; 5,210 events in 0.8 s`."""
    counts = ", ".join(f"{kind.counts[outcome]} {outcome}" for outcome in COLUMNS if kind.counts.get(outcome))
    not_run = f"; {kind.not_run} not run" if kind.not_run else ""
    if not kind.rows:
        return f"{kind.not_run} not run"
    runs = "1 run" if len(kind.rows) == 1 else f"{len(kind.rows)} runs"
    return f"{runs}: {counts}{not_run}; {kind.events:,} events in {duration(kind.took_s)}"


def duration(seconds: float) -> str:
    """`12 ms`, `3.4 s`, `12 min 5 s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def seeds_of(rows: Sequence[Row]) -> str:
    return ranges(sorted(row.run.seed for row in rows))


def by_scenario(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.run.scenario, []).append(row)
    return list(found.items())
