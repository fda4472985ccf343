"""Why an order cannot be: V1 `reordered`, V2 `overtook-watermark`, V3 `key-reordered`.

Invariant: places in the source are read off the events that took the elements in.
"""

from __future__ import annotations

from harness.explanation.contradiction import Contradiction
from harness.explanation.event_lines import Json
from harness.history.values import shown
from harness.verdict import Explanation

__all__ = ["key_reordered", "overtook", "reordered"]


def reordered(x: Contradiction) -> Explanation:
    """V1: against another result, or against a watermark."""
    late, other = _offender(x)
    if late is None or other is None:
        x.then_said()
    elif other["k"] == "out":
        _two_results(x, late, other)
    else:
        _against_watermark(x, late, other)
    return x.however("an ordered operator lets results and watermarks leave in the order of their positions")


def key_reordered(x: Contradiction) -> Explanation:
    """V3: two results of one key."""
    late, other = _offender(x)
    if late is not None and other is not None:
        _two_results(x, late, other)
        taken = x.taken(late["id"])
        if taken is not None and "key" in taken:
            x.then(f"Both records have the key {shown(taken['key'])}.")
    return x.however("the results of one key leave in the order of that key's records")


def overtook(x: Contradiction) -> Explanation:
    """V2: a result ahead of the last watermark that precedes its record."""
    out, owm = x.witness("out"), x.witness("owm")
    taken = x.taken(x.anomaly.id)
    if out is not None and owm is not None and taken is not None:
        ahead = [mark for mark in x.marks(x.anomaly.w) if mark["pos"] < taken["pos"]]
        if ahead:
            mark = max(ahead, key=lambda event: int(event["pos"]))
            x.then(
                f"{x.let(mark)} precedes {x.let(taken)} in the source:"
                f" position {mark['pos']} comes before {taken['pos']}."
            )
        x.then(f"{x.seen(out, 'before', owm)}.")
    return x.however("no result leaves before the last watermark that precedes its record")


def _offender(x: Contradiction) -> tuple[Json | None, Json | None]:
    """The result out of its place, and the emission that shows it."""
    mine = [event for event in x.witnesses("out") if event["id"] == x.anomaly.id]
    late = min(mine, key=lambda event: int(event["j"]), default=None)
    other = next((event for event in x.witnesses("out", "owm") if event is not late), None)
    return late, other


def _two_results(x: Contradiction, late: Json, other: Json) -> None:
    taken, ahead = x.taken(late["id"]), x.taken(other["id"])
    if late["id"] == other["id"]:
        x.then(f"{x.let(late)} is output {late['j']} of its record, {x.let(other)} is output {other['j']}.")
    elif taken is not None and ahead is not None:
        x.then(
            f"{x.let(taken)} precedes {x.let(ahead)} in the source:"
            f" position {taken['pos']} comes before {ahead['pos']}."
        )
    x.then(f"Yet {x.seen(late, 'after', other)}.")


def _against_watermark(x: Contradiction, out: Json, owm: Json) -> None:
    taken, marks = x.taken(out["id"]), x.marks(owm["w"])
    pos = None if taken is None else taken["pos"]
    if taken is not None and marks and all(mark["pos"] > pos for mark in marks):
        x.then(f"In the source {x.let(taken)} precedes the watermark ({x.let_all(marks[:3])}).")
        x.then(f"Yet {x.seen(out, 'after', owm)}.")
    elif taken is not None and marks and all(mark["pos"] < pos for mark in marks):
        x.then(f"In the source the watermark ({x.let_all(marks[-3:])}) precedes {x.let(taken)}.")
        x.then(f"Yet {x.seen(out, 'before', owm)}.")
    else:
        x.then_said()
