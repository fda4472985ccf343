"""V13, V16 and V24 seen from outside: what starts may write, whether the job came to its end, and why starts exited."""

from __future__ import annotations

from collections.abc import Callable

from harness.history.outside import JobExit, JobGiveUp
from harness.history.values import shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.invariant import Findings
from harness.judge.checkers.outside.delivery import log_not_read
from harness.judge.checkers.outside.finish import Finish
from harness.judge.checkers.outside.job_trace import JobFaultSpan, OutsideTrace, is_failed_exit
from harness.judge.checkers.outside.slots import SlotKey, cells, named
from harness.judge.checkers.outside.whole_table import differing_keys

_US_PER_MS = 1000
_EXCUSES = frozenset({"harness", "outside"})
"""Causes of an exit that need no fault."""


def find_fencing(trace: OutsideTrace) -> Findings | str:
    """V13."""
    if not trace.header.claims.is_fenced:
        return "the header does not claim that starts are fenced"
    if not trace.header.sink.changes:
        return "the database has no log of changes"
    if not trace.replay.has_starts:
        return "of no row the start is known that wrote it"
    if len(trace.starts) < 2:  # noqa: PLR2004  (nothing to fence off)
        return Findings()
    replay = trace.replay
    zombies = replay.zombies if trace.has_log else []
    unowned = replay.unowned if trace.has_log else []
    return Findings(
        anomalies=tuple(
            Anomaly(
                kind="zombie-effect",
                tx=one.effect.tx,
                start=one.effect.start,
                events=(one.before.n, one.effect.n),
                say=(
                    f"transaction {shown(one.effect.tx)} of start {one.effect.start} changes the table after"
                    f" transaction {shown(one.before.tx)} of start {one.before.start} did"
                ),
            )
            for one in zombies
        ),
        unread=(
            *log_not_read(trace),
            *(f"it is not known which start changed the table at event {n}" for n in unowned),
        ),
        observed=replay.effects,
        exposed=True,
    )


def find_liveness(trace: OutsideTrace, finish: Finish) -> Findings:
    """V16."""
    giveup = trace.giveup
    if finish.done:
        return Findings(observed=1, exposed=True)
    if giveup is None:
        return Findings(unread=("the job was not finished, and the history has no giveup",), exposed=True)
    reason = _fault_at(trace, giveup) or _poisoned(trace)
    if reason:
        return Findings(unread=(reason,), observed=1, exposed=True)
    return Findings(anomalies=(_stuck(trace, giveup),), observed=1, exposed=True)


def _fault_at(trace: OutsideTrace, giveup: JobGiveUp) -> str:
    """The fault that may explain that the job did not come to its end; empty: none."""
    recover_ms = trace.header.bounds.recover
    for fault in trace.faults:
        if fault.begin.n > giveup.n:
            continue
        name = shown(fault.begin.f)
        if fault.end is None or fault.end.n > giveup.n:
            return f"the fault {name} was on when the wait was given up (event {giveup.n})"
        if giveup.t - fault.end.t < recover_ms * _US_PER_MS:
            ended = f"had ended less than {recover_ms} ms before the wait was given up (event {giveup.n})"
            return f"the fault {name} {ended}"
    return ""


def _poisoned(trace: OutsideTrace) -> str:
    """Whether the last start failed after a record that no right job can process, or after a sentinel."""
    highest = trace.highest_start()
    failed = next((one for one in trace.exits if one.start == highest and is_failed_exit(one)), None)
    if failed is None:
        return ""
    for key, record in trace.records.by_key.items():
        if record.sentinel and record.n < failed.n:
            return (
                f"start {highest} failed (event {failed.n}) after {named((key, None))}, which is a sentinel"
            )
        if record.fails and record.n < failed.n and key not in trace.readings[1].dead:
            return f"start {highest} failed (event {failed.n}) after {named((key, None))}, which no job can process"
    return ""


def _stuck(trace: OutsideTrace, giveup: JobGiveUp) -> Anomaly:
    since = f"the job had not come to its end when the wait was given up (event {giveup.n}), and no fault explains that"
    missing = trace.replay.missing_there if trace.has_log else trace.readings[1].missing
    if trace.records.of_keys:
        return _stuck_of_keys(trace, giveup, since, missing)
    for key, record in trace.records.by_key.items():
        if any(missing(slot) for slot in trace.slots_of(key)):
            events = tuple(sorted({record.n, giveup.n}))
            say = f"{since}: {named((key, None))}, offered by event {record.n}, was missing"
            return Anomaly(kind="stuck", id=cells(key), events=events, say=say)
    say = f"{since}: nothing of what was offered was missing"
    return Anomaly(kind="stuck", events=(giveup.n,), say=say)


def _stuck_of_keys(
    trace: OutsideTrace, giveup: JobGiveUp, since: str, missing: Callable[[SlotKey], int]
) -> Anomaly:
    for slot in trace.slots_wanted():
        if missing(slot):
            due, told = trace.records.due[slot[0]][0].n, differing_keys(trace).get(slot)
            say = told.say if told else f"{named(slot, 'key')} had other rows than the expected ones"
            events = tuple(sorted({due, giveup.n}))
            return Anomaly(kind="stuck", id=cells(slot[0]), events=events, say=f"{since}: {say}")
    return Anomaly(kind="stuck", events=(giveup.n,), say=f"{since}: no expected row was missing")


def find_explained_exits(trace: OutsideTrace) -> Findings | str:
    """V24."""
    if not trace.header.claims.explained:
        return "the header does not claim that failures are explained"
    asked = []
    for exit_ in trace.exits:
        failed = isinstance(exit_.signal, int) or (isinstance(exit_.code, int) and exit_.code != 0)
        if failed and (trace.giveup is None or exit_.n < trace.giveup.n):
            asked.append(exit_)
    return Findings(
        anomalies=tuple(_unexplained(exit_) for exit_ in asked if not _is_explained(trace, exit_)),
        observed=len(asked),
        exposed=bool(trace.starts),
    )


def _is_explained(trace: OutsideTrace, exit_: JobExit) -> bool:
    if exit_.by in _EXCUSES or any(_causes(trace, fault, exit_) for fault in trace.faults):
        return True
    if any(start.start > exit_.start and start.n < exit_.n for start in trace.starts.values()):
        return True
    if not isinstance(exit_.code, int):
        return False
    takes_letters = trace.header.dead_letters is not None
    return any(
        record.n < exit_.n and (record.sentinel or (record.fails and not takes_letters))
        for record in trace.records.by_key.values()
    )


def _causes(trace: OutsideTrace, fault: JobFaultSpan, exit_: JobExit) -> bool:
    """Whether a fault can be what made a start exit."""
    begin, end = fault.begin, fault.end
    if begin.n > exit_.n:
        return False
    if exit_.by == begin.f and (end is None or end.n > trace.starts[exit_.start].n):
        return True
    if not isinstance(begin.can, list) or "exit" not in begin.can:
        return False
    recover_us = trace.header.bounds.recover * _US_PER_MS
    return end is None or end.n > exit_.n or exit_.t - end.t <= recover_us


def _unexplained(exit_: JobExit) -> Anomaly:
    how = f"signal {exit_.signal}" if isinstance(exit_.signal, int) else f"code {shown(exit_.code)}"
    by = f"; {shown(exit_.by)} is no fault that was on" if isinstance(exit_.by, str) else ""
    return Anomaly(
        kind="unexplained-failure",
        start=exit_.start,
        events=(exit_.n,),
        say=f"start {exit_.start} exited with {how}, and neither a fault nor the run explains that{by}",
    )
