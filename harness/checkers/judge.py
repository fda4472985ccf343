"""The judge: runs every checker over a history and says what holds, what does not, and what cannot be told.

Answers to Jepsen's `check-safe` and `merge-valid`. Invariant: a checker that raises gives `unknown` with its
traceback, never `pass`; a history that breaks the format is not judged at all.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.checkers.case import Case
from harness.checkers.evidence import completed_checkpoints, restores
from harness.checkers.history_trace import Trace
from harness.checkers.invariant import Invariant, conclude
from harness.checkers.overall import overall
from harness.checkers.registry import CHECKERS
from harness.history.event import Event, Out, Owm
from harness.history.header import Header
from harness.history.read import Breach, HistoryReader, open_history
from harness.history.strict_json import integers_of_any_length
from harness.invariants import INVARIANTS
from harness.verdict import InvariantVerdict, Judgement, Outcome

__all__ = ["Malformed", "judge", "judge_file", "judge_reader", "judge_trace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """A file that breaks the format: every breach with its line; nothing of it was judged."""

    breaches: tuple[Breach, ...]
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The form of `floodmark check --format json`."""
        return {
            "verdict": "malformed",
            "breaches": [{"line": breach.line, "say": breach.say} for breach in self.breaches],
            "warnings": list(self.warnings),
            "invariants": [],
        }


def judge(header: Header, events: Iterable[Event], *, checkers: Sequence[Invariant] = CHECKERS) -> Judgement:
    """Judge a well-formed history."""
    return judge_trace(Trace(header).extend(events), checkers=checkers)


def judge_file(path: Path, *, checkers: Sequence[Invariant] = CHECKERS) -> Judgement | Malformed:
    """Judge a history file, if it is one. Raises UsageError where it cannot be read."""
    return judge_reader(open_history(path), checkers=checkers)


def judge_reader(reader: HistoryReader, *, checkers: Sequence[Invariant] = CHECKERS) -> Judgement | Malformed:
    """Judge what a reader gives."""
    with _uncollected(), integers_of_any_length():
        return _judge_reader(reader, checkers)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Everything read stays until the verdict: the collector would walk all of it over and over, for nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _judge_reader(reader: HistoryReader, checkers: Sequence[Invariant]) -> Judgement | Malformed:
    header = reader.header
    trace = None if header is None else Trace(header)
    for event in reader.events():
        if trace is not None:
            trace.step(event)
    if reader.breaches or trace is None:
        return Malformed(breaches=tuple(reader.breaches), warnings=tuple(reader.warnings))
    return judge_trace(trace, checkers=checkers, warnings=reader.warnings)


def judge_trace(
    trace: Trace, *, checkers: Sequence[Invariant] = CHECKERS, warnings: Sequence[str] = ()
) -> Judgement:
    """Judge what the fold over events has filed."""
    case = Case(trace)
    judged = {checker.name: _concluded(checker, case) for checker in checkers}
    decisive = trace.header.decisive
    unjudged = {name: _not_judged(name) for name in decisive or () if name not in judged}
    found = judged | unjudged
    verdicts = tuple(found[name] for name in INVARIANTS if name in found)
    return Judgement(
        outcome=overall(verdicts, decisive=decisive, took_anything=case.took_anything),
        invariants=verdicts,
        warnings=(
            *warnings,
            *(f"{name} is decisive for this history, and not judged by this version" for name in unjudged),
        ),
        accounting=_accounting(case),
    )


def _concluded(checker: Invariant, case: Case) -> InvariantVerdict:
    try:
        return conclude(checker, case)
    except Exception:  # noqa: BLE001  (a defect of one checker must not silence, or please, the others)
        return InvariantVerdict(
            invariant=checker.name,
            outcome=Outcome.UNKNOWN,
            why=f"the checker failed:\n{traceback.format_exc()}",
        )


def _not_judged(name: str) -> InvariantVerdict:
    return InvariantVerdict(invariant=name, outcome=Outcome.UNKNOWN, why="not judged by this version")


def _accounting(case: Case) -> dict[str, int]:
    trace = case.trace
    attempts = [attempt for view in case.views for attempt in view.subtask.attempts.values()]
    visible = [entry.emission for view in case.views for entry in view.output]
    return {
        "events": trace.events,
        "subtasks": sum(bool(view.subtask.attempts) for view in case.views),
        "attempts": len(attempts),
        "records": sum(len(view.source.records) for view in case.views),
        "watermarks": sum(len(view.source.watermarks) for view in case.views),
        "outputs": sum(isinstance(emission, Out) for emission in visible),
        "output_watermarks": sum(isinstance(emission, Owm) for emission in visible),
        "checkpoints": len(completed_checkpoints(case)),
        "restores": restores(case),
        "effects": len(trace.effects),
        "faults": sum(fault.phase == "begin" for fault in trace.faults),
    }
