"""What a run that did not simply pass has shown, in a few words by which the runs of a campaign are grouped.

Answers to Sentry's fingerprints. Invariant: the words come from the verdicts and from what ended the run alone, and
name no record, subtask or time, so that one defect gives the same words under every seed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from harness.history.verdict import InvariantVerdict, Judgement, Outcome

_SHOWN_MAX: Final = 20
"""The largest number of runs that a report of many shows in full."""
_FEW: Final = 4
"""Up to this many runs are all shown in full."""
_WORDS_MAX: Final = 140
GRAVEST: Final = (
    "V8",
    "V9",
    "V20",
    "V13",
    "V12",
    "V22",
    "V10",
    "V11",
    "V1",
    "V2",
    "V3",
    "V5",
    "V4",
    "V7",
    "V6",
)
"""The order in which violations are named: first what the database lost, doubled or got wrong."""

OF_LOOKUP: Final = re.compile(
    r"the lookup (?P<did>raised|called) (?P<what>.*) for record (?P<record>\d+) \((?P<line>[^()]+)\)\Z",
    re.DOTALL,
)
"""As `harness.sut.user_lookup.failure_of_lookup` writes it."""
_EXCEPTION = re.compile(r"(\w+): ")
_RAISED_IN_TASK = re.compile(r"a task that the lookup started raised .* \([^()]+\)\Z", re.DOTALL)
"""As `harness.sut.user_lookup.failure_of_task` writes it."""
_EXITED = re.compile(r"the worker's process (ended with exit code \d+|was ended by SIG\w+)\Z")
"""As `harness.engine.level.ending_of` writes it."""


def violation_of(judgement: Judgement, meant: Sequence[str]) -> str:
    """`V8 lost`; of several violations the meant one, then what the database shows."""
    found = judgement.violations or tuple(
        (verdict.invariant, "violated") for verdict in judgement.convicted()
    )
    if not found:
        return ""
    ranks = {name: rank for rank, name in enumerate(GRAVEST)}
    first = min(found, key=lambda one: (bool(meant) and one[0] not in meant, ranks.get(one[0], len(ranks))))
    return " ".join(first)


def error_cause(error: str | None) -> str | None:
    """The exception with its line, or the exit, that ended a run; None: it ended otherwise."""
    raised = OF_LOOKUP.search(error or "")
    if raised is not None and raised["did"] == "raised" and (kind := _EXCEPTION.match(raised["what"])):
        return f"the lookup raised {kind[1]} at {raised['line']}"
    ended = _RAISED_IN_TASK.search(error or "") or _EXITED.search(error or "")
    return None if ended is None else ended[0]


def without_numbers(sentence: str) -> str:
    """Its beginning, with `n` for each number, so that the same trouble with another record is the same."""
    words = re.sub(r"\d+", "n", " ".join(sentence.split()))
    return words if len(words) <= _WORDS_MAX else f"{words[: _WORDS_MAX - 1].rstrip()}…"


def decisive_in(plan: Mapping[str, object]) -> list[str] | None:
    """The invariants that a scenario, as JSON, names as decisive; None: it names none."""
    decisive = plan.get("decisive")
    return [str(name) for name in decisive] if isinstance(decisive, list | tuple) else None


def counts_for(verdict: InvariantVerdict, *, decisive: Collection[str] | None, has_values: bool) -> bool:
    """Whether this verdict counts for the run's overall verdict (`docs/reference/history.md`, "The verdict")."""
    named = decisive is not None and verdict.invariant in decisive
    match verdict.outcome:
        case Outcome.FAIL | Outcome.PASS:
            return True
        case Outcome.UNKNOWN:
            return named or decisive is None
        case Outcome.VACUOUS:
            return named or verdict.invariant == "V23" or (verdict.invariant == "V8" and has_values)
        case Outcome.NOT_CLAIMED:
            return named


def worth_showing(runs: Sequence[tuple[str, bool]], *, of: int = 0) -> list[int]:
    """Which runs, given as cause and whether as expected, a report shows in full; `of`: how many there are in all.

    The first of each cause, those not as expected before others. Of few runs also each without a cause; of more none,
    except the first if there is no cause at all.
    """
    few = max(len(runs), of) <= _FEW
    firsts: dict[str, int] = {}
    for index, (cause, _) in enumerate(runs):
        if cause or few:
            firsts.setdefault(cause or str(index), index)
    found = sorted(firsts.values(), key=lambda index: (runs[index][1], index))
    if not found:
        return [0] if runs else []
    return sorted(found[:_SHOWN_MAX])
