"""The Kafka broker of one run: one KRaft process, broker and controller at once, on two free ports of loopback.

PySpark brings Ivy, a client of Java's package registry, which downloads the jars of the broker and of Spark's source;
they are pinned by SHA-256 in `jars.txt`, and no jar of another digest enters the cache. Invariant: its topics outlive
its death: a broker started again has the ports and the data that it had.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from harness.system.child import Child, run_to_end
from harness.system.choices import fresh_secret
from harness.system.errors import WorldError
from harness.world.ledger import LOOPBACK, Ledger, reserve_port
from harness.world.settings import Places, WorldSettings
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
        self.address = Address(host=LOOPBACK, port=reserve_port(ledger))
        control = reserve_port(ledger)
        jars = find_kafka(settings)
        self._command = (
            *(str(find_java_for_kafka(settings)), *OPTIONS, "-cp", ":".join(map(str, jars.broker))),
            *("kafka.Kafka", str(self._folder / "server.properties")),
        )
        self.spark_jars = jars.spark
        self._format(control)
        self._process: Child | None = None
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
        self._process = self._ledger.start(self._command, name="Kafka", log=log)
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


_SETUP = "floodmark setup --kafka"
DOWNLOAD_LIMIT_S = 900.0
LIST = Path(__file__).with_name("jars.txt")
JAVA_FIX = f"install it (Debian: `apt-get install default-jre-headless`), then {_SETUP}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedJar:
    """One line of the list. `use`: who has it on the class path, `broker`, `spark` or `both`."""

    use: str
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        # The group too: two of them have a `metrics-core`.
        return f"{self.group}-{self.artifact}-{self.version}.jar"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaJars:
    """Installed jars: the broker's class path, and what Spark needs to read a topic."""

    broker: tuple[Path, ...]
    spark: tuple[Path, ...]


def find_kafka(settings: WorldSettings) -> KafkaJars:
    """The installed jars. Raises WorldError that names the command that installs them."""
    folder = kafka_folder(settings.places)
    if not folder.is_dir():
        raise WorldError(
            f"a source of kind kafka needs Kafka's jars, and {folder} does not exist", fix=_SETUP
        )
    return KafkaJars(broker=_paths(folder, not_used_by="spark"), spark=_paths(folder, not_used_by="broker"))


def find_java_for_kafka(settings: WorldSettings) -> Path:
    """The `java` on the PATH."""
    found = shutil.which("java", path=settings.path)
    if found is None:
        raise WorldError("a Kafka broker needs Java, and there is no java on the PATH", fix=JAVA_FIX)
    return Path(found)


def install_kafka(settings: WorldSettings, *, scratch: Path, say: Callable[[str], None]) -> Path:
    """Download the pinned jars into the cache; `scratch` must be on the cache's disk. Returns their folder."""
    java, ivy = find_java_for_kafka(settings), _ivy()
    home = kafka_folder(settings.places)
    say(f"downloading {len(_pinned())} jars of Kafka (47 MB)")
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        work, fresh = Path(name), Path(name) / "jars"
        request = work / "ivy.xml"
        request.write_text(_request(_pinned()))
        run_to_end(
            [
                *(str(java), "-jar", str(ivy), "-ivy", str(request), "-cache", str(work / "cache")),
                *("-confs", "jars", "-retrieve", f"{fresh}/[organisation]-[artifact]-[revision].[ext]"),
            ],
            what="downloading the jars of Kafka",
            limit_s=DOWNLOAD_LIMIT_S,
            fix=f"see that Java's package registry can be reached, then {_SETUP}",
        )
        _check(fresh)
        home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            fresh.rename(home)
        except OSError:  # another setup was first: its equal folder stays
            if not home.is_dir():
                raise
    return home


def kafka_folder(places: Places) -> Path:
    """The folder of the jars, whether it exists or not."""
    return places.root / "kafka" / hashlib.sha256(LIST.read_bytes()).hexdigest()[:16]


def _ivy() -> Path:
    spark = find_spec("pyspark")
    found = sorted(Path(spark.origin).with_name("jars").glob("ivy-*.jar")) if spark and spark.origin else []
    if not found:
        raise WorldError(
            "the jars of Kafka are downloaded by the Ivy that PySpark brings, and PySpark is not installed",
            fix=f"pip install 'floodmark[spark]', then {_SETUP}",
        )
    return found[-1]


def _request(jars: Sequence[PinnedJar]) -> str:
    """Ivy's file: exactly these jars, and none that they depend on."""
    wanted = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)} "
        'transitive="false" conf="jars->default"/>\n'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="floodmark" module="kafka"/>\n'
        f'<configurations><conf name="jars"/></configurations>\n<dependencies>\n{wanted}</dependencies>'
        "</ivy-module>\n"
    )


def _check(folder: Path) -> None:
    """Raises WorldError for a jar that is missing or not the pinned one."""
    for jar in _pinned():
        file = folder / jar.name
        if not file.exists():
            raise WorldError(f"{jar.name} was not downloaded", fix=f"{_SETUP} once more")
        if hashlib.sha256(file.read_bytes()).hexdigest() != jar.sha256:
            raise WorldError(
                f"{jar.name} is not the file that Floodmark was tested with: its SHA-256 differs",
                fix="see where the package registry's files come from on this machine",
            )


def _paths(folder: Path, *, not_used_by: str) -> tuple[Path, ...]:
    return tuple(folder / jar.name for jar in _pinned() if jar.use != not_used_by)


@cache
def _pinned() -> tuple[PinnedJar, ...]:
    rows = [line.split() for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return tuple(
        PinnedJar(use=use, group=group, artifact=artifact, version=version, sha256=digest)
        for use, group, artifact, version, digest in rows
    )
