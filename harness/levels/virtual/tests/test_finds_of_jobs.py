"""What the commands make of jobs in virtual time: explore, shrink, replay, diff, certify, and `job all`."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.levels.virtual.tests.virtual_jobs import EXAMPLES, JOBS
from harness.system.errors import Exit

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

Said = Callable[[str], tuple[Exit, str]]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs a command in an empty folder; (exit code, what it printed)."""
    monkeypatch.chdir(tmp_path)

    def run(words: str) -> tuple[Exit, str]:
        there = "" if words.startswith("diff ") else " --world local"
        code = Exit(main(shlex.split(words + there)))
        return code, "".join(capsys.readouterr())

    return run


def example(name: str) -> str:
    return str(EXAMPLES / f"{name}.toml")


def test_an_exploration_saves_a_small_find_that_repeats_to_the_byte(said: Said) -> None:
    code, text = said(f"explore --job {example('rows_first')} --seed 1 --budget 60s")

    assert code == Exit.VIOLATION, text
    assert re.search(r"^shrunk   V8 duplicate: .* -> 1 fault, 1 record$", text, re.MULTILINE), text
    (saved,) = Path("found").glob("V8-duplicate-*.yaml")
    for folder in ("one", "two"):
        code, text = said(f"job {saved} --report {folder}")
        assert code == Exit.VIOLATION, text
        assert "shown    V8 duplicate: yes, as its file says" in text
    code, text = said("diff one two")
    assert code == Exit.HOLD, text
    code, text = said("replay one --report three")
    assert code == Exit.VIOLATION, text
    assert re.search("^same     found-v8-duplicate-", text, re.MULTILINE), text


def test_an_exploration_of_a_right_job_convicts_nothing(said: Said) -> None:
    code, text = said(f"explore --job {example('job')} --seed 2 --runs 30 --budget 100s")

    assert code == Exit.HOLD, text
    assert "verdicts pass" in text
    assert "fail" not in text


def test_a_failed_run_of_a_report_is_shrunk_whatever_its_level_was(said: Said) -> None:
    code, text = said(
        f"job late-commit --job {example('one_transaction')} --level sim --seed 3 --report report"
    )
    assert code == Exit.VIOLATION, text

    code, text = said("shrink report --found small")

    assert code == Exit.VIOLATION, text
    (saved,) = Path("small").glob("V8-duplicate-*.yaml")
    assert "records: 1\n" in saved.read_text()


def test_a_find_that_is_not_shown_any_more_is_no_hold(said: Said, tmp_path: Path) -> None:
    for file in EXAMPLES.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    _, text = said("explore --job offset_first.toml --seed 1 --budget 60s")
    (saved,) = Path("found").glob("V8-lost-*.yaml")
    assert f"again    floodmark job {saved}" in text
    Path("offset_first.py").write_text(Path("job.py").read_text())

    code, text = said(f"job {saved}")

    assert code == Exit.UNDECIDED, text
    assert "shown    V8 lost: NO, and its file says so" in text
    code, text = said(f"shrink {saved}")
    assert code == Exit.UNDECIDED
    assert "does not show V8 lost in virtual time" in text


def test_a_job_that_fails_undisturbed_is_not_explored(said: Said, tmp_path: Path) -> None:
    for name in ("job.toml", "sink.sql"):
        shutil.copy(EXAMPLES / name, tmp_path)
    Path("job.py").write_text("raise SystemExit('no customers today')\n")

    code, text = said("explore --job job.toml --seed 1 --budget 20s")

    assert code == Exit.ENVIRONMENT, text
    assert "no customers today" in text


def test_a_pipeline_is_certified_in_virtual_time(said: Said) -> None:
    code, text = said(f"certify --sut {example('job')} --level sim --runs 1 --seed 1 --report out")

    assert code == Exit.UNDECIDED, text
    assert "12 of 13 runs made: 12 hold, 0 do not. Two judges judged 12 of them and agree on 12." in text
    assert (
        "lets answers overtake one, and the job never has two connections"
        in Path("out/index.html").read_text()
    )
    told = json.loads(Path("out/certificate.json").read_text())
    assert told["level"] == "job-sim"


def test_of_all_scenarios_those_run_in_virtual_time_that_need_no_server_of_their_own(said: Said) -> None:
    _, text = said(f"job all --job {example('job')} --budget 1")

    plan = re.search(r"at level job-sim \((\d+)\), job \((\d+)\)", text)
    assert plan is not None, text
    virtual, real = map(int, plan.groups())
    assert virtual > real > 0


def test_at_level_sim_what_needs_a_server_of_its_own_is_left_out_of_all_and_refused_by_name(
    said: Said,
) -> None:
    code, text = said(f"job all --job {example('job')} --level sim --tag database --seed 1")

    assert code == Exit.HOLD, text
    assert "5 left out: 5 need real time" in text
    code, text = said(f"job server-killed --job {example('job')} --level sim")
    assert code == Exit.USAGE
    assert "needs a server that may be killed" in text


def test_all_scenarios_of_a_job_that_leaves_virtual_time_run_in_real_time(said: Said, tmp_path: Path) -> None:
    for file in (JOBS / "job.toml", JOBS / "leaves.py", EXAMPLES / "sink.sql"):
        shutil.copy(file, tmp_path)
    file = tmp_path / "job.toml"
    file.write_text(re.sub("command = .*", 'command = ["python", "leaves.py", "thread"]', file.read_text()))

    _, text = said("job all --job job.toml --budget 1")

    assert re.search(r"level    job, in real time: the job starts a thread \(.*leaves.py:\d+\)", text), text
    assert "at level job," in text
