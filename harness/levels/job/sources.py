"""Where a job reads: a folder of files, one growing file, a table; a source of another kind is one more class.

Invariants: a record that was offered stays; a file of the folder is whole when it has its name; a row of the table is
committed alone. What is offered does not go through the proxy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import assert_never

from harness.database.endpoint import Endpoint, connect
from harness.levels.job.job_file import JobFile
from harness.levels.job.kafka_source import KafkaSource, refuse_kafka
from harness.levels.job.records import SourceRecord
from harness.levels.job.source_site import JobSource, SourceSite
from harness.levels.job.spark_engine import SparkEnd
from harness.system.errors import UsageError
from harness.world.settings import WorldSettings


def source_of(job: JobFile) -> JobSource:
    """The source that a job file names.

    Raises UsageError if this kind cannot be so, WorldError if it needs what is not installed here.
    """
    kind, parts = job.source.kind, job.source.partitions
    if kind in {"file", "table"} and parts > 1:
        message = f"a source of kind {kind} has one partition, and `source.partitions` is {parts}"
        raise UsageError(message, fix="take it out, or choose kind folder or kafka")
    match kind:
        case "folder":
            return FolderSource()
        case "file":
            return FileSource()
        case "table":
            return TableSource(job)
        case "kafka":
            refuse_kafka(WorldSettings.from_environment())
            return KafkaSource(partitions=parts)
        case _:
            assert_never(kind)


class FolderSource:
    """Files of JSON lines; each is written as a dot-file, then renamed. The end is a file `_END`."""

    broker = None

    def __init__(self) -> None:
        self._folder = Path()
        self._files = 0

    def open(self, site: SourceSite) -> None:
        self._folder = site.folder
        self._folder.mkdir(parents=True, exist_ok=True)

    def environment(self) -> Mapping[str, str]:
        return {"FLOODMARK_JOB_SOURCE_FOLDER": str(self._folder)}

    def offer(self, records: Sequence[SourceRecord]) -> None:
        """One file for each partition."""
        parts: dict[int, list[SourceRecord]] = {}
        for record in records:
            parts.setdefault(record.part, []).append(record)
        for part, of_part in parts.items():
            name = f"{self._files:06d}-part-{part}.jsonl"
            self._files += 1
            young = self._folder / f".{name}"
            young.write_text("".join(map(_line, of_part)), "utf-8")
            young.rename(self._folder / name)

    def end(self) -> None:
        (self._folder / "_END").touch()

    def spark_end(self) -> SparkEnd:
        return SparkEnd(files=[file.name for file in self._folder.glob("*.jsonl")])

    def close(self) -> None:
        """The folder goes with the run's."""


class FileSource:
    """One growing file of JSON lines. The end is a line `{"end": true}`."""

    broker = None

    def __init__(self) -> None:
        self._file = Path()

    def open(self, site: SourceSite) -> None:
        site.folder.mkdir(parents=True, exist_ok=True)
        self._file = site.folder / "records.jsonl"
        self._file.touch()

    def environment(self) -> Mapping[str, str]:
        return {"FLOODMARK_JOB_SOURCE_FILE": str(self._file)}

    def offer(self, records: Sequence[SourceRecord]) -> None:
        self._append("".join(map(_line, records)))

    def end(self) -> None:
        self._append('{"end": true}\n')

    def spark_end(self) -> SparkEnd:
        return SparkEnd()

    def close(self) -> None:
        """The file goes with the run's folder."""

    def _append(self, text: str) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(text)


_INBOX = "inbox"


class TableSource:
    """A table `inbox` beside the sink; the end is `last = 1` in the row of the last record."""

    broker = None

    def __init__(self, job: JobFile) -> None:
        self._names = job.source.fields
        self._direct: Endpoint | None = None
        self._count = 0

    def open(self, site: SourceSite) -> None:
        self._direct = site.direct
        self._do(
            f"CREATE TABLE {_INBOX} (pos BIGINT PRIMARY KEY, id VARCHAR(200) NOT NULL, k VARCHAR(200) NOT NULL,"
            " body JSON NOT NULL, last INT NOT NULL DEFAULT 0)"
        )

    def environment(self) -> Mapping[str, str]:
        return {"FLOODMARK_JOB_SOURCE_TABLE": _INBOX}

    def offer(self, records: Sequence[SourceRecord]) -> None:
        assert self._direct is not None, "the source was opened"
        with connect(self._direct) as connection, connection.cursor() as cursor:
            for record in records:
                told = (record.body[self._names.id], record.body[self._names.key], json.dumps(record.body))
                cursor.execute(
                    f"INSERT INTO {_INBOX} (pos, id, k, body) VALUES (%s, %s, %s, %s)",  # noqa: S608 - our own name
                    (self._count, *told),
                )
                connection.commit()
                self._count += 1

    def end(self) -> None:
        self._do(f"UPDATE {_INBOX} SET last = 1 WHERE pos = {self._count - 1}")  # noqa: S608 - our own name

    def spark_end(self) -> SparkEnd:
        return SparkEnd()

    def close(self) -> None:
        """The table goes with the run's database."""

    def _do(self, statement: str) -> None:
        assert self._direct is not None, "the source was opened"
        with connect(self._direct) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            connection.commit()


def _line(record: SourceRecord) -> str:
    return json.dumps(dict(record.body), ensure_ascii=False) + "\n"
