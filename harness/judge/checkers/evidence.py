"""V23 evidence: every fault has evidence that it took effect, and the run reached the counts that were expected.

Answers to etcd#17775: a test that passed because its fault had no effect. Invariant: this checker never
convicts; missing evidence makes the run vacuous. Memory grows with faults and completed checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harness.history.event import FaultEvent
from harness.history.header import Expects
from harness.history.outside import JobFault
from harness.history.values import shown
from harness.judge.checkers.indexed_history import IndexedHistory
from harness.judge.checkers.invariant import Findings, Invariant


class Evidence(Invariant):
    """Checks V23 over the whole history."""

    name = "V23"
    vacuous = "nothing was expected"

    def not_claimed(self, case: IndexedHistory) -> str:
        """It applies if the header has `expects`, or the history any fault."""
        applies = case.header.expects is not None or case.trace.faults
        return "" if applies else "nothing is expected, and there is no fault"

    def across(self, case: IndexedHistory) -> Findings:
        """Each fault without evidence, and each count below the expected one."""
        records = {record for view in case.views for record in view.source.records}
        return evidence_found(
            case.trace.faults,
            case.header.expects or Expects(),
            records=len(records),
            checkpoints=len(completed_checkpoints(case)),
            restores=restores(case),
            rescales=len(case.trace.rescales),
        )


def evidence_found(
    faults: Sequence[FaultEvent],
    expects: Expects,
    *,
    records: int,
    checkpoints: int,
    restores: int,
    rescales: int = 0,
) -> Findings:
    """The findings of V23, given the faults and the counts of the whole history."""
    counts = (
        ("records accepted", expects.records, records),
        ("checkpoints completed", expects.checkpoints, checkpoints),
        ("restores", expects.restores, restores),
        ("rescales", expects.rescales, rescales),
    )
    return Findings(
        shortfalls=tuple(shortfalls_of(faults, expects.faults, counts)), observed=len(faults), exposed=True
    )


def shortfalls_of(
    faults: Sequence[FaultEvent | JobFault],
    expected: Sequence[str],
    counts: Iterable[tuple[str, int | None, int]],
) -> Iterator[str]:
    """Faults without evidence, expected ones that never began, and each count (name, least, seen) that is too low."""
    for fault in faults:
        if fault.phase == "end" and not fault.evidence:
            why = f": {fault.why}" if isinstance(fault, JobFault) and fault.why else ""
            yield f"the fault {shown(fault.f)} ended without evidence that it took effect (event {fault.n}){why}"
    begun = {fault.f for fault in faults if fault.phase == "begin"}
    for name in dict.fromkeys(expected):
        if name not in begun:
            yield f"the fault {shown(name)} was expected and never began"
    for named, least, seen in counts:
        if least is not None and seen < least:
            yield f"{seen} {named}, where at least {least} were expected"


def completed_checkpoints(case: IndexedHistory) -> set[int]:
    """The numbers of all completed checkpoints, by `done` or, with sink `atomic`, by commit."""
    done = {event.c for event in case.trace.dones} if case.header.sink != "atomic" else set()
    return done.union(*(view.checkpoints.distinct for view in case.views))


def restores(case: IndexedHistory) -> int:
    """The number of attempts that have a `restore` event."""
    attempts = (attempt for view in case.views for attempt in view.subtask.attempts.values())
    return sum(attempt.restore is not None for attempt in attempts)
