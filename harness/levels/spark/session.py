"""The Spark session: one for each process, local, without UI, with the retries and sizes that runs rely on.

Reasons for its settings: `docs/reference/references.md`, Measured. Invariant: the output of the JVM and its workers
goes to a file, never to the terminal.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from harness.engine.level import ATTEMPTS_MAX
from harness.levels.spark.run_attempts import ENDED_WORKERS
from harness.system.child import answer_of
from harness.system.errors import WorldError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")

_JAVA_MIN = 17
_ASK_S = 60
"""How long `java -version` may take on a busy machine."""
_JAVA_S = 10
_WARM_S = 180.0
"""How long the first task may take to begin and to end, with the start of an executor."""
_LOG4J = """rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n
"""


def java_version() -> int:
    """The major version of the `java` that Spark would start. Raises WorldError if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    fix = f"install a Java runtime of version {_JAVA_MIN} or later, or set JAVA_HOME; or use --level live"
    if java is None or not Path(java).exists():
        message = (
            f"Spark needs Java, and there is none ({'JAVA_HOME=' + home if home else 'no java on the PATH'})"
        )
        raise WorldError(message, fix=fix)
    try:
        said = answer_of([java, "-version"], limit_s=_ASK_S).stderr
    except (OSError, TimeoutExpired) as error:
        raise WorldError(f"Spark needs Java, and {java} does not run: {error}", fix=fix) from error
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found[1]) < _JAVA_MIN:
        message = f"Spark needs Java {_JAVA_MIN}; {java} says: {said.strip().splitlines()[:1]}"
        raise WorldError(message, fix=fix)
    return int(found[1])


def local_master(slots: int) -> str:
    """The master URL of a session in one process that runs `slots` tasks at a time and retries a failed one."""
    return f"local[{slots},{ATTEMPTS_MAX}]"


@contextmanager
def spark_session(
    *,
    folder: Path,
    slots: int = 2,
    master: str | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
    note_process: Callable[[int], None] = lambda pid: None,
) -> Iterator[SparkSession]:
    """A session with its files and log in `folder`, stopped at the block's end; by default it runs `slots` tasks.

    `settings` come after, and may replace, those that runs rely on; `note_process` gets the JVM's pid.
    """
    java_version()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - a large import, only when needed

    folder.mkdir(parents=True, exist_ok=True)
    os.environ[ENDED_WORKERS] = str(ended_workers(folder))
    if master is None or master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers would run the first python3 on the PATH
    else:  # on other machines, Python may be elsewhere
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master or local_master(slots)).appName("floodmark")
    for key, value in {**_settings(folder), **settings}.items():
        builder = builder.config(key, value)
    try:
        with _stderr_to(folder / "jvm.log"), _own_interrupt_handler():
            session = builder.getOrCreate()
        note_process(gateway_pid())
        try:
            _warm_up(session)
            yield session
        finally:
            with suppress(Exception):  # a dead JVM has nothing left to stop
                session.stop()
    finally:
        _end_jvm()


def ended_workers(folder: Path) -> Path:
    """The file of a session in `folder` to which its daemon writes how its workers have ended."""
    return folder / "ended-workers.jsonl"


@contextmanager
def _own_interrupt_handler() -> Iterator[None]:
    """Restore the SIGINT handler, which PySpark replaces when it makes a context."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def _warm_up(session: SparkSession) -> None:
    """Start the daemon of the Python workers now, so that it does not count in a run's time.

    Raises WorldError if no executor takes the task in time: Spark itself waits for a full cluster for ever.
    """
    is_over, is_late = threading.Event(), threading.Event()

    def give_up() -> None:
        if not is_over.wait(_WARM_S):
            is_late.set()
            session.sparkContext.cancelAllJobs()

    threading.Thread(target=give_up, name="warm-up", daemon=True).start()
    try:
        session.range(0, 1, 1, 1).mapInArrow(_echo, "id bigint").collect()
    except Exception as error:
        if not is_late.is_set():
            raise
        message = f"no executor of {session.sparkContext.master} took a task within {_WARM_S:g} s"
        fix = "look whether the cluster has a worker with free cores and memory"
        raise WorldError(message, fix=fix) from error
    finally:
        is_over.set()


def _echo(batches: Iterator[_T]) -> Iterator[_T]:
    return batches


def _settings(folder: Path) -> dict[str, str]:
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J.format(log=folder / "spark.log"))
    return {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j} -XX:TieredStopAtLevel=1"
        f" -Dderby.system.home={folder} -Djava.io.tmpdir={folder}",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.python.authenticate.socketTimeout": "30s",
        "spark.python.daemon.module": "harness.levels.spark.daemon",
        "spark.python.udf.pipelined.enabled": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Processes started in the block get `path` as their standard error."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def gateway_pid() -> int:
    """The pid of the JVM of the living session."""
    pid: int = _gateway().proc.pid
    return pid


def _gateway() -> Any:
    """PySpark's gateway object; there is no public access to the JVM's process."""
    from pyspark import SparkContext  # noqa: PLC0415

    return SparkContext._gateway  # noqa: SLF001


def _end_jvm() -> None:
    """End the JVM, which would otherwise live as long as this process; does nothing if none was started."""
    from pyspark import SparkContext  # noqa: PLC0415

    gateway = _gateway()
    if gateway is None:
        return
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    try:
        process.wait(timeout=_JAVA_S)
    except TimeoutExpired:
        process.kill()
        process.wait(timeout=_JAVA_S)
    SparkContext._active_spark_context = None  # noqa: SLF001 - a context without its JVM cannot be used
    SparkContext._gateway = None  # noqa: SLF001 - the next session must start a new JVM
    SparkContext._jvm = None  # noqa: SLF001
