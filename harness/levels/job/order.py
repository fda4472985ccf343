"""Orders for a job, and how they are made.

An order for a job: scenario, job, seed and environment of one run.

Invariant: a run depends on its order and on what the job does by itself.

Orders for runs of a job, made in one place for the command line, for pytest and for programs.

Invariant: what a test orders is what the command `again` of its order repeats.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from harness.levels.job.job_file import JobFile, job_of_command, read_job
from harness.levels.job.job_scenario import JobScenario
from harness.levels.job.job_scenarios import job_catalogue, load_jobs, named_alone
from harness.scenario.catalogue import catalogue
from harness.system.errors import NothingRan, UsageError
from harness.world.mysql_server import BINLOG
from harness.world.proxy_program import LOG, PACKETS


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrder:
    """One run of a job to perform; implements `harness.scenario.order.AnyOrder`."""

    mutant: ClassVar[str | None] = None
    needs: ClassVar[frozenset[str]] = frozenset({PACKETS, LOG, BINLOG})

    scenario: JobScenario
    job: JobFile
    seed: int
    """The seed of the faults' choices."""
    level: str = "job"
    """`IN_REAL_TIME` or `IN_VIRTUAL_TIME`."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What the job's environment is made from: that of the command, without the harness's own options."""
    data_seed: int | None = None
    """The seed of the records and rows, the same in all runs of a command, so that they share a calm twin.

    None: `seed`.
    """
    named: bool = True
    """Whether its scenario was named: one that the job cannot meet is refused then, else left out."""
    calm_only: bool = False
    """Whether only the calm twin runs; the run is that twin."""
    calm_counts: bool = False
    """Whether a claim that the calm twin breaks is a violation of this run; else the job does not work."""
    import_path: tuple[str, ...] = ()
    """Where `claims.expected` is imported from."""
    again: str = ""
    fails_on_pitfall: bool = False

    @property
    def drawn_by(self) -> int:
        """The seed of the records and rows."""
        return self.seed if self.data_seed is None else self.data_seed

    @property
    def sut(self) -> str:
        """The job's command or callable."""
        return self.job.title


IN_REAL_TIME, IN_VIRTUAL_TIME = "job", "job-sim"
"""The levels of `floodmark job --level job` and `--level sim`."""
JobGiven = str | Path
"""A job.toml, a folder that has one, or a command."""
_NAME = "job.toml"
_GATE = "gate"
"""The tag of the scenarios that a job should pass before each change of it is accepted."""


def job_named(given: JobGiven, *, beside: Path | None = None) -> tuple[JobFile, str]:
    """The job, and how `--job` names it from here, below this folder by a path that can be pasted into a ticket.

    A file is looked for in the folder `beside` first.

    Raises ScenarioProblems with all mistakes of the file, and UsageError if there is no such file or command.
    """
    text = str(given)
    for path in [*([beside / text] if beside is not None else []), Path(text)]:
        file = path / _NAME if path.is_dir() else path
        if file.is_file():
            whole, here = file.absolute(), Path.cwd()
            return read_job(file), str(whole.relative_to(here) if whole.is_relative_to(here) else whole)
    if isinstance(given, Path) or (text.endswith(".toml") and not any(mark in text for mark in " :")):
        message = f"there is no job file {text}"
        raise UsageError(message, fix="name a file that exists; `floodmark init --job` writes one")
    return job_of_command(text), text


def gate_scenarios(job: JobFile, *, tags: Sequence[str] = ()) -> list[tuple[str, JobScenario, bool]]:
    """The scenarios of `job.scenarios`, else those with `tags` (without any: with `gate`).

    Each with its name or file, and whether it was named (see `JobOrder.named`). Raises NothingRan if there is none.
    """
    names = [str(job.path(name)) if job.path(name).is_file() else name for name in job.job.scenarios]
    shipped = {path: name for name, path in {**catalogue(), **job_catalogue()}.items()}
    alone, wanted = named_alone(names), set(tags if names else tags or [_GATE])
    chosen = [
        (shipped.get(path, str(path)), scenario, path in alone)
        for path, scenario in load_jobs(names or ["all"])
        if wanted <= set(scenario.tags)
    ]
    if not chosen:
        told = f" with tag {' and '.join(tags)}" if tags else ""
        raise NothingRan(
            f"no scenario{told} is for this job", fix="`floodmark list scenarios --jobs` lists them"
        )
    return chosen


def job_order(
    scenario: JobScenario,
    *,
    source: str,
    job: JobFile,
    named: str,
    seed: int,
    environment: Mapping[str, str],
    level: str = "job",
    data_seed: int | None = None,
    import_path: tuple[str, ...] = (),
    world: tuple[str, str] = ("auto", "auto"),
    more: tuple[str, ...] = (),
    named_alone: bool = True,
    calm_only: bool = False,
    fails_on_pitfall: bool = False,
) -> JobOrder:
    """The order of one run.

    `source`: the scenario's name in the catalogue, or its file; `named`: what `job_named` returned; `data_seed`: as of
    `JobOrder`; `world`: world and proxy; `more`: further words of the command that repeats the run.
    """
    words = [
        "floodmark",
        "job",
        *([source] if source else []),
        "--job",
        named,
        *(["--level", "sim"] if level == IN_VIRTUAL_TIME else ["--world", world[0], "--proxy", world[1]]),
    ]
    words += ["--seed", str(seed), *([] if data_seed is None else ["--data-seed", str(data_seed)])]
    words += [*(["--calm-only"] if calm_only else []), *more]
    return JobOrder(
        scenario=scenario,
        job=job,
        seed=seed,
        level=level,
        environment=environment,
        data_seed=data_seed,
        named=named_alone,
        calm_only=calm_only,
        import_path=import_path,
        again=shlex.join(words),
        fails_on_pitfall=fails_on_pitfall,
    )
