"""Why a checkpoint cannot be: V10 and V11.

Invariant: what a snap holds, and where it stands, is read off the snap itself.
"""

from __future__ import annotations

from harness.explanation.contradiction import Contradiction
from harness.explanation.events import Json
from harness.history.values import shown
from harness.verdict import Explanation

__all__ = [
    "already_out",
    "bad_restore",
    "both_sides",
    "foreign",
    "incomplete",
    "misordered",
    "missing",
    "restore_differs",
    "skipped",
    "torn",
    "twice",
    "wrong_position",
]

_TOLD = 3
_ELEMENTS = 8


def missing(x: Contradiction) -> Explanation:
    """V10: before the cut, and in neither part."""
    snap = _place(x)
    if snap is not None:
        _held(x, snap)
        _left_by(x, snap)
    return x.however(_completed(x) + " whatever is before its position is stored in it or resolved")


def already_out(x: Contradiction) -> Explanation:
    """V10: stored, though it has left."""
    snap = _place(x)
    if snap is not None:
        _held(x, snap)
        _left_by(x, snap)
    return x.however(
        _completed(x) + " nothing is stored that has left, for a restore would let it leave again"
    )


def torn(x: Contradiction) -> Explanation:
    """V10: left in part."""
    snap = _place(x)
    if snap is not None:
        _left_by(x, snap)
        x.then(f"Not all outputs of record {shown(x.anomaly.id)} had left by {x.let(snap)}.")
    return x.however(_completed(x) + " no record's outputs are on both sides of the cut")


def both_sides(x: Contradiction) -> Explanation:
    """V10: at or after the cut, and yet stored or gone."""
    snap = _place(x)
    if snap is not None:
        _held(x, snap)
        _left_by(x, snap)
        x.then(f"After a restore the source is read again from position {snap['pos']}.")
    return x.however(_completed(x) + " what will be read again is neither stored nor has it left")


def foreign(x: Contradiction) -> Explanation:
    """V10: stored, and never taken in by that attempt."""
    snap = x.witness("snap")
    if snap is not None:
        _held(x, snap)
        taken = [e for e in (x.story(x.anomaly.id, "in") or x.marks(x.anomaly.w)) if e["n"] < snap["n"]]
        own = [event for event in taken if event["a"] == snap["a"]]
        if not own:
            x.then(f"By {x.let(snap)} attempt {snap['a']} had neither taken it in nor restored it.")
        else:
            x.then_said()
    return x.however(_completed(x) + " only what came into the attempt is stored")


def twice(x: Contradiction) -> Explanation:
    """V10: stored twice."""
    snap = _place(x)
    if snap is not None:
        places = [str(i) for i, element in enumerate(snap["elements"], start=1) if _is(x, element)]
        if places:
            x.then(f"{x.let(snap)} lists it {len(places)} times, in places {', '.join(places)}.")
    return x.however(_completed(x) + " every element is stored once")


def misordered(x: Contradiction) -> Explanation:
    """V10: stored out of replay order."""
    snap = _place(x)
    if snap is not None:
        stored = [_element(element) for element in snap["elements"]]
        x.then(f"{x.let(snap)} stores in this order: {_told(stored)}.")
        x.then_said()
    ordered = x.operator("mode") == "ordered"
    rule = "by position" if ordered else "each on its side of the watermarks"
    return x.however(_completed(x) + f" elements are stored in replay order, {rule}")


def skipped(x: Contradiction) -> Explanation:
    """V10: the cut stands beyond what was taken in."""
    snap = x.witness("snap")
    if snap is not None:
        x.then(f"{x.let(snap)} says that the source is to be read from position {snap['pos']}.")
        x.then_said()
    return x.however(_completed(x) + " the cut stands where the source has been read to")


def incomplete(x: Contradiction) -> Explanation:
    """V10: completed without a part."""
    done = x.witness("done")
    if done is not None:
        begun = [start for start in x.dossier.skeleton.starts(x.s) if start.n < done["n"]]
        if begun and (start := x.event(begun[-1])) is not None:
            x.then(f"{x.let(start)} had started before {x.let(done)}, and had not ended.")
        snaps = [s for s in x.dossier.skeleton.snaps.get((x.s, done["c"]), ()) if s.n < done["n"]]
        if not snaps:
            x.then(f"Subtask {x.s} took no snap of checkpoint {done['c']} before {x.let(done)}.")
    return x.however("a checkpoint is completed only when every running subtask has its part in it")


def bad_restore(x: Contradiction) -> Explanation:
    """V11: from what must not be restored."""
    start, snap, retired = x.witness("start"), x.witness("snap"), x.witness("retire")
    if start is not None:
        if retired is not None:
            x.then(f"{x.let(retired)} comes before {x.let(start)}: checkpoint {start['from']} was retired.")
        elif snap is not None:
            x.then(f"{x.let(snap)} is the part of checkpoint {start['from']} that {x.let(start)} means.")
            x.then(f"Checkpoint {start['from']} had not been completed by {x.let(start)}.")
        else:
            x.then(
                f"No earlier attempt of subtask {x.s} had snapped checkpoint {start['from']} by {x.let(start)}."
            )
    return x.however(
        "an attempt starts from a checkpoint that its subtask snapped, completed and not retired"
    )


def restore_differs(x: Contradiction) -> Explanation:
    """V11: other elements."""
    snap, restore = x.witness("snap"), x.witness("restore")
    if snap is not None and restore is not None:
        stored = [_element(element) for element in snap["elements"]]
        replayed = [_element(element) for element in restore["elements"]]
        x.then(f"{x.let(snap)} stores {_told(stored)}.")
        x.then(f"{x.let(restore)} replays {_told(replayed)}.")
        x.then_said()
    order = "in that order" if x.operator("mode") == "ordered" else "in any order between watermarks"
    return x.however(f"a restore replays what its snap stores, {order}")


def wrong_position(x: Contradiction) -> Explanation:
    """V11: another place of the source."""
    start, snap, first = x.witness("start"), x.witness("snap"), x.witness("in", "wm")
    if start is not None and snap is not None:
        x.then(f"{x.let(snap)} says to read the source from position {snap['pos']}.")
        if first is None:
            x.then(f"{x.let(start)} begins with its source at position {start['pos']}.")
        else:
            x.then(f"The first that its attempt reads is {x.let(first)}, at position {first['pos']}.")
    return x.however("after a restore the source is read from the position of the snap")


def _place(x: Contradiction) -> Json | None:
    """Where the element stands, and on which side of the cut; the snap that is judged."""
    snap = x.witness("snap")
    element = x.witness("in", "wm")
    if snap is not None and element is not None:
        side = "before" if element["pos"] < snap["pos"] else "at or after"
        x.then(
            f"{x.let(element)} stands at position {element['pos']},"
            f" {side} the cut of {x.let(snap)} at position {snap['pos']}."
        )
    return snap


def _held(x: Contradiction, snap: Json) -> None:
    holds = any(_is(x, element) for element in snap["elements"])
    word = "lists" if holds else "does not list"
    x.then(f"{x.let(snap)} {word} it among what it stores.")


def _left_by(x: Contradiction, snap: Json) -> None:
    """What of it had left this attempt before the snap."""
    record, w = x.anomaly.id, x.anomaly.w
    if record is not None:
        own = [e for e in x.story(record, "out") if e["a"] == snap["a"] and e["n"] < snap["n"]]
        if own:
            x.then(f"Of it, {x.let_all(own[:_TOLD])} had left by {x.let(snap)}.")
        elif x.knows_all("id", record):
            x.then(f"By {x.let(snap)} nothing of it had left attempt {snap['a']}.")
    elif w is not None:
        events = x.dossier.lineage("w", w).events
        own = [e for e in events if e["k"] == "owm" and e.get("s") == x.s and e["a"] == snap["a"]]
        own = [event for event in own if event["n"] < snap["n"]]
        if own:
            x.then(f"Of its value, {x.let_all(own[:_TOLD])} had left by {x.let(snap)}.")
        elif x.knows_all("w", w):
            x.then(f"By {x.let(snap)} no such watermark had left attempt {snap['a']}.")
            if x.operator("coalesces_watermarks") and x.anomaly.kind != "missing":
                x.then("A later one had, which stands for it too where watermarks coalesce.")


def _is(x: Contradiction, element: Json) -> bool:
    """Whether an element of a snap is what the anomaly is about."""
    if x.anomaly.id is not None:
        return "id" in element and element["id"] == x.anomaly.id
    mark = x.witness("wm")
    same_place = mark is None or element.get("pos") == mark["pos"]
    return "w" in element and element["w"] == x.anomaly.w and same_place


def _element(element: Json) -> str:
    return f"watermark {shown(element['w'])}" if "w" in element else f"record {shown(element.get('id'))}"


def _told(elements: list[str]) -> str:
    more = len(elements) - _ELEMENTS
    return ", ".join(elements[:_ELEMENTS]) + (f" and {more} more" if more > 0 else "") or "nothing"


def _completed(x: Contradiction) -> str:
    completion = x.witness("done", "commit")
    if completion is None:
        return "in a completed checkpoint"
    return f"checkpoint {completion['c']} was completed ({x.let(completion)}), and in a completed checkpoint"
