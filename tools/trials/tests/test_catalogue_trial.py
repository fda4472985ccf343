"""The trial of the catalogue: who passes, who is convicted, and what counts as neither."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.scenario.catalogue import catalogue
from tools.trials.catalogue_trial import main, page_text, try_catalogue

_TEXT = """\
scenario: small
about: A few lookups of two subtasks, answered slowly and out of their order.
levels: [{levels}]
operator: {{mode: ordered}}
workload: {{records: 30, subtasks: 1, service: 60ms, rate: 400/s}}
decisive: [V1]
{mutant}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    folder = tmp_path / "tried"
    folder.mkdir()
    return folder / "small.yaml"


def _written(path: Path, *, levels: str = "sim", mutant: str = "") -> Path:
    path.write_text(_TEXT.format(levels=levels, mutant=mutant))
    return path


def test_a_scenario_holds_if_the_reference_passes_and_its_defect_is_convicted(small: Path) -> None:
    [trial] = try_catalogue([_written(small, mutant="mutant: unordered-emission")], seeds=2)

    assert (trial.passed, trial.convicted, trial.holds) == (2, 2, True)
    assert "| tried/small | sim | 2 of 2 | unordered-emission | 2 of 2 |" in page_text([trial], seeds=2)


def test_a_scenario_whose_defect_nobody_convicts_does_not_hold(small: Path) -> None:
    [trial] = try_catalogue([_written(small, mutant="mutant: zombie-accepted")], seeds=2)

    assert (trial.passed, trial.convicted, trial.holds) == (2, 0, False)


def test_a_scenario_that_sim_cannot_run_is_said_to_be_untried(small: Path) -> None:
    [trial] = try_catalogue([_written(small, levels="live")], seeds=2)

    assert not trial.tried
    assert "| tried/small | live | not at sim | none |  |" in page_text([trial], seeds=2)


def test_the_command_fails_and_names_what_does_not_hold(small: Path) -> None:
    path = _written(small, mutant="mutant: zombie-accepted")

    result = CliRunner().invoke(main, [str(path), "--seeds", "1"])

    assert result.exit_code == 1
    assert "not: small" in result.output


def test_every_scenario_of_the_catalogue_that_names_a_defect_names_one_that_there_is() -> None:
    """`find_defect` is asked for each by the trial; here without running anything."""
    from harness.scenario.file import load  # noqa: PLC0415
    from tools.defects import IN_RUNS, STRANGERS  # noqa: PLC0415

    named = {load(path).mutant for path in catalogue().values()}
    convicted = {name for name, stranger in STRANGERS.items() if stranger.convicted_by}

    assert named - {None} <= {*IN_RUNS, *convicted}
