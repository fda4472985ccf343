"""`run.json`: finished runs as one JSON document with a schema, for programs that judge, compare or repeat runs.

Answers to dbt's run_results.json. Invariant: a run is declared in `harness.scenario.outcome` alone; here stands which
of its fields are written, with types, defaults and docstrings from there. `schemas/run.v1.json` is generated from that;
within a version fields are added, never changed; passwords are withheld.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import GenericAlias
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from harness.history.values import without_credentials
from harness.history.verdict import InvariantVerdict, Outcome
from harness.scenario.certificate import Verdict
from harness.scenario.outcome import (
    CountedRun,
    FaultRecord,
    FaultTime,
    HistoryFile,
    LeftOut,
    MissingRuns,
    Pitfall,
    PlannedRuns,
    RunOutcome,
    Threshold,
    WorldDescription,
)
from harness.system.errors import HistoryError
from reports.campaign_view import COLUMNS, CampaignView, Cause, Kind, ranges
from reports.conviction import as_text, conviction_of
from reports.job_section import JobSection
from reports.losses import MomentLoss
from reports.reading import read_run
from reports.run_section import RunSection
from reports.sweep_strip import Strip, StripPoint

_P = TypeVar("_P", bound=msgspec.Struct)
_PARTS: Final[dict[object, type[msgspec.Struct]]] = {}
"""The written form of each value."""


def _part(
    of: type,
    name: str,
    needed: str,
    optional: str = "",
    *,
    own: Mapping[str, object] | None = None,
    omit: bool = False,
) -> Any:
    """The written form of the value `of`: its fields and properties of these names, in this order.

    `own`: types of fields that the value lacks, or has in another type. An optional field has the default of the
    value's field; one that the value lacks, "" or None.
    """
    hints, defaults = get_type_hints(of), {field.name: field for field in fields(of)}
    made: list[Any] = []
    for field in (*needed.split(), *optional.split()):
        kind = (own or {}).get(field) or hints.get(field) or get_type_hints(getattr(of, field).fget)["return"]
        kind = _form(kind)
        if field in needed.split():
            made.append((field, kind))
        elif field not in defaults:
            made.append((field, kind, "" if kind is str else None))
        elif callable(empty := defaults[field].default_factory):
            made.append((field, kind, msgspec.field(default_factory=empty)))
        else:
            made.append((field, kind, _plain(defaults[field].default)))
    part: Any = msgspec.defstruct(name, made, namespace={"__doc__": of.__doc__}, frozen=True,
                                  kw_only=True, forbid_unknown_fields=True, omit_defaults=omit)  # fmt: skip
    _PARTS[of] = part
    return part


def _form(kind: object) -> object:
    """A type with the written forms of its values."""
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        return GenericAlias(list, (_form(get_args(kind)[0]),))
    return _PARTS.get(kind, kind)


def _written(value: object, part: type[_P], **more: object) -> _P:
    """The written form of a value: each field from `more`, else the value's own, without credentials."""
    return part(**{n: more[n] if n in more else _plain(getattr(value, n)) for n in part.__struct_fields__})


def _plain(value: object) -> object:
    match value:
        case Mapping():
            return without_credentials(value)
        case tuple():
            return [_plain(inner) for inner in value]
        case _:
            part = _PARTS.get(type(value))
            return value if part is None else _written(value, part)


_HISTORY: Any = _part(HistoryFile, "HistoryFile", "file sha256 bytes")
_part(WorldDescription, "World", "kind why server proxy ready_s")
_part(FaultTime, "FaultTime", "planned_us armed_us measured_us healed_us evidence", "witnesses")
_part(FaultRecord, "Fault", "id kind plan armed_us healed_us evidence bites", "times")
_part(Pitfall, "Pitfall", "name says advice evidence")
_part(Threshold, "Threshold", "name limit value verdict why")
_INVARIANT: Any = _part(
    InvariantVerdict,
    "Invariant",
    "invariant verdict why observed anomalies omitted explanation",
    "follows",
    own={"verdict": Verdict, "anomalies": list[dict[str, Any]], "explanation": str},
)
_LOSS: Any = _part(
    MomentLoss,
    "Loss",
    "class invariant records named moment",
    own={"class": str, "records": int, "named": list[str]},
)
_OUTSIDE: Any = _part(
    JobSection,
    "Outside",
    "view losses seen assumed not_claimed",
    own={"view": Literal["outside"], "seen": dict[str, str]},
)
RunDocument: Any = _part(
    RunOutcome,
    "RunDocument",
    "run_id scenario about plan level seed sut mutant convicts world verdict as_expected reading sentence invariants "
    "warnings threats faults history started_at duration_s phases_s accounting counts again versions error interrupted "
    "extras",
    "guarantee recovery pitfalls outside runner expected cluster master measures thresholds broke",
    own={
        "verdict": Verdict,
        "reading": str,
        "sentence": str,
        "invariants": GenericAlias(list, (_INVARIANT,)),
        "warnings": list[str],
        "history": _HISTORY | None,
        "counts": dict[str, int],
        "guarantee": dict[str, Any] | None,
        "recovery": dict[str, Any] | None,
        "outside": _OUTSIDE | None,
        "broke": str,
    },
)
_COUNTED: Any = _part(
    CountedRun,
    "CountedRun",
    "scenario mutant level seed verdict as_expected events",
    "digest sut took_s cause violations again run_id history measures",
    own={"verdict": Verdict, "violations": list[list[str]], "history": str},
    omit=True,
)
_LEFT_OUT: Any = _part(LeftOut, "LeftOut", "scenario need why")
_PLANNED: Any = _part(
    PlannedRuns, "Planned", "scenario mutant level sut about plan convicts runner expected cluster master"
)
_MISSING: Any = _part(
    MissingRuns, "Missing", "scenario mutant level runs seeds why", own={"runs": int, "seeds": str}
)
_TOTAL: Any = _part(
    Kind,
    "Total",
    "scenario mutant level sut runs pass fail unknown vacuous unexpected not_run events took_s",
    own={"runs": int, **dict.fromkeys(map(str, COLUMNS), int)},
)
_CAUSE: Any = _part(
    Cause,
    "CauseOfRuns",
    "cause runs unexpected scenarios violations shown",
    own={"cause": str, "runs": int, "unexpected": int, "violations": str, "shown": str},
)
_POINT: Any = _part(
    StripPoint,
    "CrashPoint",
    "scenario sut n moment held run_id as_expected found",
    own={"scenario": str, "sut": str, "run_id": str, "as_expected": bool},
)


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    schema_version: Literal[1]
    title: str
    reading: str
    sentence: str
    runs: list[RunDocument]
    broke: str = ""
    """That of the first run that did not go as it should, with its scenario and seed if there are several runs."""
    counted: list[_COUNTED] = []
    """Every run, in order; `runs` are those shown in full."""
    sweep: list[_POINT] = []
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
    totals: list[_TOTAL] = []
    causes: list[_CAUSE] = []
    missing: list[_MISSING] = []
    left_out: list[_LEFT_OUT] = []
    planned: list[_PLANNED] = []
    """The planned runs of each scenario that has runs which are not in `runs`."""
    earlier: str = ""
    """The folder to which the report was moved that had been here before; empty: there was none."""


def document_of(view: CampaignView, *, title: str, earlier: str = "") -> Document:
    return Document(
        schema_version=1,
        title=title,
        reading=view.headline.word,
        sentence=view.headline.sentence,
        broke=view.banner.broke,
        runs=[_run(section) for section in view.sections],
        counted=[
            _written(
                row.run,
                _COUNTED,
                took_s=round(row.run.took_s, 4),
                cause=row.run.cause or ("all holds" if row.run.verdict is Outcome.PASS else ""),
                again=row.run.again if row.run.cause else "",
                history="" if row.history is None else row.history.file,
            )
            for row in view.rows
        ],
        sweep=[_point(view, strip, point) for strip in view.strips for point in strip.points],
        asked=view.extent.asked,
        ran=len(view.rows),
        interrupted=view.extent.interrupted,
        incomplete=view.incomplete or "",
        took_s=round(view.extent.took_s, 3),
        totals=[
            _written(
                kind,
                _TOTAL,
                runs=len(kind.rows),
                took_s=round(kind.took_s, 3),
                **{str(verdict): kind.counts.get(verdict, 0) for verdict in COLUMNS},
            )
            for kind in view.kinds
        ],
        causes=[_cause(view, cause) for cause in view.causes],
        missing=[
            _written(one, _MISSING, runs=len(one.seeds), seeds=ranges(sorted(one.seeds)))
            for one in view.extent.missing
        ],
        left_out=[_written(one, _LEFT_OUT) for one in view.extent.left_out],
        planned=[]
        if len(view.rows) == len(view.sections)
        else [_written(one, _PLANNED) for one in view.planned],
        earlier=earlier,
    )


def _point(view: CampaignView, strip: Strip, point: StripPoint) -> object:
    run = view.rows[point.run].run
    return _written(
        point,
        _POINT,
        scenario=strip.scenario,
        sut=strip.sut,
        run_id=run.run_id,
        as_expected=run.as_expected,
    )


def _cause(view: CampaignView, cause: Cause) -> object:
    return _written(
        cause,
        _CAUSE,
        cause=cause.words,
        runs=len(cause.rows),
        unexpected=sum(not row.run.as_expected for row in cause.rows),
        violations=cause.also,
        shown="" if cause.section is None else view.sections[cause.section].outcome.run_id,
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


def _run(section: RunSection) -> object:
    outcome, judgement, job = section.outcome, section.outcome.judgement, section.job
    reading = read_run(outcome)
    return _written(
        outcome,
        RunDocument,
        verdict=judgement.outcome.value,
        reading=reading.word,
        sentence=reading.sentence,
        invariants=[_invariant(section, verdict) for verdict in judgement.invariants],
        warnings=list(judgement.warnings),
        threats=[*section.threats, *section.limits],
        history=_plain(section.stored),
        counts=dict(judgement.accounting),
        guarantee=judgement.guarantee and judgement.guarantee.as_json(),
        recovery=judgement.recovery and without_credentials(judgement.recovery.as_json()),
        outside=job
        and _written(
            job,
            _OUTSIDE,
            view="outside",
            losses=[
                _written(loss, _LOSS, **{"class": loss.kind}, records=loss.count, named=list(loss.records))
                for loss in job.losses
            ],
            seen=dict(job.facts),
        ),
        broke=section.banner.broke,
    )


def _invariant(section: RunSection, verdict: InvariantVerdict) -> object:
    failed = verdict.invariant in {v.invariant for v in section.outcome.judgement.convicted()}
    return _written(
        verdict,
        _INVARIANT,
        verdict=verdict.outcome.value,
        anomalies=[anomaly.as_json() for anomaly in verdict.anomalies],
        explanation=as_text(conviction_of(section.outcome, verdict, section.view)) if failed else "",
    )
