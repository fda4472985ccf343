"""Where a job reads: a folder of files, one growing file, a table; a source of another kind is one more class.

Invariants: a record that was offered stays; a file of the folder is whole when it has its name; a row of the table is
committed alone. What is offered does not go through the proxy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, assert_never

import pymysql

from harness.database.endpoint import Endpoint, MySqlConnection, connect
from harness.faults.real.sites import SourceBroker
from harness.levels.job.job_database import INBOX
from harness.levels.job.job_file import JobFile
from harness.levels.job.records import SourceRecord
from harness.levels.job.spark_engine import SparkEnd
from harness.system.errors import UsageError, WorldError
from harness.world.containers import sweep_run
from harness.world.kafka.broker import KafkaBroker, find_kafka
from harness.world.ledger import open_ledger
from harness.world.settings import WorldSettings

if TYPE_CHECKING:
    from confluent_kafka import Producer


def source_of(job: JobFile, *, is_calm: bool = False) -> JobSource:
    """The source that a job file names; `is_calm`: of the twin, in which no row comes late.

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
            return TableSource(job, has_gaps=job.source.gaps and not is_calm)
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

    def offer(self, records: Sequence[SourceRecord], *, is_last: bool) -> bool:
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
        if is_last:
            (self._folder / "_END").touch()
        return True

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

    def offer(self, records: Sequence[SourceRecord], *, is_last: bool) -> bool:
        with self._file.open("a", encoding="utf-8") as file:
            file.write("".join(map(_line, records)) + ('{"end": true}\n' if is_last else ""))
        return True

    def spark_end(self) -> SparkEnd:
        return SparkEnd()

    def close(self) -> None:
        """The file goes with the run's folder."""


_InboxRow = tuple[int, str, str, str, bool]
"""Position, id, key, body, and whether it is the last."""


class TableSource:
    """A table `inbox` beside the sink; the end is `last = 1` in the row of the last record, which comes with it.

    The view `inbox_end` tells it to a start whose position is behind that row. With gaps the first of the rows that are
    offered together is committed after the others, by a session of its own; so is the last one of all, after that.
    """

    broker = None

    def __init__(self, job: JobFile, *, has_gaps: bool) -> None:
        self._names = job.source.fields
        self._direct: Endpoint | None = None
        self._late: list[tuple[MySqlConnection, _InboxRow]] = []
        self.has_gaps = has_gaps

    def open(self, site: SourceSite) -> None:
        self._direct = site.direct
        with connect(site.direct) as connection, connection.cursor() as cursor:
            cursor.execute(
                f"CREATE TABLE {INBOX} (pos BIGINT PRIMARY KEY, id VARCHAR(200) NOT NULL, k VARCHAR(200) NOT NULL,"
                " body JSON NOT NULL, last INT NOT NULL DEFAULT 0)"
            )
            cursor.execute(f"CREATE VIEW {INBOX}_end AS SELECT pos FROM {INBOX} WHERE last = 1")  # noqa: S608 - our own name

    def environment(self) -> Mapping[str, str]:
        return {"FLOODMARK_JOB_SOURCE_TABLE": INBOX}

    def offer(self, records: Sequence[SourceRecord], *, is_last: bool) -> bool:
        rows: list[_InboxRow] = [
            (
                one.pos,
                str(one.body[self._names.id]),
                str(one.body[self._names.key]),
                json.dumps(one.body),
                False,
            )
            for one in records
        ]
        rows[-1] = (*rows[-1][:-1], is_last)
        assert self._direct is not None, "the source was opened"
        late = [row for row in rows if self.has_gaps and (row is rows[0] or row[-1])]
        try:
            for row in late:
                connection = connect(self._direct)
                self._late.append((connection, row))
                _insert(connection, row)
            with connect(self._direct) as connection:
                for row in rows:
                    if row not in late:
                        _insert(connection, row)
                        connection.commit()
        except (pymysql.MySQLError, OSError):
            self.close()
            return False
        return True

    def commit_late(self) -> bool:
        """Commits what `offer` has left open; False: the server does not answer, as of `offer`."""
        assert self._direct is not None, "the source was opened"
        rows = [row for _, row in self._late]
        try:
            for connection, _ in self._late:
                with suppress(pymysql.MySQLError, OSError):  # the server may have lost the session
                    connection.commit()
            with connect(self._direct) as connection:
                for row in rows:
                    _insert(connection, row)
                    connection.commit()
        except (pymysql.MySQLError, OSError):
            return False
        self.close()
        return True

    def spark_end(self) -> SparkEnd:
        return SparkEnd()

    def close(self) -> None:
        """The table goes with the run's database."""
        for connection, _ in self._late:
            with suppress(pymysql.MySQLError, OSError):
                connection.close()
        self._late.clear()


def _insert(connection: MySqlConnection, row: _InboxRow) -> None:
    """Inserts a row; of one that an earlier try has inserted nothing happens."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT IGNORE INTO {INBOX} (pos, id, k, body, last) VALUES (%s, %s, %s, %s, %s)",  # noqa: S608 - our own name
            row,
        )


def _line(record: SourceRecord) -> str:
    return json.dumps(dict(record.body), ensure_ascii=False) + "\n"


TOPIC = "records"
ANSWER_LIMIT_S = 60.0
"""How long the broker may take to make the topic, or to acknowledge what was offered."""
NO_CLIENT = WorldError(
    "a source of kind kafka needs the package confluent-kafka, which is not installed",
    fix="pip install 'floodmark[kafka]'",
)


def refuse_kafka(settings: WorldSettings) -> None:
    """Raises WorldError, with the command that installs it, where the broker or its client is missing."""
    find_kafka(settings)
    _client()


class KafkaSource:
    """A topic and its broker. Mutable, as every source is.

    Invariants: a record is in the topic, written to disk by the broker, when `offer` returns; its partition is the one
    that the history tells, and its offset there is its `pos`.
    """

    def __init__(self, *, partitions: int) -> None:
        self._partitions = partitions
        self._ends = dict.fromkeys(range(partitions), 0)
        self._stack = ExitStack()
        self._broker: KafkaBroker | None = None
        self._producer: Producer | None = None

    def open(self, site: SourceSite) -> None:  # noqa: ARG002 - as of every source
        settings = WorldSettings.from_environment()
        ledger = self._stack.enter_context(open_ledger(settings, sweep_run))
        self._broker = KafkaBroker(settings=settings, ledger=ledger)
        self._stack.callback(self._broker.kill)
        self._broker.start()
        self._make_topic()
        producer = _client().Producer(
            {"bootstrap.servers": self.broker.servers, "acks": "all", "enable.idempotence": True, **_QUIET}
        )
        self._producer = producer

    @property
    def broker(self) -> KafkaBroker:
        assert self._broker is not None, "the source was opened"
        return self._broker

    def environment(self) -> Mapping[str, str]:
        prefix = "FLOODMARK_JOB_SOURCE_"
        jars = ",".join(map(str, self.broker.spark_jars))
        return {f"{prefix}KAFKA": self.broker.servers, f"{prefix}TOPIC": TOPIC, f"{prefix}JARS": jars}

    def offer(self, records: Sequence[SourceRecord], *, is_last: bool) -> bool:  # noqa: ARG002 - a topic has no end
        """A job that needs the end asks for the end offsets."""
        assert self._producer is not None, "the source was opened"
        failed: list[object] = []

        def told(error: object, _message: object) -> None:
            if error is not None:
                failed.append(error)

        for record in records:
            self._producer.produce(
                TOPIC,
                key=str(record.key).encode(),
                value=json.dumps(dict(record.body), ensure_ascii=False).encode(),
                partition=record.part,
                on_delivery=told,
            )
            self._ends[record.part] = record.pos + 1
        left = self._producer.flush(ANSWER_LIMIT_S)
        if failed or left:
            raise WorldError(
                f"the Kafka broker did not take {len(failed) + left} of {len(records)} records: "
                f"{failed[0] if failed else f'no answer within {ANSWER_LIMIT_S:g} s'}",
                fix="its log says why; run it again with --keep always to have it whole",
            )
        return True

    def spark_end(self) -> SparkEnd:
        """What a checkpoint of Spark tells when it has read everything that was offered."""
        return SparkEnd(topic=TOPIC, offsets=dict(self._ends))

    def close(self) -> None:
        self._stack.close()

    def _make_topic(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415 - only a run with a topic needs it

        admin = AdminClient({"bootstrap.servers": self.broker.servers, **_QUIET})
        wanted = NewTopic(TOPIC, num_partitions=self._partitions, replication_factor=1)
        for made in admin.create_topics([wanted], operation_timeout=ANSWER_LIMIT_S).values():
            made.result(ANSWER_LIMIT_S)


_QUIET: Mapping[str, Any] = {"log_level": 0}
"""A broker that a fault has killed is no news on the terminal."""


def _client() -> Any:
    try:
        import confluent_kafka  # noqa: PLC0415 - only a run with a topic needs it
    except ImportError:
        raise NO_CLIENT from None
    return confluent_kafka


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSite:
    """What a source gets when it is opened."""

    folder: Path
    """An empty folder of its own."""
    direct: Endpoint
    """The run's database, past the proxy, as root."""
    sink: Endpoint
    """The run's database as the job reaches it."""
    partitions: int
    run_id: str
    note_process: Callable[[int], None] = lambda pid: None
    """Called with the pid of each process that it starts."""


class JobSource(Protocol):
    """A source of one run. Mutable: it is opened, filled and closed, from one thread."""

    def open(self, site: SourceSite) -> None:
        """Makes it, empty. Raises WorldError if it cannot."""

    def environment(self) -> Mapping[str, str]:
        """Its part of the job's environment; each `FLOODMARK_JOB_SOURCE_X` is `{source.x}` in a template too."""

    def offer(self, records: Sequence[SourceRecord], *, is_last: bool) -> bool:
        """Puts these records into it, after those before; returns when the job can see them.

        False: a fault has its server down, and the same ones have to be offered again. `is_last`: it says with the last
        of them that none follows, if a source of this kind can.
        """

    def spark_end(self) -> SparkEnd:
        """What a checkpoint of Spark tells when it has read everything that was offered."""

    @property
    def broker(self) -> SourceBroker | None:
        """The server that holds it, for a fault that kills it; None: a source of this kind has none."""

    def close(self) -> None:
        """Removes what would outlive the run."""
