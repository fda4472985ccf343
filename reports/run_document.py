"""`run.json`: finished runs as one JSON document with a schema, for programs that judge, compare or repeat runs.

Answers to dbt's run_results.json. Invariant: `schemas/run.v1.json` is generated from the structs here, their
docstrings included; within a version fields are added, never changed; passwords are withheld.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.errors import HistoryError
from harness.history.values import without_credentials
from harness.runs import outcome as outcome_values
from harness.runs.outcome import FaultRecord, RunOutcome
from harness.verdict import InvariantVerdict
from reports.conviction import as_text, conviction_of
from reports.reading import headline_of, read_run
from reports.run_section import RunSection
from reports.sweep_strip import strips_of

__all__ = ["document_of", "document_text", "load_document", "schema_text"]


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
    """As `limit`; null: it could not be measured whole."""
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
    """Of a job: its history is seen from outside."""
    runner: str = "continuous"
    """How level spark ran the operator."""
    expected: str | None = None
    """Of a user's lookup: what stated the expected results, if the command named it."""
    cluster: int = 0
    """The workers of the standalone cluster that was started for it; 0: none."""
    master: str = ""
    """The user's own cluster; empty: none."""
    measures: dict[str, float] = {}
    """What was measured, by the names of thresholds: milliseconds, or calls for each record."""
    thresholds: list[Threshold] = []
    """Those of the scenario, in its order."""


class CountedRun(Part, frozen=True, kw_only=True):
    """One run of a campaign of which `runs` are only those shown in full; its seed repeats it."""

    scenario: str
    mutant: str | None
    level: str
    seed: int
    verdict: Literal["pass", "fail", "unknown", "vacuous", "not-claimed"]
    as_expected: bool
    events: int
    digest: str = ""
    """A SHA-256 of its history's content: equal wherever the seed is run."""
    measures: dict[str, float] = {}
    """As of a run shown in full."""


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
    counted: list[CountedRun] = []
    """Every run, if `runs` are only some of them; else empty."""
    sweep: list[CrashPoint] = []
    """The crash points of a job, each with its run."""


def document_of(
    sections: Sequence[RunSection], *, title: str, counted: Sequence[outcome_values.CountedRun] = ()
) -> Document:
    """The document of all runs of a report."""
    headline = headline_of([section.outcome for section in sections], counted)
    return Document(
        schema_version=1,
        title=title,
        reading=headline.word,
        sentence=headline.sentence,
        runs=[_run(section) for section in sections],
        counted=[_counted(run) for run in counted],
        sweep=list(_sweep([section.outcome for section in sections])),
    )


def _sweep(outcomes: Sequence[RunOutcome]) -> Iterator[CrashPoint]:
    for strip in strips_of(outcomes):
        for point in strip.points:
            yield CrashPoint(
                scenario=strip.scenario,
                sut=strip.sut,
                n=point.n,
                moment=point.moment,
                held=point.held,
                run_id=outcomes[point.run].run_id,
                as_expected=outcomes[point.run].as_expected,
                found=point.found,
            )


def _counted(run: outcome_values.CountedRun) -> CountedRun:
    return CountedRun(
        scenario=run.scenario,
        mutant=run.mutant,
        level=run.level,
        seed=run.seed,
        verdict=run.outcome.value,
        as_expected=run.as_expected,
        events=run.events,
        digest=run.digest,
        measures=dict(run.measures),
    )


def document_text(document: Document) -> str:
    """The file's text: indented, ASCII only, so that no payload can send control characters to a terminal."""
    return json.dumps(msgspec.to_builtins(document), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


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
    reading = read_run(outcome)
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
        world=_world(outcome),
        verdict=outcome.judgement.outcome.value,
        as_expected=outcome.as_expected,
        reading=reading.word,
        sentence=reading.sentence,
        invariants=[_invariant(section, verdict) for verdict in outcome.judgement.invariants],
        warnings=list(outcome.judgement.warnings),
        threats=list(section.threats),
        faults=[_fault(fault) for fault in outcome.faults],
        history=_history(section),
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
        pitfalls=[_pitfall(told) for told in outcome.pitfalls],
        outside=None if section.job is None else msgspec.convert(section.job.as_json(), Outside),
        runner=outcome.runner,
        expected=outcome.expected,
        cluster=outcome.cluster,
        master=outcome.master,
        measures=dict(outcome.measures),
        thresholds=[_threshold(threshold) for threshold in outcome.thresholds],
    )


def _threshold(told: outcome_values.Threshold) -> Threshold:
    return Threshold(name=told.name, limit=told.limit, value=told.value, verdict=told.verdict, why=told.why)


def _pitfall(told: outcome_values.Pitfall) -> Pitfall:
    return Pitfall(name=told.name, says=told.says, advice=told.advice, evidence=_free(told.evidence))


def _world(outcome: RunOutcome) -> World:
    world = outcome.world
    return World(
        kind=world.kind, why=world.why, server=world.server, proxy=world.proxy, ready_s=world.ready_s
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


def _history(section: RunSection) -> HistoryFile | None:
    stored = section.stored
    if stored is None:
        return None
    return HistoryFile(file=stored.file, sha256=stored.sha256, bytes=stored.size)


def _free(value: Mapping[str, Any]) -> dict[str, Any]:
    """A free-form mapping as plain JSON without credentials."""
    return dict(without_credentials(value))
