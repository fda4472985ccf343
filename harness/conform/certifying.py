"""Makes a certificate: carries out the runs of a profile, files what they left, and has both judges judge the files.

Invariants: every run that was made stands in the certificate; a profile that was not carried out whole, for whatever
reason, gives no green one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec.structs import replace as replace_fields

from harness.conform.conclusion import concluded, rows_of, second_word, silences
from harness.conform.filing import (
    SECOND_JUDGE,
    TwiceJudged,
    both_judge_all,
    second_judge_digest,
    stem_of,
    verdict_document,
    write_history,
    write_scenario,
)
from harness.conform.profiles import families_of
from harness.engine.level import Observer, Stop
from harness.engine.open_levels import StagePlan, open_levels
from harness.history.invariants import INVARIANTS
from harness.history.values import without_secrets
from harness.history.verdict import Outcome
from harness.scenario.certificate import (
    Certificate,
    CertifiedRun,
    SecondWord,
    SubjectOfCertificate,
    digest_of_runs,
    sealed,
    sealed_file,
)
from harness.scenario.order import AnyOrder
from harness.scenario.outcome import RunOutcome
from harness.system.clock import Deadline, monotonic_us, utc_now
from harness.system.errors import CannotHere, FloodmarkError, HarnessError, SutError, WorldError
from harness.system.levels import LEVELS
from harness.system.versions import versions
from harness.system.whole_file import disk_errors_told, write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One run of a profile."""

    name: str
    order: AnyOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Certification:
    """What is certified, with what, and into which folder."""

    subject: SubjectOfCertificate
    profile: str
    profile_about: str
    level: str
    planned: Sequence[PlannedRun]
    not_shown: Sequence[str]
    again: str
    sentence_of: Callable[[RunOutcome], str]
    """What is said of a run, the cause first."""
    drawing: str = ""
    """A digest of what draws the page."""
    jobs: int = 1
    """Processes that judge."""
    budget_s: float | None = None


@dataclass(slots=True, kw_only=True)
class _Made:
    """What the runs left. Mutable: filled run by run."""

    outcomes: list[tuple[PlannedRun, RunOutcome]] = field(default_factory=list)
    refused: list[tuple[PlannedRun, SutError]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    is_over_budget: bool = False
    """Whether the budget kept a run from being made to its end."""
    error: WorldError | None = None
    secrets: tuple[str, ...] = ()


def certified(
    wanted: Certification, plan: StagePlan, *, observer: Observer, stop: Stop
) -> tuple[Certificate, WorldError | None]:
    """The certificate, its files written into the report's folder; and what ended it early, if the world failed.

    Raises SutError if the subject was refused in each run, WorldError and CannotHere if no run could be made,
    KeyboardInterrupt if it was interrupted before the first run had ended.
    """
    began_us = monotonic_us()
    made = _carried_out(wanted, plan, observer=observer, stop=stop)
    if not made.outcomes:
        if stop.is_set():
            raise KeyboardInterrupt
        if made.refused:
            raise made.refused[0][1]
        if made.left_out:
            raise CannotHere(made.left_out[0], fix="use another world: --world, --proxy")
        raise WorldError("no run was made: the --budget was used up", fix="give a larger --budget")
    observer.phase("judge", f"{len(made.outcomes)} histories")
    with disk_errors_told(f"the certificate could not be written to {plan.report}"):
        runs, second = _filed(wanted, made, plan.report, observer=observer, stop=stop)
    if not runs:
        raise KeyboardInterrupt
    rows = rows_of(runs, INVARIANTS)
    head = concluded(runs, asked=len(wanted.planned), second=second)
    left_out = _left_out(wanted, made, runs, is_interrupted=stop.is_set())
    not_shown = [*left_out, *wanted.not_shown, *silences(runs, rows, second=second)]
    # The subject with where the expected values came from, as its runs tell
    told: Mapping[str, None] = dict.fromkeys(
        outcome.values.partition("; ")[0].rstrip(".") + "." for _, outcome in made.outcomes if outcome.values
    )
    from_runs = list(told)
    expected_from = [*wanted.subject.expected_from, *from_runs[:_VALUES_TOLD]]
    if (left := len(from_runs) - _VALUES_TOLD) > 0:
        expected_from.append(f"{left} more sentences of this kind are in the runs.")
    certificate = Certificate(
        schema_version=1,
        tone=head.tone,
        word=head.word,
        sentence=head.sentence,
        cause=head.cause,
        subject=replace_fields(wanted.subject, expected_from=expected_from),
        profile=wanted.profile,
        profile_about=wanted.profile_about,
        level=wanted.level,
        world=list(dict.fromkeys(_world(outcome) for _, outcome in made.outcomes)),
        versions=versions(LEVELS[wanted.level].packages)
        | ({"page": wanted.drawing} if wanted.drawing else {}),
        made_at=utc_now().isoformat(timespec="seconds"),
        took_s=round((monotonic_us() - began_us) / 1e6, 1),
        asked=len(wanted.planned),
        rows=rows,
        runs=runs,
        not_shown=not_shown,
        second=second,
        digest=digest_of_runs(runs),
        again=wanted.again,
    )
    return sealed(certificate), made.error


def _left_out(
    wanted: Certification, made: _Made, runs: Sequence[CertifiedRun], *, is_interrupted: bool
) -> Iterator[str]:
    """Why runs of the profile were not made, a sentence each."""
    yield from dict.fromkeys(made.left_out)
    after = f"after {len(runs)} of {len(wanted.planned)} runs."
    if made.is_over_budget:
        yield f"The budget of {wanted.budget_s:g} s was over {after}"
    if made.error:
        yield f"The runs ended early: {made.error.what}"
    if is_interrupted:
        yield f"It was interrupted {after}"


def _carried_out(wanted: Certification, plan: StagePlan, *, observer: Observer, stop: Stop) -> _Made:
    made, asked = _Made(), len(wanted.planned)
    budget = None if wanted.budget_s is None else Deadline(wanted.budget_s)
    observer.phase("plan", f"{plan.run_id}: {asked} runs of profile {wanted.profile} at level {wanted.level}")
    with open_levels(plan, observer=observer, stop=stop) as stage:
        for number, planned in enumerate(wanted.planned, start=1):
            made.is_over_budget |= budget is not None and budget.passed
            if stop.is_set() or made.is_over_budget:
                break
            try:
                outcome = stage.run(planned.order, limit_s=None if budget is None else budget.left_s)
            except CannotHere as sentence:
                made.left_out.append(f"{planned.name} could not run here: {sentence.what}")
            except SutError as error:
                made.refused.append((planned, error))
            except WorldError as error:
                if not made.outcomes:
                    raise
                made.error = error
                break
            else:
                if budget is not None and budget.passed and outcome.judgement.outcome is Outcome.UNKNOWN:
                    made.is_over_budget = True
                elif not outcome.interrupted:
                    made.outcomes.append((planned, outcome))
            observer.counted(done=number, asked=asked)
        made.secrets = stage.secrets
    return made


def _filed(
    wanted: Certification, made: _Made, folder: Path, *, observer: Observer, stop: Stop
) -> tuple[list[CertifiedRun], SecondWord]:
    """Each run with its files, in the order of the plan.

    A stop while runs were made ends no judging: what was made is reported. One that comes now ends it, and leaves out
    the rest.
    """
    had_stopped = stop.is_set()

    def goes_on() -> bool:
        return had_stopped or not stop.is_set()

    stems = [stem_of(planned.name, planned.order.seed) for planned, _ in made.outcomes]
    histories = [folder / "history" / f"{stem}.jsonl.gz" for stem in stems]
    for (_, outcome), history in zip(made.outcomes, histories, strict=True):
        write_history(outcome.history, history)
        with suppress(OSError):  # they still have what `--keep` keeps
            outcome.history.parent.rmdir()
            outcome.history.parent.parent.rmdir()
    runs: dict[int, CertifiedRun] = {}
    differs: list[str] = []
    judgements = both_judge_all(histories, jobs=wanted.jobs, goes_on=goes_on)
    for number, judged in enumerate(judgements):
        planned, outcome = made.outcomes[number]
        if isinstance(judged, FloodmarkError):
            raise HarnessError(f"a history of ours cannot be judged again: {judged.what}")
        differs += [f"{planned.name}, seed {outcome.seed}: {sentence}" for sentence in judged.differs]
        runs[wanted.planned.index(planned)] = _run(
            planned, outcome, judged, stems[number], folder, wanted, secrets=made.secrets
        )
        observer.counted(done=number + 1, asked=len(histories))
    for planned, error in made.refused if goes_on() else ():
        runs[wanted.planned.index(planned)] = CertifiedRun(
            name=planned.name,
            seed=planned.order.seed,
            families=families_of(planned.order.scenario),
            verdict="fail",
            holds=False,
            sentence=error.what,
            checks={},
            again=planned.order.again,
        )
    ordered = [runs[number] for number in sorted(runs)]
    return ordered, word_of_second_judge(ordered, differs)


def word_of_second_judge(runs: Sequence[CertifiedRun], differs: Sequence[str]) -> SecondWord:
    """What the second judge said of the runs that have a history."""
    return second_word(runs, judge=SECOND_JUDGE, sha256=second_judge_digest(), differs=differs)


def _run(
    planned: PlannedRun,
    outcome: RunOutcome,
    judged: TwiceJudged,
    stem: str,
    folder: Path,
    wanted: Certification,
    *,
    secrets: Sequence[str],
) -> CertifiedRun:
    document = verdict_document(outcome, judged)
    verdict, scenario = folder / "verdicts" / f"{stem}.json", folder / "scenarios" / f"{stem}.yaml"
    history = folder / "history" / f"{stem}.jsonl.gz"
    write_whole(verdict, without_secrets(json.dumps(document, indent=1, ensure_ascii=True) + "\n", secrets))
    write_scenario(outcome.plan, scenario)
    return CertifiedRun(
        name=planned.name,
        seed=outcome.seed,
        families=families_of(planned.order.scenario),
        verdict=document["outcome"],
        holds=document["outcome"] == "pass" and not outcome.pitfalls,
        sentence=without_secrets(wanted.sentence_of(replace(outcome, history=history)), secrets),
        checks={one["invariant"]: one["verdict"] for one in judged.judgement["invariants"]},
        pitfalls=[found.name for found in outcome.pitfalls],
        second=judged.second,
        scenario=sealed_file(scenario, below=folder),
        history=sealed_file(history, below=folder),
        judgement=sealed_file(verdict, below=folder),
        again=outcome.again,
    )


def _world(outcome: RunOutcome) -> str:
    world = outcome.world
    told = [world.kind, world.server, world.proxy]
    return f"{', '.join(word for word in told if word)} ({world.why})" if world.why else ", ".join(told)


_VALUES_TOLD = 6
