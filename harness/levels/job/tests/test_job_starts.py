"""Starts of a job: what cannot be started is told with the command as its cause, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from harness.levels.job import processes
from harness.levels.job.binlog import LogPosition
from harness.levels.job.environment import MARK
from harness.levels.job.processes import JobStarts
from harness.levels.job.sessions import SessionsFollowed
from harness.system.clock import Deadline, monotonic_us, wait_until
from harness.system.errors import WorldError
from harness.system.process_identity import ProcessIdentity, end_process, identify, is_alive


def _starts(folder: Path, *, logs: Path, program: str = "no program") -> JobStarts:
    nothing: Any = None
    (folder / "job").write_text(program)
    (folder / "job").chmod(0o755)
    return JobStarts(
        command=[str(folder / "job")],
        folder=folder,
        logs=logs,
        run_id="r",
        links={},
        begins=lambda number: {},
        commits=lambda: 0,
        source=nothing,
    )


def test_a_file_that_is_no_program_is_a_mistake_of_the_command(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="the job's command cannot be started: Exec format error"):
        _starts(tmp_path, logs=tmp_path).start()


def test_a_log_that_cannot_be_written_is_no_mistake_of_the_command(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        _starts(tmp_path, logs=tmp_path / "absent").start()


def test_every_process_of_a_job_is_killed_when_one_does_not_end_and_the_error_names_that_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = _starts(tmp_path, logs=tmp_path, program="#!/bin/sh\nexec sleep 600\n")
    first, second = starts.start().main, starts.start().main

    def end(who: ProcessIdentity) -> bool:
        if who == first:
            raise psutil.TimeoutExpired(5, who.pid)
        return end_process(who)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(processes, "_END_S", 0)
            patch.setattr(processes, "end_process", end)
            patch.setattr(subprocess.Popen, "kill", lambda process: None)
            with pytest.raises(WorldError, match=rf"have not ended after SIGKILL: {first.pid}\n"):
                starts.end_all()

        assert not is_alive(second)
    finally:
        starts.end_all()
    assert not is_alive(first)


def test_a_process_that_was_killed_and_is_not_reaped_yet_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An orphan stays in the process table until whoever has adopted it reaps it."""
    starts = _starts(tmp_path, logs=tmp_path)

    def end(who: ProcessIdentity) -> bool:
        os.kill(who.pid, signal.SIGKILL)
        os.waitid(os.P_PID, who.pid, os.WEXITED | os.WNOWAIT)
        raise psutil.TimeoutExpired(5, who.pid)

    with subprocess.Popen(["sleep", "600"]) as orphan:
        monkeypatch.setattr(JobStarts, "everyone", lambda _: [identify(orphan.pid)])
        monkeypatch.setattr(processes, "end_process", end)

        starts.end_all()

    assert orphan.returncode == -signal.SIGKILL


def test_a_session_opened_while_the_older_start_stands_still_belongs_to_the_newer_one(tmp_path: Path) -> None:
    starts = _starts(tmp_path, logs=tmp_path, program="#!/bin/sh\nexec sleep 600\n")
    newest, places = 10, count(1)
    followed = SessionsFollowed(
        database=cast("Any", SimpleNamespace(sessions=lambda: newest)),
        starts=starts,
        world=cast("Any", SimpleNamespace(proxy=SimpleNamespace(identify=lambda *, on: None))),
        end_of_log=lambda: LogPosition(file="log.1", offset=next(places)),
        read_of_log=lambda: LogPosition(file="log.1", offset=0),
        messages=list,
    )

    def begin(number: int) -> Mapping[str, str]:
        followed.begin_start(number)
        return {}

    starts.begins = begin
    starts.wakes = lambda: followed.begin_start(None)

    try:
        starts.start()
        newest = 11
        with starts.start_beside(fault="frozen"):
            newest = 12
        newest = 13
    finally:
        starts.end_all()

    late = LogPosition(file="log.1", offset=100)
    assert [followed.sessions.start_of(session, late) for session in (11, 12, 13)] == [1, 2, None]


def test_a_session_beside_an_older_start_belongs_to_the_start_of_the_process_that_the_proxy_tells(
    tmp_path: Path,
) -> None:
    starts = _starts(tmp_path, logs=tmp_path, program="#!/bin/sh\nsleep 600\n")
    switched, messages = list[bool](), list[Any]()
    followed = SessionsFollowed(
        database=cast("Any", SimpleNamespace(sessions=lambda: 10)),
        starts=starts,
        world=cast("Any", SimpleNamespace(proxy=SimpleNamespace(identify=lambda *, on: switched.append(on)))),
        end_of_log=lambda: LogPosition(file="log.1", offset=1),
        read_of_log=lambda: LogPosition(file="log.1", offset=0),
        messages=lambda: messages,
    )
    try:
        first = starts.start()
        followed.look()
        with starts.start_beside(fault="frozen") as second:
            followed.look()
        assert wait_until(
            lambda: all(len(starts.family(one)) == 2 for one in (first, second)), deadline=Deadline(60)
        )
        for session, start in ((21, first), (22, second)):
            [child] = [one.pid for one in psutil.Process(start.main.pid).children()]
            messages.append(SimpleNamespace(link="sink", connection=session, session=session, pid=child))
        messages.append(SimpleNamespace(link="sink", connection=23, session=23, pid=0))
        followed.look()
    finally:
        starts.end_all()

    late = LogPosition(file="log.1", offset=100)
    assert [followed.sessions.start_of(session, late) for session in (21, 22, 23)] == [1, 2, None]
    assert switched == [True]


def test_every_process_of_a_start_stands_still_also_one_of_another_session_and_then_goes_on(
    tmp_path: Path,
) -> None:
    starts = _starts(tmp_path, logs=tmp_path, program="#!/bin/sh\nsetsid sleep 600 &\nsleep 600\n")
    starts.begins = lambda number: {
        "PATH": "/usr/bin:/bin",
        MARK: "r",
        "FLOODMARK_JOB_START": str(number),
    }
    try:
        start = starts.start()
        assert wait_until(lambda: len(starts.family(start)) == 3, deadline=Deadline(60))
        processes_of_it = [psutil.Process(who.pid) for who in starts.family(start)]

        def all_stopped(*, stand: bool) -> bool:
            return all((one.status() == psutil.STATUS_STOPPED) is stand for one in processes_of_it)

        with starts.standing_still() as since_us:
            assert wait_until(lambda: all_stopped(stand=True), deadline=Deadline(60))
            assert since_us <= monotonic_us()
        assert wait_until(lambda: all_stopped(stand=False), deadline=Deadline(60))
    finally:
        starts.end_all()
