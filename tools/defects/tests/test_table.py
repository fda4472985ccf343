"""The table of planted defects: each has its own name, differs from the reference, and something convicts it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path

from harness.explore.drawing import draw_scenario
from harness.history.invariants import INVARIANTS
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.scenario.model import Scenario
from harness.sut.defects import HARNESS_CHECKS, find_defect
from harness.sut.variant import HONEST
from harness.tests.tidy import ROOT
from tools.defects import DEFECTS, IN_RUNS, MAILBOXES, RUNNER_DEFECTS, STRANGERS, mutant_named
from tools.defects.failovers import OF_FAILOVERS
from tools.defects.kinds import PropertyDefect

PROPERTY_DEFECTS = {name: defect for name, defect in DEFECTS.items() if isinstance(defect, PropertyDefect)}
FOLDER = Path(__file__).parent
STATEMENTS = (ROOT / "docs" / "reference" / "statements.md").read_text("utf-8")
DRAWN = [name for name, defect in IN_RUNS.items() if defect.tried_in is None]
IN_A_SCENARIO = [name for name, defect in IN_RUNS.items() if defect.tried_in is not None]


@cache
def _scenario(name: str | None) -> Scenario:
    assert name is not None
    return load(catalogue()[name])


def test_each_names_invariants_that_are_judged_or_a_check_of_the_harness() -> None:
    known = {*INVARIANTS, *HARNESS_CHECKS}

    assert [name for name, defect in IN_RUNS.items() if not set() < set(defect.convicted_by) <= known] == []


def test_none_is_the_reference() -> None:
    variants = {name: defect.variant for table in (IN_RUNS, STRANGERS) for name, defect in table.items()}

    assert [name for name, variant in variants.items() if variant == HONEST] == []


def test_the_scenario_of_each_is_of_the_catalogue_and_about_one_of_its_invariants() -> None:
    decisive = {
        name: {*_scenario(defect.scenario).decisive, "V23"}
        for name, defect in IN_RUNS.items()
        if defect.scenario
    }

    assert [name for name, about in decisive.items() if not about & set(IN_RUNS[name].convicted_by)] == []


def test_each_shows_at_sim_and_at_other_levels_in_a_scenario_that_lists_them() -> None:
    """What needs two servers shows at no simulated one."""
    at_others = {
        name: set(defect.levels) - {"sim"}
        for name, defect in IN_RUNS.items()
        if set(defect.levels) != {"sim"}
    }

    assert [
        name for name, one in IN_RUNS.items() if "sim" not in one.levels and one not in OF_FAILOVERS
    ] == []
    assert [
        name
        for name, levels in at_others.items()
        if not levels <= set(_scenario(IN_RUNS[name].scenario).levels)
    ] == []


def test_some_of_five_hundred_random_scenarios_lets_each_show() -> None:
    unseen = {name: IN_RUNS[name] for name in DRAWN}
    for seed in range(500):
        drawn = draw_scenario(seed)
        unseen = {name: defect for name, defect in unseen.items() if not defect.applies(drawn)}

    assert list(unseen) == []


def test_one_that_no_random_scenario_can_show_is_named_by_the_scenario_that_does() -> None:
    drawn = [draw_scenario(seed) for seed in range(10)]

    assert {name: _scenario(IN_RUNS[name].tried_in).mutant for name in IN_A_SCENARIO} == {
        name: name for name in IN_A_SCENARIO
    }
    assert [name for name in IN_A_SCENARIO if any(map(IN_RUNS[name].applies, drawn))] == []


def test_a_defect_of_who_records_or_judges_shows_in_no_run() -> None:
    assert [name for name, defect in IN_RUNS.items() if not defect.shows_in_a_run] == [
        "recorder-drops",
        "judge-skips-last-attempt",
    ]


def test_every_number_of_the_catalogue_has_its_mutant() -> None:
    numbers = {defect.number for defect in IN_RUNS.values()} - {None}

    assert numbers == set(range(1, 31))


def test_what_a_run_takes_is_reached_by_the_name_that_stands_for_it() -> None:
    names = [*IN_RUNS, *STRANGERS, *RUNNER_DEFECTS, *MAILBOXES]

    assert [find_defect(mutant_named(name)).name for name in names] == names


def test_each_defect_that_no_run_shows_is_convicted_by_one_module_of_property_tests() -> None:
    modules = [import_module(f"tools.defects.tests.{path.stem}") for path in FOLDER.glob("test_*.py")]
    convicted = [name for module in modules for name in getattr(module, "CONVICTIONS", ())]

    assert sorted(convicted) == sorted(PROPERTY_DEFECTS)


def test_each_that_no_run_shows_names_statements_that_there_are() -> None:
    statements = {name: defect.statements for name, defect in PROPERTY_DEFECTS.items()}

    assert [name for name, numbers in statements.items() if not numbers] == []
    assert [one for one in {*chain(*statements.values())} if f"\n- **{one}** " not in STATEMENTS] == []
