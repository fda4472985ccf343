"""A planted defect: what it is called, what it replaces, who must convict it, and where it can show.

Answers to mutation testing; the numbers M1, M2, ... are those of `docs/reference/mutants.md`. Invariant: words and
variant of a defect stand in one entry, and the entry serves every level.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.defects.where import NEVER, Applies, anywhere
from harness.scenario_parts.parts import Level
from harness.sut.variant import Variant

__all__ = ["EVERY_LEVEL", "HARNESS_CHECKS", "SIM_AND_LIVE", "SIM_ONLY", "Defect"]

HARNESS_CHECKS = {
    "recording": "Every event that was made stands in the history: its numbers have no gap, up to the last.",
    "canary": "The judge convicts each of a set of small histories that it must convict.",
}
"""Who convicts a defect of the recorder or of the judge, which no invariant can: the history has lost what would."""

SIM_ONLY: tuple[Level, ...] = ("sim",)
SIM_AND_LIVE: tuple[Level, ...] = ("sim", "live")
"""Where its scenario is one of level sim and live."""
EVERY_LEVEL: tuple[Level, ...] = ("sim", "live", "spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One planted defect."""

    number: int | None
    """M1, M2, ...; some numbers have several variants, and a few defects none."""
    name: str
    about: str
    mirrors: str
    """The ticket, or the mistake, that it stands for."""
    convicted_by: tuple[str, ...]
    """The invariants meant for it; one of them must fail (V23: the run must be vacuous)."""
    variant: Variant
    where: str = "anywhere"
    """In which random scenarios it can show, in words; and as a question:"""
    applies: Applies = anywhere
    scenario: str | None = None
    """The scenario of the catalogue that is meant for it."""
    levels: tuple[Level, ...] = SIM_ONLY
    """Where it is convicted by who is meant for it; at live and spark in its scenario."""

    @property
    def label(self) -> str:
        """`M7`, or nothing."""
        return "" if self.number is None else f"M{self.number}"

    @property
    def shows_in_a_run(self) -> bool:
        """Whether the judgement of one run can convict it; else the kill matrix can."""
        return not set(self.convicted_by) <= set(HARNESS_CHECKS)

    @property
    def tried_in(self) -> str | None:
        """The scenario in which the kill matrix tries it at level sim; None: random ones can show it."""
        return self.scenario if self.applies is NEVER else None

    def scenario_at(self, level: Level) -> str | None:
        """The scenario in which it shows at `level`; None: it was not seen there."""
        return self.scenario if level in self.levels else None
