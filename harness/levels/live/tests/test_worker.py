"""The worker: it ends when its harness is gone, and is started again only when it has been reaped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

import msgspec
import psutil
import pytest

from harness.database.endpoint import Endpoint
from harness.engine.level import ATTEMPTS_MAX
from harness.levels.live.fork_server import ForkedProcess, ForkServer, surroundings
from harness.levels.live.supervisor import LiveRunner, Supervisor
from harness.levels.live.worker import DONE, FAILED
from harness.scenario.model import Scenario
from harness.scenario.plan import RunPlan, encode_plan
from harness.system.child import Child
from harness.system.clock import Deadline, wait_until
from harness.system.errors import HarnessError, WorldError
from harness.world.ledger import LOOPBACK

pytestmark = pytest.mark.real

LIMIT_S = 60.0
NOWHERE = Endpoint(host=LOOPBACK, port=1, user="nobody", password="-", database="-")
SCENARIO = Scenario.model_validate(
    {
        "scenario": "small",
        "about": "A small one for tests.",
        "operator": {"mode": "ordered"},
        "workload": {"records": 40},
        "decisive": ["V8"],
    }
)


def plan(folder: Path, *, sut: str = "reference") -> RunPlan:
    """A plan whose database does not answer, so a worker waits for it until it is told otherwise."""
    return RunPlan(
        run_id="r",
        scenario=SCENARIO.model_dump(mode="json", by_alias=True),
        seed=1,
        sut=sut,
        mutant=None,
        lookups=NOWHERE,
        sink=NOWHERE,
        folder=str(folder),
        path=[],
        table=[],
        crashes=[],
    )


def test_a_worker_ends_when_its_pipe_closes(tmp_path: Path) -> None:
    with ForkServer() as server, (tmp_path / "log").open("wb") as log:
        worker = server.fork(log)
        for line in (surroundings(), 0):
            worker.pipe.write(msgspec.json.encode(line) + b"\n")
        worker.pipe.write(encode_plan(plan(tmp_path)) + b"\n")
        worker.pipe.close()

        assert worker.wait(LIMIT_S) == FAILED


_LEAVES = """
import atexit, threading
from harness.levels.live import worker
worker._EXIT_S = 0.1
{leaves}
print("said")
worker.end(worker.DONE)
"""


@pytest.mark.parametrize(
    "leaves",
    [
        "atexit.register(threading.Event().wait)",
        "threading.Thread(target=threading.Event().wait).start()",
        "",
    ],
    ids=["exit handler", "thread", "nothing"],
)
def test_an_attempt_ends_with_its_code_whatever_user_code_has_left(leaves: str) -> None:
    words = [sys.executable, "-c", _LEAVES.format(leaves=leaves)]

    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (DONE, "said\n", "")


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """Two workers that wait for a database."""
    with ForkServer() as server:
        made = LiveRunner(server).start(plan(tmp_path), subtasks=2, logs=tmp_path)
        yield made
        made.stop()


def processes() -> list[psutil.Process]:
    """Workers that live; one that is dead and not reaped yet does not."""
    servers = [child for child in psutil.Process().children() if _is_of_the_server(child)]
    return [child for server in servers for child in server.children() if _is_of_the_server(child)]


def _is_of_the_server(process: psutil.Process) -> bool:
    try:
        return "harness.levels.live.fork_server" in process.cmdline()
    except (psutil.ZombieProcess, psutil.NoSuchProcess):
        return False


def come_to(count: int) -> bool:
    """Whether so many live, after a moment: what has only just been started has no name yet."""
    return wait_until(lambda: len(processes()) == count, deadline=Deadline(LIMIT_S))


def test_stop_ends_every_worker_and_may_be_called_again(supervisor: Supervisor) -> None:
    assert come_to(2)

    supervisor.stop()
    supervisor.stop()

    assert processes() == []


def test_a_worker_that_dies_is_replaced_and_the_last_death_ends_the_run(tmp_path: Path) -> None:
    noted: list[int] = []
    errors: list[str] = []
    server = ForkServer()
    runner = LiveRunner(server, note_process=noted.append)
    supervisor = runner.start(plan(tmp_path), subtasks=1, logs=tmp_path)

    def has_failed() -> bool:
        errors.append(supervisor.poll().error or "")  # told once
        return bool(errors[-1])

    try:
        for _ in range(ATTEMPTS_MAX):
            # A process that dies has lost its name before it can be reaped, so look again until it was replaced.
            assert wait_until(
                lambda: supervisor.poll().running and len(processes()) == 1, deadline=Deadline(LIMIT_S)
            )
            (worker,) = processes()
            worker.kill()
            assert wait_until(lambda: processes() == [], deadline=Deadline(LIMIT_S))
        assert wait_until(has_failed, deadline=Deadline(LIMIT_S))
    finally:
        supervisor.stop()
        server.close()

    assert f"subtask 0 failed {ATTEMPTS_MAX} times" in errors[-1]
    assert len(set(noted)) == ATTEMPTS_MAX


def test_no_successor_starts_in_the_poll_that_reaps_so_that_the_history_says_first_why(
    supervisor: Supervisor,
) -> None:
    """Found under load: the successor had begun, and nothing yet said that its predecessor had been killed."""
    old = supervisor.process(1)
    assert old is not None
    psutil.Process(old.pid).kill()

    assert wait_until(lambda: bool(supervisor.poll().ends), deadline=Deadline(LIMIT_S))

    assert supervisor.process(1) is None
    supervisor.poll()
    assert supervisor.process(1) not in {None, old}


def test_a_worker_that_is_taken_for_dead_lives_on_beside_its_successor_until_the_run_ends(
    supervisor: Supervisor,
) -> None:
    old = supervisor.process(0)

    succession = supervisor.supersede(0)

    new = supervisor.process(0)
    assert old is not None
    assert new is not None
    assert new != old
    assert come_to(3)
    assert not succession.old_one_is_over()
    supervisor.stop()
    assert succession.old_one_is_over()
    assert processes() == []


def test_a_superseded_worker_that_ends_is_reaped_and_not_replaced(supervisor: Supervisor) -> None:
    old = supervisor.process(1)
    assert old is not None
    succession = supervisor.supersede(1)

    psutil.Process(old.pid).kill()

    assert wait_until(succession.old_one_is_over, deadline=Deadline(LIMIT_S))
    state = supervisor.poll()
    assert [(end.subtask, end.pid, end.code) for end in state.ends] == [(1, old.pid, -9)]
    assert state.running
    assert come_to(2)


def test_a_fork_server_that_ended_by_itself_is_no_death_of_a_worker(supervisor: Supervisor) -> None:
    """The run would be convicted of an end by SIGKILL that the harness itself has caused."""
    assert come_to(2)
    worker = supervisor.process(0)
    assert worker is not None
    server = psutil.Process(worker.pid).parent()
    assert server is not None
    assert server.pid != os.getpid()

    server.kill()

    with pytest.raises(HarnessError, match="the fork server of level live has ended by itself"):
        wait_until(lambda: not supervisor.poll().running, deadline=Deadline(LIMIT_S))
    assert processes() == []


def test_stop_kills_all_workers_and_names_those_that_do_not_end(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = supervisor.process(0)
    assert who is not None
    wait = ForkedProcess.wait

    def waits(process: ForkedProcess, limit_s: float) -> int | None:
        return None if process.pid == who.pid else wait(process, limit_s)

    with monkeypatch.context() as patch:
        patch.setattr(ForkedProcess, "wait", waits)
        with pytest.raises(WorldError, match=rf"after SIGKILL: {who.pid}\n"):
            supervisor.stop()

    assert supervisor.process(1) is None


class _Shell(Child):
    """A fork server whose only worker is a shell with a child; it is that worker too."""

    is_lost = False

    def __init__(self) -> None:
        super().__init__(["/bin/sh", "-c", "sleep 600 & wait"], talks=True)
        self.pipe = self.input

    def fork(self, log: IO[bytes]) -> Self:
        del log
        return self


def test_what_a_killed_worker_has_left_running_is_ended_with_the_run(tmp_path: Path) -> None:
    shell: Any = _Shell()
    supervisor = LiveRunner(shell).start(plan(tmp_path), subtasks=1, logs=tmp_path)
    process = psutil.Process(shell.pid)
    assert wait_until(lambda: bool(process.children()), deadline=Deadline(LIMIT_S))
    [child] = process.children()
    shell.kill()
    shell.wait(LIMIT_S)
    assert child.is_running()

    supervisor.stop()
    shell.close_pipes()

    assert wait_until(
        lambda: not child.is_running() or child.status() == "zombie", deadline=Deadline(LIMIT_S)
    )


def test_a_worker_that_is_stopped_is_ended_with_the_run(supervisor: Supervisor) -> None:
    who = supervisor.process(0)
    assert who is not None
    psutil.Process(who.pid).suspend()

    supervisor.stop()

    assert processes() == []


def test_there_is_no_process_of_a_subtask_that_has_ended(supervisor: Supervisor) -> None:
    supervisor.stop()

    assert supervisor.process(0) is None
    assert supervisor.process(1) is None
