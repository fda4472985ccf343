"""The pytest plugin: a scenario file is a test, green only by a `pass`; the exit code is the worst verdict's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.system.errors import Exit
from harness.tests.real_world import real_world

pytestmark = pytest.mark.real

SOUND = """\
scenario: mine
about: A scenario of a user's own.
operator: {mode: ordered}
workload: {records: 60, rate: 600/s, checkpoint_every: 20}
decisive: [V8]
"""


BLIND = """\
import pytest

from harness.tests.harness_defects import acquits_everything

acquits_everything(pytest.MonkeyPatch())
"""


class Project:
    """A user's project with one scenario, and the outcome of its tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "scenarios").mkdir()

    def tested(self, text: str, *words: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "scenarios" / "mine.yaml").write_text(text)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "pytest_floodmark",
            "-p",
            "no:cacheprovider",
            "scenarios",
        ]
        return subprocess.run(
            [*command, "--floodmark-world", "local", "--floodmark-report", "report", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return Project(tmp_path)


@pytest.fixture(scope="module", autouse=True)
def _a_world_can_be_had() -> None:
    with real_world("local"):
        pass


def test_a_scenario_that_passes_is_a_green_test_with_a_report(project: Project) -> None:
    done = project.tested(SOUND, "--floodmark-seed", "7")

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert "seed     7" in done.stdout
    assert (project.folder / "report" / "index.html").exists()


def test_a_scenario_that_is_not_proven_fails_with_its_verdict_and_exit_code(project: Project) -> None:
    done = project.tested(SOUND.replace("600/s", "5/s") + "budget: 700ms\n")

    assert done.returncode == Exit.UNDECIDED, done.stdout
    assert "mine[live]" in done.stdout
    assert "budget" in done.stdout
    assert f"floodmark run {project.folder / 'scenarios' / 'mine.yaml'}" in done.stdout


def test_a_defect_of_the_harness_fails_the_session_with_3_trust9(project: Project) -> None:
    """A plugin of the user plants it: the screen acquits whatever it is shown."""
    (project.folder / "conftest.py").write_text(BLIND)

    tested = project.tested(SOUND, "--floodmark-level", "sim")

    assert tested.returncode == Exit.INTERNAL, tested.stdout
    assert "the harness is blind at level sim" in tested.stdout


def test_a_world_that_cannot_be_had_is_the_environments_failure(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOODMARK_MYSQLD", "/no/such/server")

    done = project.tested(SOUND)

    assert done.returncode == Exit.ENVIRONMENT, done.stdout
    assert "/no/such/server" in done.stdout
    assert "INTERNALERROR" not in done.stdout + done.stderr


def test_a_file_with_mistakes_is_a_collection_error_with_their_places(project: Project) -> None:
    done = project.tested(SOUND.replace("decisive", "decisiv"))

    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert "mine.yaml:5:1" in done.stdout


def test_a_scenario_for_jobs_is_not_collected_with_its_folder(project: Project) -> None:
    done = project.tested("job_scenario: mine\nabout: A scenario of a job.\n")

    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout


def test_a_level_that_was_not_asked_for_is_not_collected(project: Project) -> None:
    done = project.tested(SOUND + "levels: [spark]\n")

    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout


NOTHING_BITES = """\
faults:
  - {id: too-wide, do: bandwidth, link: lookups, direction: down, rate: 900000kB/s, when: {at: 20ms}, for: 50ms}
"""


@pytest.mark.long
def test_a_vacuous_run_is_repeated_as_often_as_asked_and_stays_vacuous(project: Project) -> None:
    done = project.tested(SOUND + NOTHING_BITES, "--floodmark-seed", "7", "--floodmark-repeat", "2")

    assert done.returncode == Exit.UNDECIDED, done.stdout
    assert "repeated mine[live]: seed 7 was vacuous: V23, " in done.stdout
    assert "repeated mine[live]: seed 1000000007 was vacuous: V23, " in done.stdout
    assert "--seed 2000000007" in done.stdout


SHOWS_NOTHING_AT_FIRST = """\
from dataclasses import replace

from harness.engine.open_levels import OpenLevels
from harness.history.verdict import Outcome

once = OpenLevels.run


def first_vacuous(self, order, **given):
    outcome = once(self, order, **given)
    if order.seed > 7:
        return outcome
    return replace(outcome, judgement=replace(outcome.judgement, outcome=Outcome.VACUOUS))


OpenLevels.run = first_vacuous
"""


@pytest.mark.long
def test_a_pass_after_a_vacuous_run_is_green_and_the_report_tells_of_the_other(project: Project) -> None:
    (project.folder / "conftest.py").write_text(SHOWS_NOTHING_AT_FIRST)

    done = project.tested(SOUND, "--floodmark-seed", "7", "--floodmark-repeat", "1")

    assert done.returncode == Exit.HOLD, done.stdout
    assert (
        "A run before this one was repeated because it showed nothing: seed 7"
        in (project.folder / "report" / "summary.md").read_text()
        + (project.folder / "report" / "index.html").read_text()
    )


@pytest.mark.long
def test_without_the_option_no_run_is_repeated(project: Project) -> None:
    done = project.tested(SOUND + NOTHING_BITES, "--floodmark-seed", "7")

    assert done.returncode == Exit.UNDECIDED, done.stdout
    assert "repeated" not in done.stdout
