"""Blame: an anomaly that is nothing but what the database lost is the database's, and the run is undecided about it.

Answers to Jepsen's checkers that know which acknowledged writes a failover lost. Invariant: an invariant is taken off
the system under test only if each of its anomalies is one that the lost commits explain, and there are no more of
them, listed or not, than those commits make; then it is `unknown`, never `pass`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.history.event import Event, Owm, Row, Snap
from harness.history.verdict import Anomaly, InvariantVerdict, Judgement, Outcome, worst
from harness.scenario.claims import OUTPUTS

_OF_RECORDS = frozenset({"lost", "no-effect", "row-missing"})
"""The classes of anomalies that say that something of a record is not there."""
_OF_EPOCHS = frozenset({"never-committed"})
_OF_WATERMARKS = frozenset({"watermark-lost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lost:
    """What was in lost commits, and is not there in the end."""

    ids: frozenset[int]
    epochs: frozenset[tuple[int, int]]
    watermarks: frozenset[tuple[int, int | str]]

    def explains(self, anomaly: Anomaly) -> bool:
        """Whether the anomaly says no more than that."""
        if anomaly.kind in _OF_RECORDS:
            return anomaly.id in self.ids
        if anomaly.kind in _OF_EPOCHS:
            return (anomaly.s, anomaly.c) in self.epochs
        return anomaly.kind in _OF_WATERMARKS and (anomaly.s, anomaly.w) in self.watermarks

    def of(self, kind: str) -> int:
        """How many anomalies of such a kind it makes. Each thing lost makes one, so as many are no others."""
        if kind in _OF_RECORDS:
            return len(self.ids)
        return len(self.epochs if kind in _OF_EPOCHS else self.watermarks)


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
    listed = events if isinstance(events, list) else list(events)
    there = {event.id for event in listed if type(event) is Row and event.table == OUTPUTS}
    lost = _Lost(
        ids=frozenset(one for one in ids if one not in there),
        epochs=frozenset(epochs),
        watermarks=frozenset(_watermarks_of(listed, epochs)),
    )
    verdicts = [_excused(verdict, lost) for verdict in found.invariants]
    return joined(found, verdicts, substrate)


def _watermarks_of(
    events: Iterable[Event], epochs: Collection[tuple[int, int]]
) -> Iterator[tuple[int, int | str]]:
    """(subtask, watermark) of each watermark that left in one of `epochs`."""
    since: dict[tuple[int, int], list[int | str]] = {}
    for event in events:
        if type(event) is Owm:
            since.setdefault((event.s, event.a), []).append(event.w)
        elif type(event) is Snap:
            for watermark in since.pop((event.s, event.a), ()):
                if (event.s, event.c) in epochs:
                    yield event.s, watermark


def joined(found: Judgement, verdicts: Sequence[InvariantVerdict], substrate: InvariantVerdict) -> Judgement:
    """`found` with these verdicts and V22 among them, and the outcome that follows."""
    outcome = found.outcome
    if list(verdicts) != list(found.invariants):
        convicted = any(verdict.outcome is Outcome.FAIL for verdict in verdicts)
        outcome = Outcome.FAIL if convicted else Outcome.UNKNOWN
    every = sorted([*verdicts, substrate], key=lambda verdict: int(verdict.invariant[1:]))
    return replace(found, outcome=worst([outcome, substrate.outcome]), invariants=tuple(every))


def _excused(verdict: InvariantVerdict, lost: _Lost) -> InvariantVerdict:
    if verdict.outcome is not Outcome.FAIL:
        return verdict
    total = len(verdict.anomalies) + verdict.omitted
    if not all(map(lost.explains, verdict.anomalies)) or total > lost.of(verdict.anomalies[0].kind):
        return verdict
    why = (
        f"blamed on the database (V22): {total} of these belong to commits that it had acknowledged on one server, and "
        "that the server promoted since does not have"
    )
    return replace(verdict, outcome=Outcome.UNKNOWN, why=why)
