"""What the database itself has lost of a job's rows in a run with two servers, and the judgement beside it (V22).

Invariant: a job is not convicted of what another server had acknowledged to it, and is not acquitted either: where
nothing else is wrong, the run is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.engine.blame import joined
from harness.history.outside import Offer, OutsideEvent, OutsideHeader, TableRow
from harness.history.verdict import InvariantVerdict, Judgement, Outcome
from harness.judge.checkers.outside.judge import judge_outside
from harness.levels.job.life import JobLife
from harness.levels.job.sink_rows import id_text

Judge = Callable[[OutsideHeader, Sequence[OutsideEvent]], Judgement]


def judge_of(life: JobLife) -> Judge:
    """The judge of a life: with two servers the database is judged too."""
    second = life.parts.ground.second
    if second is None:
        return judge_outside
    table, columns = life.parts.order.job.sink.table, life.seen.columns
    lost = [row for one in second.losses if one.table == table for row in one.rows]
    return _JudgedBeside(
        substrate=second.verdict(life.records, life.parts.order.scenario),
        lost=frozenset(columns.row(row).id_text for row in lost) if columns is not None else frozenset(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _JudgedBeside:
    """Judges a history, with what is known of the database beside it."""

    substrate: InvariantVerdict
    lost: frozenset[str]
    """The ids of the rows that a server had, and the one that serves in the end has not got from it."""

    def __call__(self, header: OutsideHeader, events: Sequence[OutsideEvent]) -> Judgement:
        found = judge_outside(header, events)
        missing = frozenset(_missing(events))
        gone = missing & self.lost
        verdicts = [_excused(verdict, gone, missing) for verdict in found.invariants]
        return joined(found, verdicts, self.substrate)


def _missing(events: Sequence[OutsideEvent]) -> Iterator[str]:
    """The ids of the offered records that must yield a row, and have none in the last reading."""
    rows = [event for event in events if isinstance(event, TableRow)]
    last = max((row.reading for row in rows), default=0)
    there = {id_text(row.id) for row in rows if row.reading == last}
    for event in events:
        if isinstance(event, Offer) and event.fails is not True and event.expect != []:
            text = id_text(event.id)
            if text not in there:
                yield text


def _excused(verdict: InvariantVerdict, gone: Collection[str], missing: Collection[str]) -> InvariantVerdict:
    """V8 `lost` of records that were lost, and no others; V16 `stuck` if nothing else is missing."""
    if verdict.outcome is not Outcome.FAIL:
        return verdict
    total = len(verdict.anomalies) + verdict.omitted
    kinds = {one.kind for one in verdict.anomalies}
    named = all(id_text(one.id) in gone for one in verdict.anomalies)
    if not named or not (
        (kinds == {"lost"} and total <= len(gone)) or (kinds == {"stuck"} and len(gone) == len(missing))
    ):
        return verdict
    why = (
        f"blamed on the database (V22): {len(gone)} records had rows that it had acknowledged on one server, and that "
        "the server promoted since does not have"
    )
    return replace(verdict, outcome=Outcome.UNKNOWN, why=why)
