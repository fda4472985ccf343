"""Blame: an anomaly that is nothing but what the database lost is the database's, and the run is undecided about it.

Answers to Jepsen's checkers that know which acknowledged writes a failover lost. Invariant: an invariant is taken off
the system under test only if each of its anomalies, also of those that are counted and not listed, is one that the
lost commits explain; then it is `unknown`, never `pass`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from harness.history.event import Event, Row
from harness.runs.claims import OUTPUTS
from harness.verdict import InvariantVerdict, Judgement, Outcome, worst

__all__ = ["blamed_on_database", "joined"]

_OF_RECORDS = frozenset({"lost", "no-effect", "row-missing"})
"""The classes of anomalies that say that something of a record is not there."""
_OF_EPOCHS = frozenset({"never-committed"})


def blamed_on_database(
    found: Judgement,
    events: Iterable[Event],
    *,
    substrate: InvariantVerdict,
    epochs: Collection[tuple[int, int]],
    ids: Collection[int],
) -> Judgement:
    """`found` with V22, and without the anomalies that the lost commits explain.

    `epochs` (subtask, epoch) and `ids` (records) were on the server that is not serving any more, and only there.
    """
    there = {event.id for event in events if type(event) is Row and event.table == OUTPUTS}
    gone = [one for one in ids if one not in there]
    verdicts = [_excused(verdict, gone=gone, epochs=epochs) for verdict in found.invariants]
    return joined(found, verdicts, substrate)


def joined(found: Judgement, verdicts: Sequence[InvariantVerdict], substrate: InvariantVerdict) -> Judgement:
    """`found` with these verdicts and V22 among them, and the outcome that follows."""
    outcome = found.outcome
    if list(verdicts) != list(found.invariants):
        convicted = any(verdict.outcome is Outcome.FAIL for verdict in verdicts)
        outcome = Outcome.FAIL if convicted else Outcome.UNKNOWN
    every = sorted([*verdicts, substrate], key=lambda verdict: int(verdict.invariant[1:]))
    return replace(
        found, outcome=worst([outcome, substrate.outcome]), invariants=tuple(every)
    )


def _excused(
    verdict: InvariantVerdict, *, gone: Sequence[int], epochs: Collection[tuple[int, int]]
) -> InvariantVerdict:
    if verdict.outcome is not Outcome.FAIL:
        return verdict
    listed = verdict.anomalies
    of_records = all(one.kind in _OF_RECORDS and one.id in gone for one in listed)
    of_epochs = all(one.kind in _OF_EPOCHS and (one.s, one.c) in epochs for one in listed)
    total = len(listed) + verdict.omitted
    # Each lost record that is still missing makes one anomaly, so as many as those are no others.
    if not ((of_records and total <= len(gone)) or (of_epochs and total <= len(epochs))):
        return verdict
    why = (
        f"blamed on the database (V22): {total} of these are commits that it had acknowledged on one server, and that "
        "the server promoted since does not have"
    )
    return replace(verdict, outcome=Outcome.UNKNOWN, why=why)
