"""A campaign as every form of its report shows it: each run a row, grouped by cause, a few of them in full.

Answers to Playwright's error groups and Bowtie's grid. Invariant: each run is in exactly one row and one kind, each run
with a cause in exactly one group; totals are counted from the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.history.verdict import Outcome
from harness.scenario.outcome import (
    CountedRun,
    Extent,
    HistoryFile,
    MissingRuns,
    PlannedRuns,
    RunOutcome,
    left_out_line,
)
from harness.scenario.symptom import worth_showing
from reports.banner import Banner, banner_of_all
from reports.reading import Reading, Tone, headline_of, tone_of
from reports.run_section import RunSection, section_of
from reports.sweep_strip import Strip, strips_of

COLUMNS = (Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN, Outcome.VACUOUS)
"""The verdicts that a run can have, as columns of the totals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run."""

    index: int
    """Its place among all runs."""
    run: CountedRun
    history: HistoryFile | None = None
    """The history in the report's folder; None: the run was only counted."""

    @property
    def tone(self) -> Tone:
        return tone_of(self.run)

    @property
    def word(self) -> str:
        return (
            f"{self.run.verdict}, as expected"
            if self.run.mutant and self.run.as_expected
            else str(self.run.verdict)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """All runs of one scenario with one system under test, added up."""

    scenario: str
    mutant: str | None
    sut: str
    level: str
    rows: Sequence[Row]
    missing: Sequence[MissingRuns] = ()

    @property
    def counts(self) -> Mapping[Outcome, int]:
        return Counter(row.run.verdict for row in self.rows)

    @property
    def tones(self) -> Mapping[Tone, int]:
        return Counter(row.tone for row in self.rows)

    @property
    def unexpected(self) -> int:
        return len(self.rows) - self.tones.get(Tone.GOOD, 0)

    @property
    def not_run(self) -> int:
        return sum(len(told.seeds) for told in self.missing)

    @property
    def events(self) -> int:
        return sum(row.run.events for row in self.rows)

    @property
    def took_s(self) -> float:
        return sum(row.run.took_s for row in self.rows)

    @property
    def name(self) -> str:
        return f"{self.scenario} with {self.mutant}" if self.mutant else self.scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A group of runs that have shown the same; each of them has `cause` in `counted`."""

    number: int
    words: str
    rows: Sequence[Row]
    section: int | None
    """The place of the section that shows its first run in full; None: too many causes, or it left no history."""

    @property
    def tone(self) -> Tone:
        tones = {row.tone for row in self.rows}
        return next(tone for tone in (Tone.BAD, Tone.OPEN, Tone.GOOD) if tone in tones)

    @property
    def also(self) -> str:
        """Which violations its runs have, and in how many of them: `V8 lost (40), V10 missing (12)`."""
        found = Counter(one for row in self.rows for one in row.run.violations)
        return ", ".join(f"{invariant} {kind} ({runs})" for (invariant, kind), runs in found.most_common())

    @property
    def scenarios(self) -> Sequence[str]:
        return list(dict.fromkeys(row.run.scenario for row in self.rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignView:
    """All runs of a report."""

    rows: Sequence[Row]
    kinds: Sequence[Kind]
    causes: Sequence[Cause]
    """The causes, unexpected ones first, by their number of runs."""
    cause_of: Mapping[int, Cause]
    """The cause of each row that has one."""
    sections: Sequence[RunSection]
    """The runs shown in full."""
    shown: Sequence[int]
    """The row of each section."""
    extent: Extent
    planned: Sequence[PlannedRuns]
    """The planned runs of each kind."""
    strips: Sequence[Strip] = ()
    pitfall_of_all: str = ""
    """The pitfall that every run shows that passed; it is said once, and is no cause of theirs."""

    @property
    def is_one(self) -> bool:
        """Whether it is a single run, with nothing to add up."""
        return len(self.rows) == len(self.sections) == 1 and self.extent.asked == 1

    @property
    def runs(self) -> Sequence[CountedRun]:
        return [row.run for row in self.rows]

    @property
    def tones(self) -> Mapping[Tone, int]:
        return Counter(map(tone_of, self.runs))

    @property
    def headline(self) -> Reading:
        """The headline of the campaign; an incomplete one is at best undecided."""
        outcomes = [section.outcome for section in self.sections]
        reading = headline_of(outcomes, [] if self.is_one else self.runs)
        if not self.is_one and reading.tone is not Tone.GOOD:
            causes = [cause for cause in self.causes if cause.tone is not Tone.GOOD]
            told = ", ".join(f"{cause.words} ({_runs(len(cause.rows))})" for cause in causes[:_CAUSES_TOLD])
            more = f", and {len(causes) - _CAUSES_TOLD} more" if len(causes) > _CAUSES_TOLD else ""
            by_cause = f" By cause: {told}{more}." if causes else ""
            reading = replace(reading, sentence=f"{reading.sentence}{by_cause}")
        shared = f" Every run that passed shows the {self.pitfall_of_all}." if self.pitfall_of_all else ""
        reading = replace(reading, sentence=f"{reading.sentence}{shared}{self._left_out}")
        if self.incomplete is None:
            return reading
        sentence = f"{self.incomplete} {reading.sentence}"
        if reading.tone is Tone.BAD:
            return Reading(tone=Tone.BAD, word=reading.word, sentence=sentence)
        word = "interrupted" if self.extent.interrupted else "undecided"
        return Reading(tone=Tone.OPEN, word=word, sentence=sentence)

    @property
    def banner(self) -> Banner:
        banners = [(section.outcome, section.banner) for section in self.sections]
        whole = self.incomplete is None and len(self.rows) == len(self.sections)
        banner = banner_of_all(banners, self.headline, whole=whole)
        is_told = banner.rest.endswith(self._left_out)
        return banner if is_told else replace(banner, rest=f"{banner.rest}{self._left_out}")

    @property
    def _left_out(self) -> str:
        line = left_out_line(self.extent.left_out)
        return line and f" {line}."

    @property
    def incomplete(self) -> str | None:
        """How many of how many runs were made, and why not more; None: all."""
        if len(self.rows) >= self.extent.asked and not self.extent.interrupted:
            return None
        whys = list(dict.fromkeys(told.why for told in self.extent.missing))
        why = "; ".join(whys[:_WHYS]) + (
            f"; and {len(whys) - _WHYS} more reasons" if len(whys) > _WHYS else ""
        )
        because = f": {why}" if why else ", the last ones in part: the campaign was interrupted"
        return f"{len(self.rows)} of {self.extent.asked} runs were made{because}."

    def others_of(self, cause: Cause) -> Sequence[Row]:
        """Its runs that no section shows."""
        shown = set(self.shown)
        return [row for row in cause.rows if row.index not in shown]

    def anchor_of(self, row: int) -> str:
        """The place on the page that says most about a run: its section, that of its cause, or the grid."""
        if row in self.shown:
            return f"run-{self.shown.index(row) + 1}"
        cause = self.cause_of.get(row)
        return "campaign" if cause is None else f"cause-{cause.number}"

    @property
    def alone(self) -> Sequence[int]:
        """The sections of runs without a cause."""
        return [index for index, place in enumerate(self.shown) if place not in self.cause_of]


_WHYS = 3
_WHOLE_MAX = 4
"""With more runs shown in full than this, each shows only a few anomalies."""
_ANOMALIES_OF_MANY = 2
_CAUSES_TOLD = 3


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def view_of(
    outcomes: Sequence[RunOutcome],
    *,
    counted: Sequence[CountedRun] = (),
    extent: Extent | None = None,
    stored: Callable[[int], HistoryFile | None] = lambda index: None,
) -> CampaignView:
    """All runs: `counted`, or those of `outcomes` if none is counted.

    `outcomes` has the full results of all runs or of some; `stored` gives the history of each in the report's folder.
    """
    runs = list(counted) or [CountedRun.of(outcome) for outcome in outcomes]
    places = list(range(len(outcomes))) if not counted else _places(outcomes, counted)
    histories = {place: stored(index) for index, place in enumerate(places)}
    passed = {run.cause for run in runs if run.as_expected} if len(runs) > 1 else set()
    shared = next((cause for cause in passed if len(passed) == 1 and cause.startswith("pitfall ")), "")
    rows = [
        Row(
            index=index,
            run=replace(run, cause="") if shared and run.as_expected else run,
            history=histories.get(index),
        )
        for index, run in enumerate(runs)
    ]
    able = sorted(places)
    told = [(runs[place].cause, runs[place].as_expected) for place in able]
    wanted = {able[index] for index in worth_showing(told, of=len(runs))}
    full = [(place, index) for index, place in enumerate(places) if place in wanted]
    short = len(full) > _WHOLE_MAX
    sections = [
        section_of(_shortened(outcomes[index]) if short else outcomes[index], stored=histories[place])
        for place, index in full
    ]
    shown = [place for place, _ in full]
    extent = Extent(asked=len(runs)) if extent is None else extent
    planned: dict[object, PlannedRuns] = {one.kind: one for one in extent.planned}
    for one in outcomes:
        planned.setdefault(one.kind, one)
    causes = _causes(rows, shown)
    return CampaignView(
        rows=rows,
        kinds=list(_kinds(rows, extent)),
        causes=causes,
        cause_of={row.index: cause for cause in causes for row in cause.rows},
        sections=sections,
        shown=shown,
        extent=extent,
        planned=list(planned.values()),
        strips=strips_of(outcomes, places=places),
        pitfall_of_all=shared,
    )


def _shortened(outcome: RunOutcome) -> RunOutcome:
    """The verdict with only the first anomalies of each invariant; the others are counted."""
    verdicts = (
        replace(
            verdict,
            anomalies=verdict.anomalies[:_ANOMALIES_OF_MANY],
            omitted=verdict.omitted + max(0, len(verdict.anomalies) - _ANOMALIES_OF_MANY),
        )
        for verdict in outcome.judgement.invariants
    )
    return replace(outcome, judgement=replace(outcome.judgement, invariants=tuple(verdicts)))


def _places(outcomes: Sequence[RunOutcome], counted: Sequence[CountedRun]) -> list[int]:
    """The row of each outcome: by its run id, else the first row of the same scenario, defect and seed."""
    ids = {run.run_id: place for place, run in enumerate(counted) if run.run_id}
    same: dict[tuple[object, ...], list[int]] = {}
    for place, run in enumerate(counted):
        same.setdefault((run.scenario, run.mutant, run.level, run.seed), []).append(place)
    found: list[int] = []
    for outcome in outcomes:
        key = (outcome.scenario, outcome.mutant, outcome.level, outcome.seed)
        found.append(ids[outcome.run_id] if outcome.run_id in ids else same[key].pop(0))
    return found


def _kinds(rows: Sequence[Row], extent: Extent) -> Iterator[Kind]:
    found: dict[tuple[str, str | None, str, str], list[Row]] = {}
    for row in rows:
        key = (row.run.scenario, row.run.mutant, row.run.level, row.run.sut)
        found.setdefault(key, []).append(row)
    told = list(extent.missing)
    for (scenario, mutant, level, sut), its in found.items():
        missing = [one for one in told if (one.scenario, one.mutant, one.level) == (scenario, mutant, level)]
        told = [one for one in told if one not in missing]
        yield Kind(scenario=scenario, mutant=mutant, sut=sut, level=level, rows=its, missing=missing)
    left: dict[tuple[str, str | None, str], list[MissingRuns]] = {}
    for one in told:
        left.setdefault((one.scenario, one.mutant, one.level), []).append(one)
    for (scenario, mutant, level), those in left.items():
        yield Kind(scenario=scenario, mutant=mutant, sut="", level=level, rows=(), missing=those)


def _causes(rows: Sequence[Row], shown: Sequence[int]) -> list[Cause]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.run.cause:
            found.setdefault(row.run.cause, []).append(row)
    sections = {place: index for index, place in enumerate(shown)}
    order = (Tone.BAD, Tone.OPEN, Tone.GOOD)
    drafts = [Cause(number=0, words=words, rows=its, section=None) for words, its in found.items()]
    drafts.sort(key=lambda cause: (order.index(cause.tone), -len(cause.rows)))
    return [
        replace(
            draft,
            number=number,
            section=next((sections[row.index] for row in draft.rows if row.index in sections), None),
        )
        for number, draft in enumerate(drafts, start=1)
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
