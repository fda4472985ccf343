"""The table of planted defects: each has its own name, differs from the reference, and something convicts it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from harness.explore.drawing import draw_scenario
from harness.history.verdict import INVARIANTS
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.sut.defects import HARNESS_CHECKS, find_defect
from harness.sut.variant import HONEST
from harness.tests.tidy import ROOT
from tools.defects import DEFECTS, IN_RUNS, MAILBOXES, RUNNER_DEFECTS, STRANGERS, mutant_named
from tools.defects.failovers import OF_FAILOVERS
from tools.defects.kinds import PropertyDefect

EACH = pytest.mark.parametrize("name", IN_RUNS)
PROPERTY_DEFECTS = {name: defect for name, defect in DEFECTS.items() if isinstance(defect, PropertyDefect)}
FOLDER = Path(__file__).parent
STATEMENTS = (ROOT / "docs" / "reference" / "statements.md").read_text("utf-8")
DRAWN = [name for name, defect in IN_RUNS.items() if defect.tried_in is None]
IN_A_SCENARIO = [name for name, defect in IN_RUNS.items() if defect.tried_in is not None]


@EACH
def test_it_names_invariants_that_are_judged_or_a_check_of_the_harness(name: str) -> None:
    defect = IN_RUNS[name]

    assert defect.convicted_by
    assert set(defect.convicted_by) <= {*INVARIANTS, *HARNESS_CHECKS}


@EACH
def test_it_is_not_the_reference(name: str) -> None:
    assert IN_RUNS[name].variant != HONEST


@pytest.mark.parametrize("name", [name for name, defect in IN_RUNS.items() if defect.scenario])
def test_its_scenario_is_of_the_catalogue_and_about_one_of_them(name: str) -> None:
    defect = IN_RUNS[name]
    assert defect.scenario in catalogue()

    scenario = load(catalogue()[defect.scenario])

    assert {*scenario.decisive, "V23"} & set(defect.convicted_by)


@EACH
def test_it_shows_at_sim_and_at_other_levels_in_a_scenario_that_lists_them(name: str) -> None:
    """What needs two servers shows at no simulated one."""
    defect = IN_RUNS[name]
    others = set(defect.levels) - {"sim"}

    assert "sim" in defect.levels or defect in OF_FAILOVERS
    if others:
        assert defect.scenario is not None
        assert others <= set(load(catalogue()[defect.scenario]).levels)


@pytest.mark.parametrize("name", DRAWN)
def test_some_of_five_hundred_random_scenarios_lets_it_show(name: str) -> None:
    assert any(IN_RUNS[name].applies(draw_scenario(seed)) for seed in range(500))


@pytest.mark.parametrize("name", IN_A_SCENARIO)
def test_one_that_no_random_scenario_can_show_is_named_by_the_scenario_that_does(name: str) -> None:
    scenario = IN_RUNS[name].tried_in
    assert scenario is not None

    assert load(catalogue()[scenario]).mutant == name
    assert not any(IN_RUNS[name].applies(draw_scenario(seed)) for seed in range(10))


def test_a_defect_of_who_records_or_judges_shows_in_no_run() -> None:
    assert [name for name, defect in IN_RUNS.items() if not defect.shows_in_a_run] == [
        "recorder-drops",
        "judge-skips-last-attempt",
    ]


def test_every_number_of_the_catalogue_has_its_mutant() -> None:
    numbers = {defect.number for defect in IN_RUNS.values()} - {None}

    assert numbers == set(range(1, 31))


@pytest.mark.parametrize("name", [*IN_RUNS, *STRANGERS, *RUNNER_DEFECTS, *MAILBOXES])
def test_what_a_run_takes_is_reached_by_the_name_that_stands_for_it(name: str) -> None:
    assert find_defect(mutant_named(name)).name == name


def test_each_defect_that_no_run_shows_is_convicted_by_one_module_of_property_tests() -> None:
    modules = [import_module(f"tools.defects.tests.{path.stem}") for path in FOLDER.glob("test_*.py")]
    convicted = [name for module in modules for name in getattr(module, "CONVICTIONS", ())]

    assert sorted(convicted) == sorted(PROPERTY_DEFECTS)


@pytest.mark.parametrize("name", PROPERTY_DEFECTS)
def test_one_that_no_run_shows_names_statements_that_there_are(name: str) -> None:
    statements = PROPERTY_DEFECTS[name].statements

    assert statements
    assert all(f"\n- **{statement}** " in STATEMENTS for statement in statements)
