"""The fork server: workers get the harness's present surroundings, and nothing outlives the harness."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.clock import Deadline, wait_until
from harness.errors import HarnessError
from harness.levels.live.fork_server import ForkedProcess, ForkServer

pytestmark = pytest.mark.real

LIMIT_S = 30.0


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[ForkServer, list[int]]]:
    """A server, and the pids that it has noted."""
    noted: list[int] = []
    with ForkServer(note_process=noted.append) as server:
        yield server, noted


@pytest.fixture
def server(started: tuple[ForkServer, list[int]]) -> ForkServer:
    return started[0]


def forked(server: ForkServer, folder: Path) -> ForkedProcess:
    """A worker that waits for its orders."""
    with (folder / "log").open("wb") as log:
        return server.fork(log)


def test_a_worker_has_a_session_and_standard_streams_of_its_own(server: ForkServer, tmp_path: Path) -> None:
    worker = forked(server, tmp_path)

    process = psutil.Process(worker.pid)
    log = str((tmp_path / "log").resolve())

    # The server tells the pid as soon as it has forked; the worker then takes its own streams.
    assert wait_until(
        lambda: {file.path for file in process.open_files()} == {log}, deadline=Deadline(LIMIT_S)
    )
    assert process.num_threads() == 1
    worker.kill()
    assert worker.wait(LIMIT_S) == -signal.SIGKILL


def test_a_worker_ends_without_orders_when_its_pipe_closes(server: ForkServer, tmp_path: Path) -> None:
    worker = forked(server, tmp_path)

    worker.pipe.close()

    assert worker.wait(LIMIT_S) > 0


def test_each_end_is_told_to_its_own_worker(server: ForkServer, tmp_path: Path) -> None:
    one, other = forked(server, tmp_path), forked(server, tmp_path)

    one.kill()

    assert one.wait(LIMIT_S) == -signal.SIGKILL
    assert other.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        other.wait(0.01)
    other.kill()
    other.kill()
    assert other.wait(LIMIT_S) == -signal.SIGKILL


def test_a_server_that_is_killed_leaves_no_worker_and_the_next_one_is_started(tmp_path: Path) -> None:
    noted: list[int] = []
    with ForkServer(note_process=noted.append) as server:
        left = forked(server, tmp_path)
        psutil.Process(noted[0]).kill()

        assert left.wait(LIMIT_S) == -signal.SIGKILL
        assert wait_until(lambda: not psutil.pid_exists(left.pid), deadline=Deadline(LIMIT_S))
        new = forked(server, tmp_path)
        assert new.poll() is None
        assert len(set(noted)) == 2
    assert new.returncode == -signal.SIGKILL
    assert wait_until(lambda: not any(map(psutil.pid_exists, noted)), deadline=Deadline(LIMIT_S))


def test_a_server_that_ends_while_a_worker_is_wanted_is_an_error(tmp_path: Path) -> None:
    noted: list[int] = []
    with ForkServer(note_process=noted.append) as server:
        forked(server, tmp_path)
        psutil.Process(noted[0]).suspend()
        psutil.Process(noted[0]).kill()

        with pytest.raises(HarnessError, match="has ended by itself"):
            forked(server, tmp_path)


_STARTS_ONE = """
import sys
from harness.levels.live.fork_server import ForkServer
server = ForkServer(note_process=print)
with open(sys.argv[1], "wb") as log:
    print(server.fork(log).pid, flush=True)
input()
"""


def test_server_and_worker_end_when_the_harness_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _STARTS_ONE, str(tmp_path / "log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as harness:
        assert harness.stdout is not None
        left = [int(harness.stdout.readline()) for _ in range(2)]
        harness.kill()

    assert wait_until(lambda: not any(map(psutil.pid_exists, left)), deadline=Deadline(LIMIT_S))
