"""The command line, whole: what a user types, on a local world, and what is left behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.cli.main import main
from harness.system.clock import Deadline, wait_until
from harness.system.errors import Exit, WorldError
from harness.tests.harness_defects import invents_counts
from harness.world.settings import Places, WorldSettings
from harness.world.setup.opening import WorldAsked, choose_world

pytestmark = pytest.mark.real

LIMIT_S = 60.0
SMALL = [
    "--set", "workload.records=120", "--set", "workload.rate=600/s", "--set", "workload.service=5ms",
    "--set", "expects.records=1", "--set", "expects.checkpoints=1",
]  # fmt: skip
"""Makes `calm` a matter of half a second."""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A cache of this test's own, with the programs of the real one."""
    real = WorldSettings.from_environment()
    try:
        choose_world("local", WorldAsked(settings=real, offline=True, say=print))
    except WorldError as lacking:
        pytest.skip(str(lacking))
    own = Places(root=tmp_path / "cache")
    own.root.mkdir()
    for shared in ("servers", "bin", "datadirs"):
        (real.places.root / shared).mkdir(parents=True, exist_ok=True)
        (own.root / shared).symlink_to(real.places.root / shared)
    return own


@pytest.fixture
def command(places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Exit]]:
    """Runs a command in this process, in an empty folder; afterwards nothing is left but the report."""
    monkeypatch.setenv("FLOODMARK_CACHE", str(places.root))
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Exit:
        return Exit(main([*words, "--world", "local", "--offline", "--report", "report"]))

    yield run
    assert left(places) == []


def left(places: Places) -> list[str]:
    """Ledgers, scratch folders and locks of ports."""
    return [path.name for folder in (places.runs, places.ports) for path in folder.iterdir()]


def document(folder: Path) -> Any:
    return json.loads((folder / "run.json").read_text())


def test_a_run_that_passes_answers_0_and_leaves_a_report_whose_command_runs_it_again(
    command: Callable[..., Exit], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("run", "calm", "--seed", "7", *SMALL) is Exit.HOLD

    said = capsys.readouterr()
    assert "local world" in said.err.splitlines()[0]
    assert "seed 7" in said.err
    report = tmp_path / "report"
    names = {path.name for path in report.iterdir()}
    assert {"index.html", "junit.xml", "run.json", "summary.md", "runs"} <= names
    assert (
        f"floodmark run calm --level live --world local --proxy auto --seed 7 {shlex.join(SMALL)}"
        in (report / "run.json").read_text()
    )


def test_a_scenario_of_ones_own_is_repeated_by_its_file(command: Callable[..., Exit], tmp_path: Path) -> None:
    (tmp_path / "my own.yaml").write_text(
        "scenario: mine\nabout: A scenario of a user's own.\noperator: {mode: ordered}\n"
        "workload: {records: 60, rate: 600/s, checkpoint_every: 20}\ndecisive: [V8]\n"
    )

    assert command("run", "my own.yaml", "--seed", "7") is Exit.HOLD

    text = (tmp_path / "report" / "run.json").read_text()
    assert "floodmark run 'my own.yaml' --level live" in text


@pytest.mark.parametrize("convicted", ["unordered-emission", "faults-do-nothing"])
def test_a_planted_defect_that_is_convicted_answers_0(command: Callable[..., Exit], convicted: str) -> None:
    assert command("run", "latency-spike-ordered", "--mutant", convicted) is Exit.HOLD


def test_a_planted_defect_that_survives_answers_1(command: Callable[..., Exit]) -> None:
    assert command("run", "latency-spike-ordered", "--mutant", "segment-leak") is Exit.VIOLATION


def test_a_budget_that_is_over_answers_10_and_reports_what_ran(
    command: Callable[..., Exit], tmp_path: Path
) -> None:
    code = command("run", "calm", "--set", "workload.rate=10/s", "--runs", "3", "--budget", "3")

    assert code is Exit.UNDECIDED
    assert len(list((tmp_path / "report" / "runs").iterdir())) < 3


def test_several_runs_at_a_time_have_a_world_each_and_are_reported_in_order(
    command: Callable[..., Exit], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("run", "calm", *SMALL, "--runs", "3", "--jobs", "2", "--seed", "40") is Exit.HOLD

    assert capsys.readouterr().err.count("ready in") == 2
    assert len(list((tmp_path / "report" / "runs").iterdir())) == 3
    counted = document(tmp_path / "report")[
        "counted"
    ]  # `runs` has one of three that a busy machine made stand still
    assert [run["seed"] for run in counted] == [40, 41, 42]


def test_a_users_own_lookup_of_the_current_folder_passes(
    command: Callable[..., Exit], tmp_path: Path
) -> None:
    (tmp_path / "their_own_lookup.py").write_text(
        "async def lookup(record, pool):\n"
        "    row = await pool.fetch_one('SELECT name FROM customer WHERE k = %s', (record.key,))\n"
        "    return row[0]\n"
    )

    assert command("run", "calm", *SMALL, "--sut", "their_own_lookup:lookup") is Exit.HOLD


def test_a_lookup_that_swallows_errors_is_convicted_by_its_calm_twin_u1(
    command: Callable[..., Exit], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "their_swallowing_lookup.py").write_text(
        "async def lookup(record, pool):\n"
        "    try:\n"
        "        return await pool.fetch_one('SELECT name, SLEEP(0.01) FROM customer WHERE k = %s', (record.key,))\n"
        "    except Exception:\n"
        "        return []\n"
    )
    asked = ("run", "connections-cut", "--sut", "their_swallowing_lookup:lookup", "--seed", "1")

    code = command(*asked)
    without = command(*asked, "--expected", "none")

    assert (code, without) == (Exit.VIOLATION, Exit.UNDECIDED)
    said = capsys.readouterr().out
    assert "The expected results are what the function returned before the run" in said
    assert "Values are not judged, because of `--expected none`." in said


def test_a_lookup_that_ends_its_process_is_refused_before_the_run_u1(
    command: Callable[..., Exit], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "their_last_lookup.py").write_text(
        "import os\n\n\nasync def lookup(record, pool):\n    os._exit(0)\n"
    )

    assert command("run", "calm", *SMALL, "--sut", "their_last_lookup:lookup") is Exit.USAGE

    assert (
        "your function fails without any fault: its process ended with exit code 0" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("keep", "kept"), [("never", False), ("on-failure", False), ("always", True), ("database", True)]
)
def test_raw_files_of_a_pass_stay_only_if_asked_for(
    command: Callable[..., Exit],
    tmp_path: Path,
    keep: str,
    kept: bool,  # noqa: FBT001 - a case
) -> None:
    assert command("run", "calm", *SMALL, "--keep", keep) is Exit.HOLD

    (run,) = (tmp_path / "report" / "runs").iterdir()
    assert (run / "history.jsonl").exists()
    assert (run / "raw").exists() is kept
    assert (run / "worker-000.log").exists() is kept


def test_a_kept_database_stays_in_the_report_with_the_line_that_opens_it_trust11(
    command: Callable[..., Exit], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("run", "calm", *SMALL, "--keep", "database") is Exit.HOLD

    server = tmp_path / "report" / "database" / "server-1"
    (database,) = server.glob("floodmark_*_001")
    assert (database / "output.ibd").exists()
    assert f"database {server}: start it with `" in capsys.readouterr().out


def test_the_passwords_are_in_no_file_of_the_report_and_in_nothing_that_is_said(
    command: Callable[..., Exit],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    secret = "f00df00df00df00df00d"
    monkeypatch.setattr("harness.world.local.fresh_secret", lambda: secret)

    command(
        "run",
        "kill-between-snapshot-and-commit",
        "--mutant",
        "tools.defects:sink_outside_transaction",
        "--keep",
        "always",
        "-v",
    )

    said = capsys.readouterr()
    assert secret not in said.out + said.err
    files = [path for path in (tmp_path / "report").rglob("*") if path.is_file()]
    assert any(path.parent.name == "raw" for path in files)
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_the_demo_sees_the_reference_pass_and_the_defect_convicted(
    command: Callable[..., Exit], tmp_path: Path
) -> None:
    assert command("demo", "--level", "live") is Exit.HOLD

    assert [run["mutant"] for run in document(tmp_path / "report")["runs"]] == [
        None,
        "snapshot-omits-completed",
    ]


def test_data_goes_to_standard_output_and_nothing_else_does(
    command: Callable[..., Exit], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("run", "calm", *SMALL, "--format", "json") is Exit.HOLD

    assert isinstance(json.loads(capsys.readouterr().out), dict)


class Interrupted:
    """`floodmark run` in a process of its own, to be interrupted."""

    def __init__(self, places: Places, folder: Path, *words: str) -> None:
        self.said = folder / "said"
        command = [
            sys.executable,
            "-c",
            "import sys; from harness.cli.main import main; sys.exit(main())",
            "run",
            *words,
        ]
        command += ["--world", "local", "--offline", "--report", "report"]
        environment = {
            **os.environ,
            "FLOODMARK_CACHE": str(places.root),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=said, stderr=said)
        self.started: list[psutil.Process] = []

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        met = wait_until(lambda: condition() or self.process.poll() is not None, deadline=Deadline(LIMIT_S))
        assert met, f"no {what} within {LIMIT_S} s: {self.said.read_text()}"
        assert self.process.poll() is None, self.said.read_text()

    def interrupt(self, number: signal.Signals) -> int:
        self.started = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(number)
        return self.process.wait(timeout=LIMIT_S)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_answers_2_writes_its_report_and_leaves_no_process(
    places: Places, tmp_path: Path, number: signal.Signals
) -> None:
    run = Interrupted(places, tmp_path, "calm", "--set", "workload.rate=20/s", "--runs", "2")
    try:
        run.wait_for(lambda: _has_output(places), "output of a subtask")

        code = run.interrupt(number)

        assert code == Exit.INTERRUPTED, run.said.read_text()
        assert (tmp_path / "report" / "index.html").exists()
        assert "interrupted" in (tmp_path / "report" / "run.json").read_text()
        assert "1 of 2 runs did not run" in run.said.read_text()
        assert len(run.started) >= 4  # server, proxy, two workers
        gone = wait_until(lambda: not any(map(_lives, run.started)), deadline=Deadline(LIMIT_S))
        assert gone, run.started
        assert left(places) == []
    finally:
        run.process.kill()


def test_an_interruption_while_the_world_opens_answers_2_and_leaves_nothing(
    places: Places, tmp_path: Path
) -> None:
    run = Interrupted(places, tmp_path, "calm")
    try:
        run.wait_for(lambda: "local world" in run.said.read_text(), "first line")

        code = run.interrupt(signal.SIGINT)

        assert code == Exit.INTERRUPTED, run.said.read_text()
        gone = wait_until(lambda: not any(map(_lives, run.started)), deadline=Deadline(LIMIT_S))
        assert gone, run.started
        assert left(places) == []
    finally:
        run.process.kill()


def _has_output(places: Places) -> bool:
    return any(b'"k":"out"' in path.read_bytes() for path in places.runs.glob("*/*/raw/subtask-*.jsonl"))


def _lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_a_defect_of_the_harness_ends_a_live_run_with_3_trust9(
    command: Callable[..., Exit], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    invents_counts(monkeypatch)

    assert command("run", "calm", "--level", "live", *SMALL) == Exit.INTERNAL
    assert "SQL counts 0 doubled" in capsys.readouterr().err
