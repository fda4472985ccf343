"""Refuses a scenario before the run if a level or a world cannot perform one of its faults.

Answers to Jepsen's optional protocols (`Kill`, `Pause`), which are checked before a test starts. Invariant: a fault
that could do nothing is refused with a message that says where it can act.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.faults.model.fault import LEVELS
from harness.scenario.model import Scenario
from harness.scenario.order import AnyScenario
from harness.system.errors import CannotHere


def refuse_at_level(scenario: Scenario, level: str) -> None:
    """Raises CannotHere if a fault of `scenario` cannot act at `level`."""
    sentences = [
        f"`{fault.do}` (fault {fault.id}) cannot be done at level {level}"
        for fault in scenario.faults
        if level not in fault.levels
    ]
    able = [level for level in LEVELS if all(level in fault.levels for fault in scenario.faults)]
    _refuse(scenario, sentences, fix=f"choose --level {' or '.join(able)}")


def refuse_in_world(scenario: AnyScenario, lacks: Mapping[str, str]) -> None:
    """Raises CannotHere if a fault needs an ability that the world lacks; `lacks` says for each where to get it."""
    sentences = [
        f"`{fault.do}` (fault {fault.id}) needs {lacks[ability]}"
        for fault in scenario.faults
        for ability in fault.abilities
        if ability in lacks
    ]
    _refuse(
        scenario, sentences, fix="choose a world and a proxy that have it, or a scenario without this fault"
    )


def _refuse(scenario: AnyScenario, sentences: list[str], *, fix: str) -> None:
    if sentences:
        raise CannotHere(f"scenario {scenario.scenario} cannot run here: {'; '.join(sentences)}", fix=fix)
