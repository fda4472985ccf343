"""How a finished run is to be read: its headline, whether that was wanted, and the invariants by short names.

A planted defect that was convicted by what is meant for it reads as a success; only then, and for a `pass`,
is anything green. Every form of a report takes its first words from here. Short names answer to the rule
names of the Reactive Streams TCK; ids and sentences are those of `harness.verdict`, and an id without a name
is shown bare, never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.runs.outcome import RunOutcome
from harness.verdict import INVARIANTS, InvariantVerdict, Outcome

__all__ = [
    "OUTCOME_MEANING",
    "TITLES",
    "Reading",
    "Tone",
    "counted_in",
    "counts_of",
    "counts_towards",
    "describe_invariant",
    "headline_of",
    "read_run",
    "title_of",
]

TITLES: dict[str, str] = {
    "V1": "ordered",
    "V2": "within segments",
    "V3": "order per key",
    "V4": "watermarks rise",
    "V5": "no crossing",
    "V6": "watermarks pass",
    "V7": "no phantom watermark",
    "V8": "exactly once",
    "V9": "one effect",
    "V10": "checkpoint cut",
    "V11": "restore",
    "V12": "epochs",
    "V13": "fencing",
    "V14": "capacity",
    "V15": "tries and timeouts",
    "V16": "liveness",
    "V18": "checkpoints go on",
    "V19": "integrity",
    "V20": "errors are visible",
    "V21": "one thread",
    "V23": "evidence",
}
"""Two or three words each, for tables and headings."""

OUTCOME_MEANING = {
    "pass": "nothing in this history breaks it",
    "fail": "this history breaks it; the events are shown",
    "unknown": "the history does not say",
    "vacuous": "nothing happened that could have broken it, so nothing is shown",
    "not-claimed": "does not apply to this operator",
}


def title_of(invariant: str) -> str:
    """Its short name, or nothing where this version does not know it."""
    return TITLES.get(invariant, "")


def describe_invariant(invariant: str) -> str:
    """What it says, one whole sentence."""
    return INVARIANTS.get(invariant, "Not described in this version of Floodmark.")


_SIMULATED = "sim"
"""The level without a database."""


class Tone(StrEnum):
    """Whether a run showed what it was to show."""

    GOOD = "good"
    BAD = "bad"
    OPEN = "open"

    @property
    def sign(self) -> str:
        """A mark beside the colour, for those who do not see it."""
        return {Tone.GOOD: "✓", Tone.BAD: "✗", Tone.OPEN: "?"}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One run's first words."""

    tone: Tone
    word: str
    """`conformant`, `violated`, `undecided`, `defect convicted`, `defect not convicted`."""
    sentence: str


def read_run(outcome: RunOutcome) -> Reading:
    """The headline of a run, with what was expected of it."""
    if outcome.convicts:
        return _of_planted_defect(outcome)
    return _of_reference(outcome)


def _of_reference(outcome: RunOutcome) -> Reading:
    convicted = [verdict.invariant for verdict in outcome.judgement.convicted()]
    if outcome.judgement.outcome is Outcome.FAIL:
        return Reading(tone=Tone.BAD, word="violated", sentence=f"This run violates {_names(convicted)}.")
    if outcome.interrupted or outcome.error:
        why = "The run was interrupted" if outcome.interrupted else "The run stopped early"
        return Reading(tone=Tone.OPEN, word="undecided", sentence=f"{why}, so nothing is shown.")
    if outcome.judgement.outcome is Outcome.PASS:
        kept = sum(v.outcome is Outcome.PASS for v in outcome.judgement.invariants)
        plural = "invariant holds" if kept == 1 else "invariants hold"
        return Reading(
            tone=Tone.GOOD, word="conformant", sentence=f"{kept} {plural} in this history; none is violated."
        )
    return Reading(tone=Tone.OPEN, word="undecided", sentence=_why_undecided(outcome))


def _why_undecided(outcome: RunOutcome) -> str:
    word = outcome.judgement.outcome
    blamed = [
        verdict.invariant
        for verdict in outcome.judgement.invariants
        if verdict.outcome is word and counts_towards(outcome, verdict)
    ]
    because = f" because of {_names(blamed)}" if blamed else ""
    meaning = "too little happened" if word is Outcome.VACUOUS else "the history does not say"
    return f"The verdict is {word}{because}: {meaning}. That is no pass."


def _of_planted_defect(outcome: RunOutcome) -> Reading:
    convicted = [verdict.invariant for verdict in outcome.judgement.convicted()]
    meant = _names(outcome.convicts, joiner="or")
    if outcome.as_expected:
        return Reading(
            tone=Tone.GOOD,
            word="defect convicted",
            sentence=f"Planted defect {outcome.mutant} convicted by {_convicting(outcome)}, as it should be.",
        )
    by_others = f" Only {_names(convicted)} convicted it, by chance." if convicted else ""
    if outcome.interrupted or outcome.error:
        return Reading(
            tone=Tone.OPEN,
            word="undecided",
            sentence=f"The run ended before {meant} could convict {outcome.mutant}.{by_others}",
        )
    return Reading(
        tone=Tone.BAD,
        word="defect not convicted",
        sentence=f"Planted defect {outcome.mutant} was to be convicted by {meant}, and was not.{by_others}",
    )


def _convicting(outcome: RunOutcome) -> str:
    """Who convicted it, of those that were to; a defect of the harness is convicted by a vacuous V23."""
    meant = [v for v in outcome.judgement.invariants if v.invariant in outcome.convicts]
    found = {Outcome.FAIL: "", Outcome.VACUOUS: " (vacuous)"}
    return _names([v.invariant + found[v.outcome] for v in meant if v.outcome in found])


def counts_towards(outcome: RunOutcome, verdict: InvariantVerdict) -> bool:
    """Whether this invariant's answer decides the run (`docs/reference/history.md`, "The verdict")."""
    decisive = _decisive(outcome.plan)
    named = decisive is not None and verdict.invariant in decisive
    match verdict.outcome:
        case Outcome.FAIL | Outcome.PASS:
            return True
        case Outcome.UNKNOWN:
            return named or decisive is None
        case Outcome.VACUOUS:
            return named or verdict.invariant == "V23"
        case Outcome.NOT_CLAIMED:
            return named


def counted_in(outcome: RunOutcome) -> str:
    """Where the accounting beside the checkers was taken: a simulated database answers no SQL."""
    return "the simulated tables" if outcome.level == _SIMULATED else "the database by SQL"


def _decisive(plan: Mapping[str, object]) -> list[str] | None:
    decisive = plan.get("decisive")
    return [str(name) for name in decisive] if isinstance(decisive, list | tuple) else None


def counts_of(outcomes: Sequence[RunOutcome]) -> dict[Tone, int]:
    """How many runs showed what they were to show, did not, or left it open."""
    tones = [read_run(outcome).tone for outcome in outcomes]
    return {tone: tones.count(tone) for tone in Tone}


def headline_of(outcomes: Sequence[RunOutcome]) -> Reading:
    """The first line over all runs: bad beats open beats good; no run at all is open."""
    if len(outcomes) == 1:
        return read_run(outcomes[0])
    counts = counts_of(outcomes)
    sentence = f"{len(outcomes)} runs: {counts[Tone.GOOD]} as expected, {counts[Tone.BAD]} not, "
    sentence += f"{counts[Tone.OPEN]} undecided."
    if counts[Tone.BAD]:
        return Reading(tone=Tone.BAD, word="not as expected", sentence=sentence)
    if counts[Tone.OPEN] or not outcomes:
        return Reading(tone=Tone.OPEN, word="undecided", sentence=sentence)
    return Reading(tone=Tone.GOOD, word="as expected", sentence=sentence)


def _names(names: Sequence[str], *, joiner: str = "and") -> str:
    if not names:
        return "nothing"
    *before, last = names
    return f"{', '.join(before)} {joiner} {last}" if before else last
