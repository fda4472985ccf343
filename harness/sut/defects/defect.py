"""What a planted defect is: what is wrong, after what, who must convict it, and the parts of a run that it replaces.

Answers to mutation testing; the numbers M1, M2, ... are those of `docs/reference/mutants.md`.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.faults.parts.parts import Level
from harness.scenario.plan import Runner
from harness.sut.defects.where import NEVER, Applies, anywhere
from harness.sut.variant import Variant

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
    mirrors: str = ""
    """The ticket, or the mistake, that it stands for."""
    convicted_by: tuple[str, ...] = ()
    """The invariants meant for it; at least one of them must fail (V23: the run must be vacuous). Empty: any may."""
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
    runner: Runner | None = None
    """The runner of level spark that alone shows it; None: any runner that has the parts it replaces."""

    @property
    def label(self) -> str:
        """`M7`; empty if it has no number."""
        return "" if self.number is None else f"M{self.number}"

    @property
    def shows_in_a_run(self) -> bool:
        """Whether the judgement of one run can convict it; if not, the kill matrix can."""
        return bool(self.levels) and not (self.convicted_by and set(self.convicted_by) <= set(HARNESS_CHECKS))

    @property
    def tried_in(self) -> str | None:
        """The scenario in which the kill matrix tries it at level sim; None: random scenarios can show it."""
        return self.scenario if self.applies is NEVER else None

    def scenario_at(self, level: Level) -> str | None:
        """The scenario in which it shows at `level`; None: it was not convicted at that level."""
        return self.scenario if level in self.levels else None
