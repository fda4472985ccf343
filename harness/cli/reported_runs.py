"""The runs of a report, as orders that repeat them.

`floodmark replay` and `floodmark shrink` name a run by its report's folder, its own folder, its `run.json`, its history
or its id. Invariant: an order is made from the report alone.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from harness.history.read import read_outside, read_whole
from harness.history.text import digest_of
from harness.history.verdict import NO_EVIDENCE
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.sut.user_code import import_path
from harness.system.errors import HistoryError, UsageError
from reports.past_report import DOCUMENT, PastRun, load_past
from reports.reading import is_of_job
from reports.run_document import load_document

REPORTS: Final = Path("reports") / "out"
"""Where commands write their reports, unless another folder is named."""
_UP: Final = 3
"""How many folders above a history its report may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun(PastRun):
    """One run of a report: what repeats it, and what the report says that it showed."""

    folder: Path
    """The folder of its report."""

    @property
    def name(self) -> str:
        return self.run_id or f"{self.scenario}, seed {self.seed}"

    @property
    def history_path(self) -> Path | None:
        """Its history file, if the report still has it."""
        path = None if self.file is None else self.folder / self.file.file
        return path if path is not None and path.exists() else None

    @property
    def content_digest(self) -> str:
        """The digest of its history's content, as listed or from the file; empty: neither is there."""
        if self.digest or self.history_path is None:
            return self.digest
        read = read_outside if is_of_job(self.level) else read_whole
        return digest_of(*read(self.history_path))

    @property
    def shown(self) -> tuple[tuple[str, str], ...]:
        """The violations that the report names, those that are meant for its planted defect first."""
        if not self.invariants:
            return self.violations
        found = [
            (verdict.invariant, str(anomaly["class"]))
            for verdict in self.invariants
            if verdict.verdict == "fail"
            for anomaly in verdict.anomalies
        ]
        if any(one.invariant == "V23" and one.verdict == "vacuous" for one in self.invariants):
            found.append(NO_EVIDENCE)
        meant = self.convicts
        return tuple(
            sorted(
                dict.fromkeys(found),
                key=lambda one: (bool(meant) and one[0] not in meant, one[1] == "vacuous"),
            )
        )

    @property
    def order(self) -> Order:
        """The run again, if it is none of a job. Raises UsageError if this version cannot make it."""
        try:
            scenario = Scenario.model_validate(self.plan)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            message = (
                f"the scenario of run {self.name} cannot be read by this version of Floodmark:"
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
    if path.is_dir() and (path / DOCUMENT).is_file():
        return _runs_of(path / DOCUMENT)
    if path.name.endswith(".json"):
        return _runs_of(path)
    for folder in list(path.resolve().parents)[:_UP]:
        if (folder / DOCUMENT).is_file():
            runs = _runs_of(folder / DOCUMENT)
            files = [(one, (one.folder / one.file.file).resolve()) for one in runs if one.file is not None]
            if mine := [one for one, file in files if path.resolve() in {file, file.parent}]:
                return mine
    holds = "no run.json" if path.is_dir() else "beside it is no run.json that tells of it"
    message = f"{path}: {holds}, and a history alone says neither scenario nor seed"
    raise UsageError(message, fix="name the folder of a report, as `floodmark run` prints it")


def _runs_of(file: Path) -> list[ReportedRun]:
    """An older version lists runs that it cannot repeat."""
    load_document(file)
    return [
        ReportedRun(folder=file.parent, **{field.name: getattr(run, field.name) for field in fields(run)})
        for run in load_past(file).runs
        if run.plan is not None
    ]


def last_failed() -> list[ReportedRun]:
    """The runs of the newest report that have a violation. Raises UsageError if no report has one."""
    reports = REPORTS.glob(f"*/{DOCUMENT}")
    for file in sorted(reports, key=lambda file: file.stat().st_mtime_ns, reverse=True):
        with suppress(HistoryError):
            if failed := [run for run in _runs_of(file) if run.verdict == "fail"]:
                return failed
    message = f"no report in {REPORTS} tells of a violation"
    raise UsageError(message, fix="name the folder of a report")
