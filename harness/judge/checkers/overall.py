"""The overall verdict of a history: the worst of the verdicts on its invariants that count, whatever its view."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from harness.history.verdict import InvariantVerdict, Outcome, worst

_ALWAYS_COUNTS = "V23"
"""A vacuous V23 always counts: the run did not show what was expected."""
_COUNTS_WITHOUT_VALUES = "V8"
"""A vacuous V8 counts if no expected value is known: the run did not show that any result is right."""


def overall(
    verdicts: Iterable[InvariantVerdict],
    *,
    decisive: Sequence[str] | None,
    took_anything: bool,
    without_values: bool = False,
) -> Outcome:
    """The overall outcome, given the verdict on each invariant; `without_values`: V8 knows no expected value."""
    counting = {_ALWAYS_COUNTS, *(decisive or ()), *((_COUNTS_WITHOUT_VALUES,) if without_values else ())}
    counted = [outcome for verdict in verdicts for outcome in _counted(verdict, decisive, counting)]
    outcome = worst(counted)
    return Outcome.VACUOUS if outcome is Outcome.PASS and not took_anything else outcome


def _counted(
    verdict: InvariantVerdict, decisive: Sequence[str] | None, counting: Container[str]
) -> list[Outcome]:
    """What a verdict adds to the overall one; `counting` names the invariants whose `vacuous` counts."""
    named = decisive is not None and verdict.invariant in decisive
    match verdict.outcome:
        case Outcome.NOT_CLAIMED:
            return [Outcome.VACUOUS] if named else []
        case Outcome.VACUOUS:
            return [Outcome.VACUOUS] if verdict.invariant in counting else []
        case Outcome.UNKNOWN:
            return [Outcome.UNKNOWN] if named or decisive is None else []
        case outcome:
            return [outcome]
