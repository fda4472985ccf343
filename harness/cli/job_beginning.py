"""The files of `floodmark init --job`: a commented job.toml, a small job that keeps its promise, its table, its test.

The job is any job: it imports nothing of Floodmark, and its variables have names of its own. Invariant: it is right as
it stands, under every scenario that is tagged `gate`, and wrong once its marked line is uncommented.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.cli.ci_files import JOB_CI_FILES

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
_TEST = '''\
"""Run it with `pytest`. The job runs as it is, on a real database that Floodmark starts (`floodmark setup`)."""


def test_no_record_is_lost_or_doubled(floodmark):
    floodmark.job("late-commit", "killed-before-commit", job="job.toml")
'''
JOB_FILES: Final[Mapping[str, str]] = {
    "job.toml": _JOB_TOML,
    "job.py": _JOB,
    "sink.sql": _SINK,
    "test_job.py": _TEST,
    **JOB_CI_FILES,
}
"""The text of each file, by its place in the folder."""
