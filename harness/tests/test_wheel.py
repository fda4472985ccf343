"""The wheel without extras, in an environment of its own: what a new user does first works, as the pages say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.init import MARKED
from harness.system.errors import Exit
from harness.tests.tidy import ROOT

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900)]

LIMIT_S = 600.0
TYPED = """\
from __future__ import annotations

from harness.testing import Floodmark, Run, Scenario, Verdict, check, load, run


async def lookup(record: object, pool: object) -> list[object]:
    return []


def test_enrich(floodmark: Floodmark) -> None:
    floodmark.holds("connections-cut", "at-call", sut=lookup, level="sim", runs=20)


def program(scenario: Scenario) -> Verdict:
    judged: Run = run(scenario, sut=lookup, level="sim", seed=7)
    print(judged.outcome, judged.verdict.holds, judged.history().to_pandas(), judged.report("out"))
    return check("out/history.jsonl")


program(load("calm"))
"""


class Fresh:
    """An environment with the wheel, pytest and mypy, and a folder that is not the repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._programs = folder / "venv" / "bin"
        self.did(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", "wheel", str(ROOT))
        (wheel,) = (folder / "wheel").glob("*.whl")
        self.did(sys.executable, "-m", "venv", "venv")
        self.did("pip", "install", "--quiet", "--disable-pip-version-check", str(wheel), "pytest", "mypy")

    def did(self, program: str, *words: str, code: int = 0, inside: str = "") -> str:
        """What the program printed. It must end with this code, and without a traceback of ours."""
        found = self._programs / program
        done = subprocess.run(
            [found if found.exists() else program, *words],
            cwd=self.folder / inside,
            env={"PATH": f"{self._programs}:/usr/bin:/bin", "HOME": str(Path.home()), "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        printed = done.stdout + done.stderr
        assert done.returncode == code, printed
        assert "internal error" not in printed
        return printed


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    return Fresh(tmp_path_factory.mktemp("fresh"))


def test_the_test_of_a_new_project_passes_and_its_marked_line_makes_it_fail_u5(fresh: Fresh) -> None:
    fresh.did("floodmark", "init", "project")
    passed = fresh.did("pytest", "-W", "error", "--strict-markers", inside="project")
    assert "1 passed" in passed

    lookup = fresh.folder / "project" / "enrich.py"
    lookup.write_text(lookup.read_text().replace(MARKED, MARKED.removeprefix("# ")))
    failed = fresh.did("pytest", "-W", "error", "--strict-markers", code=1, inside="project")

    assert "This run violates V8" in failed


def test_what_needs_an_extra_names_it_and_ends_with_11_u5(fresh: Fresh) -> None:
    for words in (["run", "calm"], ["demo", "--level", "live"], ["mutants", "--level", "live"]):
        assert "pip install 'floodmark[mysql]'" in fresh.did("floodmark", *words, code=Exit.ENVIRONMENT)
    assert "pip install 'floodmark[spark,mysql]'" in fresh.did("floodmark", "demo", code=Exit.ENVIRONMENT)
    (fresh.folder / "history.arrow").write_bytes(b"")
    checked = fresh.did("floodmark", "check", "history.arrow", code=Exit.ENVIRONMENT)
    assert "pip install 'floodmark[columns]'" in checked
    examined = fresh.did("floodmark", "doctor", code=Exit.ENVIRONMENT)
    assert "pip install 'floodmark[mysql]'" in examined


def test_run_and_check_need_no_extra_u5(fresh: Fresh) -> None:
    fresh.did("floodmark", "run", "calm", "--level", "sim", "--report", "report", "--seed", "7")
    (history,) = (fresh.folder / "report").rglob("history.jsonl")

    assert fresh.did("floodmark", "check", str(history)).startswith("PASS")


def test_an_editor_finds_the_schema_u5(fresh: Fresh) -> None:
    place = Path(fresh.did("floodmark", "schema", "--path").strip())

    assert place.is_relative_to(fresh.folder / "venv")
    assert place.read_text("utf-8") == fresh.did("floodmark", "schema")


def test_a_users_test_and_program_are_typed_u5(fresh: Fresh) -> None:
    (fresh.folder / "typed.py").write_text(TYPED)

    assert "Success" in fresh.did("mypy", "--strict", "typed.py")
