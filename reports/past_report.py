"""What reports of the past say of their runs, read from their `run.json`, of this version or an older one.

Answers to Allure's history. Invariant: a field that an older version lacks is told as not known, never as zero; a file
that is no report is refused with its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.system.errors import HistoryError, UsageError

_DOCUMENT: Final = "run.json"
_VERDICTS: Final = frozenset({"pass", "fail", "unknown", "vacuous", "not-claimed"})


class _Verdict(msgspec.Struct, frozen=True):
    invariant: str
    verdict: str
    anomalies: list[dict[str, Any]] = []


class _Run(msgspec.Struct, frozen=True):
    """The fields that are read of a run shown in full; others may be there."""

    run_id: str
    scenario: str
    level: str
    seed: int
    verdict: str
    as_expected: bool
    sut: str
    mutant: str | None
    invariants: list[_Verdict]
    started_at: str
    recovery: dict[str, Any] | None = None
    measures: dict[str, float] = {}


class _Row(msgspec.Struct, frozen=True):
    """The fields that are read of a run that is only listed."""

    scenario: str
    mutant: str | None
    level: str
    seed: int
    verdict: str
    as_expected: bool
    sut: str = ""
    violations: list[tuple[str, str]] = []
    measures: dict[str, float] = {}


class _Document(msgspec.Struct, frozen=True):
    schema_version: int
    runs: list[_Run]
    counted: list[_Row] = []


Kind = tuple[str, ...]
"""What runs of several reports are compared by: scenario, level, system under test, planted defect or an empty text."""


def title_of(kind: Kind) -> str:
    """A kind in words; a system under test that is the reference, or left out of the comparison, is not named."""
    scenario, level, sut, mutant = kind
    subject = f" of {sut}" if sut not in {"", "reference"} else ""
    return f"{scenario} at {level}{subject}" + (f" with planted {mutant}" if mutant else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """One run, as a report lists it."""

    kind: Kind
    seed: int
    verdict: str
    as_expected: bool
    violations: tuple[str, ...]
    """Each invariant and class of anomaly, once: `V8 lost`."""
    vacuous: tuple[str, ...]
    """The invariants that were vacuous, of a run shown in full."""
    measures: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastReport:
    """All runs of one report."""

    name: str
    """Its folder, as far as needed to tell it from the others."""
    started_at: str
    runs: tuple[PastRun, ...]
    by_kind: Mapping[Kind, tuple[PastRun, ...]] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[Kind, list[PastRun]] = {}
        for run in self.runs:
            found.setdefault(run.kind, []).append(run)
        object.__setattr__(self, "by_kind", {kind: tuple(runs) for kind, runs in found.items()})


def past_reports(places: Sequence[Path]) -> tuple[PastReport, ...]:
    """The reports at `places`, in the order of their beginning: folders of reports, and folders that hold such ones.

    Raises UsageError if a place has no report, HistoryError if a `run.json` is none.
    """
    files = list(dict.fromkeys(file.resolve() for place in places for file in _files(place)))
    reports = [load_past(file) for file in files]
    names = _short_names([file.parent for file in files])
    named = [replace(report, name=name) for report, name in zip(reports, names, strict=True)]
    return tuple(sorted(named, key=lambda report: report.started_at))


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    if (place / _DOCUMENT).is_file():
        yield place / _DOCUMENT
        return
    inside = sorted(place.glob(f"*/{_DOCUMENT}")) if place.is_dir() else []
    if not inside:
        holds = "has no run.json, and no folder in it has one" if place.is_dir() else "does not exist"
        raise UsageError(
            f"{place} {holds}", fix="name folders of reports, as `floodmark run` prints them, or reports/out"
        )
    yield from inside


def report_of(place: Path) -> PastReport:
    """The one report at `place`, a folder or its `run.json`. Raises UsageError or HistoryError."""
    files = list(_files(place))
    if len(files) > 1:
        raise UsageError(
            f"{place} holds {len(files)} reports", fix=f"name one of them, as {files[-1].parent}"
        )
    return load_past(files[0])


def load_past(file: Path) -> PastReport:
    """The report in the `run.json` at `file`; raises HistoryError if it is none, or has no run."""
    try:
        document = msgspec.json.decode(file.read_bytes(), type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        what = f"{file} is not the run.json of a report: {error}"
        raise HistoryError(what, fix="name the folder of a report, as `floodmark run` prints it") from error
    if not document.runs:
        raise HistoryError(f"{file} tells of no run", fix="name another report")
    runs = tuple(_past_runs(document))
    if strange := {run.verdict for run in runs} - _VERDICTS:
        raise HistoryError(f"{file} has a verdict {min(strange)!r}", fix="name another report")
    return PastReport(name=file.parent.name, started_at=document.runs[0].started_at, runs=runs)


def _past_runs(document: _Document) -> Iterator[PastRun]:
    """The runs as listed, with what is known of those shown in full; an older version lists only runs of many."""
    full = {(run.scenario, run.level, run.mutant, run.seed): run for run in document.runs}
    if not document.counted:
        yield from map(_of_full, document.runs)
        return
    suts = {run.scenario: run.sut for run in document.runs}
    for row in document.counted:
        run = full.get((row.scenario, row.level, row.mutant, row.seed))
        known = None if run is None else _of_full(run)
        violations = tuple(" ".join(violation) for violation in row.violations)
        yield PastRun(
            kind=(row.scenario, row.level, row.sut or suts.get(row.scenario, "reference"), row.mutant or ""),
            seed=row.seed,
            verdict=row.verdict,
            as_expected=row.as_expected,
            violations=violations or (known.violations if known else ()),
            vacuous=known.vacuous if known else (),
            measures=row.measures or (known.measures if known else {}),
        )


def _of_full(run: _Run) -> PastRun:
    found = [
        f"{verdict.invariant} {anomaly.get('class', 'violated')}"
        for verdict in run.invariants
        if verdict.verdict == "fail"
        for anomaly in verdict.anomalies or [{}]
    ]
    return PastRun(
        kind=(run.scenario, run.level, run.sut, run.mutant or ""),
        seed=run.seed,
        verdict=run.verdict,
        as_expected=run.as_expected,
        violations=tuple(dict.fromkeys(found)),
        vacuous=tuple(verdict.invariant for verdict in run.invariants if verdict.verdict == "vacuous"),
        measures=run.measures or _older_measures(run.recovery),
    )


def _older_measures(recovery: Mapping[str, Any] | None) -> dict[str, float]:
    """The recovery measure of a report from before there were measures, if each disturbance has a time."""
    costs = (recovery or {}).get("costs") or []
    steady = sorted(cost["steady_us"] for cost in costs if isinstance(cost.get("steady_us"), int))
    if not steady or len(steady) < len(costs):
        return {}
    return {"recovery_p95": steady[ceil(len(steady) * 0.95) - 1] / 1000}


def _short_names(folders: Sequence[Path]) -> list[str]:
    """The shortest distinct name of each folder, made of its last parts."""
    for parts in range(1, max((len(folder.parts) for folder in folders), default=0) + 1):
        names = ["/".join(folder.parts[-parts:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]
