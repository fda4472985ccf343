"""Two systems over the operator protocol, such as the reference and the real Flink: where they part, and why.

Answers to `harness.conform.protocol.differential`, whose scripts it draws. The first line of a conversation tells
what a system can do, so that is compared first; then what both do on the scripts that both can follow. A difference
from Flink is named by experiment: the script is run again with the reference showing one of Flink's quirks at a time,
and the quirk with which the difference goes away is the one.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
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
    quirk = ""
    if found is not None and with_flink:
        other = next((name for name in sides if name != "reference"), sides[1])
        (quirk,) = explaining_quirks([found.script], serving_command(other), limits=Limits())
    return ScriptDifference(
        names=(names[0], names[1]),
        only_left=tuple(ability for ability in left_can if ability not in right_can),
        only_right=tuple(ability for ability in right_can if ability not in left_can),
        modes=settings.modes,
        scripts=number + 1,
        found=found,
        quirk=quirk,
    )


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


FLINK_1_20 = "A72"
"""Shown by Flink 1.20 only."""

TOGETHER = "A76 to A86"
"""No single quirk explains it, but all of profile `flink` together do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDifference:
    """Why a Flink answers otherwise."""

    say: str
    source: str
    """A ticket, or a class and method of Flink's source."""


EXPLANATIONS: Mapping[str, KnownDifference] = {
    "A76": KnownDifference(
        say="an outcome of attempt k that comes while attempt k+1 runs is taken for that of k+1",
        source="AsyncWaitOperator.RetryableResultHandlerDelegator: one handle and one flag for all attempts",
    ),
    "A80": KnownDifference(
        say="at exactly the timeout the handler's own outcome is judged like an attempt's, and may be retried",
        source="FLINK-38082, FLINK-30477: the check is `now - start > timeout`, so the instant itself is let through",
    ),
    "A81": KnownDifference(
        say="an attempt's outcome between the timer's mail and the handler's takes the handler's place",
        source="FLINK-40456: one guard for attempts and timeout, and the retry's timer is cancelled already",
    ),
    "A82": KnownDifference(
        say="all records of a subtask share one exponential delay",
        source="FLINK-33698: AsyncRetryStrategies.ExponentialBackoffDelayRetryStrategy keeps its last delay",
    ),
    FLINK_1_20: KnownDifference(
        say="an outcome is retried however long the timeout has passed",
        source="FLINK-38082: 1.20.5 has no `isTimeout` in AsyncWaitOperator.RetryableResultHandlerDelegator, 2.0.2 has",
    ),
    TOGETHER: KnownDifference(
        say="several quirks of profile `flink` at once",
        source="docs/reference/flink-map.md, Deviations",
    ),
    "A86": KnownDifference(
        say="the end of input also calls records whose retry runs, and some that are finished",
        source="AsyncWaitOperator.endInput: inFlightDelayRetryHandlers keeps handlers too long",
    ),
}


def systems_by_statement(yardstick: str) -> Mapping[str, str]:
    """The systems of ours that show one deviation from the yardstick each, the nearest first."""
    older = {FLINK_1_20: "reference-flink-1.20"}
    if yardstick == "flink":
        return older
    return {**QUIRK_SYSTEMS, TOGETHER: "reference", **older}
