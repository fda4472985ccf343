"""Claims about suspects: the twelve by name, any other by MODULE:ATTR, and what is none is refused with what to do."""

from __future__ import annotations

import pytest

from harness.explore.kill_matrix import OURS, find_suspect
from harness.explore.tests import a_mutant_of_somebody
from harness.sut.defects import DEFECTS
from harness.system.errors import SutError, UsageError

THEIRS = a_mutant_of_somebody.__name__


def test_the_twelve_can_all_be_tried_in_simulated_runs() -> None:
    assert tuple(DEFECTS) == OURS
    assert len(OURS) == 12
    assert find_suspect("segment-leak").label == "M9"


@pytest.mark.parametrize("attribute", ["variant", "build_operator"])
def test_a_users_own_is_a_variant_or_what_builds_an_operator(attribute: str) -> None:
    suspect = find_suspect(f"{THEIRS}:{attribute}")

    assert suspect.variant.build_operator is a_mutant_of_somebody.build_operator
    assert suspect.convicted_by == ()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (f"{THEIRS}:NEITHER", "int"),
        (f"{THEIRS}:missing", "missing"),
        ("no_such_module:variant", "no_such_module"),
    ],
)
def test_what_is_no_mutant_of_a_user_is_refused(name: str, told: str) -> None:
    with pytest.raises(SutError, match=told):
        find_suspect(name)


def test_a_defect_of_a_module_keeps_its_name_and_who_convicts_it() -> None:
    suspect = find_suspect(f"{THEIRS}:DEFECT")

    assert (suspect.name, suspect.convicted_by) == ("out-of-order", ("V1",))


@pytest.mark.parametrize(
    ("name", "told"),
    [("tools.defects:era_1", "no run shows"), ("tools.defects:sends_all_again", "needs a real world")],
)
def test_a_defect_that_no_simulated_run_shows_is_refused(name: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        find_suspect(name)


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="segment-leak") as refused:
        find_suspect("no-such")

    assert "MODULE:ATTR for your own, or one of: " in refused.value.fix
