"""A standalone Spark cluster for a job: a master and workers out of PySpark's package, each worker on its own address.

The workers listen on 127.0.0.1, 127.0.0.2, ..., which Spark takes for different hosts: so it may start a second copy of
a slow task, and an executor that dies takes no other with it. Invariant: nothing of it outlives the ledger's run.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from harness.errors import WorldError
from harness.world.containers import sweep_run
from harness.world.ledger import Ledger, open_ledger
from harness.world.ports import LOOPBACK, reserve_port
from harness.world.processes import ChildProcess
from harness.world.settings import WorldSettings

__all__ = ["open_cluster"]

READY_LIMIT_S = 120.0
"""How long a master or a worker may take until it is there; 6 s are usual."""
MEMORY = "1g"
CORES = "1"


@contextmanager
def open_cluster(workers: int) -> Iterator[str]:
    """A master and so many workers for the block; yields the master's address, `spark://...`."""
    settings = WorldSettings.from_environment()
    with open_ledger(settings.places, sweep_run) as ledger, ExitStack() as stack:
        port = reserve_port(ledger, among=settings.ports)
        address = f"spark://{LOOPBACK}:{port}"

        def start(*command: str, host: str) -> ChildProcess:
            process = _start(*command, host=host, settings=settings, ledger=ledger)
            stack.callback(process.stop)
            return process

        master = start(
            *("org.apache.spark.deploy.master.Master", "--host", LOOPBACK, "--port", str(port)),
            *("--webui-port", "0"),
            host=LOOPBACK,
        )
        master.wait_for(lambda: _answers(port), what="Spark's master to listen", limit_s=READY_LIMIT_S)
        for number in range(1, workers + 1):
            host = f"127.0.0.{number}"
            start(
                *("org.apache.spark.deploy.worker.Worker", "--host", host, "--webui-port", "0"),
                *("--cores", CORES, "--memory", MEMORY, "--work-dir", str(ledger.folder / host), address),
                host=host,
            )
        master.wait_for(
            lambda: master.log.read_text(errors="replace").count("Registering worker") >= workers,
            what=f"{workers} workers of Spark to register",
            limit_s=READY_LIMIT_S,
        )
        yield address


def _start(*command: str, host: str, settings: WorldSettings, ledger: Ledger) -> ChildProcess:
    java = shutil.which("java", path=settings.path)
    spark = find_spec("pyspark")
    if java is None or spark is None or spark.origin is None:
        lacking = "Java" if java is None else "PySpark"
        raise WorldError(
            f"a cluster of Spark needs {lacking}, which is not here",
            fix="pip install 'floodmark[spark]', and Java 17 beside it (Debian: `default-jre-headless`)",
        )
    home, name = Path(spark.origin).parent, command[0].rpartition(".")[2].lower()
    return ChildProcess.start(
        [str(home / "bin" / "spark-class"), *command],
        name=name,
        log=ledger.folder / f"spark-{host}-{name}.log",
        ledger=ledger,
        environment={
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1",
        },
    )


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
