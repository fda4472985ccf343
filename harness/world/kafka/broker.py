"""The Kafka broker of one run: one KRaft process, broker and controller at once, on two free ports of loopback.

Invariant: its topics outlive its death: a broker started again has the ports and the data that it had.
"""

from __future__ import annotations

from pathlib import Path

from harness.system.choices import fresh_secret
from harness.world.kafka.jars import find_java_for_kafka, find_kafka
from harness.world.ledger import Ledger
from harness.world.ports import LOOPBACK, reserve_port
from harness.world.processes import ChildProcess
from harness.world.settings import WorldSettings
from harness.world.world import Address

READY_LIMIT_S = 120.0
"""How long it may take until it serves; 3 to 7 s are usual."""
READY = "Kafka Server started"
OPTIONS = (
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
)
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{control}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{control}
advertised.listeners=PLAINTEXT://{host}:{port}
log.dirs={data}
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
"""


class KafkaBroker:
    """A broker and its process. Mutable: a fault may kill it and start it again."""

    def __init__(self, *, settings: WorldSettings, ledger: Ledger) -> None:
        """Prepares everything and starts nothing. Raises WorldError where Java or the jars are missing."""
        self._ledger = ledger
        self._folder = ledger.folder / f"kafka-{fresh_secret()[:8]}"
        self.address = Address(host=LOOPBACK, port=reserve_port(ledger, among=settings.ports))
        control = reserve_port(ledger, among=settings.ports)
        jars = find_kafka(settings)
        self._command = (
            *(str(find_java_for_kafka(settings)), *OPTIONS, "-cp", ":".join(map(str, jars.broker))),
            *("kafka.Kafka", str(self._folder / "server.properties")),
        )
        self.spark_jars = jars.spark
        self._format(control)
        self._process: ChildProcess | None = None
        self._starts = 0

    @property
    def servers(self) -> str:
        """What a client is given as `bootstrap.servers`."""
        return f"{self.address.host}:{self.address.port}"

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    @property
    def pid(self) -> int | None:
        """The process that runs, or ran last."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it and wait until it serves."""
        self._starts += 1
        log = self._folder / f"kafka-{self._starts}.log"
        self._process = ChildProcess.start(self._command, name="Kafka", log=log, ledger=self._ledger)
        self._process.wait_for(
            lambda: READY in log.read_text(errors="replace"),
            what="the Kafka broker to start",
            limit_s=READY_LIMIT_S,
        )

    def kill(self) -> None:
        """SIGKILL; nothing if it does not run."""
        if self._process is not None:
            self._process.stop()

    def _format(self, control: int) -> None:
        """What `kafka-storage format` would write: it would cost the start of another Java machine."""
        data = self._folder / "data"
        data.mkdir(parents=True)
        properties = PROPERTIES.format(
            host=self.address.host, port=self.address.port, control=control, data=data
        )
        Path(self._folder / "server.properties").write_text(properties)
        Path(data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=floodmark\n")
