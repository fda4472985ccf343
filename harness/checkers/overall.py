"""The overall verdict: the worst of those that count (`docs/history.md`, "The verdict").

Invariant: nothing that does not count can make a history pass; where nothing counts, it is vacuous.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.verdict import InvariantVerdict, Outcome, worst

__all__ = ["overall"]

_ALWAYS_COUNTS = "V23"
"""Its `vacuous` says that the run showed too little."""


def overall(
    verdicts: Iterable[InvariantVerdict], *, decisive: Sequence[str] | None, took_anything: bool
) -> Outcome:
    """The verdict on a history whose invariants got `verdicts`."""
    counted = [outcome for verdict in verdicts for outcome in _counted(verdict, decisive)]
    outcome = worst(counted)
    return Outcome.VACUOUS if outcome is Outcome.PASS and not took_anything else outcome


def _counted(verdict: InvariantVerdict, decisive: Sequence[str] | None) -> list[Outcome]:
    named = decisive is not None and verdict.invariant in decisive
    match verdict.outcome:
        case Outcome.NOT_CLAIMED:
            return [Outcome.VACUOUS] if named else []
        case Outcome.VACUOUS:
            return [Outcome.VACUOUS] if named or verdict.invariant == _ALWAYS_COUNTS else []
        case Outcome.UNKNOWN:
            return [Outcome.UNKNOWN] if named or decisive is None else []
        case outcome:
            return [outcome]
