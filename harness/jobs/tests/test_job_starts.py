"""Starts of a job: what cannot be started is told with the command as its cause, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import WorldError
from harness.jobs.processes import JobStarts


def _starts(folder: Path, *, logs: Path) -> JobStarts:
    nothing: Any = None
    (folder / "job").write_text("no program")
    (folder / "job").chmod(0o755)
    return JobStarts(
        command=[str(folder / "job")],
        folder=folder,
        logs=logs,
        run_id="r",
        links={},
        peers=nothing,
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
