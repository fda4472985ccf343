"""The planted defects: each differs from the reference, names who must convict it, and where it can show."""

from __future__ import annotations

import pytest

from harness.defects import DEFECTS, HARNESS_CHECKS, find_defect, variant_of
from harness.errors import UsageError
from harness.explore.drawing import draw_scenario
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.sut.variant import HONEST
from harness.verdict import INVARIANTS
from reference_impl.mutants import BUILDERS

EACH = pytest.mark.parametrize("name", DEFECTS)
DRAWN = [name for name, defect in DEFECTS.items() if defect.tried_in is None]
IN_A_SCENARIO = [name for name, defect in DEFECTS.items() if defect.tried_in is not None]


@EACH
def test_it_names_invariants_that_are_judged_or_a_check_of_the_harness(name: str) -> None:
    defect = find_defect(name)

    assert defect.convicted_by
    assert set(defect.convicted_by) <= {*INVARIANTS, *HARNESS_CHECKS}


@EACH
def test_it_is_not_the_reference(name: str) -> None:
    assert variant_of(name) != HONEST


@pytest.mark.parametrize("name", [name for name, defect in DEFECTS.items() if defect.scenario])
def test_its_scenario_is_of_the_catalogue_and_about_one_of_them(name: str) -> None:
    defect = find_defect(name)
    assert defect.scenario in catalogue()

    scenario = load(catalogue()[defect.scenario])

    assert {*scenario.decisive, "V23"} & set(defect.convicted_by)


@EACH
def test_it_shows_at_sim_and_at_other_levels_in_a_scenario_that_lists_them(name: str) -> None:
    defect = find_defect(name)
    others = set(defect.levels) - {"sim"}

    assert "sim" in defect.levels
    if others:
        assert defect.scenario is not None
        assert others <= set(load(catalogue()[defect.scenario]).levels)


@pytest.mark.parametrize("name", DRAWN)
def test_some_of_five_hundred_random_scenarios_lets_it_show(name: str) -> None:
    assert any(DEFECTS[name].applies(draw_scenario(seed)) for seed in range(500))


@pytest.mark.parametrize("name", IN_A_SCENARIO)
def test_one_that_no_random_scenario_can_show_is_named_by_the_scenario_that_does(name: str) -> None:
    scenario = DEFECTS[name].tried_in
    assert scenario is not None

    assert load(catalogue()[scenario]).mutant == name
    assert not any(DEFECTS[name].applies(draw_scenario(seed)) for seed in range(10))


def test_a_defect_of_who_records_or_judges_shows_in_no_run() -> None:
    assert [name for name, defect in DEFECTS.items() if not defect.shows_in_a_run] == [
        "recorder-drops",
        "judge-skips-last-attempt",
    ]


def test_every_number_of_the_catalogue_has_its_mutant_but_those_of_what_is_not_built() -> None:
    """M28 needs an operator that keeps the order of keys."""
    numbers = {defect.number for defect in DEFECTS.values()} - {None}

    assert numbers == set(range(1, 31)) - {28}


def test_every_builder_of_the_operators_mutants_is_listed() -> None:
    assert set(BUILDERS) <= set(DEFECTS)


def test_without_a_name_there_is_no_defect() -> None:
    assert variant_of(None) is HONEST


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=next(iter(DEFECTS))):
        find_defect("no-such")
