"""The kinds of planted defects: those that a run convicts, those that a property test convicts, and strangers.

Answers to mutation testing; the numbers M1, M2, ... are those of `docs/reference/mutants.md`. Invariant: all that
is known of a defect stands in one entry, beside the wrong class: what is wrong, after what, who convicts it, what it
replaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.faults.parts.parts import Level
from harness.scenario.plan import Runner
from harness.sut.defects.where import NEVER, Applies, anywhere
from harness.sut.variant import Variant

__all__ = [
    "HARNESS_CHECKS",
    "SIM_AND_LIVE",
    "SIM_ONLY",
    "Defect",
    "PropertyDefect",
    "RunnerDefect",
    "Stranger",
]

HARNESS_CHECKS = {
    "recording": "Every event that was made stands in the history: its numbers have no gap, up to the last.",
    "canary": "The judge convicts each of a set of small histories that it must convict.",
}
"""The checks that convict a defect of the recorder or of the judge: the history lacks what an invariant would need."""

SIM_ONLY: tuple[Level, ...] = ("sim",)
SIM_AND_LIVE: tuple[Level, ...] = ("sim", "live")
"""For a defect whose scenario runs at levels sim and live."""
EVERY_LEVEL: tuple[Level, ...] = ("sim", "live", "spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A planted defect that a run, or the kill matrix, can show."""

    number: int | None = None
    """M1, M2, ...; some numbers have several variants, and a few defects have no number."""
    name: str
    about: str
    """What is wrong, as half a sentence."""
    mirrors: str
    """The ticket, or the mistake, that it stands for."""
    convicted_by: tuple[str, ...]
    """The invariants meant for it; at least one of them must fail (V23: the run must be vacuous)."""
    variant: Variant
    """The parts of a run that it replaces."""
    where: str = "anywhere"
    """The random scenarios in which it can show, in words."""
    applies: Applies = anywhere
    """The same as a question about a scenario."""
    scenario: str | None = None
    """The scenario of the catalogue that is meant for it."""
    levels: tuple[Level, ...] = EVERY_LEVEL
    """The levels at which the invariants meant for it convict it; at live and spark in its scenario."""

    @property
    def label(self) -> str:
        """`M7`; empty if it has no number."""
        return "" if self.number is None else f"M{self.number}"

    @property
    def shows_in_a_run(self) -> bool:
        """Whether the judgement of one run can convict it; if not, the kill matrix can."""
        return not set(self.convicted_by) <= set(HARNESS_CHECKS)

    @property
    def tried_in(self) -> str | None:
        """The scenario in which the kill matrix tries it at level sim; None: random scenarios can show it."""
        return self.scenario if self.applies is NEVER else None

    def scenario_at(self, level: Level) -> str | None:
        """The scenario in which it shows at `level`; None: it was not convicted at that level."""
        return self.scenario if level in self.levels else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyDefect:
    """A planted defect of one part of the reference, which only a property test of that part convicts."""

    name: str
    about: str
    """What is wrong, as half a sentence."""
    mirrors: str
    """The ticket, or the mistake, that it stands for."""
    replaces: str
    """The part of `reference_impl` in whose place `wrong` is used, by name."""
    statements: tuple[str, ...]
    """The statements of the specification that it breaks, such as C21 (`docs/reference/statements.md`)."""
    wrong: Any
    """The wrong class, or a function that builds one: a test hands it in where the reference has `replaces`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerDefect:
    """A planted defect of one runner of level spark, which a run with that runner convicts."""

    name: str
    about: str
    """What is wrong, as half a sentence."""
    mirrors: str
    """The ticket, or the mistake, that it stands for."""
    convicted_by: tuple[str, ...]
    """The invariants meant for it; at least one of them must fail."""
    variant: Variant
    """The parts of a run that it replaces."""
    runner: Runner
    scenario: str
    """The scenario of the catalogue that is meant for it."""
    levels: tuple[Level, ...] = ("spark",)

    @property
    def shows_in_a_run(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """A planted defect of somebody who has not looked at the checkers: its author names a promise, and no invariant.

    `tools/trials/strangers_trial.py` tells which invariant convicts it, and compares that with `convicted_by`.
    """

    name: str
    about: str
    """What is wrong, as half a sentence."""
    component: str
    """The part of the system that is wrong, in a word or two."""
    breaks: str
    """The promise that its author expects it to break, as half a sentence."""
    variant: Variant
    """The parts of a run that it replaces."""
    where: str = "anywhere"
    """What a scenario must have so that it can show, in words."""
    applies: Applies = anywhere
    """The same as a question about a scenario."""
    levels: tuple[Level, ...] = EVERY_LEVEL
    """The levels at which it can show; none: no run of the harness reaches it."""
    scenario: str | None = None
    """A scenario of the catalogue in which its history, or its tables, differ from the reference's."""
    settings: tuple[str, ...] = ()
    """Settings of that scenario with which it shows (`--set`)."""
    survives: str | None = None
    """Why it may survive a trial; None: it may not."""
    convicted_by: tuple[str, ...] = ()
    """The invariants of its first conviction in a trial, of which at least one must fail; empty: it survived."""
    label: str = ""
    mirrors: str = ""
    tried_in: str | None = None

    @property
    def shows_in_a_run(self) -> bool:
        return bool(self.levels)

    def scenario_at(self, level: Level) -> str | None:
        """The scenario in which it may show at `level`."""
        return self.scenario if level in self.levels else None
