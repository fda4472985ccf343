"""The record of a job's run: the history seen from outside, with its header, and what SQL counts beside it.

Invariant: what the header claims is what the job file says; a number in it was measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from harness.engine.level import OutsideRecord
from harness.history.outside import (
    OutsideBounds,
    OutsideClaims,
    OutsideExpects,
    OutsideHeader,
    OutsideSink,
)
from harness.levels.job.calm_twin import CalmRun
from harness.levels.job.job_database import audited_session
from harness.levels.job.life import JobLife
from harness.levels.job.lookups_seen import connects_for_each_call
from harness.levels.job.losses import judge_of
from harness.levels.job.recording import events_of
from harness.scenario.expected import JudgedValues
from harness.scenario.outcome import FaultRecord

_SAYS = {
    "given": "Expected values: those of `{name}`.",
    "calm": "Expected values: the table of the calm twin, a run of the same job and records without faults.",
    "none": "Values are not judged, because of `expected: none`.",
}


def record_of(
    life: JobLife,
    calm: CalmRun,
    *,
    expect_from: Literal["given", "calm", "none"],
    notes: tuple[str, ...] = (),
) -> OutsideRecord:
    """The record of a life; `calm`: the twin by whose pace and table it is judged. `notes` limit what it means."""
    order = life.parts.order
    events = events_of(
        life.recording,
        life.seen.transactions,
        life.seen.columns,
        life.sessions.sessions,
        session_of=audited_session,
    )
    name = order.job.claims.expected
    return OutsideRecord(
        header=_header(life, calm, expect_from),
        events=events,
        judge=judge_of(life),
        whole=not life.interrupted and not life.log.broken,
        error="interrupted" if life.interrupted else life.gave_up or None,
        interrupted=life.interrupted,
        ran_us=life.ended_us,
        world=life.parts.world.description,
        faults=tuple(_on_history_clock(record, life.recording.began_us) for record in life.records),
        accounting=_accounting(life, calm),
        threats=(*life.notes, *_without_rows(life, calm, expect_from)),
        pitfalls=connects_for_each_call(calm.messages),
        values=JudgedValues(says=_SAYS[expect_from].format(name=name)),
        extras={
            "job": {
                "command": order.sut,
                "engine": order.job.job.engine,
                "source": order.job.source.kind,
                "calm": dict(calm.facts),
                "notes": list(notes),
            }
        },
    )


def _without_rows(life: JobLife, calm: CalmRun, expect_from: str) -> Iterator[str]:
    """A warning if the calm twin wrote no row for some records: it is then right that they have none."""
    ids = life.offered_ids
    empty = [text for text in ids if not calm.expected.get(text)]
    if expect_from == "calm" and empty:
        yield (
            f"Without faults {len(empty)} of {len(ids)} records yielded no row (the first has id {empty[0]}), so none"
            " is expected of them; if the job should not filter, it is wrong already."
        )


def _on_history_clock(record: FaultRecord, origin_us: int) -> FaultRecord:
    return replace(record, times=tuple(time.moved(origin_us) for time in record.times))


def _header(life: JobLife, calm: CalmRun, expect_from: Literal["given", "calm", "none"]) -> OutsideHeader:
    order = life.parts.order
    claims, sink, pace = order.job.claims, order.job.sink, calm.pace
    return OutsideHeader(
        claims=OutsideClaims(
            delivery=claims.delivery, order=claims.order, fenced=claims.is_fenced, explained=True
        ),
        sink=OutsideSink(
            write=sink.write, id=sink.id, values=sink.values, j=sink.j or None, table=sink.table
        ),
        expect_from=expect_from,
        partitions=order.job.source.partitions,
        dead_letters=sink.dead_letters or None,
        bounds=OutsideBounds(recover=pace.recover_us // 1000, quiet=pace.quiet_us // 1000),
        expects=OutsideExpects(
            records=len(life.parts.given.records),
            starts=1,
            faults=tuple(fault.id for fault in life.parts.faults),
        ),
        run={
            "scenario": order.scenario.scenario,
            "seed": order.seed,
            "mutant": None,
            "job": order.sut,
            "level": order.level,
        },
    )


def _accounting(life: JobLife, calm: CalmRun) -> Mapping[str, int]:
    """What SQL counts in the last reading; `doubled` only where no record yields several rows."""
    offered = {"offered": life.offered}
    if not life.readings or life.seen.columns is None:
        return offered
    table = life.parts.order.job.sink.table
    ids = Counter(life.seen.columns.row(row).id_text for row in life.readings[-1].tables.get(table, ()))
    counts = {**offered, "rows": life.readings[-1].counts.get(table, 0), "records": len(ids)}
    if all(len(rows) <= 1 for rows in calm.expected.values()):
        counts["doubled"] = sum(count > 1 for count in ids.values())
    return counts
