"""What reports tell: the runs of a `run.json`, as orders that repeat them.

`floodmark replay` and `floodmark shrink` name a run by its report's folder, its own folder, its `run.json`, its history
or its id. Invariant: an order is made from the report alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from harness.history.read import read_whole
from harness.history.text import digest_of
from harness.history.verdict import NO_EVIDENCE
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.sut.user_modules import import_path
from harness.system.errors import HistoryError, UsageError
from reports.reading import JOB
from reports.run_document import CountedRun, HistoryFile, Planned, RunDocument, World, load_document

REPORTS: Final = Path("reports") / "out"
"""Where commands write their reports, unless another folder is named."""
_DOCUMENT: Final = "run.json"
_UP: Final = 3
"""How many folders above a history its report may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """One run of a report: what repeats it, and what the report says that it showed."""

    folder: Path
    """The folder of its report."""
    run_id: str
    scenario: str
    plan: Mapping[str, Any]
    level: str
    seed: int
    sut: str
    mutant: str | None
    runner: str
    expected: str | None
    cluster: int
    master: str
    again: str
    world: World
    versions: Mapping[str, str]
    verdict: str
    shown: tuple[tuple[str, str], ...]
    """The violations that the report names, those that are meant for its planted defect first."""
    file: HistoryFile | None
    """Its history, as the report lists it."""
    digest_listed: str = ""
    """Empty: the report lists none."""

    @property
    def history(self) -> Path | None:
        """Its history file, if the report still has it."""
        file = None if self.file is None else self.folder / self.file.file
        return file if file is not None and file.exists() else None

    @property
    def digest(self) -> str:
        """The digest of its history's content, as listed or from the file; empty: neither is there."""
        if self.digest_listed or self.history is None:
            return self.digest_listed
        return digest_of(*read_whole(self.history))

    @property
    def order(self) -> Order:
        """The run again. Raises UsageError if this version cannot make it."""
        if self.level == JOB:
            message = f"run {self.run_id} is one of a job, which is started and killed from outside"
            raise UsageError(message, fix=f"repeat it with: {self.again}")
        try:
            scenario = Scenario.model_validate(self.plan)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            message = (
                f"the scenario of run {self.run_id} cannot be read by this version of Floodmark:"
                f" {place}: {first['msg']}"
            )
            raise UsageError(
                message, fix=f"use floodmark {self.versions.get('floodmark', 'as then')}"
            ) from error
        return Order(
            scenario=scenario,
            level=self.level,
            seed=self.seed,
            sut=self.sut,
            runner=self.runner,  # type: ignore[arg-type]  # written from an order
            cluster=self.cluster,
            master=self.master,
            expected=self.expected,
            mutant=self.mutant,
            import_path=import_path(),
            again=self.again,
        )


def is_scenario(target: str) -> bool:
    """Whether the name is that of a scenario file."""
    return Path(target).suffix in {".yaml", ".yml"}


def runs_of_report(target: str) -> list[ReportedRun]:
    """The runs that `target` names. Raises UsageError if there are none, HistoryError if `run.json` is no report."""
    path = Path(target)
    if not path.exists() and (REPORTS / target).exists():
        path = REPORTS / target
    if not path.exists():
        message = f"there is no run, report or saved find {target}"
        raise UsageError(
            message, fix=f"name a folder in {REPORTS}, its run.json or history.jsonl, or a file in found/"
        )
    if path.is_dir() and (path / _DOCUMENT).is_file():
        return _runs_of(path / _DOCUMENT)
    if path.name.endswith(".json"):
        return _runs_of(path)
    for folder in list(path.resolve().parents)[:_UP]:
        if (folder / _DOCUMENT).is_file():
            runs = _runs_of(folder / _DOCUMENT)
            files = [(one, (one.folder / one.file.file).resolve()) for one in runs if one.file is not None]
            if mine := [one for one, file in files if path.resolve() in {file, file.parent}]:
                return mine
    holds = "no run.json" if path.is_dir() else "beside it is no run.json that tells of it"
    message = f"{path}: {holds}, and a history alone says neither scenario nor seed"
    raise UsageError(message, fix="name the folder of a report, as `floodmark run` prints it")


def _runs_of(file: Path) -> list[ReportedRun]:
    document = load_document(file)
    if not document.runs:
        raise HistoryError(f"{file} tells of no run", fix="name another report")
    full = {run.run_id: run for run in document.runs}
    if not document.counted:
        return [_of_full(run, folder=file.parent) for run in document.runs]
    planned = {(one.scenario, one.mutant, one.level, one.sut): one for one in document.planned}
    found: list[ReportedRun] = []
    for row in document.counted:
        plan = planned.get((row.scenario, row.mutant, row.level, row.sut))
        if row.run_id in full:
            found.append(_of_full(full[row.run_id], folder=file.parent, digest_listed=row.digest))
        elif plan is not None:  # an older version lists runs that it cannot repeat
            found.append(_of_listed(row, plan, like=document.runs[0], folder=file.parent))
    return found


def _of_full(run: RunDocument, *, folder: Path, digest_listed: str = "") -> ReportedRun:
    """A run that the report shows in full."""
    return ReportedRun(
        folder=folder,
        run_id=run.run_id,
        scenario=run.scenario,
        plan=run.plan,
        level=run.level,
        seed=run.seed,
        sut=run.sut,
        mutant=run.mutant,
        runner=run.runner,
        expected=run.expected,
        cluster=run.cluster,
        master=run.master,
        again=run.again,
        world=run.world,
        versions=run.versions,
        verdict=run.verdict,
        shown=_shown_of(run),
        file=run.history,
        digest_listed=digest_listed,
    )


def _of_listed(row: CountedRun, plan: Planned, *, like: RunDocument, folder: Path) -> ReportedRun:
    """A run that the report only lists; `like`: another one of the same campaign, made in the same world."""
    return ReportedRun(
        folder=folder,
        run_id=row.run_id or f"{row.scenario}, seed {row.seed}",
        scenario=row.scenario,
        plan=plan.plan,
        level=row.level,
        seed=row.seed,
        sut=row.sut,
        mutant=row.mutant,
        runner=plan.runner,
        expected=plan.expected,
        cluster=plan.cluster,
        master=plan.master,
        again=row.again,
        world=like.world,
        versions=like.versions,
        verdict=row.verdict,
        shown=tuple((invariant, kind) for invariant, kind in row.violations),
        file=HistoryFile(file=row.history, sha256="", bytes=0) if row.history else None,
        digest_listed=row.digest,
    )


def _shown_of(run: RunDocument) -> tuple[tuple[str, str], ...]:
    """The violations of a run shown in full, those that are meant for its planted defect first."""
    found = [
        (verdict.invariant, str(anomaly["class"]))
        for verdict in run.invariants
        if verdict.verdict == "fail"
        for anomaly in verdict.anomalies
    ]
    if any(one.invariant == "V23" and one.verdict == "vacuous" for one in run.invariants):
        found.append(NO_EVIDENCE)
    meant = run.convicts
    return tuple(
        sorted(
            dict.fromkeys(found),
            key=lambda one: (bool(meant) and one[0] not in meant, one[1] == "vacuous"),
        )
    )


def last_failed() -> list[ReportedRun]:
    """The runs of the newest report that have a violation. Raises UsageError if no report has one."""
    reports = REPORTS.glob(f"*/{_DOCUMENT}")
    for file in sorted(reports, key=lambda file: file.stat().st_mtime_ns, reverse=True):
        with suppress(HistoryError):
            if failed := [run for run in _runs_of(file) if run.verdict == "fail"]:
                return failed
    message = f"no report in {REPORTS} tells of a violation"
    raise UsageError(message, fix="name the folder of a report")
