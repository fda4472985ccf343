"""What cannot be done here, said before the run: a fault that a level or a world has no means for.

Answers to Jepsen's optional protocols (`Kill`, `Pause`), asked for before a test starts. Invariant: a fault that
would do nothing is refused with the words of what can do it; it never runs to end `vacuous`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from harness.errors import CannotHere
from harness.faults.model.fault import LEVELS
from harness.scenario.model import Scenario

__all__ = ["refuse_at_level", "refuse_in_world"]


def refuse_at_level(scenario: Scenario, level: str) -> None:
    """Raise CannotHere if a fault of `scenario` is none for `level`."""
    _refuse(scenario, _no_fault_of(scenario, level), fix=_levels_for(scenario))


def refuse_in_world(scenario: Scenario, lacks: Mapping[str, str]) -> None:
    """Raise CannotHere if a fault needs what the world lacks; `lacks` says for each ability what has it."""
    sentences = [
        f"`{fault.do}` (fault {fault.id}) needs {lacks[ability]}"
        for fault in scenario.faults
        for ability in fault.abilities
        if ability in lacks
    ]
    _refuse(scenario, sentences, fix="choose so, or a scenario without it")


def _no_fault_of(scenario: Scenario, level: str) -> Iterator[str]:
    for fault in scenario.faults:
        if level not in fault.levels:
            yield f"`{fault.do}` (fault {fault.id}) cannot be done at level {level}"


def _levels_for(scenario: Scenario) -> str:
    able = [level for level in LEVELS if all(level in fault.levels for fault in scenario.faults)]
    return f"choose --level {' or '.join(able)}"


def _refuse(scenario: Scenario, sentences: Iterable[str], *, fix: str) -> None:
    told = list(sentences)
    if told:
        raise CannotHere(f"scenario {scenario.scenario} cannot run here: {'; '.join(told)}", fix=fix)
