"""Explains anomalies of checkpoints and restores: V10 and V11."""

from __future__ import annotations

from harness.history.values import shown
from harness.history.verdict import Explanation
from harness.judge.explanation.contradiction import Contradiction
from harness.judge.explanation.event_summary import Json

_EVENTS_MAX = 3
_ELEMENTS = 8


def missing(x: Contradiction) -> Explanation:
    """V10: an element before the cut is neither stored nor resolved."""
    snap = _place(x)
    if snap is not None:
        _held(x, snap)
        _left_by(x, snap)
    return x.however(_completed(x) + " every element before its position is stored in it or resolved")


def already_out(x: Contradiction) -> Explanation:
    """V10: a stored element has left already."""
    snap = _place(x)
    if snap is not None:
        _held(x, snap)
        _left_by(x, snap)
    return x.however(_completed(x) + " no stored element has left, since a restore would let it leave again")


def torn(x: Contradiction) -> Explanation:
    """V10: some outputs of a record have left, others not."""
    snap = _place(x)
    if snap is not None:
        _left_by(x, snap)
        x.then(f"Not all outputs of record {shown(x.anomaly.id)} had left by {x.let(snap)}.")
    return x.however(_completed(x) + " no record's outputs are on both sides of the cut")


def both_sides(x: Contradiction) -> Explanation:
    """V10: an element at or after the cut is stored or has left."""
    snap = _place(x)
    if snap is not None:
        _held(x, snap)
        _left_by(x, snap)
        x.then(f"After a restore the source is read again from position {snap['pos']}.")
    return x.however(_completed(x) + " an element that will be read again is neither stored nor has it left")


def foreign(x: Contradiction) -> Explanation:
    """V10: a stored element was never in the attempt's input."""
    snap = x.witness("snap")
    if snap is not None:
        _held(x, snap)
        taken = [e for e in (x.story(x.anomaly.id, "in") or x.marks(x.anomaly.w)) if e["n"] < snap["n"]]
        own = [event for event in taken if event["a"] == snap["a"]]
        if not own:
            x.then(f"By {x.let(snap)} attempt {snap['a']} had neither taken it in nor restored it.")
        else:
            x.then_said()
    return x.however(_completed(x) + " only elements that the attempt took in or restored are stored")


def twice(x: Contradiction) -> Explanation:
    """V10: an element is stored twice."""
    snap = _place(x)
    if snap is not None:
        places = [str(i) for i, element in enumerate(snap["elements"], start=1) if _is(x, element)]
        if places:
            x.then(f"{x.let(snap)} lists it {len(places)} times, in places {', '.join(places)}.")
    return x.however(_completed(x) + " every element is stored once")


def misordered(x: Contradiction) -> Explanation:
    """V10: elements are stored out of replay order."""
    snap = _place(x)
    if snap is not None:
        stored = [_element(element) for element in snap["elements"]]
        x.then(f"{x.let(snap)} stores in this order: {_told(stored)}.")
        x.then_said()
    ordered = x.operator("mode") == "ordered"
    rule = "by position" if ordered else "records on their side of each watermark"
    return x.however(_completed(x) + f" elements are stored in replay order, {rule}")


def skipped(x: Contradiction) -> Explanation:
    """V10: the cut is beyond the input that was taken in."""
    snap = x.witness("snap")
    if snap is not None:
        x.then(f"{x.let(snap)} says that the source is to be read from position {snap['pos']}.")
        x.then_said()
    return x.however(_completed(x) + " the cut is at the position up to which the source was read")


def incomplete(x: Contradiction) -> Explanation:
    """V10: a checkpoint is completed without a snap of a running subtask."""
    done = x.witness("done")
    if done is not None:
        begun = [start for start in x.gathered.skeleton.starts(x.s) if start.n < done["n"]]
        if begun and (start := x.event(begun[-1])) is not None:
            x.then(f"{x.let(start)} had started before {x.let(done)}, and had not ended.")
        snaps = [s for s in x.gathered.skeleton.snaps.get((x.s, done["c"]), ()) if s.n < done["n"]]
        if not snaps:
            x.then(f"Subtask {x.s} took no snap of checkpoint {done['c']} before {x.let(done)}.")
        else:
            x.then_said()
    return x.however(
        "a checkpoint is completed only after every running subtask took its snap of it, and acknowledged it"
    )


def stale_ack(x: Contradiction) -> Explanation:
    """V10: a checkpoint is completed with the acknowledgement of a superseded attempt."""
    ack, start, done = x.witness("ack"), x.witness("start"), x.witness("done")
    if ack is not None and start is not None and done is not None:
        x.then(
            f"{x.let(start)} had begun before {x.let(done)}, so attempt {ack['a']} was superseded by then."
        )
        x.then(
            f"{x.let(ack)} is of the superseded attempt; attempt {start['a']} had acknowledged no snap of it."
        )
    return x.however("a checkpoint is completed only with acknowledgements of the newest attempts")


def two_ends(x: Contradiction) -> Explanation:
    """V10: a checkpoint is both completed and aborted."""
    ends = x.witnesses("done", "abort")
    if len(ends) > 1:
        x.then(f"{x.let(ends[0])} was the end of checkpoint {x.anomaly.c}.")
        since = "the running subtasks" if ends[-1]["k"] == "done" else "any subtask"
        x.then(f"{x.let(ends[-1])} is of the same number, without snaps of {since} in between.")
    return x.however(
        "a checkpoint is either completed or aborted, unless its number is used again for new snaps"
    )


def bad_restore(x: Contradiction) -> Explanation:
    """V11: an attempt starts from a checkpoint that it must not use."""
    if x.witness("rescale") is not None:
        return redistributed(x)
    start, snap, retired = x.witness("start"), x.witness("snap"), x.witness("retire")
    if start is not None:
        if retired is not None:
            x.then(f"{x.let(retired)} comes before {x.let(start)}: checkpoint {start['from']} was retired.")
        elif snap is not None:
            x.then(
                f"{x.let(snap)} is the snap of checkpoint {start['from']} that {x.let(start)} starts from."
            )
            x.then(f"Checkpoint {start['from']} was not completed before {x.let(start)}.")
        else:
            x.then(
                f"No earlier attempt of subtask {x.s} took a snap of checkpoint {start['from']} before {x.let(start)}."
            )
    return x.however(
        "an attempt starts from a completed checkpoint that is not retired and has a snap of its subtask"
    )


def restore_differs(x: Contradiction) -> Explanation:
    """V11: the restored elements differ from the stored ones."""
    if x.witness("rescale") is not None:
        return redistributed(x)
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
    """V11: the source is read from another position than the snap's."""
    if x.witness("rescale") is not None:
        return redistributed(x)
    start, snap, first = x.witness("start"), x.witness("snap"), x.witness("in", "wm")
    if start is not None and snap is not None:
        x.then(f"{x.let(snap)} says to read the source from position {snap['pos']}.")
        if first is None:
            x.then(f"{x.let(start)} begins with its source at position {start['pos']}.")
        else:
            x.then(f"The first element that its attempt reads is {x.let(first)}, at position {first['pos']}.")
    return x.however("after a restore the source is read from the position of the snap")


_SHARED = {
    "bad-restore": "each subtask that a rescale ends has a snap of a completed checkpoint that is not retired",
    "restore-differs": "what one subtask had stored keeps its order in each share, and a share stays the same",
    "wrong-position": "a subtask reads on behind what it inherits, and each partition where it was cut",
    "left-behind": "each element that was in flight at a rescale reaches one of the subtasks that follow",
    "restored-twice": "each element that was in flight at a rescale reaches one subtask alone",
    "not-stored": "the subtasks that follow a rescale inherit what was stored, and nothing else",
    "shared-partition": "each partition of the source is read by one subtask",
}


def redistributed(x: Contradiction) -> Explanation:
    """V11: at a rescale the subtasks that follow do not get together what the old ones had stored."""
    rescale = x.witness("rescale")
    if rescale is not None:
        x.then(f"{x.let(rescale)} ends {_subtasks(rescale['of'])} and begins {_subtasks(rescale['to'])}.")
    x.then_said()
    return x.however(_SHARED[x.anomaly.kind])


def _subtasks(numbers: list[int]) -> str:
    told = [str(number) for number in numbers]
    return f"subtask {told[0]}" if len(told) == 1 else f"subtasks {', '.join(told[:-1])} and {told[-1]}"


def _place(x: Contradiction) -> Json | None:
    """Say on which side of the cut the element stands; returns the snap."""
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
    x.then(f"{x.let(snap)} {word} it.")


def _left_by(x: Contradiction, snap: Json) -> None:
    """Say which outputs or watermarks had left the attempt before the snap."""
    record, w = x.anomaly.id, x.anomaly.w
    if record is not None:
        own = [e for e in x.story(record, "out") if e["a"] == snap["a"] and e["n"] < snap["n"]]
        if own:
            x.then(f"Before {x.let(snap)}, {x.let_all(own[:_EVENTS_MAX])} had left.")
        elif x.knows_all("id", record):
            x.then(f"By {x.let(snap)} no output of it had left attempt {snap['a']}.")
    elif w is not None:
        events = x.gathered.lineage("w", w).events
        own = [e for e in events if e["k"] == "owm" and e.get("s") == x.s and e["a"] == snap["a"]]
        own = [event for event in own if event["n"] < snap["n"]]
        if own:
            x.then(f"Before {x.let(snap)}, {x.let_all(own[:_EVENTS_MAX])} had left with its value.")
        elif x.knows_all("w", w):
            x.then(f"By {x.let(snap)} no such watermark had left attempt {snap['a']}.")
            if x.operator("coalesces_watermarks") and x.anomaly.kind != "missing":
                x.then("A later one had; since watermarks coalesce, it covers this one.")


def _is(x: Contradiction, element: Json) -> bool:
    """Whether an element of a snap is the one that the anomaly names."""
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
