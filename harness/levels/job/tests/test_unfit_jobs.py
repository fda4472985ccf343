"""Jobs that cannot be judged: each ends with one clear line, the right exit code, and nothing of it left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil
import pytest

from harness.cli.init import JOB_FILES
from harness.system.clock import Deadline, wait_until
from harness.system.errors import Exit
from harness.tests.tidy import ROOT

pytestmark = [pytest.mark.real, pytest.mark.long]

LIMIT_S = 240.0
_COMMAND: Final = '["python", "job.py"]'
_MAIN: Final = 'if __name__ == "__main__":\n    main()'
_JOB: Final = JOB_FILES["job.py"]


class Unfit:
    """A folder with a job of one's own, and the command that puts it under fire."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tag = f"MARK_OF_{folder.name}"
        for name, text in JOB_FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def change(self, name: str, changes: Mapping[str, str]) -> None:
        text = (self.folder / name).read_text()
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        (self.folder / name).write_text(text)

    def words(self, *, budget: str = "20s") -> list[str]:
        small = ["--set", "records=30", "--set", "offer=all", "--set", f"budget={budget}"]
        name = "killed-before-commit"
        return [sys.executable, "-m", "harness", "job", name, "--job", "job.toml", "--world", "local", *small]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), self.tag: "1"}  # noqa: TID251 - of the command under test

    def ran(self, *, budget: str = "20s") -> tuple[int, str]:
        """Exit code and what was said on standard error; nothing that it started may live."""
        done = subprocess.run(
            self.words(budget=budget),
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert not self.left(), "a process of the run is left"
        return done.returncode, done.stderr

    def left(self) -> list[int]:
        """Every process that inherited this test's mark, of the job or of its world."""
        found = []
        for process in psutil.process_iter():
            try:
                if self.tag in process.environ() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.pid)
            except (psutil.AccessDenied, psutil.NoSuchProcess):
                continue
        return found


@pytest.fixture
def unfit(tmp_path: Path) -> Unfit:
    return Unfit(tmp_path)


def test_a_command_that_is_not_found_is_refused_before_anything_starts(unfit: Unfit) -> None:
    unfit.change("job.toml", {_COMMAND: '["pyton", "job.py"]'})

    code, said = unfit.ran()

    assert code == Exit.USAGE
    assert "the job's command pyton was not found" in said
    assert "world" not in said.partition("floodmark:")[0]


def test_a_job_that_never_starts_is_told_with_its_last_words(unfit: Unfit) -> None:
    unfit.write("job.py", "raise RuntimeError('APP_HOME is not set')\n")

    code, said = unfit.ran()

    assert code == Exit.ENVIRONMENT
    assert "the job does not work undisturbed: the job exited with code 1" in said
    assert "RuntimeError: APP_HOME is not set" in said


def test_a_job_that_prints_nothing_and_does_nothing_ends_at_the_limit(unfit: Unfit) -> None:
    unfit.write("job.py", "import signal\nsignal.pause()\n")
    unfit.change("job.toml", {'ends = "exit"  ': 'ends = "settles"'})

    code, said = unfit.ran(budget="4s")

    assert code == Exit.ENVIRONMENT
    assert "the job does not work undisturbed: after 12 s the job was not done" in said
    assert "it printed nothing" in said


def test_a_job_that_asks_for_a_password_is_told_to_take_it_from_its_environment(unfit: Unfit) -> None:
    unfit.write("job.py", "import getpass\ngetpass.getpass('Password: ')\n")

    code, said = unfit.ran()

    assert code == Exit.ENVIRONMENT
    assert "it asked for input, and there is no terminal" in said


def test_a_job_that_goes_to_the_background_is_told_to_stay(unfit: Unfit) -> None:
    forks = (
        "import sys\nif os.fork():\n    sys.exit(0)\nos.setsid()\nif os.fork():\n    os._exit(0)\nmain()\n"
    )
    stays = "import signal\nsignal.pause()\n"
    unfit.change("job.py", {_MAIN: forks + stays})

    code, said = unfit.ran()

    assert code == Exit.ENVIRONMENT
    assert "its main process exited with code 0, and process" in said
    assert "run it in the foreground" in said


def test_a_job_that_ignores_term_is_killed_and_judged(unfit: Unfit) -> None:
    ignores = "import signal\n\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nimport json"
    unfit.change("job.py", {"import json": ignores, "        elif ended:\n            return\n": ""})
    unfit.change(
        "job.toml",
        {
            'ends = "exit"  ': 'ends = "settles"',
            '# stop = {signal = "TERM", grace = "10s"}': 'stop = {grace = "1s"}',
        },
    )

    code, said = unfit.ran()

    assert code == Exit.HOLD, said
    assert "was ended by SIGKILL (harness)" in said


def test_a_job_that_writes_to_another_table_is_told_which(unfit: Unfit) -> None:
    unfit.change("job.py", {"INSERT INTO enriched": "INSERT INTO other"})
    unfit.change(
        "sink.sql", {"CREATE TABLE progress": "CREATE TABLE other LIKE enriched;\nCREATE TABLE progress"}
    )

    code, said = unfit.ran()

    assert code == Exit.ENVIRONMENT
    assert "it wrote to other (30 rows): should [sink] name that table?" in said


def test_a_table_without_the_id_column_is_a_mistake_of_the_job_file(unfit: Unfit) -> None:
    unfit.change("job.toml", {'id = ["id"]': 'id = ["order_id"]'})

    code, said = unfit.ran()

    assert code == Exit.USAGE
    assert "table enriched has no column order_id; its columns are id, k, name, city, tier" in said


def test_a_job_that_insists_on_tls_is_told_why_it_must_be_off(unfit: Unfit) -> None:
    insists = 'ssl={"check_hostname": False},\n        connect_timeout=5,'
    unfit.change("job.py", {"connect_timeout=5,": insists})

    code, said = unfit.ran()

    assert code == Exit.ENVIRONMENT
    assert "TLS must be off in the job" in said


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name
)
def test_nothing_of_a_job_is_left_after_the_harness_was_ended(unfit: Unfit, number: signal.Signals) -> None:
    """By SIGKILL the harness cannot clean up: `floodmark clean` ends what is left, the next command does the same."""
    begun = unfit.folder / "begun"
    unfit.write("job.py", f"import signal\nopen({str(begun)!r}, 'w').close()\nsignal.pause()\n")
    unfit.change("job.toml", {'ends = "exit"  ': 'ends = "settles"'})
    harness = subprocess.Popen(
        unfit.words(),
        cwd=unfit.folder,
        env=unfit.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert wait_until(begun.exists, deadline=Deadline(LIMIT_S))
        assert len(unfit.left()) > 1
        harness.send_signal(number)
        code = harness.wait(timeout=LIMIT_S)
    finally:
        harness.kill()
    if number is signal.SIGKILL:
        clean = [sys.executable, "-m", "harness", "clean"]
        environment = {name: value for name, value in unfit.environment().items() if name != unfit.tag}
        subprocess.run(
            clean, cwd=unfit.folder, env=environment, capture_output=True, timeout=LIMIT_S, check=True
        )

    assert wait_until(lambda: not unfit.left(), deadline=Deadline(60))
    assert number is signal.SIGKILL or code == Exit.INTERRUPTED
