"""The table of planted defects: each has its own name, differs from the reference, and something convicts it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from harness.explore.drawing import draw_scenario
from harness.history.verdict import INVARIANTS
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.sut.defects import (
    _BY_COMPONENT,
    DEFECTS,
    HARNESS_CHECKS,
    IN_RUNS,
    PropertyDefect,
    find_defect,
    variant_of,
)
from harness.sut.defects.failovers import OF_FAILOVERS
from harness.sut.variant import HONEST
from harness.system.errors import UsageError
from harness.tests.tidy import ROOT

EACH = pytest.mark.parametrize("name", IN_RUNS)
PROPERTY_DEFECTS = {name: defect for name, defect in DEFECTS.items() if isinstance(defect, PropertyDefect)}
FOLDER = Path(__file__).parent
STATEMENTS = (ROOT / "docs" / "reference" / "statements.md").read_text("utf-8")
DRAWN = [name for name, defect in IN_RUNS.items() if defect.tried_in is None]
IN_A_SCENARIO = [name for name, defect in IN_RUNS.items() if defect.tried_in is not None]


@EACH
def test_it_names_invariants_that_are_judged_or_a_check_of_the_harness(name: str) -> None:
    defect = find_defect(name)

    assert defect.convicted_by
    assert set(defect.convicted_by) <= {*INVARIANTS, *HARNESS_CHECKS}


@EACH
def test_it_is_not_the_reference(name: str) -> None:
    assert variant_of(name) != HONEST


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


def test_no_name_is_used_twice() -> None:
    assert len(DEFECTS) == len(_BY_COMPONENT)


def test_each_defect_that_no_run_shows_is_convicted_by_one_module_of_property_tests() -> None:
    modules = [import_module(f"harness.sut.defects.tests.{path.stem}") for path in FOLDER.glob("test_*.py")]
    convicted = [name for module in modules for name in getattr(module, "CONVICTIONS", ())]

    assert sorted(convicted) == sorted(PROPERTY_DEFECTS)


@pytest.mark.parametrize("name", PROPERTY_DEFECTS)
def test_one_that_no_run_shows_names_statements_that_there_are(name: str) -> None:
    statements = PROPERTY_DEFECTS[name].statements

    assert statements
    assert all(f"\n- **{statement}** " in STATEMENTS for statement in statements)


@pytest.mark.parametrize("name", PROPERTY_DEFECTS)
def test_one_that_no_run_shows_cannot_be_planted_in_a_run(name: str) -> None:
    with pytest.raises(UsageError, match="only a property test convicts it"):
        find_defect(name)


def test_without_a_name_there_is_no_defect() -> None:
    assert variant_of(None) is HONEST


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=next(iter(IN_RUNS))):
        find_defect("no-such")
