"""Bad usage answers 4 with a reason before anything is opened; help needs nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.cli.run import run
from harness.system.errors import Exit, FloodmarkError, HarnessError, NothingRan, UsageError, WorldError
from tools.cases import each

CALM = "calm"
COMMANDS = ["demo", "run", "check", "list", "doctor", "setup", "clean", "bench"]


@pytest.fixture(autouse=True)
def nothing_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No world may be opened, no folder of ours be made; and no setting of this repository counts."""

    def opened(*_: Any, **__: Any) -> Any:
        pytest.fail("a world was opened")

    monkeypatch.setattr("harness.engine.worlds.open_world", opened)
    monkeypatch.setattr("harness.engine.worlds.open_ledger", opened)
    monkeypatch.chdir(tmp_path)


@each(
    ("words", "says"),
    [
        (["run"], "no scenario is named"),
        (["run", "clam"], "did you mean `calm`"),
        (["run", "no/such/file.yaml"], "no/such/file.yaml"),
        (["run", CALM, "--mutant", "no-such"], "no mutant called 'no-such'"),
        (["run", CALM, "--sut", "refrence"], "did you mean 'reference'"),
        (["run", CALM, "--sut", "no_such_module_at_all:lookup"], "no_such_module_at_all"),
        (["run", CALM, "--sut", "json:dumps", "--mutant", "unordered-emission"], "async def"),
        (["run", CALM, "--level", "moon"], "moon"),
        (["run", CALM, "--world", "cloud"], "cloud"),
        (["run", CALM, "--proxy", "ours"], "ours"),
        (["run", CALM, "--seed", "-1"], "-1"),
        (["run", CALM, "--seed", "seven"], "seven"),
        (["run", CALM, "--runs", "0"], "0"),
        (["run", CALM, "--jobs", "0"], "0"),
        (["run", CALM, "--budget", "0"], "0"),
        (["run", CALM, "--keep", "sometimes"], "sometimes"),
        (["run", CALM, "--keep", "database", "--level", "sim"], "level sim has no database server"),
        (["run", CALM, "--keep", "database", "--world", "containers"], "--world local"),
        (["run", CALM, "--format", "xml"], "xml"),
        (["run", CALM, "--levle", "live"], "--level"),
        (["run", CALM, "--set", "workload.recrods=9"], "records"),
        (["run", CALM, "--set", "workload.records"], "workload.records"),
        (["run", CALM, "--set", "workload.records=many"], "many"),
        (["demo", "--level", "moon"], "moon"),
        (["demo", "calm"], "calm"),
        (["list", "toxics"], "toxics"),
        (["rnu"], "rnu"),
        (["--no-such"], "--no-such"),
        ([], "Commands"),
    ],
)
def test_bad_usage_is_refused_before_a_world_is_opened(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(words)

    said = capsys.readouterr()
    assert code == Exit.USAGE
    assert says in said.err + said.out
    assert "Traceback" not in said.err


def test_a_scenario_with_mistakes_is_refused_with_their_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text("scenario: bad\nabout: A scenario with mistakes.\nworkloda: {}\n")

    code = main(["run", "bad.yaml"])

    assert code == Exit.USAGE
    assert "bad.yaml:3:1" in capsys.readouterr().err


def test_a_level_that_a_scenario_does_not_run_at_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", CALM, "--set", "levels=[live]", "--level", "spark"]) == Exit.USAGE

    assert "choose --level live\n" in capsys.readouterr().err


def test_an_empty_folder_has_nothing_to_run(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()

    assert main(["run", "mine"]) == Exit.NOTHING_RAN


def test_an_environment_variable_is_checked_like_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOODMARK_LEVEL", "moon")

    assert main(["run", CALM]) == Exit.USAGE


def test_a_setting_of_the_project_is_checked_like_its_option(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.floodmark]\nlevel = 'moon'\n")

    assert main(["run", CALM]) == Exit.USAGE


def test_a_setting_that_does_not_exist_is_refused_by_every_command(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.floodmark]\nlevle = 'live'\n")

    assert main(["list", "suts"]) == Exit.USAGE


def _raises(error: BaseException) -> Callable[..., Any]:
    def raising(*_: Any, **__: Any) -> Any:
        raise error

    return raising


@each(
    ("error", "code"),
    [
        (UsageError("x"), Exit.USAGE),
        (NothingRan("x"), Exit.NOTHING_RAN),
        (WorldError("x"), Exit.ENVIRONMENT),
        (HarnessError("x"), Exit.INTERNAL),
        (FloodmarkError("x"), Exit.INTERNAL),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (ZeroDivisionError("ours"), Exit.INTERNAL),
    ],
)
def test_every_ending_has_its_documented_exit_code(
    error: BaseException, code: Exit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "callback", _raises(error))

    assert main(["run", CALM]) == code

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err


def test_a_defect_of_ours_says_that_it_is_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "callback", _raises(ZeroDivisionError("ours")))

    main(["run", CALM])

    said = capsys.readouterr().err
    assert "internal error (ZeroDivisionError)" in said
    assert "report it" in said


_HELP = f"""
import sys, json
from harness.cli.main import main
codes = [main([*words, "--help"]) for words in {[[], *([name] for name in COMMANDS)]!r}]
loaded = sorted({{name.partition(".")[0] for name in sys.modules}})
print(json.dumps([codes, loaded]), file=sys.stderr)
"""


def test_help_of_every_command_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _HELP], capture_output=True, text=True, check=True, timeout=60
    )

    codes, loaded = json.loads(done.stderr)
    assert set(codes) == {0}
    heavy = {
        "asyncmy",
        "docker",
        "faker",
        "jinja2",
        "pyarrow",
        "pydantic",
        "pymysql",
        "pyspark",
        "ruamel",
        "testcontainers",
    }
    assert heavy.isdisjoint(loaded)
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)
    assert done.stdout.count("Usage: floodmark") == len(COMMANDS) + 1


def test_code_that_leaves_the_program_never_makes_it_a_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def leaves(*_: Any, **__: Any) -> Any:
        raise SystemExit(0)

    monkeypatch.setattr("harness.scenario.catalogue.resolve", leaves)

    assert main(["run", CALM]) == Exit.INTERNAL
    assert "SystemExit" in capsys.readouterr().err


def test_a_mistyped_command_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runn", CALM]) is Exit.USAGE

    assert "No such command 'runn'. Did you mean 'run'?" in capsys.readouterr().err
