"""What reports tell: the runs of a `run.json`, as orders that repeat them.

`floodmark replay` and `floodmark shrink` name a run by its report's folder, its own folder, its `run.json`, its history
or its id. Invariant: an order is made from the report alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace as replace_fields
from pydantic import ValidationError

from harness.errors import HistoryError, UsageError
from harness.history.read import read_whole
from harness.history.text import digest_of
from harness.runs.order import Order
from harness.scenario.model import Scenario
from harness.sut.user_modules import import_path
from harness.verdict import NO_EVIDENCE
from reports.reading import JOB
from reports.run_document import CountedRun, HistoryFile, Planned, RunDocument, load_document

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["REPORTS", "Told", "is_scenario", "last_failed", "told_runs"]

REPORTS: Final = Path("reports") / "out"
"""Where commands write their reports, unless another folder is named."""
_DOCUMENT: Final = "run.json"
_UP: Final = 3
"""How many folders above a history its report may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One run of a report."""

    document: RunDocument
    """Of a run that the report only lists: what repeats it, without verdicts on the invariants."""
    folder: Path
    """The folder of its report."""
    row: CountedRun | None = None
    """As the report lists it; None: a report of an older version, which lists no run."""

    @property
    def history(self) -> Path | None:
        """Its history file, if the report still has it."""
        told = self.document.history
        file = None if told is None else self.folder / told.file
        return file if file is not None and file.exists() else None

    @property
    def digest(self) -> str:
        """The digest of its history's content, as listed or from the file; empty: neither is there."""
        if self.row is not None and self.row.digest:
            return self.row.digest
        return "" if self.history is None else digest_of(*read_whole(self.history))

    @property
    def shown(self) -> tuple[tuple[str, str], ...]:
        """The violations that the report names, those that are meant for its planted defect first."""
        if not self.document.invariants and self.row is not None:
            return tuple((invariant, kind) for invariant, kind in self.row.violations)
        found = [
            (verdict.invariant, str(anomaly["class"]))
            for verdict in self.document.invariants
            if verdict.verdict == "fail"
            for anomaly in verdict.anomalies
        ]
        if any(one.invariant == "V23" and one.verdict == "vacuous" for one in self.document.invariants):
            found.append(NO_EVIDENCE)
        meant = self.document.convicts
        return tuple(
            sorted(
                dict.fromkeys(found),
                key=lambda one: (bool(meant) and one[0] not in meant, one[1] == "vacuous"),
            )
        )

    @property
    def order(self) -> Order:
        """The run again. Raises UsageError if this version cannot make it."""
        told = self.document
        if told.outside is not None or told.level == JOB:
            message = f"run {told.run_id} is one of a job, which is started and killed from outside"
            raise UsageError(message, fix=f"repeat it with: {told.again}")
        try:
            scenario = Scenario.model_validate(told.plan)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            message = f"the scenario of run {told.run_id} is none of this version of Floodmark: {place}: {first['msg']}"
            raise UsageError(
                message, fix=f"use floodmark {told.versions.get('floodmark', 'as then')}"
            ) from error
        return Order(
            scenario=scenario,
            level=told.level,
            seed=told.seed,
            sut=told.sut,
            runner=told.runner,  # type: ignore[arg-type]  # written from an order
            cluster=told.cluster,
            master=told.master,
            expected=told.expected,
            mutant=told.mutant,
            import_path=import_path(),
            again=told.again,
        )


def is_scenario(target: str) -> bool:
    """Whether the name is that of a scenario file."""
    return Path(target).suffix in {".yaml", ".yml"}


def told_runs(target: str) -> list[Told]:
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
            mine = [told for told in _runs_of(folder / _DOCUMENT) if _is_of(told, path.resolve())]
            if mine:
                return mine
    holds = "no run.json" if path.is_dir() else "beside it is no run.json that tells of it"
    message = f"{path}: {holds}, and a history alone says neither scenario nor seed"
    raise UsageError(message, fix="name the folder of a report, as `floodmark run` prints it")


def _runs_of(file: Path) -> list[Told]:
    document = load_document(file)
    if not document.runs:
        raise HistoryError(f"{file} tells of no run", fix="name another report")
    full = {run.run_id: run for run in document.runs}
    if not document.counted:
        return [Told(document=run, folder=file.parent) for run in document.runs]
    planned = {(one.scenario, one.mutant, one.level, one.sut): one for one in document.planned}
    found: list[Told] = []
    for row in document.counted:
        run = full.get(row.run_id) or _listed(row, document.runs[0], planned)
        if run is not None:
            found.append(Told(document=run, folder=file.parent, row=row))
    return found


def _listed(
    row: CountedRun, like: RunDocument, planned: Mapping[tuple[str, str | None, str, str], Planned]
) -> RunDocument | None:
    """A run that the report only lists, with what repeats it; `like`: another run of the same campaign."""
    plan = planned.get((row.scenario, row.mutant, row.level, row.sut))
    if plan is None:  # of an older version, whose lists cannot be repeated
        return None
    return replace_fields(
        like,
        run_id=row.run_id or f"{row.scenario}, seed {row.seed}",
        scenario=row.scenario,
        about=plan.about,
        plan=plan.plan,
        level=row.level,
        seed=row.seed,
        sut=row.sut,
        mutant=row.mutant,
        convicts=plan.convicts,
        verdict=row.verdict,
        as_expected=row.as_expected,
        reading="",
        sentence="",
        invariants=[],
        warnings=[],
        threats=[],
        faults=[],
        history=HistoryFile(file=row.history, sha256="", bytes=0) if row.history else None,
        duration_s=row.took_s,
        phases_s={},
        accounting={},
        counts={"events": row.events},
        again=row.again,
        error=None,
        interrupted=False,
        extras={},
        guarantee=None,
        recovery=None,
        pitfalls=[],
        runner=plan.runner,
        expected=plan.expected,
        cluster=plan.cluster,
        master=plan.master,
        measures=dict(row.measures),
        thresholds=[],
        broke="",
    )


def _is_of(told: Told, path: Path) -> bool:
    """Whether `path` is the history of the run, or the folder that has it."""
    file = told.document.history
    return file is not None and path in {
        (told.folder / file.file).resolve(),
        (told.folder / file.file).resolve().parent,
    }


def last_failed() -> list[Told]:
    """The runs of the newest report that have a violation. Raises UsageError if no report has one."""
    for told in _newest_first():
        failed = [run for run in told if run.document.verdict == "fail"]
        if failed:
            return failed
    message = f"no report in {REPORTS} tells of a violation"
    raise UsageError(message, fix="name the folder of a report")


def _newest_first() -> Iterator[Sequence[Told]]:
    """The reports whose `run.json` can be read."""
    for file in sorted(
        REPORTS.glob(f"*/{_DOCUMENT}"), key=lambda file: file.stat().st_mtime_ns, reverse=True
    ):
        try:
            yield _runs_of(file)
        except HistoryError:
            continue
