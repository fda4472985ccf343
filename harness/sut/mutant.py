"""A mutant: one planted defect, what it stands for, and who is meant to convict it.

Answers to mutation testing; the numbers M1, M2, ... are those of `docs/mutants.md`. Invariant: it says what is planted
and never how: that is the level's affair.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HARNESS_CHECKS", "Mutant"]

HARNESS_CHECKS = {
    "recording": "Every event that was made stands in the history: its numbers have no gap, up to the last.",
    "canary": "The judge convicts each of a set of small histories that it must convict.",
}
"""Who convicts a defect of the recorder or of the judge, which no invariant can: the history has lost what would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One planted defect."""

    number: int | None
    """M1, M2, ...; some numbers have several variants, and a few mutants none."""
    name: str
    about: str
    mirrors: str
    """The ticket, or the mistake, that it stands for."""
    convicted_by: tuple[str, ...]
    """The invariants meant for it; one of them must fail (V23: the run must be vacuous)."""
    scenario: str | None = None
    """The scenario meant for it at levels live and spark; none: it shows at level sim only."""
    writes_at_once: bool = False
    """Each output is visible when it leaves (live: `SplitSink`)."""
    bypasses_proxy: bool = False
    arms_nothing: bool = False

    @property
    def label(self) -> str:
        """`M7`, or nothing."""
        return "" if self.number is None else f"M{self.number}"

    @property
    def shows_in_a_run(self) -> bool:
        """Whether the judgement of one run can convict it; else the kill matrix can."""
        return not set(self.convicted_by) <= set(HARNESS_CHECKS)
