"""What of level spark must end ends, also if something beside it does not; no wait of a session is without a limit."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.levels.live.tests.test_worker import plan
from harness.levels.spark import driver_process, session
from harness.levels.spark.driver_process import DriverRunner, DriverSeat, DriverSettings
from harness.levels.spark.job import SparkExecution
from harness.levels.spark.run_attempts import EndedWorkers
from harness.system.child import Child
from harness.system.errors import WorldError
from harness.system.process_identity import ProcessIdentity, identify, is_alive

Sleeping = tuple[Child, ProcessIdentity]


@pytest.fixture
def sleeping() -> Iterator[list[Sleeping]]:
    """Two processes that do nothing."""
    with Child(["sleep", "600"], talks=True) as one, Child(["sleep", "600"], talks=True) as other:
        found = [(child, identify(child.pid)) for child in (one, other)]
        yield [(child, who) for child, who in found if who is not None]


def _settings(folder: Path) -> DriverSettings:
    return DriverSettings(master="local[1]", folder=folder)


def test_a_virtual_machine_is_killed_when_its_driver_does_not_end_and_the_error_names_the_driver(
    sleeping: list[Sleeping], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (driver, _), (_, machine) = sleeping
    seat = DriverSeat(_settings(tmp_path))
    seat._child, seat._jvms = driver, [machine]
    monkeypatch.setattr(driver_process, "_STOP_S", 0)
    monkeypatch.setattr(driver_process, "_GONE_S", 0)

    with monkeypatch.context() as patch:
        patch.setattr(driver, "kill", lambda: None)
        with pytest.raises(WorldError, match=rf"after SIGKILL: {driver.pid}\n"):
            seat.end()

    assert not is_alive(machine)


def test_every_driver_is_ended_when_one_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[DriverSeat] = []

    def end(seat: DriverSeat) -> None:
        ended.append(seat)
        if seat is bad:
            raise WorldError("it does not end")

    bad, good = DriverSeat(_settings(tmp_path)), DriverSeat(_settings(tmp_path))
    runner = DriverRunner(_settings(tmp_path))
    monkeypatch.setattr(DriverSeat, "end", end)
    monkeypatch.setattr(runner, "_seat", lambda: good)

    with pytest.raises(WorldError, match="it does not end"), runner.open():
        runner._seats += [good, bad]

    assert {id(seat) for seat in ended} == {id(good), id(bad)}


class _NoMachine:
    """A session whose virtual machine is gone, or does nothing until its jobs are cancelled; with Spark's names."""

    master = "spark://here:7077"

    def __init__(self, *, waits: bool) -> None:
        self.sparkContext = self
        self._waits = waits
        self.cancelled = threading.Event()

    def setJobGroup(self, *_: object, **__: object) -> None:  # noqa: N802
        """Groups mean nothing here."""

    def range(self, *_: object) -> _NoMachine:
        return self

    def mapInArrow(self, *_: object) -> _NoMachine:  # noqa: N802
        return self

    def collect(self) -> None:
        if self._waits:
            self.cancelled.wait(30)
        raise ConnectionRefusedError("no machine")

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        self.cancelled.set()
        raise ConnectionRefusedError(f"no machine for {group}")

    def cancelAllJobs(self) -> None:  # noqa: N802
        self.cancelled.set()


@pytest.mark.parametrize("waits", [False, True], ids=["job over", "job goes on"])
def test_the_workers_of_a_run_are_killed_when_its_virtual_machine_is_gone(
    sleeping: list[Sleeping], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, waits: bool
) -> None:
    gone: Any = _NoMachine(waits=waits)
    execution = SparkExecution(gone, plan(tmp_path), subtasks=2, ended=EndedWorkers(tmp_path / "ended"))
    monkeypatch.setattr(execution._attempts, "running", lambda: [who for _, who in sleeping])
    if not waits:
        execution._thread.join(30)

    try:
        killed = execution.stop()
    except ConnectionRefusedError:
        assert waits
    else:
        assert killed == [who.pid for _, who in sleeping]
        assert execution.poll().error == "the Spark job failed: no machine"

    assert not any(is_alive(who) for _, who in sleeping)


def test_a_cluster_that_takes_no_task_is_told_after_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    full: Any = _NoMachine(waits=True)
    monkeypatch.setattr(session, "_WARM_S", 0.01)

    with pytest.raises(WorldError, match="no executor of spark://here:7077 took a task within 0.01 s"):
        session._warm_up(full)


@pytest.mark.parametrize(
    "error", [subprocess.TimeoutExpired(["java", "-version"], 10), PermissionError("not executable")]
)
def test_a_java_that_does_not_run_is_told_as_the_worlds_lack(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, **__: object) -> None:
        raise error

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", run)

    with pytest.raises(WorldError, match="does not run"):
        session.java_version()
