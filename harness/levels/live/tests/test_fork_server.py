"""The fork server: workers get the harness's present surroundings, and nothing outlives the harness."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from harness.levels.live.fork_server import ForkedProcess, ForkServer, surroundings
from harness.system.clock import Deadline, wait_until
from harness.system.errors import HarnessError

pytestmark = pytest.mark.real

LIMIT_S = 60.0


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

    code = worker.wait(LIMIT_S)
    assert code is not None
    assert code > 0


def test_each_end_is_told_to_its_own_worker(server: ForkServer, tmp_path: Path) -> None:
    one, other = forked(server, tmp_path), forked(server, tmp_path)

    one.kill()

    assert one.wait(LIMIT_S) == -signal.SIGKILL
    assert other.code is None
    assert other.wait(0.01) is None
    other.kill()
    other.kill()
    assert other.wait(LIMIT_S) == -signal.SIGKILL


def test_a_server_that_is_killed_leaves_no_worker_and_the_next_one_is_started(tmp_path: Path) -> None:
    noted: list[int] = []
    with ForkServer(note_process=noted.append) as server:
        left = forked(server, tmp_path)
        psutil.Process(noted[0]).kill()

        assert left.wait(LIMIT_S) == -signal.SIGKILL
        assert left.is_lost
        assert wait_until(lambda: not psutil.pid_exists(left.pid), deadline=Deadline(LIMIT_S))
        new = forked(server, tmp_path)
        assert new.code is None
        assert len(set(noted)) == 2
    assert (new.wait(0), new.is_lost) == (-signal.SIGKILL, False)
    assert wait_until(lambda: not any(map(psutil.pid_exists, noted)), deadline=Deadline(LIMIT_S))


def test_a_server_that_ends_while_a_worker_is_wanted_is_an_error(tmp_path: Path) -> None:
    noted: list[int] = []
    with ForkServer(note_process=noted.append) as server:
        forked(server, tmp_path)
        psutil.Process(noted[0]).suspend()
        psutil.Process(noted[0]).kill()

        with pytest.raises(HarnessError, match="has ended by itself"):
            forked(server, tmp_path)


def test_no_other_thread_takes_in_the_end_of_a_worker_while_it_is_signalled(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its descriptor would be closed, and might be another file's by then."""
    worker = forked(server, tmp_path)
    process, sent = psutil.Process(worker.pid), signal.pidfd_send_signal
    seen: list[bool] = []

    def send(descriptor: int, number: int) -> None:
        sent(descriptor, number)
        assert wait_until(lambda: not process.is_running(), deadline=Deadline(LIMIT_S))
        hears = threading.Thread(target=lambda: worker.code)
        hears.start()
        hears.join(0.2)
        seen.append(worker.is_reaped)

    monkeypatch.setattr(signal, "pidfd_send_signal", send)
    worker.kill()

    assert seen == [False]
    assert worker.wait(LIMIT_S) == -signal.SIGKILL


_BREAKS_ITS_PIPE = """
from harness.levels.live import fork_server, worker
def broken():
    raise BrokenPipeError("of the attempt")
worker.main = broken
fork_server.main()
"""


def test_a_broken_pipe_of_an_attempt_is_its_error_and_not_the_end_of_the_harness(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(LIMIT_S)
    read, write = os.pipe()
    words = [sys.executable, "-c", _BREAKS_ITS_PIPE, str(theirs.fileno())]
    with (
        ours,
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(words, pass_fds=[theirs.fileno()]) as made,
    ):
        theirs.close()
        socket.send_fds(ours, [b"f"], [read, log.fileno()])
        os.write(write, msgspec.json.encode(surroundings()) + b"\n")
        pid, descriptors, _, _ = socket.recv_fds(ours, 64, 1)
        end = ours.recv(64)
        ours.close()
        assert made.wait(LIMIT_S) == 0
    for left in (read, write, *descriptors):
        os.close(left)

    assert end == pid + b" 1"
    assert "BrokenPipeError: of the attempt" in (tmp_path / "log").read_text()


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
