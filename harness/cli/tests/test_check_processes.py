"""`floodmark check` as a process: pipes that close, disks that fill, Ctrl-C, several processes; what is left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.system.clock import Deadline, wait_until
from harness.system.errors import Exit

MAIN = "from harness.cli.main import main; sys.exit(main())"
COMMAND = [sys.executable, "-c", f"import sys; {MAIN}", "check"]
CRAMPED = [
    sys.executable,
    "-c",
    f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (99, 99)); {MAIN}",
    "check",
]
"""A process whose disk holds 99 bytes a file."""
LIMIT_S = 60.0
HEADER = {"history": 1, "operator": {"mode": "ordered", "capacity": 2, "timeout_ms": 0}}
START = {"n": 1, "t": 0, "k": "start", "s": 0, "a": 1, "from": None, "pos": 0}
GHOST = {"n": 2, "t": 0, "k": "out", "s": 0, "a": 1, "id": 7, "j": 0, "v": 1}
FAILING = "".join(json.dumps(line) + "\n" for line in (HEADER, START, GHOST)).encode()
VACUOUS = "".join(json.dumps(line) + "\n" for line in (HEADER, START)).encode()


pytestmark = pytest.mark.real
"""Not of a server, but each starts commands as processes, and some wait for signals."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "spool").mkdir()
    (tmp_path / "failing.jsonl").write_bytes(FAILING)
    (tmp_path / "vacuous.jsonl").write_bytes(VACUOUS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "spool"))
    return tmp_path


def done(
    words: Sequence[str], command: Sequence[str] = COMMAND, **rest: Any
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*command, *words], check=False, stderr=subprocess.PIPE, timeout=LIMIT_S, **rest)


def test_a_reader_who_has_gone_is_no_violation() -> None:
    with subprocess.Popen(
        [*COMMAND, "failing.jsonl"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as checking:
        assert checking.stdout is not None
        assert checking.stderr is not None
        checking.stdout.close()
        told = checking.stderr.read()

    assert checking.returncode == Exit.INTERRUPTED
    assert told == b"floodmark: interrupted: the reader of standard output has closed it\n"


def test_a_full_disk_behind_standard_output_is_the_environment_s_failure() -> None:
    with Path("/dev/full").open("wb") as full:
        checked = done(["failing.jsonl"], stdout=full)

    assert checked.returncode == Exit.ENVIRONMENT
    assert checked.stderr.startswith(
        b"floodmark: standard output cannot be written: No space left on device\n"
    )
    assert b"Traceback" not in checked.stderr


def test_no_room_for_standard_input_is_the_environment_s_failure(folder: Path) -> None:
    checked = done(["-"], CRAMPED, input=FAILING)

    assert checked.returncode == Exit.ENVIRONMENT
    assert checked.stderr.startswith(b"floodmark: standard input cannot be kept in ")
    assert b"TMPDIR" in checked.stderr
    assert not list((folder / "spool").iterdir())


def test_ctrl_c_answers_2_and_leaves_nothing(folder: Path) -> None:
    with subprocess.Popen([*COMMAND, "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as checking:
        assert checking.stdin is not None
        assert checking.stderr is not None
        checking.stdin.write(FAILING + b" " * (1 << 20))
        checking.stdin.flush()
        spooling = wait_until(lambda: any((folder / "spool").iterdir()), deadline=Deadline(LIMIT_S))
        checking.send_signal(signal.SIGINT)
        told = checking.stderr.read()

    assert spooling
    assert checking.returncode == Exit.INTERRUPTED
    assert told.strip() == b"floodmark: interrupted"
    assert not list((folder / "spool").iterdir())


def test_several_at_a_time_answer_in_the_order_of_the_files() -> None:
    files = ["failing.jsonl", "vacuous.jsonl", "failing.jsonl"]

    checked = done([*files, "--jobs", "2", "--format", "json"], stdout=subprocess.PIPE)

    said = [json.loads(line)["verdict"] for line in checked.stdout.splitlines()]
    assert said == ["fail", "unknown", "fail"]
    assert checked.returncode == Exit.VIOLATION
    assert not checked.stderr
