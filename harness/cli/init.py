"""`floodmark init [FOLDER]`: the beginning of a project for a lookup, or with `--job` for a whole job.

The job is any job: it imports nothing of Floodmark, and its variables have names of its own. It is right as it stands,
under every scenario that is tagged `gate`, and wrong once its marked line is uncommented. The CI files are valid by the
published schemas; they run the project's tests, then its scenarios under ten seeds, and keep the report however they
end. Invariant: no file that exists is changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Final

import click

from harness.system.errors import UsageError, WorldError

_REPORT: Final = "floodmark-report"

_OF_A_LOOKUP: Final = (
    "pip install floodmark pytest",
    f"pytest --junit-xml={_REPORT}/pytest.xml",
    f"floodmark run scenarios --sut enrich:lookup --level sim --runs 10 --seed 1 --report {_REPORT}/runs",
)
_OF_A_JOB: Final = (
    "pip install 'floodmark[mysql]' pytest",
    "floodmark setup",
    f"pytest --junit-xml={_REPORT}/pytest.xml",
    f"floodmark job late-commit --job job.toml --seed 1 --report {_REPORT}/runs",
)

_GITHUB: Final = """\
name: floodmark
on: [push, pull_request]
permissions: {{contents: read}}
jobs:
  holds:
    runs-on: ubuntu-latest
    timeout-minutes: 20
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {{python-version: "3.11"}}
      # If your package index has no floodmark, name its wheel or its repository here.
{steps}
      - name: the summary on the page of this run
        if: always()
        run: if [ -f {report}/runs/summary.md ]; then cat {report}/runs/summary.md >> "$GITHUB_STEP_SUMMARY"; fi
      - uses: actions/upload-artifact@v4
        if: always()
        with: {{name: floodmark-report, path: {report}}}
"""
_GITLAB: Final = """\
floodmark:
  image: python:3.11
  timeout: 20 minutes
  script:
    # If your package index has no floodmark, name its wheel or its repository here.
{steps}
  artifacts:
    when: always
    paths: [{report}]
    reports:
      junit: [{report}/pytest.xml, {report}/runs/junit.xml]
"""


def _ci_files(commands: Sequence[str]) -> Mapping[str, str]:
    steps = indent("\n".join(f"- run: {command}" for command in commands), " " * 6)
    script = indent("\n".join(f"- {command}" for command in commands), " " * 4)
    return {
        ".github/workflows/floodmark.yml": _GITHUB.format(steps=steps, report=_REPORT),
        ".gitlab-ci.yml": _GITLAB.format(steps=script, report=_REPORT),
    }


CI_FILES: Final = _ci_files(_OF_A_LOOKUP)
"""For a lookup, by their places in the folder."""
JOB_CI_FILES: Final = _ci_files(_OF_A_JOB)
"""For a whole job."""

MARKED_COMMIT: Final = "# sink.commit()"
"""The line of the job that loses records once it is uncommented: the offset is then saved before the rows."""

_JOB_TOML = """\
# What Floodmark has to know of your job. Every key: docs/how-to/jobs.md, or `floodmark schema --job`.
#   floodmark job late-commit --job job.toml      one scenario
#   floodmark list scenarios --jobs               what there is, by moment
#   pytest                                        test_job.py

[job]
command = ["python", "job.py"]         # or callable = "module:function"; it runs in the folder of this file
# The job's own variables. {sink.*}, {lookups.*}: url, jdbc, host, port, user, password, database;
# {source.folder}: where the records come; {state}: a folder that stays when the job is restarted.
env = {LOOKUPS_URL = "{lookups.url}", SINK_URL = "{sink.url}", INBOX = "{source.folder}"}
ends = "exit"                          # exit: by itself with code 0; settles: never; file: it makes a file
# starts = 6                           # any exit before the end is followed by a restart, so often at most
# stop = {signal = "TERM", grace = "10s"}
# engine = "auto"                      # spark: kills may hit executors and the worker that owns a connection
# scenarios = ["late-commit"]          # what `pytest job.toml` runs; without it, those tagged `gate`

[source]
kind = "folder"                        # folder | file | table | kafka
# partitions = 1
# fields = {id = "id", key = "key", ts = "ts"}
# records = "records.jsonl"            # your own records, one JSON object a line

[sink]
table = "enriched"
schema = "sink.sql"                    # makes it; leave it out if the job does
id = ["id"]                            # tells a record from all others
key = "k"
values = ["name", "city", "tier"]      # what is judged; no times and no sessions: they differ from run to run
write = "append"                       # append | replace | upsert: what the job may do to a row that is there
# j = "part"                           # the column that numbers several rows of one record, from 0
# dead_letters = "failed"              # a table of yours for what failed for good

[claims]
delivery = "exactly-once"              # at-least-once | at-most-once
order = "none"                         # source | key
# fenced = true                        # a start that was replaced has no effect any more
"""
_JOB = '''\
"""A job: it reads records from a folder, looks each one's customer up, and writes a row for each."""

import json
import os
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pymysql

INBOX = Path(os.environ["INBOX"])
BATCH = 10


def connect(url):
    at = urlsplit(url)
    return pymysql.connect(
        host=at.hostname,
        port=at.port,
        user=unquote(at.username),
        password=unquote(at.password or ""),
        database=at.path.strip("/"),
        connect_timeout=5,
        read_timeout=30,
        write_timeout=30,
    )


def arrived():
    """All records so far, in their order, and whether no more will come."""
    ended = (INBOX / "_END").exists()
    files = sorted(file for file in INBOX.iterdir() if file.name[0] not in "._")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()], ended


def enriched(record, lookups):
    with lookups.cursor() as cursor:
        cursor.execute("SELECT name, city, tier FROM customer WHERE k = %s", (record["key"],))
        name, city, tier = cursor.fetchone()
    lookups.commit()
    return record["id"], record["key"], name, city, tier


def write(sink, rows, done):
    """Rows and offset in one transaction, and only if no other start of this job has moved the offset on."""
    with sink.cursor() as cursor:
        moved = cursor.execute("UPDATE progress SET done = %s WHERE done = %s", (done + len(rows), done))
        if moved != 1:
            raise SystemExit(f"another start of this job has gone on from record {done}")
        # sink.commit()  # <- uncomment this: the offset is then saved before the rows, and a kill in between loses them
        cursor.executemany("INSERT INTO enriched (id, k, name, city, tier) VALUES (%s, %s, %s, %s, %s)", rows)
    sink.commit()


def main():
    lookups, sink = connect(os.environ["LOOKUPS_URL"]), connect(os.environ["SINK_URL"])
    with sink.cursor() as cursor:
        cursor.execute("SELECT done FROM progress")
        (done,) = cursor.fetchone()
    sink.commit()
    while True:
        records, ended = arrived()
        batch = records[done : done + BATCH]
        if batch:
            write(sink, [enriched(record, lookups) for record in batch], done)
            done += len(batch)
        elif ended:
            return
        else:
            time.sleep(0.02)


if __name__ == "__main__":
    main()
'''
_SINK = """\
-- The table that is judged, and what the job keeps of its own. No unique key: a double would be seen, not hidden.
CREATE TABLE enriched (
  id BIGINT NOT NULL,
  k BIGINT NOT NULL,
  name VARCHAR(200),
  city VARCHAR(200),
  tier INT,
  INDEX (id)
);
CREATE TABLE progress (done BIGINT NOT NULL);
INSERT INTO progress VALUES (0);
"""
_JOB_TEST = '''\
"""Run it with `pytest`. The job runs as it is, on a real database that Floodmark starts (`floodmark setup`)."""


def test_no_record_is_lost_or_doubled(floodmark):
    floodmark.job("late-commit", "killed-before-commit", job="job.toml")
'''
JOB_FILES: Final[Mapping[str, str]] = {
    "job.toml": _JOB_TOML,
    "job.py": _JOB,
    "sink.sql": _SINK,
    "test_job.py": _JOB_TEST,
    **JOB_CI_FILES,
}
"""The text of each file, by its place in the folder."""

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
@click.option("--job", "of_job", is_flag=True,
              help="For a whole job: job.toml, a small job, its table, its test.")  # fmt: skip
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
