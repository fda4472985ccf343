"""The planted defects: each is wired to something, and names who must convict it, and where."""

from __future__ import annotations

import pytest

from harness.catalogue import catalogue
from harness.database.sink import EpochSink
from harness.errors import UsageError
from harness.invariants import INVARIANTS
from harness.scenario_file import load
from harness.sut.mutants import MUTANTS, find_mutant, operator_builder, sink_class
from reference_impl.async_wait_build import build_operator
from reference_impl.mutants import BUILDERS

EACH = pytest.mark.parametrize("name", MUTANTS)


@EACH
def test_it_names_a_scenario_of_the_catalogue_and_invariants_that_are_judged(name: str) -> None:
    mutant = find_mutant(name)

    assert mutant.scenario in catalogue()
    assert mutant.convicted_by
    assert set(mutant.convicted_by) <= set(INVARIANTS)


@EACH
def test_its_scenario_is_about_one_of_them(name: str) -> None:
    mutant = find_mutant(name)
    scenario = load(catalogue()[mutant.scenario])

    assert {*scenario.decisive, "V23"} & set(mutant.convicted_by)


@EACH
def test_it_differs_from_the_reference_in_exactly_one_thing(name: str) -> None:
    mutant = find_mutant(name)

    differences = [
        operator_builder(name) is not build_operator,
        sink_class(name) is not EpochSink,
        mutant.bypasses_proxy,
        mutant.arms_nothing,
    ]

    assert differences.count(True) == 1


def test_every_builder_of_the_operators_mutants_is_listed() -> None:
    assert set(BUILDERS) <= set(MUTANTS)


def test_the_reference_is_nobodys_mutant() -> None:
    assert operator_builder(None) is build_operator
    assert sink_class(None) is EpochSink


def test_an_unknown_mutant_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=next(iter(MUTANTS))):
        find_mutant("no-such")
