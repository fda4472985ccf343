"""One run with everything that each form of a report shows of it: read here, shown six ways.

Invariant: page, JUnit, JSON and terminal draw on the same values, and none of them reads the history again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.explanation.explain import explained_file
from harness.runs.outcome import RunOutcome
from reports.conviction import Conviction, convictions_of
from reports.history_view import HistoryView, read_view
from reports.reading import Reading, read_run
from reports.threats import threats_to

__all__ = ["RunSection", "StoredHistory", "section_of", "sections_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHistory:
    """The history file in the report's folder."""

    file: str
    """Relative to the folder."""
    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSection:
    """A run, its first words, its threats, its failures explained and its history read."""

    outcome: RunOutcome
    reading: Reading
    threats: tuple[str, ...]
    convictions: tuple[Conviction, ...]
    view: HistoryView
    stored: StoredHistory | None = None


def section_of(outcome: RunOutcome, *, stored: StoredHistory | None = None) -> RunSection:
    """Read the history of `outcome` and put together what a report says of it."""
    if outcome.judgement.guarantee is None:
        outcome = replace(outcome, judgement=explained_file(outcome.judgement, outcome.history))
    view = read_view(outcome.history, judgement=outcome.judgement)
    return RunSection(
        outcome=outcome,
        reading=read_run(outcome),
        threats=threats_to(outcome, reading_problems=view.problems),
        convictions=convictions_of(outcome, view),
        view=view,
        stored=stored,
    )


def sections_of(outcomes: Sequence[RunOutcome]) -> tuple[RunSection, ...]:
    """The sections of several runs, in their order, nothing stored."""
    return tuple(section_of(outcome) for outcome in outcomes)
