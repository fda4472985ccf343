"""`floodmark job all` passes on every right job, and each scenario for jobs can be met by one of them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from examples.tests.fire import EXAMPLES, SEED
from harness.cli.init import JOB_FILES
from harness.history.verdict import Outcome
from harness.levels.job.job_file import read_job
from harness.levels.job.job_scenario import JobScenario
from harness.levels.job.job_scenarios import load_jobs
from harness.levels.job.records import read_input
from harness.levels.job.sources import refuse_kafka
from harness.levels.job.unmet import refuse_unmet
from harness.system.errors import CannotHere, Exit, WorldError
from harness.world.settings import WorldSettings

RIGHT = sorted(path for path in EXAMPLES.glob("*/*.toml") if path.read_text("utf-8").startswith("# Right"))
TIMES = 3
"""How often a scenario is drawn whose fault got no chance (decision 38)."""


@cache
def _shipped() -> list[tuple[Path, JobScenario]]:
    return load_jobs(["all"])


def _unmet(file: Path) -> set[str]:
    """The shipped scenarios that its file shows to be unmet; a driver without a cluster has no executors."""
    job, unmet = read_job(file), set[str]()
    for path, scenario in _shipped():
        try:
            refuse_unmet(job, scenario, read_input(job, scenario, seed=SEED))
        except CannotHere:
            unmet.add(path.stem)
        if not job.job.cluster and any(fault.do == "kill_executor" for fault in scenario.faults):
            unmet.add(path.stem)
    return unmet


def test_each_scenario_for_jobs_is_met_by_a_right_example() -> None:
    assert set.intersection(*map(_unmet, RIGHT)) == set()


def _marked(file: Path) -> Any:
    """Those that need Spark or a broker take many minutes, or what no extra of ours has."""
    job = read_job(file)
    soaks = [pytest.mark.soak] if job.job.engine == "spark" or job.source.kind == "kafka" else []
    soaks += [pytest.mark.spark] if job.job.engine == "spark" else []
    return pytest.param(file, marks=soaks, id=f"{file.parent.name}-{file.stem}")


def _missing_packages(script: Path) -> list[str]:
    """The top-level modules that this environment lacks, of those that a job and the modules beside it import."""
    tree = ast.parse(script.read_text("utf-8"))
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    tops = {name.partition(".")[0] for name in names}
    own = {file.stem: file for file in script.parent.glob("*.py")}
    missing = {name for name in tops - own.keys() if find_spec(name) is None}
    return sorted(missing.union(*(_missing_packages(own[name]) for name in tops & own.keys())))


def _ran(scenarios: Sequence[str], job: Path, *, seed: int, report: Path) -> tuple[int, dict[str, Any]]:
    """Exit code and document of `floodmark job`, with a world for each of two lanes: a job waits most of the time."""
    words = [*scenarios, "--job", str(job), "--seed", str(seed), "--world", "local", "--proxy", "own"]
    done = subprocess.run(
        [sys.executable, "-m", "harness", "job", *words, "--jobs", "2", "--quiet", "--format", "json",
         "--report", str(report)],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def _assert_all_pass(job: Path, folder: Path) -> None:
    """Asserts that `floodmark job all` passes; only what was vacuous is run again, with another seed."""
    scenarios: list[str] = ["all"]
    for time in range(TIMES):
        seed = SEED + time * 1_000_000_000
        code, document = _ran(scenarios, job, seed=seed, report=folder / f"report-{time}")
        open_runs = [run for run in document["counted"] if run["verdict"] != Outcome.PASS]
        scenarios = [run["scenario"] for run in open_runs]
        if not time:
            met = len(document["counted"])
            assert met + len(document["left_out"]) == len(_shipped())
        if any(run["verdict"] != Outcome.VACUOUS for run in open_runs) or not open_runs:
            break
    assert (code, scenarios) == (Exit.HOLD, []), document["sentence"]


@pytest.mark.real
@pytest.mark.long
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("file", [_marked(file) for file in RIGHT])
def test_job_all_passes_on_a_right_example(file: Path, tmp_path: Path) -> None:
    job = read_job(file)
    assert job.job.command is not None
    if missing := _missing_packages(file.parent / job.job.command[1]):
        pytest.skip(f"not in this environment: {', '.join(missing)}; see the example's README")
    if job.source.kind == "kafka":
        try:
            refuse_kafka(WorldSettings.from_environment())
        except WorldError as lacking:
            pytest.skip(str(lacking))

    _assert_all_pass(file, tmp_path)


@pytest.mark.real
@pytest.mark.long
@pytest.mark.timeout(5400)
def test_job_all_passes_on_what_init_writes(tmp_path: Path) -> None:
    for name in ("job.toml", "job.py", "sink.sql"):
        (tmp_path / name).write_text(JOB_FILES[name])

    _assert_all_pass(tmp_path / "job.toml", tmp_path)
