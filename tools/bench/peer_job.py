"""Flink itself as a peer, in Java and in Python: a program that stays up between rounds.

Answers to `AsyncDataStream.orderedWait` in a whole job of source, operator and sink. `FlinkJob.java` and
`pyflink_program.py` are the programs; both get one line for each job. Invariant: a time is returned only for a job
whose records each came out once and in order; the program has ended when the block ends.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from select import select
from shutil import which
from tempfile import TemporaryDirectory

from harness.system.errors import WorldError
from tools.bench.answer import WrongOutput
from tools.bench.operator_rate import OperatorLoad

_JAVA_SOURCE = Path(__file__).with_name("FlinkJob.java")
_PYTHON_SOURCE = Path(__file__).with_name("pyflink_program.py")
_COMPILE_LIMIT_S = 120
_JOB_LIMIT_S = 180
_EXIT_LIMIT_S = 20


class PeerJob:
    """A program that runs one job for each load. Mutable."""

    def __init__(self, process: subprocess.Popen[str], *, limit_s: float) -> None:
        self._process = process
        self._limit_s = limit_s
        self.about = self._answer().strip()
        """The program's name and versions: its first line."""
        if not self.about:
            raise WorldError(
                "the program of the peer does not start", fix="start it by hand to see its error"
            )

    def run(self, load: OperatorLoad) -> float:
        """Seconds from the first call of the function to the last result."""
        assert self._process.stdin is not None, "the program was started with a pipe"
        try:
            self._process.stdin.write(f"{load.records} {load.capacity} {load.latency_ms}\n")
            self._process.stdin.flush()
        except BrokenPipeError as died:
            raise WorldError(f"the program died before the job of {load}") from died
        verdict, _, rest = self._answer().strip().partition(" ")
        if verdict != "ok":
            raise WrongOutput(f"the job of {load}: {rest or f'no answer within {self._limit_s} s'}")
        return float(rest)

    def _answer(self) -> str:
        """Read one line. The buffer is empty between two lines, so waiting for the pipe waits for a line."""
        assert self._process.stdout is not None, "the program was started with a pipe"
        ready, _, _ = select([self._process.stdout], [], [], self._limit_s)
        return self._process.stdout.readline() if ready else ""


@contextmanager
def flink_job(jar: Path, *, path: str) -> Iterator[PeerJob]:
    """Compile the Java job against `jar` and start its JVM. Raises WorldError without a JDK on `path`."""
    java, javac = _program("java", path), _program("javac", path)
    with TemporaryDirectory(prefix="floodmark-flink-job-") as folder:
        _compile([javac, "-nowarn", "-d", folder, "-cp", str(jar), str(_JAVA_SOURCE)])
        with peer_job([java, "-cp", f"{folder}:{jar}", _JAVA_SOURCE.stem]) as job:
            yield job


@contextmanager
def pyflink_job(python: Path) -> Iterator[PeerJob]:
    """Start PyFlink's job with the Python of an environment that has apache-flink. Raises WorldError."""
    if which(str(python)) is None:
        raise WorldError(
            f"{python} is not a program", fix="name the Python of an environment with apache-flink 2.3.0"
        )
    with peer_job([str(python), str(_PYTHON_SOURCE)]) as job:
        yield job


@contextmanager
def peer_job(command: Sequence[str], *, limit_s: float = _JOB_LIMIT_S) -> Iterator[PeerJob]:
    """Start a program; at the block's end its input is closed, and it is killed if it does not exit."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield PeerJob(process, limit_s=limit_s)
        except BaseException:
            process.kill()
            raise
        assert process.stdin is not None, "the program was started with a pipe"
        process.stdin.close()
        try:
            process.wait(_EXIT_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()


def _compile(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMPILE_LIMIT_S)
    if done.returncode:
        raise WorldError(
            f"`{' '.join(command)}` failed: {done.stderr.strip()[-500:]}",
            fix="the job is written for Flink 2.3.0 and Java 17; run `floodmark setup --oracle`",
        )


def _program(name: str, path: str) -> str:
    found = which(name, path=path)
    if found is None:
        raise WorldError(f"there is no `{name}` on the PATH", fix="install a JDK of version 17 or 21")
    return found
