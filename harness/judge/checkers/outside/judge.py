"""Judges a history seen from outside by the invariants that it can show; all others are not claimed.

Implements `docs/reference/history-outside.md`. Two passes over the events; memory grows with the slots, not
with the log.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.history.invariants import INVARIANTS
from harness.history.outside import OUTSIDE, OutsideEvent, OutsideHeader
from harness.history.read import HistoryReader, open_history
from harness.history.strict_json import integers_of_any_length
from harness.history.text import OnRead
from harness.history.verdict import InvariantVerdict, Judgement, Outcome
from harness.judge.checkers.invariant import Findings, Invariant, settle
from harness.judge.checkers.judge import Malformed, judge_file, overall, uncollected
from harness.judge.checkers.outside.delivery import (
    find_delivery,
    find_key_order,
    find_source_order,
    is_without_values,
)
from harness.judge.checkers.outside.errors import find_evidence, find_visible_errors
from harness.judge.checkers.outside.finish import Finish, finish_of
from harness.judge.checkers.outside.job_trace import OutsideTrace
from harness.judge.checkers.outside.slots import Records
from harness.judge.checkers.outside.starts import find_explained_exits, find_fencing, find_liveness
from harness.judge.checkers.registry import CHECKERS

SEEN_FROM_OUTSIDE = (
    "Seen from outside: judged from the source, the table and its log of changes;"
    " what happens inside the job is not claimed."
)
"""What a judgement of this view is worth, for reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One invariant as it is judged from outside."""

    name: str
    find: Callable[[OutsideTrace, Finish], Findings | str]
    """The findings, or why it does not apply."""
    vacuous: str
    unsettled: str = "the job was not finished, and so far "


_SEEN: Mapping[str, _Seen] = {
    seen.name: seen
    for seen in (
        _Seen(
            name="V1",
            find=lambda trace, _: find_source_order(trace),
            vacuous="no two rows of one part of the source appeared",
        ),
        _Seen(
            name="V3",
            find=lambda trace, _: find_key_order(trace),
            vacuous="no two rows of one key and part of the source appeared",
        ),
        _Seen(name="V8", find=find_delivery, vacuous="nothing was offered, or no row was ever in the table"),
        _Seen(
            name="V13", find=lambda trace, _: find_fencing(trace), vacuous="there were fewer than two starts"
        ),
        _Seen(name="V16", find=find_liveness, vacuous=""),
        _Seen(name="V20", find=find_visible_errors, vacuous="no record fails, and there is no dead letter"),
        _Seen(name="V23", find=find_evidence, vacuous="nothing was expected"),
        _Seen(
            name="V24", find=lambda trace, _: find_explained_exits(trace), vacuous="the job was never started"
        ),
    )
}
_NOT_SEEN = "a history seen from outside cannot show it"


def judge_outside(
    header: OutsideHeader, events: Sequence[OutsideEvent], *, invariants: Collection[str] = tuple(INVARIANTS)
) -> Judgement:
    """Judge a well-formed history seen from outside, by the named invariants."""
    trace = OutsideTrace(header, Records(header, events), events)
    return _judge_trace(trace, invariants=invariants)


def judge_history(
    path: Path,
    *,
    checkers: Sequence[Invariant] = CHECKERS,
    progress: OnRead | None = None,
) -> Judgement | Malformed:
    """Judge a history file of either view. Raises UsageError if unreadable."""
    with integers_of_any_length():
        reader = open_history(path, progress)
        if not reader.is_outside:
            return judge_file(path, checkers=checkers, progress=progress)
        with uncollected():
            return _judge_file(path, reader, invariants=[checker.name for checker in checkers])


def _judge_file(path: Path, reader: HistoryReader, *, invariants: Collection[str]) -> Judgement | Malformed:
    """The first pass finds the breaches and the offers, the second the rest."""
    header = reader.outside
    if header is not None:
        records = Records(header, reader.outside_events())
    for _ in reader.outside_events():
        pass
    if header is None or reader.breaches:
        return Malformed(breaches=tuple(reader.breaches), warnings=tuple(reader.warnings), view=OUTSIDE)
    trace = OutsideTrace(header, records, open_history(path).outside_events())
    return _judge_trace(trace, invariants=invariants, warnings=reader.warnings)


def _judge_trace(
    trace: OutsideTrace, *, invariants: Collection[str], warnings: Sequence[str] = ()
) -> Judgement:
    finish = finish_of(trace)
    verdicts = tuple(_concluded(name, trace, finish) for name in INVARIANTS if name in invariants)
    return Judgement(
        outcome=overall(
            verdicts,
            decisive=trace.header.decisive,
            took_anything=bool(trace.records.by_key),
            without_values=is_without_values(trace),
        ),
        invariants=verdicts,
        warnings=(*warnings, *_warnings(trace, finish)),
        accounting=_accounting(trace),
        view=OUTSIDE,
    )


def _concluded(name: str, trace: OutsideTrace, finish: Finish) -> InvariantVerdict:
    seen = _SEEN.get(name)
    if seen is None:
        return InvariantVerdict(invariant=name, outcome=Outcome.NOT_CLAIMED, why=_NOT_SEEN)
    try:
        found = seen.find(trace, finish)
        if isinstance(found, str):
            return InvariantVerdict(invariant=name, outcome=Outcome.NOT_CLAIMED, why=found)
        return settle(seen, [found])
    except Exception:  # noqa: BLE001  (a defect of one checker must not silence, or please, the others)
        why = f"the checker failed:\n{traceback.format_exc()}"
        return InvariantVerdict(invariant=name, outcome=Outcome.UNKNOWN, why=why)


def _warnings(trace: OutsideTrace, finish: Finish) -> list[str]:
    said = [warning for reading in trace.readings.values() for warning in reading.warnings]
    if finish.why:
        said.append(finish.why)
    if trace.disagreement:
        clauses = "; ".join(trace.disagreement)
        said.append(
            f"log and table disagree, so only the readings convict, and the log shows nothing: {clauses}"
        )
    return said


def _accounting(trace: OutsideTrace) -> dict[str, int]:
    return {
        "events": trace.events,
        "records": len(trace.records.by_key),
        "starts": len(trace.starts),
        "exits": len(trace.exits),
        "transactions": trace.replay.transactions,
        "log_rows": trace.replay.rows,
        "table_rows": sum(rows.size for rows in trace.readings[1].slots.values()),
        "dead_letters": sum(map(len, trace.readings[1].dead.values())),
        "lookups": trace.asked,
        "faults": len(trace.faults),
    }
