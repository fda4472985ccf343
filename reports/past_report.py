"""The one reader of `run.json`, of this version or an older one: for a trend, a baseline, replay and shrink.

Answers to Allure's history. Invariant: a field that an older version lacks is told as not known, never as zero; a file
that is no report is refused with its name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.scenario.outcome import CountedRun, HistoryFile, PlannedRuns, WorldDescription
from harness.system.errors import HistoryError, UsageError
from harness.system.json_types import JsonView

DOCUMENT: Final = "run.json"


class _PastVerdict(msgspec.Struct, frozen=True):
    invariant: str
    verdict: str
    anomalies: list[dict[str, Any]] = []


Kind = tuple[str, ...]
"""What runs of several reports are compared by: scenario, level, system under test, planted defect or an empty text."""


def title_of(kind: Kind) -> str:
    """A kind in words; a system under test that is the reference, or left out of the comparison, is not named."""
    scenario, level, sut, mutant = kind
    subject = f" of {sut}" if sut not in {"", "reference"} else ""
    return f"{scenario} at {level}{subject}" + (f" with planted {mutant}" if mutant else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun(CountedRun):
    """A run as a report lists it, or shows it in full; of a run that is only listed, `planned` says what repeats it."""

    events: int = 0
    sut: str = ""
    started_at: str = ""
    invariants: tuple[_PastVerdict, ...] = ()
    recovery: Mapping[str, Any] | None = None
    history: HistoryFile | str | None = None
    """Of a run that is only listed: the file's name alone."""
    plan: Mapping[str, Any] | None = None
    convicts: tuple[str, ...] = ()
    runner: str = "continuous"
    expected: str | None = None
    cluster: int = 0
    master: str = ""
    world: WorldDescription | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        return self.scenario, self.level, self.sut, self.mutant or ""

    @property
    def file(self) -> HistoryFile | None:
        """Its history, as the report lists it."""
        if isinstance(self.history, str):
            return HistoryFile(file=self.history, sha256="", bytes=0) if self.history else None
        return self.history

    @property
    def found(self) -> tuple[tuple[str, str], ...]:
        """Each violation (invariant, kind of anomaly) once."""
        shown = (
            (verdict.invariant, str(anomaly.get("class", "violated")))
            for verdict in self.invariants
            if verdict.verdict == "fail"
            for anomaly in verdict.anomalies or [{}]
        )
        return self.violations or tuple(dict.fromkeys(shown))

    @property
    def vacuous(self) -> tuple[str, ...]:
        """The invariants that were vacuous, of a run shown in full."""
        return tuple(one.invariant for one in self.invariants if one.verdict == "vacuous")


class _Document(msgspec.Struct, frozen=True):
    schema_version: int
    runs: list[PastRun]
    counted: list[PastRun] = []
    planned: list[PlannedRuns] = []


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
    if (place / DOCUMENT).is_file():
        yield place / DOCUMENT
        return
    inside = sorted(place.glob(f"*/{DOCUMENT}")) if place.is_dir() else []
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
    runs = tuple(_runs_of(document))
    return PastReport(name=file.parent.name, started_at=document.runs[0].started_at, runs=runs)


def _runs_of(document: _Document) -> Iterator[PastRun]:
    """The runs as listed, with what is known of those shown in full; an older version lists only runs of many."""
    full = {key: run for run in document.runs for key in (run.run_id, _key(run))}
    planned = {one.kind: one for one in document.planned}
    first = document.runs[0]
    suts = {run.scenario: run.sut for run in document.runs}
    for row in document.counted or document.runs:
        run = full.get(row.run_id or _key(row)) or full.get(_key(row))
        if run is not None:
            yield replace(
                run,
                sut=row.sut or run.sut,
                verdict=row.verdict,
                as_expected=row.as_expected,
                events=row.events,
                digest=row.digest,
                violations=row.violations,
                measures=row.measures or run.measures or _older_measures(run.recovery),
            )
        else:
            # Interned, because `run.json` omits a default that is the same object.
            sut = row.sut or sys.intern(suts.get(row.scenario, "reference"))
            plan = planned.get((row.scenario, row.mutant, row.level, sut))
            more = {name: getattr(plan, name) for name in _REPEATED} if plan else {}
            yield replace(row, sut=sut, world=first.world, versions=first.versions, **more)


_REPEATED: Final = ("plan", "runner", "expected", "cluster", "master")


def _key(run: PastRun) -> tuple[str, str, str | None, int]:
    return run.scenario, run.level, run.mutant, run.seed


def _older_measures(recovery: JsonView | None) -> dict[str, float]:
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
