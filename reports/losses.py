"""What a job lost, doubled or got wrong: the anomalies of a judgement, grouped by class and moment, the gravest first.

Answers to the one question of a reader whose job it is. Invariant: every group is of anomalies that the judge listed;
what it only counted is counted here too. The moment is from the history: which fault had taken effect, which start it
ended, which transaction wrote. It says what came before, and claims no cause beyond that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from harness.history.values import brief, without_credentials
from harness.history.verdict import Anomaly, Judgement
from reports.outside_view import FaultSpan, OutsideView, key_of, told_id

_NAMED: Final = 12
"""Records named in each group."""
WORDS: Final = {
    "lost": "lost",
    "deleted": "taken back",
    "duplicate": "doubled",
    "wrong-value": "wrong",
    "phantom": "never offered",
    "changed-again": "changed by a further start",
    "stuck": "never done",
    "swallowed": "failed in silence",
    "row-foreign": "foreign dead letter",
    "row-doubled": "doubled dead letter",
    "double-routed": "in table and dead letters",
    "zombie-effect": "written by a start that had been replaced",
    "reordered": "out of source order",
    "key-reordered": "out of order in its key",
    "unexplained-failure": "exit that nothing explains",
}
"""Each class of `docs/reference/history.md` in a word for the job's owner, the gravest first."""


_BY_VALUE: Final = frozenset({"wrong-value"})
"""Classes of which the judge's sentence has both values."""
_IN_READINGS: Final = frozenset({"changed-again", "swallowed", "row-foreign", "row-doubled", "double-routed"})
"""Classes that readings of a table show, not a transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentLoss:
    """Records of a job that one moment lost, doubled or got wrong."""

    kind: str
    word: str
    invariant: str
    count: int
    records: tuple[str, ...]
    """The first of them: `7 (key 3)`."""
    moment: str
    noun: str = "record"
    """What they are: records, or keys."""
    first: str = ""
    """What the judge says of the first, where values tell more than the class; empty: they do not."""

    @property
    def told(self) -> str:
        """The records in words, and how many more there are."""
        more = self.count - len(self.records)
        named = ", ".join(self.records)
        return f"{named} and {more} more" if more and named else named

    @property
    def line(self) -> str:
        named = f": {self.noun if self.count == 1 else f'{self.noun}s'} {self.told}" if self.records else ""
        first = f"; {self.first}" if self.first else ""
        return f"{self.count} {self.word} ({self.invariant} {self.kind}){named}{first}; {self.moment}"


def words_of(judgement: Judgement) -> str:
    """What was lost, doubled and wrong, counted: `3 lost, 12 doubled`."""
    counts: dict[str, int] = {}
    hidden = 0
    for verdict in judgement.convicted():
        hidden += verdict.omitted
        for anomaly in verdict.anomalies:
            counts[anomaly.kind] = counts.get(anomaly.kind, 0) + 1
    parts = [f"{counts[kind]} {word}" for kind, word in WORDS.items() if kind in counts]
    parts += [f"{count} {kind}" for kind, count in counts.items() if kind not in WORDS]
    parts += [f"{hidden} more that were only counted"] if hidden else []
    return ", ".join(parts)


def losses_of(
    judgement: Judgement, view: OutsideView, *, kinds: Mapping[str, str], origin_us: int = 0
) -> tuple[MomentLoss, ...]:
    """The groups, by the gravity of their class, then in the order of the judgement.

    `kinds`: the kind of each fault, by its name in the history.
    """
    return tuple(_Losses(view, kinds=kinds, origin_us=origin_us).of(judgement))


class _Losses:
    """Groups anomalies by class and moment."""

    def __init__(self, view: OutsideView, *, kinds: Mapping[str, str], origin_us: int) -> None:
        self._view = view
        self._kinds = kinds
        self._origin_us = origin_us

    def of(self, judgement: Judgement) -> Iterator[MomentLoss]:
        groups: dict[tuple[str, str, str], list[Anomaly]] = {}
        for verdict in judgement.convicted():
            for anomaly in verdict.anomalies:
                key = (verdict.invariant, anomaly.kind, self._moment(anomaly))
                groups.setdefault(key, []).append(anomaly)
        ranks = {kind: rank for rank, kind in enumerate(WORDS)}
        for (invariant, kind, moment), anomalies in sorted(
            groups.items(), key=lambda group: ranks.get(group[0][1], len(ranks))
        ):
            yield MomentLoss(
                kind=kind,
                word=WORDS.get(kind, kind),
                invariant=invariant,
                count=len(anomalies),
                records=tuple(self._record(a) for a in anomalies if a.id is not None)[:_NAMED],
                moment=moment,
                noun=self._view.noun,
                first=anomalies[0].say if kind in _BY_VALUE or self._view.noun == "key" else "",
            )
        for verdict in judgement.convicted():
            if verdict.omitted:
                yield MomentLoss(
                    kind="further",
                    word="more",
                    invariant=verdict.invariant,
                    count=verdict.omitted,
                    records=(),
                    moment="the checker only counted them",
                )

    def _record(self, anomaly: Anomaly) -> str:
        offered = None if self._view.noun == "key" else self._view.offered.get(key_of(anomaly.id))
        row = "" if anomaly.j is None else f" row {anomaly.j}"
        key = "" if offered is None or offered.key is None else f" (key {brief(offered.key, limit=40)})"
        return f"{told_id(anomaly.id)}{row}{key}"

    def _moment(self, anomaly: Anomaly) -> str:
        if anomaly.kind in {"lost", "stuck"} and self._view.noun == "record":
            return self._of_absence(anomaly)
        written = (
            []
            if anomaly.kind in _IN_READINGS
            else [tx for n in anomaly.events if (tx := self._view.transaction_at(n)) is not None]
        )
        if not written:
            # The losses that no transaction shows: in the readings of the table, or at an exit
            if not anomaly.events:
                return "no event shows when"
            if anomaly.kind == "unexplained-failure":
                span = next((s for s in self._view.starts.values() if s.n in anomaly.events), None)
                ended = next((s for s in self._view.starts.values() if s.end_n in anomaly.events), span)
                if ended is not None and ended.end_us is not None:
                    return f"start {ended.number}: {ended.ending} at {self._at(ended.end_us)}"
            return f"seen when the table was read, {self._after(max(anomaly.events))}"
        last = max(written, key=lambda tx: tx.last_n)
        whose = "a start that is not known" if last.start is None else f"start {last.start}"
        wrote = f"transaction {last.tx} of {whose} at {self._at(last.at_us)}"
        return f"{wrote}, {self._after(last.first_n)}"

    def _of_absence(self, anomaly: Anomaly) -> str:
        """A record that is missing: between the rows of its neighbours in the source, if they are visible."""
        view = self._view
        offered = view.offered.get(key_of(anomaly.id))
        if offered is None:
            return self._after(None)
        low, high = self._neighbours(offered.part, offered.pos)
        between = [f for f in view.faults if (low or offered.n) < f.n and (high is None or f.n < high)]
        if between:
            return f"the table never showed it; {self._fault(between[-1])}"
        later = [f for f in view.faults if f.n > offered.n]
        if later:
            return f"the table never showed it; {self._fault(later[0])}"
        return f"the table never showed it, {self._after(None)}"

    def _neighbours(self, part: int, pos: int) -> tuple[int | None, int | None]:
        """The first rows of the nearest records before and after it in its partition that became visible."""
        view = self._view
        of_part = [
            (other.pos, view.first_row[key])
            for key, other in view.offered.items()
            if other.part == part and key in view.first_row
        ]
        low = max(((p, n) for p, n in of_part if p < pos), default=None)
        high = min(((p, n) for p, n in of_part if p > pos), default=None)
        return (None if low is None else low[1]), (None if high is None else high[1])

    def _after(self, n: int | None) -> str:
        """The last fault that had taken effect before event `n`."""
        before = [fault for fault in self._view.faults if n is None or fault.n < n]
        return f"after {self._fault(before[-1])}" if before else "before any fault took effect"

    def _fault(self, fault: FaultSpan) -> str:
        kind = self._kinds.get(fault.name, fault.name)
        named = fault.name if kind == fault.name else f"{fault.name} ({kind})"
        parts = [f"fault {named} took effect at {self._at(fault.begin_us)}"]
        held = without_credentials(dict(fault.evidence))
        if held:
            facts = {n: v if isinstance(v, str) else brief(v, limit=80) for n, v in held.items()}
            parts.append(f"({', '.join(f'{name} {fact}' for name, fact in facts.items())})")
        spans = [s for s in self._view.starts.values() if s.end_n is not None and s.end_n > fault.n]
        ended = min((s for s in spans if s.by == fault.name), key=lambda span: span.end_n or 0, default=None)
        if ended is not None and ended.end_us is not None:
            parts.append(f"and start {ended.number} ended ({ended.ending}) at {self._at(ended.end_us)}")
        return " ".join(parts)

    def _at(self, at_us: int) -> str:
        return f"{(at_us - self._origin_us) / 1e6:.3f} s"
