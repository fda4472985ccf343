"""What an extra lacks is said in a sentence with the extra's name and exit code 11, before anything starts."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import harness.levels
from harness.cli.checkup import examine
from harness.cli.main import main
from harness.system.errors import Exit
from harness.world.settings import WorldSettings


@pytest.fixture(autouse=True)
def _nothing_but_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without extras."""

    def not_found(name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(harness.levels, "find_spec", not_found)


@pytest.mark.parametrize(("level", "extras"), [("live", "mysql"), ("spark", "spark,mysql")])
def test_a_level_names_the_extras_that_it_needs_u5(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], level: str, extras: str
) -> None:
    code = main(["run", "calm", "--level", level, "--report", str(tmp_path)])

    said = capsys.readouterr().err
    assert code == Exit.ENVIRONMENT
    assert f"fix: pip install 'floodmark[{extras}]', or choose level sim" in said
    assert "Traceback" not in said


def test_doctor_names_the_client_and_opens_no_world_without_it_u5() -> None:
    diagnosis = examine(WorldSettings.from_environment())

    fixes = {check.name: check.fix for check in diagnosis.checks}
    assert fixes["client"] == fixes["worlds"] == "pip install 'floodmark[mysql]'"
    assert not diagnosis.worlds
