"""A verdict for programs, and the judgement of a history file: `check`.

Invariant: no history is judged by a judge that overlooks a canary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.history.outside import OUTSIDE
from harness.history.strict_json import integers_of_any_length
from harness.history.verdict import ANOMALIES_IN_FULL, Judgement, Outcome
from harness.judge.canaries.canary import canaries, overlooked
from harness.judge.checkers.judge import Malformed, judge
from harness.judge.checkers.outside.judge import SEEN_FROM_OUTSIDE, judge_history, judge_outside
from harness.judge.explanation.explain import explained_file
from harness.judge.explanation.text import anomaly_lines, closing_lines, rest_of
from harness.system.errors import HarnessError, HistoryError


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the checkers say of one history."""

    outcome: Outcome
    """`pass`, `fail`, `vacuous` (nothing was shown) or `unknown` (it ended too early); it equals that text."""
    invariants: Mapping[str, Outcome]
    """Each invariant that was checked (`V8`) with its own outcome, `not-claimed` included."""
    explanation: str
    """The verdict in words: what was violated or not shown, by which events, and what still holds."""

    @property
    def holds(self) -> bool:
        """Whether the outcome is `pass`: no other outcome is a success."""
        return self.outcome is Outcome.PASS

    @property
    def violated(self) -> tuple[str, ...]:
        """The invariants that are violated."""
        return tuple(name for name, outcome in self.invariants.items() if outcome is Outcome.FAIL)


def check(path: str | Path) -> Verdict:
    """Judge the history in the file `path`: .jsonl, .jsonl.gz, .jsonl.zst, .arrow or .parquet.

    Raises HistoryError with every breach of the format, UsageError if the file cannot be read, WorldError if its form
    needs an extra that is not installed, HarnessError if the judge overlooks a canary.
    """
    refuse_blind_judge()
    file = Path(path)
    with integers_of_any_length():
        judged = judge_history(file)
        if isinstance(judged, Malformed):
            breaches = "\n".join(f"  line {breach.line}: {breach.say}" for breach in judged.breaches)
            raise HistoryError(f"{file} breaks the format of histories\n{breaches}")
        explained = explained_file(judged, file)
        return verdict_of(explained, explanation="\n".join(_lines(explained, file)))


def verdict_of(judgement: Judgement, *, explanation: str) -> Verdict:
    """The verdict for programs."""
    return Verdict(
        outcome=judgement.outcome,
        invariants={verdict.invariant: verdict.outcome for verdict in judgement.invariants},
        explanation=explanation,
    )


def _lines(judgement: Judgement, file: Path) -> Iterator[str]:
    """What does not hold, explained, and then what still does."""
    yield f"{judgement.outcome.upper()}  {file}"
    yield from (f"  warning: {warning}" for warning in judgement.warnings)
    for verdict in judgement.invariants:
        if verdict.outcome in {Outcome.PASS, Outcome.NOT_CLAIMED}:
            continue
        yield f"  {verdict.invariant} {verdict.outcome}" + (f": {verdict.why}" if verdict.why else "")
        for anomaly in verdict.anomalies[:ANOMALIES_IN_FULL]:
            yield from (f"    {line}" for line in anomaly_lines(anomaly))
        if rest := rest_of(verdict):
            yield f"    {rest}"
    if judgement.view == OUTSIDE:
        yield f"  {SEEN_FROM_OUTSIDE}"
    yield from (f"  {line}" for line in closing_lines(judgement))


@cache
def refuse_blind_judge() -> None:
    """Call once in each process that judges. Raises HarnessError if its judge overlooks a canary."""
    seen_outside = overlooked(judge_outside, canaries("jobs"))
    if missed := (*overlooked(judge, (*canaries("operator"), *canaries("files"))), *seen_outside):
        message = f"the judge is blind: it overlooks the canaries {', '.join(missed)}, so none of its verdicts counts"
        raise HarnessError(message, fix="please report it; no history was judged")
