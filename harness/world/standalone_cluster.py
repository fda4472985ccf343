"""A standalone Spark cluster: a master and workers out of PySpark's package, each worker on its own address.

The workers listen on 127.0.0.1, 127.0.0.2, ..., which Spark takes for different hosts: so it may start a second copy of
a slow task, and an executor that dies takes no other with it. Runs of the operator and of a user's job share it.
Invariants: nothing of it outlives the ledger's run, nor this process, by more than a moment; an executor finds no code
of ours along the import path that this process has.
"""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import psutil

from harness.system.child import Child
from harness.system.errors import WorldError
from harness.system.process_identity import ProcessIdentity, end_process, identify
from harness.world.ledger import LOOPBACK, open_ledger, reserve_port
from harness.world.settings import WorldSettings

READY_LIMIT_S = 120.0
"""How long a master or a worker may take until it is there; 6 s are usual."""
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR = "org.apache.spark.executor."
_DRIVER_URL = re.compile(r"^spark://\w+@.+:(\d+)$")
_QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_GUARD = """\
while read -r sign pid; do
    case $sign in +) groups="$groups $pid" ;; -) groups=$(echo " $groups " | sed "s/ $pid / /g") ;; esac
done
for group in $groups; do kill -KILL -- "-$group" 2>/dev/null; done
"""
"""Run as `sh -c THIS`: kills the process groups that it was told (`+ 123`) when its input ends, as if we die."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSize:
    """What each worker offers."""

    workers: int
    cores: int = 1
    memory: str = "1g"
    imports_nothing: bool = False
    """Whether executors have no import path but Python's own, so that they find only what a driver sends them."""


@dataclass(slots=True, kw_only=True)
class StandaloneCluster:
    """A running cluster. Mutable: hosts are lost and come back."""

    address: str
    """`spark://HOST:PORT`."""
    size: ClusterSize
    _master: Child
    _start: Callable[..., Child]
    _forget: Callable[[Child], None]
    _folder: Path
    _workers: dict[str, Child] = field(default_factory=dict)
    """By host."""

    @property
    def hosts(self) -> Sequence[str]:
        """The addresses of the workers that live."""
        return [host for host, worker in self._workers.items() if worker.alive]

    def worker(self, host: str) -> ProcessIdentity | None:
        """The process of the worker at that address; None: it is lost."""
        worker = self._workers.get(host)
        return None if worker is None or not worker.alive else identify(worker.pid)

    def executors(self) -> Sequence[ProcessIdentity]:
        """Every executor of the cluster that lives, of whatever driver."""
        children = [
            child for worker in self._workers.values() if worker.alive for child in _children(worker.pid)
        ]
        return [child for child in children if driver_port(_command(child.pid)) is not None]

    def begin(self) -> None:
        """Starts a worker on each address, and waits until the master knows all of them."""
        known = self._registrations()
        for number in range(1, self.size.workers + 1):
            self._start_worker(f"127.0.0.{number}")
        self._await_registrations(known + self.size.workers)

    def lose(self, host: str) -> Sequence[ProcessIdentity]:
        """Kills the worker of that address and its executors, as if the host had lost its power; returns them."""
        worker = self._workers[host]
        who, executors = identify(worker.pid), _children(worker.pid)
        worker.stop()  # its process group, in which its executors are
        for executor in executors:
            end_process(executor)
        self._forget(worker)
        return [*([] if who is None else [who]), *executors]

    def bring_back(self, host: str) -> None:
        """Starts a worker on a lost address again; returns when the master knows it."""
        known = self._registrations()
        self._start_worker(host)
        self._await_registrations(known + 1)

    def mend(self) -> None:
        """Brings back every host that is lost."""
        for host in [host for host, worker in self._workers.items() if not worker.alive]:
            self.bring_back(host)

    def _start_worker(self, host: str) -> None:
        self._workers[host] = self._start(
            *(_WORKER, "--host", host, "--webui-port", "0", "--cores", str(self.size.cores)),
            *("--memory", self.size.memory, "--work-dir", str(self._folder / host), self.address),
            host=host,
        )

    def _registrations(self) -> int:
        return self._master.log.read_text(errors="replace").count("Registering worker")

    def _await_registrations(self, count: int) -> None:
        self._master.wait_for(
            lambda: self._registrations() >= count,
            what=f"worker {count} of Spark to register",
            limit_s=READY_LIMIT_S,
        )


@contextmanager
def open_cluster(size: ClusterSize) -> Iterator[StandaloneCluster]:
    """A master and workers for the block."""
    settings = WorldSettings.from_environment()
    java, spark = shutil.which("java", path=settings.path), find_spec("pyspark")
    if java is None or spark is None or spark.origin is None:
        lacking = "Java" if java is None else "PySpark"
        raise WorldError(
            f"a cluster of Spark needs {lacking}, which is not here",
            fix="pip install 'floodmark[spark]', and Java 17 beside it (Debian: `default-jre-headless`)",
        )
    home = Path(spark.origin).parent
    with open_ledger(settings, lambda run_id: []) as ledger, ExitStack() as stack:
        # It acts if we are killed; if somebody ends it, the ledger knows the processes as well.
        guard = stack.enter_context(Child(["/bin/sh", "-c", _GUARD], talks=True))
        port = reserve_port(ledger)

        def start(*command: str, host: str) -> Child:
            name = command[0].rpartition(".")[2].lower()
            process = ledger.start(
                [str(home / "bin" / "spark-class"), *command],
                name=name,
                log=ledger.folder / f"spark-{host}-{name}.log",
                environment={
                    "SPARK_HOME": str(home),
                    "SPARK_LOCAL_IP": host,
                    "SPARK_DAEMON_JAVA_OPTS": f"{_QUICK_JVM} -Dspark.deploy.maxExecutorRetries=-1",
                    "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1",
                    **({"PYTHONPATH": ""} if size.imports_nothing else {}),  # executors inherit it
                },
            )
            guard.send(b"+ %d\n" % process.pid)
            stack.callback(process.stop)
            return process

        master = start(
            *(_MASTER, "--host", LOOPBACK, "--port", str(port), "--webui-port", "0"), host=LOOPBACK
        )
        master.wait_for(lambda: _answers(port), what="Spark's master to listen", limit_s=READY_LIMIT_S)
        cluster = StandaloneCluster(
            address=f"spark://{LOOPBACK}:{port}",
            size=size,
            _master=master,
            _start=start,
            _forget=lambda process: guard.send(b"- %d\n" % process.pid),
            _folder=ledger.folder,
        )
        cluster.begin()
        yield cluster


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


# ------------------------------------------------------------------------------------------- executors


def find_executors(family: Iterable[ProcessIdentity]) -> list[ProcessIdentity]:
    """The executors on this machine of the drivers among `family`, by the driver's port in their command line.

    Those of a standalone cluster are children of its workers, not of the driver. A local master has none.
    """
    wanted = set(_listening(process.pid for process in family))
    found = (
        identify(process.pid)
        for process in (psutil.process_iter() if wanted else ())
        if driver_port(_command(process.pid)) in wanted
    )
    return [executor for executor in found if executor is not None]


def driver_port(command: Sequence[str]) -> int | None:
    """The port of the driver that an executor with this command line serves; None: it is no executor."""
    if not any(word.startswith(_EXECUTOR) for word in command) or "--driver-url" not in command[:-1]:
        return None
    told = _DRIVER_URL.match(command[command.index("--driver-url") + 1])
    return int(told[1]) if told else None


def host_of(executor: ProcessIdentity) -> str:
    """The address of the worker that has started it; empty: it is gone, or is no executor."""
    command = _command(executor.pid)
    return command[command.index("--hostname") + 1] if "--hostname" in command[:-1] else ""


def _listening(pids: Iterable[int]) -> Iterator[int]:
    for pid in pids:
        try:
            sockets = psutil.Process(pid).net_connections(kind="tcp")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        yield from (socket.laddr.port for socket in sockets if socket.status == psutil.CONN_LISTEN)


def _command(pid: int) -> Sequence[str]:
    try:
        return psutil.Process(pid).cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):  # it has just ended, or is another user's
        return ()


def _children(pid: int) -> list[ProcessIdentity]:
    try:
        children = psutil.Process(pid).children()
    except psutil.NoSuchProcess:
        return []
    return [who for child in children if (who := identify(child.pid)) is not None]
