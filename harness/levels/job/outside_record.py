"""The record of a job's run: the history seen from outside, with its header, and what SQL counts beside it.

Invariant: what the header claims is what the job file says; a number in it was measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from msgspec import UNSET, structs

from harness.engine.level import OutsideRecord
from harness.engine.two_servers import blamed, joined
from harness.history.outside import (
    ExpectedRow,
    Offer,
    OutsideBounds,
    OutsideClaims,
    OutsideEvent,
    OutsideExpects,
    OutsideHeader,
    OutsideSink,
    PartRead,
    TableRow,
)
from harness.history.verdict import Anomaly, InvariantVerdict, Judgement, Outcome
from harness.judge.checkers.outside.judge import judge_outside
from harness.levels.job.job_database import audited_session
from harness.levels.job.job_pitfalls import (
    CutValues,
    causes,
    connects_for_each_call,
    cut_values,
    not_deterministic,
    values_cut,
    without_transactions,
)
from harness.levels.job.job_run import CalmRun, JobRun
from harness.levels.job.offering import GAPS
from harness.levels.job.recording import events_of, logged_rows
from harness.levels.job.sink_rows import id_text
from harness.scenario.plan import JudgedValues

_SAYS = {
    "given": "Expected values: those of `{name}`.",
    "calm": "Expected values: the table of the calm twin, a run of the same job and records without faults.",
    "none": "Values are not judged, because of `expected: none`.",
}


def record_of(
    run: JobRun, *, expect_from: Literal["given", "calm", "none"], unsteady: Mapping[str, str] | None = None
) -> OutsideRecord:
    """The record of a run that has ended, as has its calm twin.

    `unsteady`: where two calm twins differ, in a sentence for each id, by its text.
    """
    order, calm = run.order, run.calm
    assert calm is not None, "a calm run that has ended is its own twin"
    seen, unfollowed = run.seen, run.seen.unfollowed or calm.run.seen.unfollowed
    rows = logged_rows(seen.transactions, seen.columns, run.sessions.sessions, session_of=audited_session)
    events = events_of(run.recording, [] if unfollowed else list(rows))
    cut = cut_values(run)
    if expect_from == "calm":
        events = list(_with_what_was_sent(events, cut, columns=order.job.sink.values))
    if unfollowed:
        events = [event for event in events if not (isinstance(event, PartRead) and event.of == "log")]
    name, header = order.job.claims.expected, _header(run, calm, expect_from, changes=not unfollowed)
    return OutsideRecord(
        header=header,
        events=events,
        judge=partial(_told_unsteady, judge_of(run), dict(unsteady)) if unsteady else judge_of(run),
        whole=not run.cut_off and not run.log.broken,
        error=run.cut_off or run.gave_up or None,
        interrupted=bool(run.cut_off) and run.site.stop.is_set(),
        ran_us=run.ended_us,
        world=run.world.description,
        faults=tuple(
            replace(record, times=tuple(time.moved(run.recording.began_us) for time in record.times))
            for record in run.records
        ),
        accounting=_accounting(run, calm),
        threats=(
            *_not_followed(run, unfollowed),
            *run.notes,
            *_without_rows(run, calm, expect_from),
        ),
        pitfalls=(
            *not_deterministic(unsteady or {}),
            *connects_for_each_call(calm.messages),
            *without_transactions(run),
            *values_cut(run, cut),
            *causes(run, _kinds(lambda: judge_of(run)(header, events))),
        ),
        values=JudgedValues(says=_SAYS[expect_from].format(name=name)),
        extras={
            "job": {
                "command": order.sut,
                "engine": order.job.job.engine,
                "source": order.job.source.kind,
                "calm": dict(calm.facts),
                "notes": [run.why_no_further_start] if run.why_no_further_start else [],
            }
        },
    )


def _kinds(judged: Callable[[], Judgement]) -> Callable[[], Collection[str]]:
    """The kinds of V8's anomalies."""
    return lambda: {
        anomaly.kind for one in judged().convicted() if one.invariant == "V8" for anomaly in one.anomalies
    }


def _with_what_was_sent(
    events: Sequence[OutsideEvent], cut: CutValues, *, columns: Sequence[str]
) -> Iterator[OutsideEvent]:
    """The events, with what the job sent as the expected value where the server kept less of it.

    The calm twin's table holds the shortened value too, and is no witness for it.
    """
    for event in events:
        sent = cut.get(id_text(event.id), {}) if isinstance(event, Offer | ExpectedRow) else {}
        if sent and isinstance(event, Offer) and event.expect is not UNSET:
            yield structs.replace(event, expect=[_mended(row, columns, sent) for row in event.expect])
        elif sent and isinstance(event, ExpectedRow):
            yield structs.replace(event, v=_mended(event.v, columns, sent))
        else:
            yield event


def _mended(row: Sequence[object], columns: Sequence[str], sent: Mapping[str, str]) -> list[object]:
    """A row with the texts that were sent in place of their beginnings."""
    return [
        sent[name] if name in sent and sent[name].startswith(str(value)) else value
        for name, value in zip(columns, row, strict=True)
    ]


def _not_followed(run: JobRun, unfollowed: str) -> Iterator[str]:
    """A warning if the table changes where the log shows nothing."""
    if unfollowed:
        yield (
            f"Judged from the table alone: rows of {run.order.job.sink.table} change {unfollowed}, and the database's"
            " log of changes does not show that. What happens between the readings is not claimed: order, fencing, rows"
            " that were taken away and came back."
        )


def _without_rows(run: JobRun, calm: CalmRun, expect_from: str) -> Iterator[str]:
    """A warning if the calm twin wrote no row for some records: it is then right that they have none."""
    empty = calm.without_row
    if expect_from == "calm" and empty:
        yield (
            f"Without faults {len(empty)} of {len(run.offered_ids)} records yielded no row (the first has id"
            f" {empty[0]}), so none is expected of them; if the job should not filter, it is wrong already."
        )


def _header(
    run: JobRun, calm: CalmRun, expect_from: Literal["given", "calm", "none"], *, changes: bool
) -> OutsideHeader:
    order = run.order
    claims, sink, pace = order.job.claims, order.job.sink, calm.pace
    return OutsideHeader(
        claims=OutsideClaims(
            delivery=claims.delivery,
            order=claims.order,
            fenced=claims.is_fenced and not run.seen.facts.without_transactions,
            explained=True,
        ),
        sink=OutsideSink(
            write="upsert" if sink.rows == "key" else sink.write,
            id=sink.id,
            values=sink.values,
            rows=sink.rows or "record",
            j=sink.j or None,
            table=sink.table,
            changes=changes,
        ),
        expect_from=expect_from,
        partitions=order.job.source.partitions,
        dead_letters=sink.dead_letters or None,
        bounds=OutsideBounds(recover=pace.recover_us // 1000, quiet=pace.quiet_us // 1000),
        expects=OutsideExpects(
            records=len(run.given.records),
            starts=1,
            faults=(
                *(fault.id for fault in run.planned),
                *([GAPS] if order.job.source.gaps and not run.is_calm else []),
            ),
        ),
        run={
            "scenario": order.scenario.scenario,
            "seed": order.seed,
            "mutant": None,
            "job": order.sut,
            "level": order.level,
        },
    )


def _accounting(run: JobRun, calm: CalmRun) -> Mapping[str, int]:
    """What SQL counts in the last reading; `doubled` only where no record yields several rows."""
    sentinels = sum(map(len, run.given.sentinels[: run.offering.rounds]))
    offered = {"offered": run.offered, **({"sentinels": sentinels} if sentinels else {})}
    if not run.readings or run.seen.columns is None:
        return offered
    table = run.order.job.sink.table
    ids = Counter(run.seen.columns.row(row).id_text for row in run.readings[-1].tables.get(table, ()))
    counts = {**offered, "rows": run.readings[-1].counts.get(table, 0), "records": len(ids)}
    if all(len(rows) <= 1 for rows in calm.expected.values()):
        counts["doubled"] = sum(count > 1 for count in ids.values())
    return counts


def judge_of(run: JobRun) -> Callable[[OutsideHeader, Sequence[OutsideEvent]], Judgement]:
    """The judge of a run: with two servers the database is judged too.

    Invariant: a job is neither convicted nor acquitted of what another server had acknowledged to it (V22).
    """
    second = run.ground.second
    if second is None:
        return judge_outside
    table, columns = run.order.job.sink.table, run.seen.columns
    lost = [row for one in second.losses if one.table == table for row in one.rows]
    substrate = second.verdict(run.records)
    # The ids of the rows that a server had, and the one that serves in the end has not got from it.
    ids = frozenset(columns.row(row).id_text for row in lost) if columns is not None else frozenset()

    def judged_beside(header: OutsideHeader, events: Sequence[OutsideEvent]) -> Judgement:
        found = judge_outside(header, events)
        missing = frozenset(_missing(events))
        verdicts = [_excused(verdict, missing & ids, missing) for verdict in found.invariants]
        return joined(found, verdicts, substrate)

    return judged_beside


def _told_unsteady(
    judge: Callable[[OutsideHeader, Sequence[OutsideEvent]], Judgement],
    unsteady: Mapping[str, str],
    header: OutsideHeader,
    events: Sequence[OutsideEvent],
) -> Judgement:
    """Judges a job that is not deterministic: V8 says so, with both values, before anything else.

    The verdict stays: that nothing in `values` differs from run to run is what the job claims.
    """
    of_another = f"the job is not deterministic ({next(iter(unsteady.values()))}, and so of {len(unsteady)})"

    def told(anomaly: Anomaly) -> Anomaly:
        own = unsteady.get(id_text(list(anomaly.id) if isinstance(anomaly.id, tuple) else anomaly.id))
        if own is None and anomaly.kind != "wrong-value":
            return anomaly
        first = of_another if own is None else f"the job is not deterministic: {own}"
        return replace(anomaly, say=f"{first}; {anomaly.say}")

    found = judge(header, events)
    verdicts = (
        replace(verdict, anomalies=tuple(map(told, verdict.anomalies)))
        if verdict.invariant == "V8"
        else verdict
        for verdict in found.invariants
    )
    return replace(found, invariants=tuple(verdicts))


def _missing(events: Sequence[OutsideEvent]) -> Iterator[str]:
    """The ids of the offered records that must yield a row, and have none in the last reading."""
    rows = [event for event in events if isinstance(event, TableRow)]
    last = max((row.reading for row in rows), default=0)
    there = {id_text(row.id) for row in rows if row.reading == last}
    for event in events:
        if (
            isinstance(event, Offer)
            and event.fails is not True
            and event.expect != []
            and event.sentinel is not True
        ):
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
    return blamed(verdict, f"{len(gone)} records had rows")
