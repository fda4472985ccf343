"""What tests of jobs in virtual time share: one server, and runs made on it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from harness.engine.level import Opening, OutsideRecord, RunSite
from harness.history.verdict import Judgement
from harness.levels.job.job_file import JobFile
from harness.levels.job.job_scenarios import apply_job_settings, load_jobs
from harness.levels.job.order import IN_VIRTUAL_TIME, JobOrder, job_named, job_order
from harness.levels.virtual.level import VirtualJobLevel, VirtualPlays
from harness.tests.tidy import ROOT

JOBS: Final = Path(__file__).parent / "jobs"
EXAMPLES: Final = ROOT / "examples" / "asyncio_consumer"
ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A run, judged."""

    record: OutsideRecord
    judgement: Judgement
    folder: Path

    @property
    def kinds(self) -> set[tuple[str, str]]:
        return {(str(invariant), kind) for invariant, kind in self.judgement.violations}

    def of(self, kind: str) -> list[object]:
        """The events of one kind, as `JobExit`."""
        return [event for event in self.record.events if type(event).__name__ == kind]

    def log(self, start: int) -> str:
        """What a start printed."""
        return (self.folder / "job" / "logs" / f"start-{start}.log").read_text()


@pytest.fixture(scope="module")
def plays() -> Iterator[VirtualPlays]:
    with VirtualJobLevel().open(Opening(world="local")) as made:
        yield made


def order_of(
    job: JobFile, scenario: str, settings: Sequence[str] = (), *, seed: int = 1, named: str = "job.toml"
) -> JobOrder:
    ((_, loaded),) = load_jobs([scenario])
    return job_order(
        apply_job_settings(loaded, settings),
        source=scenario,
        job=job,
        named=named,
        seed=seed,
        environment=ENVIRONMENT,
        level=IN_VIRTUAL_TIME,
        import_path=(str(job.folder),),
    )


JobWith = Callable[..., JobFile]


@pytest.fixture(scope="module")
def job_with(tmp_path_factory: pytest.TempPathFactory) -> JobWith:
    """(words behind `python`, fields of `[job]`) -> the job of the folder `jobs`, copied to where a user's would be."""
    folder = tmp_path_factory.mktemp("jobs")
    shutil.copytree(JOBS, folder, dirs_exist_ok=True)
    shutil.copy(EXAMPLES / "sink.sql", folder)
    job, _ = job_named(folder / "job.toml")

    def made(*words: str, **fields: object) -> JobFile:
        return job.model_copy(
            update={"job": job.job.model_copy(update={"command": ["python", *words], **fields})}
        )

    return made


def made(plays: VirtualPlays, order: JobOrder, folder: Path) -> Made:
    VirtualJobLevel().refuse(order)
    folder.mkdir(parents=True, exist_ok=True)
    record = plays(order, RunSite(run_id="run", folder=folder))
    return Made(record=record, judgement=record.judge(record.header, record.events), folder=folder)
