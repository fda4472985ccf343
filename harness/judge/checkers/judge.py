"""The judge: runs every checker over a history and combines their verdicts into one.

Answers to Jepsen's `check-safe` and `merge-valid`; implements "The verdict" of `docs/reference/history.md`. A checker
that raises yields `unknown` with its traceback, never `pass`. A history that breaks the format is not judged. The
overall verdict is the worst of the verdicts that count, or vacuous if none counts.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from harness.history.event import Event, Out, Owm
from harness.history.header import Header
from harness.history.invariants import INVARIANTS
from harness.history.read import HistoryReader, NeedsExactReader, open_history
from harness.history.rules import FormatBreach
from harness.history.strict_json import integers_of_any_length
from harness.history.text import OnRead
from harness.history.verdict import InvariantVerdict, Judgement, Outcome, worst
from harness.judge.checkers.evidence import completed_checkpoints, restores
from harness.judge.checkers.history_trace import Trace
from harness.judge.checkers.indexed_history import IndexedHistory
from harness.judge.checkers.invariant import Invariant, conclude
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.screen_verdicts import NotScreened, ScreenVerdicts, screen_history
from harness.system.json_types import Json

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


EXACT_BELOW = 256 * 1024
"""A file with fewer bytes is judged without the screen, which would save no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """A file that breaks the format, with every breach and its line; no checker ran."""

    breaches: tuple[FormatBreach, ...]
    warnings: tuple[str, ...] = ()
    view: str = ""
    """The view of the history, if its header says one."""

    def as_json(self) -> Json:
        """The form of `floodmark check --format json`."""
        return {
            "verdict": "malformed",
            **({"view": self.view} if self.view else {}),
            "breaches": [{"line": breach.line, "say": breach.say} for breach in self.breaches],
            "warnings": list(self.warnings),
            "invariants": [],
        }


def judge(
    header: Header,
    events: Iterable[Event],
    *,
    checkers: Sequence[Invariant] = CHECKERS,
    screened: bool = True,
) -> Judgement:
    """Judge a well-formed history. `screened=False` gives the same judgement without the fast screen."""
    events = events if isinstance(events, list) else list(events)
    with uncollected():
        screening = screen_history(header, [events], checkers=checkers) if screened else NotScreened()
        if isinstance(screening, NotScreened):
            trace = Trace(header).extend(events)
            return judge_trace(trace, checkers=checkers, warnings=screening.warnings)
        return _completed(header, screening, events, checkers=checkers)


def judge_file(
    path: Path,
    *,
    checkers: Sequence[Invariant] = CHECKERS,
    progress: OnRead | None = None,
    exact_below: int = EXACT_BELOW,
) -> Judgement | Malformed:
    """Judge a history file. Raises UsageError if it cannot be read.

    A regular history is read once, in constant memory. If the screen suspects some invariants, the file is read
    again for their checkers. If the screen declines the history, or the file has fewer than `exact_below` bytes,
    every checker judges it.
    """
    with uncollected(), integers_of_any_length():
        try:
            small = path.is_file() and path.stat().st_size < exact_below
            streamed = NotScreened() if small else _judge_streamed(path, checkers, progress)
        except NeedsExactReader:
            streamed = NotScreened()
        if not isinstance(streamed, NotScreened):
            return streamed
        judged = judge_reader(open_history(path, progress), checkers=checkers)
        return replace(judged, warnings=(*judged.warnings, *streamed.warnings))


def _judge_streamed(
    path: Path, checkers: Sequence[Invariant], progress: OnRead | None
) -> Judgement | NotScreened:
    history = open_history(path, progress)
    header = history.header
    if header is None:
        return NotScreened()
    screening = screen_history(header, history.batches(), checkers=checkers)
    if isinstance(screening, NotScreened):
        return screening
    events = chain.from_iterable(open_history(path).batches())
    return _completed(header, screening, events, checkers=checkers, warnings=history.warnings)


def _completed(
    header: Header,
    acquittal: ScreenVerdicts,
    events: Iterable[Event],
    *,
    checkers: Sequence[Invariant],
    warnings: Sequence[str] = (),
) -> Judgement:
    """The screen's verdicts, completed by the exact checkers of the invariants that it suspects."""
    found = dict(acquittal.verdicts)
    suspected = [checker for checker in checkers if checker.name not in found]
    if suspected:
        case = IndexedHistory(Trace(header).extend(events))
        found |= {checker.name: _concluded(checker, case) for checker in suspected}
    return judgement_of(
        header,
        found,
        took_anything=acquittal.took_anything,
        accounting=acquittal.accounting,
        warnings=warnings,
    )


def judge_reader(reader: HistoryReader, *, checkers: Sequence[Invariant] = CHECKERS) -> Judgement | Malformed:
    """Judge the events of a reader with every checker, without the screen."""
    with uncollected(), integers_of_any_length():
        header = reader.header
        trace = None if header is None else Trace(header)
        for event in reader.events():
            if trace is not None:
                trace.step(event)
        if reader.breaches or trace is None:
            return Malformed(breaches=tuple(reader.breaches), warnings=tuple(reader.warnings))
        return judge_trace(trace, checkers=checkers, warnings=reader.warnings)


@contextmanager
def uncollected(*, frozen: bool = False) -> Iterator[None]:
    """Garbage collection off: all events of a run stay alive until its verdict, so collecting only costs time.

    `frozen`: `gc.collect` within the block passes over what existed before it.
    """
    was_on = gc.isenabled()
    gc.disable()
    if frozen:
        gc.freeze()
    try:
        yield
    finally:
        if frozen:
            gc.unfreeze()
        if was_on:
            gc.enable()


def judge_trace(
    trace: Trace, *, checkers: Sequence[Invariant] = CHECKERS, warnings: Sequence[str] = ()
) -> Judgement:
    """Judge a complete trace with every checker, without the screen."""
    case = IndexedHistory(trace)
    return judgement_of(
        trace.header,
        {checker.name: _concluded(checker, case) for checker in checkers},
        took_anything=case.took_anything,
        accounting=accounting_of(case),
        warnings=warnings,
        without_values=case.without_values,
    )


def judgement_of(
    header: Header,
    found: Mapping[str, InvariantVerdict],
    *,
    took_anything: bool,
    accounting: Mapping[str, int],
    warnings: Sequence[str] = (),
    without_values: bool = False,
) -> Judgement:
    """The judgement, given the verdict on each checked invariant."""
    verdicts = tuple(found[name] for name in INVARIANTS if name in found)
    return Judgement(
        outcome=overall(
            verdicts, decisive=header.decisive, took_anything=took_anything, without_values=without_values
        ),
        invariants=verdicts,
        warnings=tuple(warnings),
        accounting=accounting,
    )


def _concluded(checker: Invariant, case: IndexedHistory) -> InvariantVerdict:
    try:
        return conclude(checker, case)
    except Exception:  # noqa: BLE001  (a defect of one checker must not silence, or please, the others)
        return InvariantVerdict(
            invariant=checker.name,
            outcome=Outcome.UNKNOWN,
            why=f"the checker failed:\n{traceback.format_exc()}",
        )


def accounting_of(case: IndexedHistory) -> dict[str, int]:
    """The counts of a case, as each judgement carries them."""
    trace = case.trace
    attempts = [attempt for view in case.views for attempt in view.subtask.attempts.values()]
    visible = [entry.emission for view in case.views for entry in view.output]
    return {
        "events": trace.events,
        "subtasks": sum(bool(view.subtask.attempts) for view in case.views),
        "attempts": len(attempts),
        "records": len(case.owner),
        "watermarks": sum(len(view.source.watermarks) for view in case.views),
        "outputs": sum(isinstance(emission, Out) for emission in visible),
        "output_watermarks": sum(isinstance(emission, Owm) for emission in visible),
        "checkpoints": len(completed_checkpoints(case)),
        "restores": restores(case),
        "effects": len(trace.effects),
        "faults": sum(fault.phase == "begin" for fault in trace.faults),
    }
