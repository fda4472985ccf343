"""Two systems over the operator protocol, such as the reference and the real Flink: where they part, and why.

Answers to `harness.conform.protocol.differential`, whose scripts it draws. The first line of a conversation tells
what a system can do, so that is compared first; then what both do on the scripts that both can follow. A difference
from Flink is named by experiment: the script is run again with the reference showing one of Flink's quirks at a time,
and the quirk with which the difference goes away is the one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.conform.protocol.comparison import DifferingScript, report
from harness.conform.protocol.differential import common_settings
from harness.conform.protocol.driver import Twins
from harness.conform.protocol.lockstep import run_lockstep
from harness.conform.protocol.program import Limits
from harness.conform.protocol.script import Script
from harness.conform.protocol.script_drawing import draw_script
from harness.conform.protocol.shrinking import shrink
from harness.sut.serve.systems import QUIRK_SYSTEMS

SERVED: Final = ("reference", "reference-emitter", "flink")
"""The systems that can be compared over the protocol, by name."""
STRICT: Final = "reference-strict"
"""The reference without quirks, whatever profile it is asked to serve."""
_SHRINKING_RUNS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptDifference:
    """What was found."""

    names: tuple[str, str]
    """What the two systems call themselves."""
    only_left: tuple[str, ...]
    only_right: tuple[str, ...]
    """Abilities that one of them lacks."""
    modes: tuple[str, ...]
    """The modes of the scripts."""
    scripts: int
    """How many scripts were run, up to the first that differs."""
    found: DifferingScript | None
    quirk: str = ""
    """The number of the statement (`A80`) of the quirk that explains it; empty: none does."""

    @property
    def same(self) -> bool:
        return not (self.only_left or self.only_right or self.found)

    @property
    def text(self) -> str:
        """The difference side by side, with the lines to paste; empty if there is none."""
        return "" if self.found is None else report(self.found)


def script_difference(left: str, right: str, *, seed: int, scripts: int, mode: str) -> ScriptDifference:
    """Compares two of `SERVED` in a mode, or in `both` ordered and unordered.

    Raises NothingRan if they do not both support the mode, WorldError if Flink is not set up.
    """
    sides = (left, right)
    with_flink = "flink" in sides
    served = tuple(STRICT if with_flink and name == "reference" else name for name in sides)
    with Twins(*map(serving_command, served), limits=Limits()) as twins:
        left_can, right_can = (list(hello.abilities) for hello in twins.hellos)
        settings = common_settings(twins, mode=mode, profile="flink" if with_flink else "strict")
        for number in range(scripts):
            found = run_lockstep(twins, draw_script(seed, number, settings=settings))
            if found is not None:
                found = shrink(twins, found, runs_max=_SHRINKING_RUNS)
                break
        else:
            found, number = None, scripts - 1
        names = tuple(hello.name for hello in twins.hellos)
    return ScriptDifference(
        names=(names[0], names[1]),
        only_left=_without(left_can, right_can),
        only_right=_without(right_can, left_can),
        modes=settings.modes,
        scripts=number + 1,
        found=found,
        quirk=_quirk(found, sides) if found is not None and with_flink else "",
    )


def _without(abilities: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    known = set(others)
    return tuple(ability for ability in abilities if ability not in known)


def serving_command(name: str) -> list[str]:
    """The command line that serves one of our systems."""
    return [sys.executable, "-m", "harness", "sut", "serve", name]


def explaining_quirks(
    scripts: Sequence[Script],
    other: Sequence[str],
    *,
    limits: Limits,
    systems: Mapping[str, str] = QUIRK_SYSTEMS,
) -> list[str]:
    """For each script the statement of the one quirk with which the reference does what `other` does; "" if none.

    `systems`: which of ours to try, by statement. Each pair of programs is started once.
    """
    found = [""] * len(scripts)
    for statement, system in systems.items():
        if all(found):
            break
        with Twins(serving_command(system), other, limits=limits) as twins:
            for place, script in enumerate(scripts):
                if not found[place] and run_lockstep(twins, script) is None:
                    found[place] = statement
    return found


def _quirk(found: DifferingScript, sides: Sequence[str]) -> str:
    """The statement of the one quirk with which the reference does what Flink does on this script."""
    other = next((name for name in sides if name != "reference"), sides[1])
    return explaining_quirks([found.script], serving_command(other), limits=Limits())[0]
