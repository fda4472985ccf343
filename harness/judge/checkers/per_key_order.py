"""V3 per-key order: the results of one key leave in the order of that key's records.

For operators that keep order by key (FLINK-40552), and pools that distribute records by a hash of their key.
Invariant: along the effective output O*, among the records of one key, no result has a smaller position than an
earlier result. A record without a key is not compared. O(n); memory grows with the keys of O*.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from msgspec import UNSET

from harness.history.event import Out
from harness.history.values import identity, shown
from harness.history.verdict import Anomaly
from harness.judge.checkers.facts import two_results
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.inputs import Taken
from harness.judge.checkers.invariant import Findings, Invariant, convict
from harness.judge.checkers.outputs import outputs


class PerKeyOrder(Invariant):
    """Checks V3 for each subtask."""

    name = "V3"
    vacuous = "no result is visible, so none could be out of its key's order"

    def not_claimed(self, case: IndexedHistory) -> str:
        """It applies if the operator is ordered or claims `per_key_order`, and some record has a key."""
        operator = case.header.operator
        if operator.mode != "ordered" and not operator.per_key_order:
            return "the operator is unordered, and does not claim to keep the order of each key"
        records = (taken for view in case.views for taken in view.source.records.values())
        return "" if any(taken.key is not UNSET for taken in records) else "no record has a key"

    def examine(self, view: SubtaskView) -> Findings:
        """Each `out` of O* that a later record of its key has overtaken."""
        highest: dict[Hashable, tuple[int, Out]] = {}
        found: dict[int, Anomaly] = {}
        results = 0
        for _, out in outputs(view.output):
            results += 1
            taken = view.source.records.get(out.id)
            if taken is None or taken.key is UNSET:
                continue
            if (ahead := _ahead_of_origin(view, out, taken)) is not None:
                found.setdefault(out.n, ahead)
            pos, before = highest.setdefault(identity(taken.key), (taken.pos, out))
            if taken.pos < pos:
                found.setdefault(out.n, _reordered(view, out, taken, before, before_in=view))
            elif taken.pos > pos:
                highest[identity(taken.key)] = (taken.pos, out)
        return Findings(anomalies=tuple(found.values()), observed=results, exposed=results > 0)


def _ahead_of_origin(view: SubtaskView, out: Out, taken: Taken) -> Anomaly | None:
    """If the record is inherited: a later record of its key that left the subtask which held it before the rescale."""
    if out.id not in view.source.inherited:
        return None
    for origin in view.case.rescalings.origins(view, out.id):
        ahead = origin.view.furthest_of_key.get(identity(taken.key))
        if ahead is not None and ahead[0] > origin.pos:
            return _reordered(view, out, taken._replace(pos=origin.pos), ahead[1], before_in=origin.view)
    return None


def _reordered(view: SubtaskView, out: Out, taken: Taken, before: Out, *, before_in: SubtaskView) -> Anomaly:
    def then() -> Iterator[str]:
        yield from two_results(view, out, before)
        if (first := view.taken(out.id)) is not None and first.key is not UNSET:
            yield f"Both records have the key {shown(first.key)}."

    say = (
        f"output {out.j} of record {shown(out.id)} (position {taken.pos}) leaves after output {before.j}"
        f" of record {shown(before.id)} (position {before_in.source.position(before.id)}), which has the same"
        f" key {shown(taken.key)} and came in later"
    )
    rule = "the results of one key leave in the order of that key's records"
    return convict("key-reordered", out.s, {before.n, out.n}, say, then, rule, id=out.id)
