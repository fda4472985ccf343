"""Claims about suspects: ours by name, a user's own by MODULE:ATTR, and what is none is refused with what to do."""

from __future__ import annotations

import pytest

from harness.kill_matrix.matrix import OURS, find_suspect
from harness.kill_matrix.tests import a_mutant_of_somebody
from harness.sut.defects import IN_RUNS
from harness.sut.defects.failovers import OF_FAILOVERS
from harness.system.errors import SutError, UsageError

THEIRS = a_mutant_of_somebody.__name__


def test_ours_are_all_that_a_simulated_run_can_show() -> None:
    assert set(IN_RUNS) - set(OURS) == {defect.name for defect in OF_FAILOVERS}
    assert find_suspect("segment-leak").label == "M9"


@pytest.mark.parametrize("attribute", ["variant", "build_operator"])
def test_a_users_own_is_a_variant_or_what_builds_an_operator(attribute: str) -> None:
    suspect = find_suspect(f"{THEIRS}:{attribute}")

    assert suspect.variant.build_operator is a_mutant_of_somebody.build_operator
    assert suspect.named == ()


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


def test_a_defect_that_no_run_shows_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="only a property test convicts it") as refused:
        find_suspect("end-loses-barrier")

    assert "MODULE:ATTR for your own, or one of: " in refused.value.fix


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="segment-leak"):
        find_suspect("no-such")
