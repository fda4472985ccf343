"""One run with everything that a report shows of it, including the threats to its validity.

Page, JUnit, JSON and terminal use the same values, and none of them reads the history again. Threats answer to
Schemathesis' warnings-first report: each states a fact of this run that weakens its verdict. They are shown even
if the verdict is a pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.history.verdict import Outcome
from harness.judge.explanation.explain import explained_file
from harness.scenario.outcome import FaultRecord, HistoryFile, RunOutcome
from harness.system.levels import LEVELS
from reports.banner import Banner, banner_of
from reports.conviction import Conviction, convictions_of
from reports.history_view import HistoryView, read_view
from reports.job_section import JobSection, job_section_of
from reports.reading import Reading, counts_towards, is_of_job, read_run

_FEW = 10
"""A pass on fewer observations is reported as a threat."""
_OF_ROWS = frozenset({"V1", "V3", "V8"})
"""The invariants of a job that count rows."""

NOT_CLAIMED = (
    "That other seeds, schedules or timings hold: a pass is about the histories recorded here.",
    "That no defect is left: the checkers see only defects that show in a history.",
    "Anything about a fault that is not in the tables, or that left no evidence.",
    "Anything under a rescale that this run did not make, or with a source that gives other elements when read again.",
    "That the database keeps its own promises: they are assumed, and only runs with two servers probe them (V22).",
    "Performance: times were taken under faults, on this machine, to show which fault took effect and when.",
)
"""What no report claims, whatever its verdict."""


def threats_to(outcome: RunOutcome, *, reading_problems: Sequence[str] = ()) -> tuple[str, ...]:
    """The threats to the validity of this run, the gravest first, each once."""
    found = [
        *_early_end(outcome),
        *(line for fault in outcome.faults for line in _of_fault(fault)),
        *_undecided(outcome, counts=True),
        *outcome.threats,
        *outcome.judgement.warnings,
        *reading_problems,
        *_few(outcome),
    ]
    return tuple(dict.fromkeys(found))


def limits_of(outcome: RunOutcome) -> tuple[str, ...]:
    """What every run of this scenario, level and world leaves open."""
    return (*_of_world(outcome), *_undecided(outcome, counts=False))


def _early_end(outcome: RunOutcome) -> Iterator[str]:
    if outcome.interrupted:
        yield "The run was interrupted; what follows is about the part that ran."
    if outcome.error:
        yield f"The run stopped early: {outcome.error}"


def _of_fault(fault: FaultRecord) -> Iterator[str]:
    if fault.armed_us is None:
        yield f"Fault {fault.id} ({fault.kind}) never began: its trigger did not occur."
    elif not fault.bites:
        yield f"Fault {fault.id} ({fault.kind}) began and left no evidence that it took effect."
    elif fault.witnesses is not None and len(fault.witnesses) == 1:
        (witness,) = fault.witnesses
        whose = "its own word" if witness == "the fault itself" else f"the word of {witness}"
        yield f"Fault {fault.id} ({fault.kind}) is believed on {whose} alone: no second witness confirms its effect."


def _undecided(outcome: RunOutcome, *, counts: bool) -> Iterator[str]:
    """A line for each reason, with the invariants that have it; `counts`: of those that decide the scenario."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for verdict in outcome.judgement.invariants:
        is_open = verdict.outcome in {Outcome.UNKNOWN, Outcome.VACUOUS}
        if is_open and counts_towards(outcome, verdict) is counts:
            why = verdict.why.splitlines()[-1] if verdict.why else "no reason was given."
            reasons.setdefault((str(verdict.outcome), why), []).append(verdict.invariant)
    for (word, why), names in reasons.items():
        one = len(names) == 1
        weight = "" if counts else f", which {'does' if one else 'do'} not decide this scenario"
        yield f"{', '.join(names)} {'is' if one else 'are'} {word}{weight}: {why}"


def _of_world(outcome: RunOutcome) -> Iterator[str]:
    if outcome.world.server.lower().startswith("mariadb"):
        yield f"The database was {outcome.world.server}, not MySQL, which may behave differently."
    if outcome.world.kind == "local":
        yield "The world was local processes on this machine, not containers with their own network."
    level = LEVELS.get(outcome.level)  # None: a run of another version
    if level is not None and outcome.world.is_half_real:
        yield level.not_shown_of_server
    elif level is not None and level.not_shown:
        yield level.not_shown


def _few(outcome: RunOutcome) -> Iterator[str]:
    # Of a job the other invariants count faults, starts and exits, of which a run has few.
    counting = _OF_ROWS if is_of_job(outcome.level) else None
    few = [
        f"{verdict.invariant} ({verdict.observed})"
        for verdict in outcome.judgement.invariants
        if verdict.outcome is Outcome.PASS and 0 < verdict.observed < _FEW
        if counting is None or verdict.invariant in counting
    ]
    if few:
        yield f"Passed on fewer than {_FEW} observations: {', '.join(few)}."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSection:
    """A run with its headline, its threats, its explained convictions and its history."""

    outcome: RunOutcome
    reading: Reading
    banner: Banner
    threats: tuple[str, ...]
    limits: tuple[str, ...]
    """See `limits_of`."""
    convictions: tuple[Conviction, ...]
    view: HistoryView
    job: JobSection | None = None
    """The section of a history seen from outside."""
    stored: HistoryFile | None = None


def section_of(outcome: RunOutcome, *, stored: HistoryFile | None = None) -> RunSection:
    """Read the history of `outcome` and gather what a report shows of it."""
    if outcome.judgement.guarantee is None and not is_of_job(outcome.level):
        outcome = replace(outcome, judgement=explained_file(outcome.judgement, outcome.history))
    view = read_view(outcome.history, judgement=outcome.judgement)
    return RunSection(
        outcome=outcome,
        reading=read_run(outcome),
        banner=banner_of(outcome, view),
        threats=threats_to(outcome, reading_problems=view.problems),
        limits=limits_of(outcome),
        convictions=convictions_of(outcome, view),
        view=view,
        job=job_section_of(outcome, view),
        stored=stored,
    )
