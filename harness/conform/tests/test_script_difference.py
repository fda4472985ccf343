"""Systems that are compared over the operator protocol are compared in the modes that are told."""

from __future__ import annotations

import pytest

from harness.conform.script_difference import script_difference
from harness.system.errors import NothingRan


@pytest.mark.parametrize(("mode", "modes"), [("both", ("ordered", "unordered")), ("keyed", ("keyed",))])
def test_scripts_have_the_mode_that_was_asked_for(mode: str, modes: tuple[str, ...]) -> None:
    found = script_difference("reference", "reference", seed=1, scripts=1, mode=mode)

    assert (found.modes, found.scripts, found.same) == (modes, 1, True)


def test_systems_that_lack_the_mode_are_not_compared_in_another_one() -> None:
    with pytest.raises(NothingRan, match="do not both support mode keyed"):
        script_difference("reference", "reference-emitter", seed=1, scripts=1, mode="keyed")
