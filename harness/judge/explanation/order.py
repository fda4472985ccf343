"""Explains anomalies of order (V1 to V3) and of watermarks (V4 to V7).

Positions come from the events that took the elements in. The position of an emitted watermark is given only if its
value has a single position in the source.
"""

from __future__ import annotations

from harness.history.values import shown
from harness.history.verdict import Explanation
from harness.judge.explanation.contradiction import Contradiction
from harness.judge.explanation.event_summary import Json


def reordered(x: Contradiction) -> Explanation:
    """V1: a result is out of order with another result or a watermark."""
    late, other = _offender(x)
    if late is None or other is None:
        x.then_said()
    elif other["k"] == "out":
        _two_results(x, late, other)
    else:
        _against_watermark(x, late, other)
    return x.however("an ordered operator emits results and watermarks in the order of their positions")


def key_reordered(x: Contradiction) -> Explanation:
    """V3: two results of one key are out of order."""
    late, other = _offender(x)
    if late is not None and other is not None:
        _two_results(x, late, other)
        taken = x.taken(late["id"])
        if taken is not None and "key" in taken:
            x.then(f"Both records have the key {shown(taken['key'])}.")
    return x.however("the results of one key leave in the order of that key's records")


def overtook(x: Contradiction) -> Explanation:
    """V2: a result leaves before the last watermark that precedes its record."""
    out, owm = x.witness("out"), x.witness("owm")
    taken = x.taken(x.anomaly.id)
    if out is not None and owm is not None and taken is not None:
        ahead = [mark for mark in x.marks(x.anomaly.w) if mark["pos"] < taken["pos"]]
        if ahead:
            x.then_precedes(max(ahead, key=lambda event: int(event["pos"])), taken)
        x.then(f"{x.seen(out, 'before', owm)}.")
    return x.however("no result leaves before the last watermark that precedes its record")


def _offender(x: Contradiction) -> tuple[Json | None, Json | None]:
    """The result that is out of order, and the emission it is compared with."""
    mine = [event for event in x.witnesses("out") if event["id"] == x.anomaly.id]
    late = min(mine, key=lambda event: int(event["j"]), default=None)
    other = next((event for event in x.witnesses("out", "owm") if event is not late), None)
    return late, other


def _two_results(x: Contradiction, late: Json, other: Json) -> None:
    taken, ahead = x.taken(late["id"]), x.taken(other["id"])
    if late["id"] == other["id"]:
        x.then(f"{x.let(late)} is output {late['j']} of its record, {x.let(other)} is output {other['j']}.")
    elif taken is not None and ahead is not None:
        x.then_precedes(taken, ahead)
    x.then(f"But {x.seen(late, 'after', other)}.")


def _against_watermark(x: Contradiction, out: Json, owm: Json) -> None:
    taken, marks = x.taken(out["id"]), x.marks(owm["w"])
    pos = None if taken is None else taken["pos"]
    if taken is not None and marks and all(mark["pos"] > pos for mark in marks):
        x.then(f"In the source {x.let(taken)} precedes the watermark ({x.let_all(marks[:3])}).")
        x.then(f"But {x.seen(out, 'after', owm)}.")
    elif taken is not None and marks and all(mark["pos"] < pos for mark in marks):
        x.then(f"In the source the watermark ({x.let_all(marks[-3:])}) precedes {x.let(taken)}.")
        x.then(f"But {x.seen(out, 'before', owm)}.")
    else:
        x.then_said()


_PLACES = 3


def watermark_back(x: Contradiction) -> Explanation:
    """V4: a watermark leaves after a higher one."""
    owms = x.witnesses("owm")
    lower = next((event for event in owms if event["w"] == x.anomaly.w), None)
    higher = next((event for event in owms if event is not lower), None)
    if lower is not None and higher is not None:
        x.then(f"{x.let(higher)} carries {shown(higher['w'])}, {x.let(lower)} the lower {shown(lower['w'])}.")
        back = x.seen(lower, "after", higher) if lower["n"] < higher["n"] else None
        x.then(f"{back or f'{x.let(lower)} comes after {x.let(higher)}'}.")
        _places(x, lower["w"])
        _places(x, higher["w"])
    return x.however(
        "a lower watermark leaves after a higher one only if it follows it somewhere in the source"
    )


def _places(x: Contradiction, w: object) -> None:
    marks = x.marks(w)
    if not marks:
        if x.knows_all("w", w):
            x.then(f"The source of subtask {x.s} holds no watermark {shown(w)}.")
        return
    where = ", ".join(str(mark["pos"]) for mark in marks[:_PLACES])
    more = len(marks) - _PLACES
    told = f"{where} and {more} more" if more > 0 else where
    x.then(f"In the source, watermark {shown(w)} stands at position {told} ({x.let_all(marks[:_PLACES])}).")


def crossed(x: Contradiction) -> Explanation:
    """V5: a watermark leaves before an earlier record is resolved."""
    owm, taken = x.witness("owm"), x.witness("in") or x.taken(x.anomaly.id)
    if owm is not None:
        marks = x.marks(owm["w"])
        if taken is not None and len(marks) == 1:
            x.then_precedes(taken, marks[0])
        _unresolved(x, owm)
    return x.however("a watermark leaves only after every record that precedes it is resolved")


def _unresolved(x: Contradiction, owm: Json) -> None:
    """Say what was known of the record when the watermark left."""
    record = x.anomaly.id
    own = [e for e in x.story(record, "res", "out", "dead") if e["a"] == owm["a"]]
    before = [event for event in own if event["n"] < owm["n"]]
    outcome = next((e for e in before if e["k"] == "dead" or e.get("final") is True), None)
    outs = [event for event in before if event["k"] == "out"]
    when = f"when {x.let(owm)} left attempt {owm['a']}"
    if outcome is not None:
        left = f"only {x.let_all(outs)} had left" if outs else "no output of it had left"
        x.then(f"The record's outcome had come ({x.let(outcome)}), but {left} {when}.")
    elif x.knows_all("id", record):
        left = f", only {x.let_all(outs)} had left" if outs else ""
        x.then(f"No outcome of record {shown(record)} had come{left} {when}.")
    later = next((event for event in own if event["n"] > owm["n"]), None)
    if later is not None:
        x.then(f"Its next event, {x.let(later)}, comes after {x.let(owm)}.")


def watermark_lost(x: Contradiction) -> Explanation:
    """V6: a watermark is not visible."""
    mark = x.witness("wm")
    if mark is not None:
        emitted = [
            event
            for event in x.gathered.lineage("w", mark["w"]).events
            if event["k"] == "owm" and event.get("s") == x.s
        ]
        if emitted:
            fates = ["stand for earlier positions"]
            fates += ["were rolled back"] * (len(x.gathered.skeleton.starts(x.s)) > 1)
            fates += ["were never committed"] * (x.sink in {"atomic", "two-phase"})
            x.then(
                f"The watermarks of its value that left ({x.let_all(emitted[:_PLACES])}) {' or '.join(fates)}."
            )
        elif x.knows_all("w", mark["w"]):
            x.then(f"After {x.let(mark)} no watermark {shown(mark['w'])} ever left subtask {x.s}.")
    x.then_finished(_PLACES)
    return x.however("after a normal finish every watermark that came in is visible")


def held(x: Contradiction) -> Explanation:
    """V6: a watermark leaves too late."""
    owm = x.witness("owm")
    ready = next((event for event in x.cited if event is not owm), None)
    if owm is not None and ready is not None:
        x.then(f"From {x.let(ready)} on, every record before watermark {shown(owm['w'])} was resolved.")
        x.then(f"{x.let(owm)} comes {(owm['t'] - ready['t']) / 1000:.3f} ms after it.")
    x.then("No fault that stalls the operator overlapped that time.")
    return x.however(f"a watermark that is ready leaves within {x.bound('watermark_hold')} ms")


def phantom_watermark(x: Contradiction) -> Explanation:
    """V7: a watermark leaves that never came in."""
    owm = x.witness("owm")
    if owm is not None:
        marks = [m for m in x.gathered.lineage("w", owm["w"]).events if m["k"] == "wm" and m.get("s") == x.s]
        own = next((mark for mark in marks if mark["a"] == owm["a"]), None)
        if own is not None:
            x.then(f"Attempt {owm['a']} took it in only at {x.let(own)}, after {x.let(owm)}.")
        elif marks:
            x.then(
                f"It came in at {x.let(marks[0])}, in attempt {marks[0]['a']}, but not in attempt {owm['a']}."
            )
        else:
            _places(x, owm["w"])
        x.then(
            f"By {x.let(owm)} attempt {owm['a']} had neither taken in nor restored watermark {shown(owm['w'])}."
        )
    return x.however("an attempt emits only watermarks that it took in or restored")


def repeated_watermark(x: Contradiction) -> Explanation:
    """V7: a watermark is visible too often."""
    owms = x.witnesses("owm")
    again = "twice" if len(owms) == 1 else "again"
    x.then(f"Watermark {shown(x.anomaly.w)} is visible {again}: {x.let_all(owms)}.")
    _places(x, x.anomaly.w)
    return x.however("a watermark is visible as often as its value has positions in the source, and no more")


def after_end(x: Contradiction) -> Explanation:
    """V7: an emission is visible after the final watermark."""
    end = next((event for event in x.witnesses("owm") if event["w"] == "end"), None)
    later = next((event for event in x.witnesses("out", "owm") if event is not end), None)
    if end is not None and later is not None:
        x.then(f"{x.let(end)} is the final watermark.")
        x.then(f"{x.seen(later, 'after', end)}.")
    elif end is not None:
        x.then(f"{x.let(end)}, the final watermark, is visible again after itself.")
    return x.however("nothing follows the final watermark")
