"""The headline of a finished run, whether the result was expected, and the short names of the invariants.

A run is a success if its verdict is `pass`, or if it has a planted defect that the intended invariants convicted; in
no other case. Every form of a report takes its headline from here. Short names answer to the rule names of the
Reactive Streams TCK; numbers and sentences come from `harness.history.verdict`. An invariant without a short name is
shown by its number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.history.invariants import CATALOGUE
from harness.history.verdict import InvariantVerdict, Outcome
from harness.scenario.outcome import CountedRun, RunOutcome
from harness.scenario.symptom import counts_for, decisive_in, error_cause
from harness.system.levels import LEVELS
from reports.losses import words_of

OUTCOME_MEANING = {
    "pass": "nothing in this history breaks it",
    "fail": "this history breaks it; the events are shown",
    "unknown": "the history does not say",
    "vacuous": "nothing happened that could have broken it, so nothing is shown",
    "not-claimed": "does not apply to this operator",
}


def title_of(invariant: str) -> str:
    """The short name of an invariant; empty if it has none."""
    return CATALOGUE[invariant].title if invariant in CATALOGUE else ""


def describe_invariant(invariant: str) -> str:
    if invariant not in CATALOGUE:
        return "Not described in this version of Floodmark."
    return CATALOGUE[invariant].says


_SIMULATED = "sim"
"""The level without a database."""


def is_of_job(level: str) -> bool:
    """Whether runs of that level are of whole jobs, seen from outside."""
    return level in LEVELS and LEVELS[level].runs_jobs


class Tone(StrEnum):
    """Whether a run went as expected (GOOD), did not (BAD), or is undecided (OPEN)."""

    GOOD = "good"
    BAD = "bad"
    OPEN = "open"

    @property
    def sign(self) -> str:
        """A sign in addition to the colour, for readers who cannot see colours."""
        return {Tone.GOOD: "✓", Tone.BAD: "✗", Tone.OPEN: "?"}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The headline of one run."""

    tone: Tone
    word: str
    """`conformant`, `violated`, `undecided`, `threshold crossed`, `pitfall`, `defect convicted`, `defect not
    convicted`.
    """
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """Runs that ended early for one cause: every form of a report shows the details of the first only."""

    runs: Mapping[str, Sequence[int]]
    """The indices of the runs of each cause that several have."""

    @classmethod
    def of(cls, outcomes: Sequence[RunOutcome]) -> Causes:
        """Finds them by the kind and the line of what the lookup raised, and by a worker's exit code."""
        runs: dict[str, list[int]] = {}
        for index, outcome in enumerate(outcomes):
            cause = error_cause(outcome.error)
            if cause is not None:
                runs.setdefault(cause, []).append(index)
        return cls(runs={cause: its for cause, its in runs.items() if len(its) > 1})

    def first_of(self, index: int) -> int | None:
        """The earlier run that has the details of the cause of run `index`."""
        return next((its[0] for its in self.runs.values() if index in its[1:]), None)

    def sentences(self) -> Iterator[str]:
        for cause, its in self.runs.items():
            yield f"{len(its)} runs have one cause: {cause}; the first has the details"


def read_run(outcome: RunOutcome) -> Reading:
    """The headline of a run, compared with what was expected of it, and the pitfalls that it shows."""
    reading = (
        _of_planted_defect(outcome) if outcome.convicts else _of_thresholds(outcome, _of_reference(outcome))
    )
    if not outcome.pitfalls:
        return reading
    told = " ".join(f"Pitfall {pitfall.name}: {pitfall.says}" for pitfall in outcome.pitfalls)
    sentence = f"{reading.sentence} {told}"
    if outcome.falls_by_pitfall and reading.tone is not Tone.BAD:
        return Reading(tone=Tone.BAD, word="pitfall", sentence=sentence)
    return replace(reading, sentence=sentence)


def _of_thresholds(outcome: RunOutcome, reading: Reading) -> Reading:
    """With the thresholds that were crossed, or could not be measured, in front where they decide."""
    crossed = " ".join(f"Threshold crossed: {threshold.says}." for threshold in outcome.crossed)
    unmeasured = " ".join(f"Threshold unknown: {threshold.says}." for threshold in outcome.unmeasured)
    told = f"{crossed} {unmeasured}".strip()
    if not told:
        return reading
    if reading.tone is Tone.BAD:
        return replace(reading, sentence=f"{reading.sentence} {told}")
    sentence = f"{told} {reading.sentence}"
    if crossed:
        return Reading(tone=Tone.BAD, word="threshold crossed", sentence=sentence)
    return replace(reading, sentence=sentence)


def _of_reference(outcome: RunOutcome) -> Reading:
    """Of a user's lookup with where its expected results are from: in front if they are not judged."""
    reading = _without_values(outcome)
    if not outcome.values:
        return reading
    words = [reading.sentence, outcome.values]
    judged = next((v.outcome for v in outcome.judgement.invariants if v.invariant == "V8"), None)
    if judged is Outcome.VACUOUS:
        words.reverse()
    return replace(reading, sentence=" ".join(words))


def violates(outcome: RunOutcome) -> str:
    """The violated invariants, and behind them those that follow from one of them; empty: none is violated."""
    convicted = outcome.judgement.convicted()
    causes = [verdict.invariant for verdict in convicted if not verdict.follows]
    rest = [verdict for verdict in convicted if verdict.follows]
    if not convicted:
        return ""
    if not rest:
        return f"This run violates {_names(causes)}."
    follow = f"{len(rest)} that follow{'s' if len(rest) == 1 else ''} from {rest[0].follows}"
    return f"This run violates {_names(causes)}, and {follow} ({_names([v.invariant for v in rest])})."


def _without_values(outcome: RunOutcome) -> Reading:
    if outcome.judgement.outcome is Outcome.FAIL:
        early = f" It stopped early: {outcome.error}." if outcome.error else ""
        lost = f"The job's table shows: {words_of(outcome.judgement)}. " if is_of_job(outcome.level) else ""
        sentence = f"{lost}{violates(outcome)}{early}"
        return Reading(tone=Tone.BAD, word="violated", sentence=sentence)
    if outcome.interrupted or outcome.error:
        why = "The run was interrupted" if outcome.interrupted else f"The run stopped early: {outcome.error}"
        return Reading(tone=Tone.OPEN, word="undecided", sentence=f"{why}, so nothing is shown.")
    if outcome.judgement.outcome is Outcome.PASS:
        kept = sum(v.outcome is Outcome.PASS for v in outcome.judgement.invariants)
        plural = "invariant holds" if kept == 1 else "invariants hold"
        where = "this history, seen from outside" if is_of_job(outcome.level) else "this history"
        sentence = f"{kept} {plural} in {where}; none is violated."
        return Reading(tone=Tone.GOOD, word="conformant", sentence=sentence)
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
    if blamed == ["V8"] and outcome.values and word is Outcome.VACUOUS:
        meaning = "no result was compared with an expected one"
    return f"The verdict is {word}{because}: {meaning}. That is not a pass."


def _of_planted_defect(outcome: RunOutcome) -> Reading:
    convicted = [verdict.invariant for verdict in outcome.judgement.convicted()]
    meant = _names(outcome.convicts, joiner="or")
    if outcome.as_expected:
        return Reading(
            tone=Tone.GOOD,
            word="defect convicted",
            sentence=f"Planted defect {outcome.mutant} convicted by {_convicting(outcome)}, as it should be.",
        )
    by_others = f" Only {_names(convicted)} convicted it, which was not intended." if convicted else ""
    if outcome.interrupted or outcome.error:
        return Reading(
            tone=Tone.OPEN,
            word="undecided",
            sentence=f"The run ended before {meant} could convict {outcome.mutant}.{by_others}",
        )
    return Reading(
        tone=Tone.BAD,
        word="defect not convicted",
        sentence=f"Planted defect {outcome.mutant} should be convicted by {meant}, but was not.{by_others}",
    )


def _convicting(outcome: RunOutcome) -> str:
    """The intended invariants that convicted it; a defect of the harness is convicted by a vacuous V23."""
    meant = [v for v in outcome.judgement.invariants if v.invariant in outcome.convicts]
    found = {Outcome.FAIL: "", Outcome.VACUOUS: " (vacuous)"}
    return _names([v.invariant + found[v.outcome] for v in meant if v.outcome in found])


def counts_towards(outcome: RunOutcome, verdict: InvariantVerdict) -> bool:
    """Whether this verdict counts for the run's overall verdict (`docs/reference/history.md`, "The verdict")."""
    return counts_for(verdict, decisive=decisive_in(outcome.plan), has_values=bool(outcome.values))


def counted_in(outcome: RunOutcome) -> str:
    """Where the counts beside the checkers come from: level sim has no SQL database."""
    return "the simulated tables" if outcome.level == _SIMULATED else "the database by SQL"


def counts_of(outcomes: Sequence[RunOutcome]) -> dict[Tone, int]:
    tones = [read_run(outcome).tone for outcome in outcomes]
    return {tone: tones.count(tone) for tone in Tone}


def tone_of(run: CountedRun) -> Tone:
    """The tone of a run that was only counted."""
    if run.as_expected:
        return Tone.GOOD
    survived = run.mutant is not None and run.verdict is Outcome.PASS
    return Tone.BAD if survived or run.falls or run.verdict is Outcome.FAIL else Tone.OPEN


def headline_of(outcomes: Sequence[RunOutcome], counted: Sequence[CountedRun] = ()) -> Reading:
    """The headline of several runs: the worst tone of all; without any run, open.

    `counted`: all runs, if `outcomes` are only some of them.
    """
    if len(outcomes) == 1 and not counted:
        return read_run(outcomes[0])
    counts = Counter(map(tone_of, counted)) if counted else counts_of(outcomes)
    sentence = f"{len(counted or outcomes)} runs: {counts[Tone.GOOD]} as expected, {counts[Tone.BAD]} not, "
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
