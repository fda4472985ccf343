"""A user's pytest session: Floodmark is off until it is used, and then it is the user's function that is tested."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.system.errors import Exit
from harness.tests.tidy import ROOT

pytestmark = [pytest.mark.real, pytest.mark.long]

SCENARIO = """\
scenario: few
about: A few lookups of one subtask, without a fault.
operator: {mode: ordered}
workload: {records: 40, subtasks: 1, rate: 1000/s, checkpoint_every: 10}
decisive: [V8]
"""
FIND = f"""\
{SCENARIO}choices: {{seed: 5}}
shows: {{invariant: V8, kind: wrong-value, sut: 'enrich:wrong', expected: 'enrich:stated'}}
"""
LOOKUPS = """\
SHARED = {}


async def right(record, pool):
    row = await pool.fetch_one("SELECT name, city, tier FROM customer WHERE k = %s", (record.key,))
    return [] if row is None else [{"name": row[0], "city": row[1], "tier": row[2]}]


async def wrong(record, pool):
    for answer in await right(record, pool):
        SHARED.update(answer)
    return [SHARED]


def stated(record, rows):
    return []
"""


class Session:
    """A folder of a user's with two lookups and a scenario, in which pytest is called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("enrich.py", LOOKUPS)
        self.write("scenarios/few.yaml", SCENARIO)

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def tested(self, *words: str, test: str = "") -> subprocess.CompletedProcess[str]:
        """What pytest says, strict, and without the plugins of those who work on Floodmark."""
        if test:
            self.write("test_enrich.py", f"import pytest, enrich\n\n{test}")
        others = [word for name in ("timeout", "xdist", "cacheprovider") for word in ("-p", f"no:{name}")]
        command = [sys.executable, "-m", "pytest", "-p", "pytest_floodmark", *others]
        return subprocess.run(
            [*command, "-W", "error", "--strict-markers", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("SUT", "LEVEL", "SEED", "WORLD", "PROXY"):
        monkeypatch.delenv(f"FLOODMARK_{name}", raising=False)
    return Session(tmp_path)


def test_until_it_is_used_nothing_of_ours_is_imported_or_collected_u5(session: Session) -> None:
    session.write("harness/__init__.py", "THEIRS = True")
    session.write("scenarios/other.yaml", "stages: [of another tool]\n")

    done = session.tested(
        test="def test_theirs():\n    import harness, sys\n"
        "    assert harness.THEIRS\n    assert not {'reports', 'reference_impl'} & set(sys.modules)\n"
    )

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert "sut " not in done.stdout


def test_the_fixture_passes_a_right_function_and_shows_the_report_u5(session: Session) -> None:
    done = session.tested(
        test="def test_holds(floodmark):\n"
        "    floodmark.holds('scenarios/few.yaml', sut=enrich.right, level='sim', runs=3, seed=5)\n"
    )

    assert done.returncode == 0, done.stdout
    assert "sut      enrich:right" in done.stdout
    assert len(list(session.folder.glob("reports/out/*/runs/*/history.jsonl"))) == 1
    (file,) = session.folder.glob("reports/out/*/run.json")
    assert [run["seed"] for run in json.loads(file.read_bytes())["counted"]] == [5, 6, 7]


def test_the_assertions_text_is_what_the_command_prints_u5(session: Session) -> None:
    done = session.tested(
        test="def test_holds(floodmark):\n"
        "    floodmark.holds('scenarios/few.yaml', sut=enrich.wrong, runs=3, seed=5)\n"
    )

    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "E       AssertionError: few at level sim: fail in run 1 of 3, seed 5" in done.stdout
    assert re.search("^E +V8 exactly once: wrong-value: record ", done.stdout, re.MULTILINE)
    assert "--seed 5 --sut enrich:wrong" in done.stdout
    assert "_runs(" not in done.stdout, "the traceback has the user's line only"


def test_the_marker_runs_its_scenarios_before_the_body_u5(session: Session) -> None:
    done = session.tested(
        test="@pytest.mark.floodmark('scenarios/few.yaml', sut=enrich.wrong)\n"
        "def test_marked():\n    raise ValueError('the body')\n"
    )

    assert "few at level sim: fail" in done.stdout
    assert "the body" not in done.stdout.split("short test summary")[1]


def test_the_marker_gives_the_fixture_its_defaults_u5(session: Session) -> None:
    done = session.tested(
        test="pytestmark = pytest.mark.floodmark(sut=enrich.wrong, level='sim', seed=5)\n\n"
        "def test_marked(floodmark):\n    floodmark.holds('scenarios/few.yaml')\n\n"
        "def test_own(floodmark):\n    floodmark.holds('scenarios/few.yaml', sut=enrich.right)\n"
    )

    assert "1 failed, 1 passed" in done.stdout
    assert "--seed 5 --sut enrich:wrong" in done.stdout


def test_without_a_function_the_reference_is_not_tested_in_its_place_u5(session: Session) -> None:
    done = session.tested(test="def test_holds(floodmark):\n    floodmark.holds('scenarios/few.yaml')\n")

    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "no system under test is named" in done.stdout


@pytest.mark.parametrize("place", ["option", "environment", "pyproject"])
def test_the_named_function_is_tested_by_scenario_files_u3(
    session: Session, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    words = ["--floodmark-level", "sim", "scenarios"]
    match place:
        case "option":
            monkeypatch.setenv("FLOODMARK_SUT", "enrich:right")  # the option comes before it
            words += ["--floodmark-sut", "enrich:wrong"]
        case "environment":
            monkeypatch.setenv("FLOODMARK_SUT", "enrich:wrong")
            session.write("pyproject.toml", "[tool.floodmark]\nsut = 'enrich:right'\n")
        case _:
            session.write("pyproject.toml", "[tool.floodmark]\nsut = 'enrich:wrong'\n")

    done = session.tested(*words)

    assert done.returncode == Exit.VIOLATION, done.stdout
    assert "This run violates V8" in done.stdout
    assert "sut      enrich:wrong" in done.stdout


@pytest.mark.parametrize("place", ["environment", "pyproject"])
def test_a_saved_find_is_tested_with_its_own_function_h1(
    session: Session, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    session.write("scenarios/few.yaml", FIND)
    if place == "environment":
        monkeypatch.setenv("FLOODMARK_SUT", "enrich:right")
        monkeypatch.setenv("FLOODMARK_EXPECTED", "none")
    else:
        session.write("pyproject.toml", "[tool.floodmark]\nsut = 'enrich:right'\nlevel = 'live'\nseed = 9\n")

    done = session.tested("scenarios")

    assert done.returncode == Exit.VIOLATION, done.stdout
    assert "few[sim]" in done.stdout
    assert "sut      enrich:right" not in done.stdout
    assert "--level sim --seed 5 --sut enrich:wrong --expected enrich:stated" in done.stdout


def test_a_find_that_is_not_shown_fails_and_names_the_option_that_differs_h1(session: Session) -> None:
    session.write("scenarios/few.yaml", FIND)
    differs = "few: not the run of its file: --sut enrich:right in place of enrich:wrong"

    files = session.tested("scenarios", "--floodmark-sut", "enrich:right")
    fixture = session.tested(
        "test_enrich.py",
        test="def test_holds(floodmark):\n    floodmark.holds('scenarios/few.yaml', sut=enrich.right)\n",
    )

    assert files.returncode == Exit.UNDECIDED, files.stdout
    assert f"\n{differs}" in files.stdout
    assert f"AssertionError: {differs}" in fixture.stdout
    assert "few does not show V8 wrong-value" in fixture.stdout


def test_what_is_expected_is_handed_over_to_the_run_u5(session: Session) -> None:
    words = ["--floodmark-sut", "enrich:wrong", "--floodmark-expected", "enrich:stated"]

    done = session.tested("--floodmark-level", "sim", *words, "scenarios")

    assert done.returncode == Exit.VIOLATION, done.stdout
    assert "--sut enrich:wrong --expected enrich:stated" in done.stdout


def test_a_scenario_file_that_is_named_is_a_test_without_any_option_u5(session: Session) -> None:
    session.write("pyproject.toml", "[tool.floodmark]\nsut = 'enrich:right'\nlevel = 'sim'\n")

    done = session.tested("scenarios/few.yaml")

    assert done.returncode == 0, done.stdout
    assert "sut      enrich:right" in done.stdout


def test_a_wrong_setting_ends_the_session_with_a_sentence_u5(session: Session) -> None:
    session.write("pyproject.toml", "[tool.floodmark]\nsuit = 'enrich:right'\n")

    done = session.tested("--floodmark-level", "sim", "scenarios")

    assert done.returncode == Exit.USAGE
    assert "did you mean 'sut'?" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_package_of_theirs_called_harness_that_comes_first_is_told_in_a_sentence_u5(
    session: Session,
) -> None:
    session.write("harness/__init__.py", "THEIRS = True")

    done = session.tested(
        test="import harness\n\ndef test_holds(floodmark):\n    floodmark.holds('calm', sut=enrich.right)\n"
    )

    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert f"`harness` is the package in {session.folder}/harness/__init__.py" in done.stdout


def test_beside_a_package_of_theirs_that_nobody_imported_it_works_u5(session: Session) -> None:
    for name in ("harness", "reports", "scenarios"):
        session.write(f"{name}/__init__.py", "")

    done = session.tested(
        test="def test_holds(floodmark):\n    floodmark.holds('scenarios/few.yaml', sut=enrich.right)\n"
    )

    assert done.returncode == 0, done.stdout
