"""A source of kind kafka: a topic of a broker that lives as long as the run.

Invariants: a record is in the topic, written to disk by the broker, when `offer` returns; its partition is the one
that the history tells, and its offset there is its `pos`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from harness.levels.job.records import SourceRecord
from harness.levels.job.source_site import SourceSite
from harness.levels.job.spark_engine import SparkEnd
from harness.system.errors import WorldError
from harness.world.containers import sweep_run
from harness.world.kafka.broker import KafkaBroker
from harness.world.kafka.jars import find_kafka
from harness.world.ledger import open_ledger
from harness.world.settings import WorldSettings

if TYPE_CHECKING:
    from confluent_kafka import Producer

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
    """A topic and its broker. Mutable, as every source is."""

    def __init__(self, *, partitions: int) -> None:
        self._partitions = partitions
        self._ends = dict.fromkeys(range(partitions), 0)
        self._stack = ExitStack()
        self._broker: KafkaBroker | None = None
        self._producer: Producer | None = None

    def open(self, site: SourceSite) -> None:  # noqa: ARG002 - as of every source
        settings = WorldSettings.from_environment()
        ledger = self._stack.enter_context(open_ledger(settings.places, sweep_run))
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

    def offer(self, records: Sequence[SourceRecord]) -> None:
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

    def end(self) -> None:
        """A topic has no end: a job that needs one asks for the end offsets."""

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
