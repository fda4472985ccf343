"""The planted defects: each is wired to something, and names who must convict it, and where."""

from __future__ import annotations

import pytest

from harness.catalogue import catalogue
from harness.errors import UsageError
from harness.invariants import INVARIANTS
from harness.scenario_file import load
from harness.sut.careless_clients import CARELESS_LOOKUPS, CARELESS_SINKS
from harness.sut.keyed_task.defects import KEYED_DEFECTS
from harness.sut.mutants import HARNESS_CHECKS, MUTANTS, find_mutant, operator_builder
from reference_impl.async_wait_build import build_operator
from reference_impl.mutants import BUILDERS

EACH = pytest.mark.parametrize("name", MUTANTS)
LIVE = pytest.mark.parametrize("name", [mutant.name for mutant in MUTANTS.values() if mutant.scenario])


@EACH
def test_it_names_invariants_that_are_judged_or_a_check_of_the_harness(name: str) -> None:
    mutant = find_mutant(name)

    assert mutant.convicted_by
    assert set(mutant.convicted_by) <= {*INVARIANTS, *HARNESS_CHECKS}


@LIVE
def test_its_scenario_is_of_the_catalogue_and_about_one_of_them(name: str) -> None:
    mutant = find_mutant(name)
    assert mutant.scenario in catalogue()

    scenario = load(catalogue()[mutant.scenario])

    assert {*scenario.decisive, "V23"} & set(mutant.convicted_by)


@LIVE
def test_on_a_machine_it_differs_from_the_reference_in_exactly_one_thing(name: str) -> None:
    mutant = find_mutant(name)

    differences = [
        operator_builder(name) is not build_operator,
        mutant.writes_at_once,
        mutant.bypasses_proxy,
        mutant.arms_nothing,
        name in CARELESS_SINKS,
        name in CARELESS_LOOKUPS,
        name == "wall-clock-timers",  # `build_timers`
        name in KEYED_DEFECTS,
    ]

    assert differences.count(True) == 1


def test_a_defect_of_who_records_or_judges_shows_in_no_run() -> None:
    assert [mutant.name for mutant in MUTANTS.values() if not mutant.shows_in_a_run] == [
        "recorder-drops",
        "judge-skips-last-attempt",
    ]


def test_every_number_of_the_catalogue_has_its_mutant_but_those_of_what_is_not_built() -> None:
    """M28 needs an operator that keeps the order of keys."""
    numbers = {mutant.number for mutant in MUTANTS.values()} - {None}

    assert numbers == set(range(1, 31)) - {28}


def test_every_builder_of_the_operators_mutants_is_listed() -> None:
    assert set(BUILDERS) <= set(MUTANTS)


def test_the_reference_is_nobodys_mutant() -> None:
    assert operator_builder(None) is build_operator


def test_an_unknown_mutant_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=next(iter(MUTANTS))):
        find_mutant("no-such")
