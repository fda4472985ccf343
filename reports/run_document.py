"""`run.json`: finished runs as one JSON document with a schema, for programs that judge, compare or repeat runs.

Answers to dbt's run_results.json. Invariant: `schemas/run.v1.json` is generated from the structs here, their
docstrings included; within a version fields are added, never changed; passwords are withheld.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.history.values import without_credentials
from harness.history.verdict import InvariantVerdict
from harness.scenario import outcome as outcome_values
from harness.scenario.outcome import FaultRecord
from harness.system.errors import HistoryError
from reports.campaign_view import COLUMNS, CampaignView, Cause, Kind, Row, ranges
from reports.conviction import as_text, conviction_of
from reports.reading import read_run
from reports.run_section import RunSection


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the document: a field that does not exist is an error."""


class World(Part, frozen=True, kw_only=True):
    """The infrastructure of a run."""

    kind: str
    why: str
    server: str
    proxy: str
    ready_s: float


class FaultTime(Part, frozen=True, kw_only=True):
    """One time that a fault acted; times are microseconds of the history's clock, null for what never came."""

    planned_us: int | None
    armed_us: int | None
    measured_us: int | None
    healed_us: int | None
    evidence: dict[str, Any]
    witnesses: list[str] | None = None
    """Without whose word there would be no evidence; null at level sim."""


class Fault(Part, frozen=True, kw_only=True):
    """A disturbance: armed for the first time, healed for the last time, with the evidence of the first."""

    id: str
    kind: str
    plan: dict[str, Any]
    armed_us: int | None
    healed_us: int | None
    evidence: dict[str, Any]
    bites: bool
    times: list[FaultTime] = []
    """Each time that it acted, in order."""


class Invariant(Part, frozen=True, kw_only=True):
    """The answer of one checker, anomalies as `floodmark check --format json` prints them."""

    invariant: str
    verdict: Literal["pass", "fail", "unknown", "vacuous", "not-claimed"]
    why: str
    observed: int
    anomalies: list[dict[str, Any]]
    omitted: int
    explanation: str
    """The text of a failure, the same as on the terminal; empty otherwise."""


class Pitfall(Part, frozen=True, kw_only=True):
    """A mistake that breaks no promise and will hurt; `name` as on `docs/explanation/pitfalls.md`."""

    name: str
    says: str
    advice: str
    evidence: dict[str, Any]


class Threshold(Part, frozen=True, kw_only=True):
    """One threshold of the scenario; with a planted defect it decides nothing."""

    name: str
    limit: float
    """Milliseconds, or calls for each record."""
    value: float | None
    """In the unit of `limit`; null: it could not be measured completely."""
    verdict: Literal["holds", "crossed", "unknown"]
    why: str
    """What was not measured, and why; empty: everything was."""


class HistoryFile(Part, frozen=True, kw_only=True):
    """The history beside this document."""

    file: str
    sha256: str
    bytes: int


class Loss(Part, frozen=True, kw_only=True):
    """Records of a job that one moment lost, doubled or got wrong."""

    kind: str = msgspec.field(name="class")
    """The class of the anomalies."""
    invariant: str
    records: int
    named: list[str]
    """The first of them, with their keys."""
    moment: str


class Outside(Part, frozen=True, kw_only=True):
    """What the report says of a job whose history is seen from outside."""

    view: Literal["outside"]
    losses: list[Loss]
    seen: dict[str, str]
    """What was judged, and from what."""
    assumed: list[str]
    not_claimed: list[str]


class RunDocument(Part, frozen=True, kw_only=True):
    """One run of one scenario."""

    run_id: str
    scenario: str
    about: str
    plan: dict[str, Any]
    level: str
    seed: int
    sut: str
    mutant: str | None
    convicts: list[str]
    world: World
    verdict: Literal["pass", "fail", "unknown", "vacuous", "not-claimed"]
    as_expected: bool
    reading: str
    sentence: str
    invariants: list[Invariant]
    warnings: list[str]
    threats: list[str]
    faults: list[Fault]
    history: HistoryFile | None
    started_at: str
    duration_s: float
    phases_s: dict[str, float]
    accounting: dict[str, int]
    """Counted beside the checkers: in the database by SQL, at level sim in the simulated tables."""
    counts: dict[str, int]
    """Counted in the history."""
    again: str
    versions: dict[str, str]
    error: str | None
    interrupted: bool
    extras: dict[str, Any]
    guarantee: dict[str, Any] | None = None
    """The strongest that the history shows and nothing in it refutes, as `floodmark check` prints it."""
    recovery: dict[str, Any] | None = None
    """V17, what each disturbance cost, as `floodmark check` prints it."""
    pitfalls: list[Pitfall] = []
    """Named from what the run left."""
    outside: Outside | None = None
    """What was seen from outside, if a job ran."""
    runner: str = "continuous"
    """How level spark ran the operator."""
    expected: str | None = None
    """What stated the expected results of a user's lookup, if the command named it."""
    cluster: int = 0
    """The workers of the standalone cluster that was started for it; 0: none."""
    master: str = ""
    """The user's own cluster; empty: none."""
    measures: dict[str, float] = {}
    """What was measured, by the names of thresholds: milliseconds, or calls for each record."""
    thresholds: list[Threshold] = []
    """The thresholds of the scenario, in its order."""
    broke: str = ""
    """What broke, for which record and why, or what keeps the verdict open: the sentence of the page's banner."""


class CountedRun(Part, frozen=True, kw_only=True, omit_defaults=True):
    """One run of a report; its seed repeats it."""

    scenario: str
    mutant: str | None
    level: str
    seed: int
    verdict: Literal["pass", "fail", "unknown", "vacuous", "not-claimed"]
    as_expected: bool
    events: int
    digest: str = ""
    """A SHA-256 of its history's content: equal wherever the seed is run; empty: not taken."""
    sut: str = "reference"
    took_s: float = 0.0
    cause: str = ""
    """What it has shown: a violation, an exception, why nothing was shown; empty: it simply passed."""
    violations: list[list[str]] = []
    """Each invariant and class of anomaly that was found, once."""
    again: str = ""
    """The command that repeats it, of a run with a cause."""
    run_id: str = ""
    """The id of a run that left a history."""
    history: str = ""
    """The file of its history beside this document."""
    measures: dict[str, float] = {}
    """The measures, in the form of a run shown in full."""


class Total(Part, frozen=True, kw_only=True):
    """All runs of one scenario with one system under test, added up."""

    scenario: str
    mutant: str | None
    level: str
    sut: str
    runs: int
    passed: int = msgspec.field(name="pass")
    failed: int = msgspec.field(name="fail")
    unknown: int
    vacuous: int
    unexpected: int
    """How many did not go as expected."""
    not_run: int
    events: int
    took_s: float
    """The time of all runs together."""


class CauseOfRuns(Part, frozen=True, kw_only=True):
    """A group of runs that have shown the same; each of them has `cause` in `counted`."""

    cause: str
    runs: int
    unexpected: int
    """How many of them did not go as expected."""
    scenarios: list[str]
    violations: str
    """Which, and in how many of its runs."""
    shown: str
    """The id of the run in `runs` that shows it in full; empty: none."""


class Missing(Part, frozen=True, kw_only=True):
    """Runs that were asked for and not made."""

    scenario: str
    mutant: str | None
    level: str
    runs: int
    seeds: str
    """The seeds as ranges: `8-40, 44`."""
    why: str


class LeftOut(Part, frozen=True, kw_only=True):
    """A scenario that was not named and that the job cannot meet; none of its runs is in `asked`."""

    scenario: str
    need: str
    """What it needs, in a word or two: `Kafka`."""
    why: str


class Planned(Part, frozen=True, kw_only=True):
    """What the runs of one scenario with one system under test have in common, and what repeats them besides a seed."""

    scenario: str
    mutant: str | None
    level: str
    sut: str
    about: str
    plan: dict[str, Any]
    convicts: list[str]
    runner: str
    expected: str | None
    cluster: int
    master: str


class CrashPoint(Part, frozen=True, kw_only=True):
    """One run of a sweep: the job was killed before or after its n-th message to the sink."""

    scenario: str
    sut: str
    n: int
    moment: str
    held: str
    """The message, as the evidence names it."""
    run_id: str
    as_expected: bool
    found: str


class Document(Part, frozen=True, kw_only=True):
    """The whole file."""

    schema_version: Literal[1]
    title: str
    reading: str
    sentence: str
    runs: list[RunDocument]
    broke: str = ""
    """That of the first run that did not go as it should, with its scenario and seed if there are several runs."""
    counted: list[CountedRun] = []
    """Every run, in order; `runs` are those shown in full."""
    sweep: list[CrashPoint] = []
    """The crash points of a job, each with its run."""
    asked: int = 0
    """How many runs were requested."""
    ran: int = 0
    """How many were made."""
    interrupted: bool = False
    incomplete: str = ""
    """How many of how many were made, and why not all; empty: all."""
    took_s: float = 0.0
    """The wall-clock time of the campaign; 0: not measured."""
    totals: list[Total] = []
    causes: list[CauseOfRuns] = []
    missing: list[Missing] = []
    left_out: list[LeftOut] = []
    planned: list[Planned] = []
    """The planned runs of each scenario that has runs which are not in `runs`."""
    earlier: str = ""
    """The folder to which the report was moved that had been here before; empty: there was none."""


def document_of(view: CampaignView, *, title: str, earlier: str = "") -> Document:
    """The document of all runs of a report."""
    return Document(
        schema_version=1,
        title=title,
        reading=view.headline.word,
        sentence=view.headline.sentence,
        broke=view.banner.broke,
        runs=[_run(section) for section in view.sections],
        counted=[_counted(row) for row in view.rows],
        sweep=list(_sweep(view)),
        asked=view.extent.asked,
        ran=len(view.rows),
        interrupted=view.extent.interrupted,
        incomplete=view.incomplete or "",
        took_s=round(view.extent.took_s, 3),
        totals=[_total(kind) for kind in view.kinds],
        causes=[_cause(cause, view) for cause in view.causes],
        missing=[_missing(told) for told in view.extent.missing],
        left_out=[LeftOut(scenario=one.scenario, need=one.need, why=one.why) for one in view.extent.left_out],
        planned=[] if len(view.rows) == len(view.sections) else [_planned(one) for one in view.planned],
        earlier=earlier,
    )


def _sweep(view: CampaignView) -> Iterator[CrashPoint]:
    for strip in view.strips:
        for point in strip.points:
            run = view.rows[point.run].run
            yield CrashPoint(
                scenario=strip.scenario,
                sut=strip.sut,
                n=point.n,
                moment=point.moment,
                held=point.held,
                run_id=run.run_id,
                as_expected=run.as_expected,
                found=point.found,
            )


def _counted(row: Row) -> CountedRun:
    run = row.run
    return CountedRun(
        scenario=run.scenario,
        mutant=run.mutant,
        level=run.level,
        seed=run.seed,
        verdict=run.outcome.value,
        as_expected=run.as_expected,
        events=run.events,
        digest=run.digest,
        sut=run.sut,
        took_s=round(run.took_s, 4),
        cause=run.cause,
        violations=[list(one) for one in run.violations],
        again=run.again if run.cause else "",
        run_id=run.run_id,
        history="" if row.history is None else row.history.file,
        measures=dict(run.measures),
    )


def _total(kind: Kind) -> Total:
    passed, failed, unknown, vacuous = (kind.counts.get(outcome, 0) for outcome in COLUMNS)
    return Total(
        scenario=kind.scenario,
        mutant=kind.mutant,
        level=kind.level,
        sut=kind.sut,
        runs=len(kind.rows),
        passed=passed,
        failed=failed,
        unknown=unknown,
        vacuous=vacuous,
        unexpected=kind.unexpected,
        not_run=kind.not_run,
        events=kind.events,
        took_s=round(kind.took_s, 3),
    )


def _cause(cause: Cause, view: CampaignView) -> CauseOfRuns:
    shown = "" if cause.section is None else view.sections[cause.section].outcome.run_id
    return CauseOfRuns(
        cause=cause.words,
        runs=len(cause.rows),
        unexpected=sum(not row.run.as_expected for row in cause.rows),
        scenarios=list(cause.scenarios),
        violations=cause.also,
        shown=shown,
    )


def _missing(told: outcome_values.MissingRuns) -> Missing:
    return Missing(
        scenario=told.scenario,
        mutant=told.mutant,
        level=told.level,
        runs=len(told.seeds),
        seeds=ranges(sorted(told.seeds)),
        why=told.why,
    )


def _planned(one: outcome_values.PlannedRuns) -> Planned:
    return Planned(
        scenario=one.scenario,
        mutant=one.mutant,
        level=one.level,
        sut=one.sut,
        about=one.about,
        plan=_free(one.plan),
        convicts=list(one.convicts),
        runner=one.runner,
        expected=one.expected,
        cluster=one.cluster,
        master=one.master,
    )


def document_text(document: Document) -> str:
    """The file's text: indented, a line for each of `counted`, which come last.

    ASCII only, so that no payload can send control characters to a terminal.
    """
    whole = msgspec.to_builtins(document)
    counted = whole.pop("counted")
    head = json.dumps(whole, indent=2, ensure_ascii=True, allow_nan=False).removesuffix("\n}")
    rows = ",\n    ".join(json.dumps(run, ensure_ascii=True, allow_nan=False) for run in counted)
    return f'{head},\n  "counted": [\n    {rows}\n  ]\n}}\n' if rows else f'{head},\n  "counted": []\n}}\n'


def load_document(path: Path) -> Document:
    """Read a `run.json` strictly; raises HistoryError if it does not follow the schema."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Document)
    except (msgspec.DecodeError, OSError) as error:
        raise HistoryError(
            f"{path} is not a run document of schema version 1: {error}",
            fix="name the run.json of a report folder, or the folder itself",
        ) from error


def schema_text() -> str:
    """The JSON Schema of the document, as shipped in `schemas/run.v1.json`."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Floodmark run document, version 1",
        **msgspec.json.schema(Document),
    }
    return json.dumps(schema, indent=2) + "\n"


def _run(section: RunSection) -> RunDocument:
    outcome = section.outcome
    reading, world, stored = read_run(outcome), outcome.world, section.stored
    guarantee, recovery = outcome.judgement.guarantee, outcome.judgement.recovery
    return RunDocument(
        run_id=outcome.run_id,
        scenario=outcome.scenario,
        about=outcome.about,
        plan=_free(outcome.plan),
        level=outcome.level,
        seed=outcome.seed,
        sut=outcome.sut,
        mutant=outcome.mutant,
        convicts=list(outcome.convicts),
        world=World(
            kind=world.kind, why=world.why, server=world.server, proxy=world.proxy, ready_s=world.ready_s
        ),
        verdict=outcome.judgement.outcome.value,
        as_expected=outcome.as_expected,
        reading=reading.word,
        sentence=reading.sentence,
        invariants=[_invariant(section, verdict) for verdict in outcome.judgement.invariants],
        warnings=list(outcome.judgement.warnings),
        threats=list(section.threats),
        faults=[_fault(fault) for fault in outcome.faults],
        history=None
        if stored is None
        else HistoryFile(file=stored.file, sha256=stored.sha256, bytes=stored.size),
        started_at=outcome.started_at,
        duration_s=outcome.duration_s,
        phases_s=dict(outcome.phases_s),
        accounting=dict(outcome.accounting),
        counts=dict(outcome.judgement.accounting),
        again=outcome.again,
        versions=dict(outcome.versions),
        error=outcome.error,
        interrupted=outcome.interrupted,
        extras=_free(outcome.extras),
        guarantee=None if guarantee is None else guarantee.as_json(),
        recovery=None if recovery is None else _free(recovery.as_json()),
        pitfalls=[
            Pitfall(name=told.name, says=told.says, advice=told.advice, evidence=_free(told.evidence))
            for told in outcome.pitfalls
        ],
        outside=None if section.job is None else msgspec.convert(section.job.as_json(), Outside),
        runner=outcome.runner,
        expected=outcome.expected,
        cluster=outcome.cluster,
        master=outcome.master,
        measures=dict(outcome.measures),
        thresholds=[
            Threshold(name=one.name, limit=one.limit, value=one.value, verdict=one.verdict, why=one.why)
            for one in outcome.thresholds
        ],
        broke=section.banner.broke,
    )


def _fault(fault: FaultRecord) -> Fault:
    return Fault(
        id=fault.id,
        kind=fault.kind,
        plan=_free(fault.plan),
        armed_us=fault.armed_us,
        healed_us=fault.healed_us,
        evidence=_free(fault.evidence),
        bites=fault.bites,
        times=[
            FaultTime(
                planned_us=time.planned_us,
                armed_us=time.armed_us,
                measured_us=time.measured_us,
                healed_us=time.healed_us,
                evidence=_free(time.evidence),
                witnesses=None if time.witnesses is None else list(time.witnesses),
            )
            for time in fault.times
        ],
    )


def _invariant(section: RunSection, verdict: InvariantVerdict) -> Invariant:
    failed = verdict.invariant in {v.invariant for v in section.outcome.judgement.convicted()}
    told = as_text(conviction_of(section.outcome, verdict, section.view)) if failed else ""
    return Invariant(
        invariant=verdict.invariant,
        verdict=verdict.outcome.value,
        why=verdict.why,
        observed=verdict.observed,
        anomalies=[anomaly.as_json() for anomaly in verdict.anomalies],
        omitted=verdict.omitted,
        explanation=told,
    )


def _free(value: Mapping[str, object]) -> dict[str, Any]:
    """A free-form mapping as plain JSON without credentials."""
    return dict(without_credentials(value))
