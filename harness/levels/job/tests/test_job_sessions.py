"""A job in a user's pytest session and from a program: a conviction fails the test, a job file is a test if named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.init import JOB_FILES, MARKED_COMMIT
from harness.system.errors import Exit
from harness.testing import Outcome, job
from harness.tests.tidy import ROOT

pytestmark = [pytest.mark.real, pytest.mark.long]

_TWO = 'scenarios = ["calm-job", "killed-before-commit"]'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name, text in JOB_FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    uncommented = JOB_FILES["job.toml"].replace('# scenarios = ["late-commit"]', _TWO)
    (tmp_path / "job.toml").write_text(uncommented)
    return tmp_path


def _tested(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    plain = ["-p", "pytest_floodmark", "-p", "no:cacheprovider", "-W", "error"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plain, "--floodmark-world", "local", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def _break(folder: Path) -> None:
    job = folder / "job.py"
    job.write_text(job.read_text().replace(MARKED_COMMIT, MARKED_COMMIT.removeprefix("# ")))


def test_the_beginning_of_a_job_passes_and_its_marked_line_is_convicted(project: Path) -> None:
    right = _tested(project, "job.toml")
    _break(project)
    wrong = _tested(project, "job.toml")

    assert right.returncode == 0, right.stdout + right.stderr
    assert "2 passed" in right.stdout
    assert wrong.returncode == Exit.VIOLATION, wrong.stdout + wrong.stderr
    assert "FAILED job.toml::killed-before-commit" in wrong.stdout
    assert "1 passed" in wrong.stdout
    assert "10 lost (V8 lost)" in wrong.stdout


def test_the_fixture_takes_the_job_beside_the_test_and_fails_with_what_was_lost(project: Path) -> None:
    _break(project)
    for name in JOB_FILES:
        (project / "inner" / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).rename(project / "inner" / name)
    test = "def test_it(floodmark):\n    floodmark.job('killed-before-commit', seed=7)\n"
    (project / "inner" / "test_job.py").write_text(test)

    done = _tested(project, "inner")

    assert done.returncode != 0
    assert "killed-before-commit at level job: fail in run 1 of 1, seed 7" in done.stdout
    assert "10 lost (V8 lost)" in done.stdout


def test_a_program_gets_the_verdict_of_a_job_and_its_report(project: Path, tmp_path: Path) -> None:
    _break(project)

    judged = job("killed-before-commit", job=project / "job.toml", seed=7, world="local")

    assert judged.level == "job"
    assert judged.outcome is Outcome.FAIL
    assert "10 lost (V8 lost)" in judged.verdict.explanation
    assert "What the table shows" in judged.report(tmp_path / "report").read_text()


def test_what_the_job_cannot_meet_is_left_out_and_counted_and_fails_if_it_was_named(project: Path) -> None:
    named = (project / "job.toml").read_text()
    (project / "job.toml").write_text(named.replace(_TWO, ""))
    left_out = _tested(project, "job.toml", "--floodmark-tag", "kafka")
    (project / "job.toml").write_text(named.replace(_TWO, 'scenarios = ["broker-killed"]'))
    refused = _tested(project, "job.toml")

    assert "1 skipped" in left_out.stdout
    assert "1 left out: 1 needs Kafka" in left_out.stdout
    assert refused.returncode != 0
    assert (
        "broker-killed cannot run here: `kill_broker` (fault broker) acts on another source" in refused.stdout
    )


def test_a_job_file_with_a_mistake_is_a_collection_error_with_its_line(project: Path) -> None:
    (project / "job.toml").write_text('[job]\ncomand = ["python", "job.py"]\n')

    done = _tested(project, "job.toml")

    assert "job.toml:2" in done.stdout
    assert "did you mean `command`" in done.stdout


def test_a_toml_file_that_is_no_job_is_not_collected(project: Path) -> None:
    (project / "other.toml").write_text("[tool]\n")

    done = _tested(project, "other.toml")

    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout + done.stderr


def test_a_job_file_in_a_folder_is_not_collected(project: Path) -> None:
    (project / "test_job.py").unlink()

    done = _tested(project, ".")

    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout + done.stderr
