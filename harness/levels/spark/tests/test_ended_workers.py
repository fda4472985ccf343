"""Which ends of Spark's Python workers count: any by a signal, and one that came before its attempt's own end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.engine.level import ending_of
from harness.history.follower import AttemptView
from harness.levels.spark import daemon
from harness.levels.spark.run_attempts import EndedWorkers
from harness.system.process_identity import ProcessIdentity


@pytest.mark.parametrize(
    ("code", "over", "counts"), [(-9, False, True), (-9, True, True), (7, False, True), (255, True, False)]
)
def test_a_worker_that_ended_by_itself_after_its_attempt_is_not_told_u3(
    code: int,
    over: bool,  # noqa: FBT001 - a case
    counts: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    ended = EndedWorkers(tmp_path / "ended")
    (tmp_path / "ended").write_text(f"[77, {code}]\n[78, 1]\n")
    view = AttemptView(subtask=1, attempt=2, process=ProcessIdentity(pid=77, started=5), over=over)

    told = ended.new(lambda: [view])

    assert [(end.subtask, end.pid, end.code) for end in told] == ([(1, 77, code)] if counts else [])


@pytest.mark.parametrize(
    ("code", "words"),
    [(7, "the worker's process ended with exit code 7"), (-11, "the worker's process was ended by SIGSEGV")],
)
def test_how_a_worker_ended_is_told_in_words_u3(code: int, words: str) -> None:
    assert ending_of(code) == words


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_worker_with_the_pid_of_one_that_spark_killed_is_written_down(
    is_gone: bool,  # noqa: FBT001 - a case
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`is_gone`: the killed one was out of the process table already."""
    table: list[SimpleNamespace] = []

    def kill(pid: int, number: int) -> None:
        if is_gone:
            raise ProcessLookupError
        table.append(SimpleNamespace(si_pid=pid, si_code=os.CLD_KILLED, si_status=number))

    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(os, "waitid", lambda *given: table[0] if table else None)
    monkeypatch.setattr(os, "waitpid", lambda pid, options: table.pop(0))
    ends = daemon._Ends(tmp_path / "ended")

    with suppress(ProcessLookupError):
        ends._kill_for_spark(77, signal.SIGKILL)
    ends._reap()
    table.append(SimpleNamespace(si_pid=77, si_code=os.CLD_KILLED, si_status=signal.SIGSEGV))
    ends._reap()

    assert (tmp_path / "ended").read_text() == "[77,-11]\n"
