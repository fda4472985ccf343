"""`floodmark init [FOLDER]`: the beginning of a project for a lookup, or with `--job` for a whole job.

Invariant: no file that exists is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from harness.cli.ci_files import CI_FILES
from harness.cli.job_beginning import JOB_FILES
from harness.system.errors import UsageError, WorldError

MARKED = "# answer = SHARED"
"""The line of the lookup that makes the test fail once it is uncommented."""

_LOOKUP = '''\
"""The function under test: it is called for each record, for many of them at a time."""

SHARED = {}


async def lookup(record, pool):
    row = await pool.fetch_one("SELECT name, city, tier FROM customer WHERE k = %s", (record.key,))
    if row is None:
        return []
    answer = {}
    # answer = SHARED  # <- uncomment this: all calls then fill one object, and the test fails
    answer["name"], answer["city"], answer["tier"] = row
    return [answer]
'''
_TEST = '''\
"""Run it with `pytest`; nothing but Floodmark and pytest is needed, for level sim has a simulated database."""

from enrich import lookup


def test_each_record_counts_once_in_order(floodmark):
    floodmark.holds("connections-cut", "scenarios/slow-then-cut.yaml", sut=lookup, level="sim", runs=5)
'''
_SCENARIO = """\
# An editor completes this file with the schema that `floodmark schema --path` names.
scenario: slow-then-cut
about: Lookups get 30 ms slower, then every connection is cut for 250 ms; each record must count once.
levels: [sim, live]
operator: {mode: ordered, timeout: 5s}
workload:
  records: 600
  rate: 400/s
  watermark_every: 10
  checkpoint_every: 60
faults:
  - {id: slow, do: latency, link: lookups, delay: 30ms, when: {call: 100}, for: 250ms}
  - {id: cut, do: down, link: lookups, when: {call: 500}, for: 250ms}
decisive: [V1, V8, V10]
expects: {records: 1200, checkpoints: 8}
"""
_PROJECT = """\
# What `floodmark run` and pytest test where nothing else is said: `floodmark run all` runs the whole catalogue.
[tool.floodmark]
sut = "enrich:lookup"
level = "sim"
"""
FILES: Mapping[str, str] = {
    "enrich.py": _LOOKUP,
    "test_enrich.py": _TEST,
    "scenarios/slow-then-cut.yaml": _SCENARIO,
    "pyproject.toml": _PROJECT,
    **CI_FILES,
}
"""The text of each file, by its place in the folder."""


@click.command()
@click.argument("folder", default=".", metavar="[FOLDER]", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--job", "of_job", is_flag=True, help="For a whole job: job.toml, a small job, its table, its test."
)
def init(folder: Path, *, of_job: bool) -> None:
    """Make the beginning of a project in FOLDER: a lookup, its test, a scenario of its own, CI files.

    With --job, of one that puts a whole job under fire: a commented job.toml, a small job, its table, its test. The CI
    files are a workflow for GitHub and a pipeline for GitLab.

    The test passes. One marked line of the lookup or the job, uncommented, makes it fail. A pyproject.toml that exists
    is left as it is; if any other of the files exists, nothing is written.

    Exit code: 0 made, 4 a file exists already, 11 the folder cannot be written.
    """
    files = JOB_FILES if of_job else FILES
    wanted = {folder / name: text for name, text in files.items()}
    project = folder / "pyproject.toml"
    kept = wanted.pop(project) if project in wanted and project.exists() else None
    if taken := [str(file) for file in wanted if file.exists()]:
        raise UsageError(f"nothing was written, for {', '.join(taken)} exists", fix="name another folder")
    try:
        for file, text in wanted.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            click.echo(f"made     {file}")
    except OSError as error:
        message = f"{error.filename or folder} cannot be written: {error.strerror or error}"
        raise WorldError(message, fix="name a folder that you may write to") from error
    if kept is not None:
        click.echo(f"kept     {project}; add to it:\n\n{kept}")
    command = "floodmark job late-commit --job job.toml" if of_job else "pytest"
    click.echo(f"next     {'' if folder == Path() else f'cd {folder} && '}{command}")
