"""V1 to V9 read literally and slowly: what is visible, what watermarks do, what the database shows.

Each yields findings: (class, subtask, id or watermark, checkpoint, the `n` of the event that shows it, or whatever else
tells two of one name apart). Shares no code with the checkers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.checkers.tests.naive_notions import ABSENT, Element, Json, Page, canonical, high

__all__ = ["Finding", "lost_effects", "lost_outputs", "lost_watermarks", "uncertain", "v1", "v2", "v3", "v4", "v5",
           "v6", "v7", "v8", "v9"]  # fmt: skip

Finding = tuple[Any, ...]


def _outs(page: Page, s: int) -> list[Json]:
    return [e for e in page.visible(s) if e["k"] == "out"]


def v1(page: Page) -> Iterator[Finding]:
    for s in page.subtasks:
        seen = page.visible(s)
        stands = page.stands(seen, page.marks(s))
        for i, e in enumerate(seen):
            pos = page.position(s, ("record", e["id"])) if e["k"] == "out" else None
            if pos is None:
                continue
            earlier = [(page.position(s, ("record", o["id"])), o["j"]) for o in seen[:i] if o["k"] == "out"]
            back = any(p is not None and (pos, e["j"]) < (p, j) for p, j in earlier)
            ahead = any(m is not None and m < pos for m in stands[i:]) and not page.coalesces
            behind = any(m is not None and m > pos for m in stands[:i])
            if back or ahead or behind or _overtaken_before(page, s, e):
                yield ("reordered", s, e["id"], None, e["n"])


def _overtaken_before(page: Page, s: int, e: Json) -> bool:
    """By what the O* shows of a subtask that held the record before a rescale."""
    for old, pos in page.held_before(s, e["id"]):
        seen = page.visible(old)
        outs = [(page.position(old, ("record", o["id"])), o["j"]) for o in seen if o["k"] == "out"]
        marks = page.stands(seen, page.marks(old))
        if any(p is not None and (pos, e["j"]) < (p, j) for p, j in outs):
            return True
        if any(m is not None and m > pos for m in marks):
            return True
    return False


def v2(page: Page) -> Iterator[Finding]:
    for s in page.subtasks:
        seen = page.visible(s)
        stands = page.stands(seen, page.marks(s))
        for i, e in enumerate(seen):
            pos = page.position(s, ("record", e["id"])) if e["k"] == "out" else None
            preceding = [p for p, _ in page.marks(s) if pos is not None and p < pos]
            if preceding and max(preceding) in stands[i:]:
                yield ("overtook-watermark", s, e["id"], None, e["n"])


def v3(page: Page) -> Iterator[Finding]:
    for s in page.subtasks:
        keyed: list[tuple[Any, int]] = []
        for e in _outs(page, s):
            taken = next(iter(page.taken(s, e["id"])), {})
            if "key" not in taken:
                continue
            key, pos = canonical(taken["key"]), taken["pos"]
            before = (
                other
                for old, place in page.held_before(s, e["id"])
                for o in _outs(page, old)
                for other in page.taken(old, o["id"])[:1]
                if "key" in other and canonical(other["key"]) == key and other["pos"] > place
            )
            if any(key == other and pos < p for other, p in keyed) or any(before):
                yield ("key-reordered", s, e["id"], None, e["n"])
            keyed.append((key, pos))


def v4(page: Page) -> Iterator[Finding]:
    for s in page.subtasks:
        marks = page.marks(s)
        seen = page.visible(s)
        pairs = zip(seen, page.stands(seen, marks), strict=True)
        sequences = [[e for e, place in pairs if place is not None]]
        sequences += [[e for e, _ in page.attempt_stands(s, a)] for a in page.attempts(s)]
        for sequence in sequences:
            for i, e in enumerate(sequence):
                for before in sequence[:i]:
                    follows = any(
                        w == before["w"] and x == e["w"] and p < q for p, w in marks for q, x in marks
                    )
                    if high(before["w"]) > high(e["w"]) and not follows:
                        yield ("watermark-back", s, e["w"], None, e["n"])


def v5(page: Page) -> Iterator[Finding]:
    for s, a in page.every_attempt():
        for e, place in page.attempt_stands(s, a):
            for what in page.came(s, a):
                pos = page.position(s, what)
                ahead = what[0] == "record" and pos is not None and pos < place
                if ahead and not page.resolved(s, a, what[1], e["n"]):
                    yield ("crossed", s, what[1], None, ("attempt", a))


def lost_watermarks(page: Page) -> Iterator[Finding]:
    for s in [s for s in page.subtasks if page.stopped(s) is None]:
        seen, marks = page.visible(s), page.marks(s)
        visible = {place for place in page.stands(seen, marks) if place is not None}
        values = {w for pos, w in marks if pos in visible}
        may_have_left = {pos for pos, w in marks if w in values} if page.coalesces else set()
        for pos, w in marks:
            later = any(other >= pos for other in may_have_left)
            if pos not in visible and not later:
                yield ("watermark-lost", s, w, None, ("position", pos))


def v6(page: Page) -> Iterator[Finding]:
    if page.finished():
        yield from lost_watermarks(page)
    if "watermark_hold" in page.bounds:
        yield from _held(page, page.bounds["watermark_hold"])


def _held(page: Page, bound: int) -> Iterator[Finding]:
    for s, a in page.every_attempt():
        for e, place in page.attempt_stands(s, a):
            own = _waits(page, e, ("mark", place, e["w"]))
            places = [w[1] for w in page.came(s, a) if w[0] == "mark" and w[2] == e["w"] and w[1] >= place]
            waits = [_waits(page, e, ("mark", p, e["w"])) for p in places if p == place or page.coalesces]
            late = [
                since is None or (e["t"] - since > bound * 1000 and not page.stalled(since, e["t"]))
                for since in waits
            ]
            if own is not None and all(late):
                yield ("held", s, e["w"], None, e["n"])


def _waits(page: Page, e: Json, mark: Element) -> int | None:
    """Since when it has been ready as it leaves; None: it is not, or another that holds it up is V5's."""
    s, a, n = e["s"], e["a"], e["n"]
    came = page.came(s, a)
    if mark not in came or came[mark]["n"] > n:
        return None
    since: int = came[mark]["t"]
    for what in came:
        pos = page.position(s, what)
        if what[0] == "mark" or pos is None or pos >= mark[1]:
            continue
        if not page.resolved(s, a, what[1], n):
            return None
        for earlier in page.of(s, a):
            # The last event that it was not yet resolved by is followed by the one that resolved it.
            if earlier["n"] < n and not page.resolved(s, a, what[1], earlier["n"]):
                now_resolved = page.resolved(s, a, what[1], earlier["n"] + 1)
                since = max(since, earlier["t"]) if now_resolved else since
    return since


def v7(page: Page) -> Iterator[Finding]:
    for s, a in page.every_attempt():
        for e in page.of(s, a, "owm"):
            came = page.came(s, a).items()
            if not any(what[0] == "mark" and what[2] == e["w"] and by["n"] < e["n"] for what, by in came):
                yield ("phantom-watermark", s, e["w"], None, e["n"])
    for s in page.subtasks:
        seen, marks = page.visible(s), page.marks(s)
        for i, (e, place) in enumerate(zip(seen, page.stands(seen, marks), strict=True)):
            if e["k"] == "owm" and place is None and any(w == e["w"] for _, w in marks):
                yield ("repeated-watermark", s, e["w"], None, e["n"])
            if any(before.get("w") == "end" for before in seen[:i]):
                yield ("after-end", s, e.get("id", e.get("w")), None, e["n"])


def v8(page: Page) -> Iterator[Finding]:
    together = [[*page.subtasks]] if page.kind("rescale") else [[s] for s in page.subtasks]
    for group in together:
        outs = [e for s in group for e in _outs(page, s)]
        for i, e in enumerate(outs):
            s = e["s"]
            if not page.taken(s, e["id"]):
                yield ("phantom", s, e["id"], None, e["n"])
            elif _wrong(page, s, e):
                yield ("wrong-value", s, e["id"], None, e["n"])
            if any(o["id"] == e["id"] and o["j"] == e["j"] for o in outs[:i]):
                yield ("duplicate", s, e["id"], None, (i,))
        for s, record in page.accepted():
            if s not in group:
                continue
            numbers = {e["j"] for e in outs if e["id"] == record}
            if page.expected(s, record) is ABSENT and numbers != set(range(len(numbers))):
                yield ("wrong-value", s, record, None, "gap")
    if page.finished():
        yield from lost_outputs(page)


def _wrong(page: Page, s: int, out: Json) -> bool:
    wanted = page.expected(s, out["id"])
    if wanted is not ABSENT:
        j = out["j"]
        if j >= len(wanted) or canonical(out["v"]) != canonical(wanted[j]):
            return True
    return "ts" in out and out["ts"] != page.taken(s, out["id"])[0].get("ts")


def lost_outputs(page: Page) -> Iterator[Finding]:
    for s, record in page.accepted():
        among = page.subtasks if page.kind("rescale") else [s]
        numbers = {e["j"] for other in among for e in _outs(page, other) if e["id"] == record}
        wanted = page.expected(s, record)
        nothing_known = wanted is ABSENT and page.deciding(s, record)[0] is None
        if nothing_known if wanted is ABSENT else not set(range(len(wanted))) <= numbers:
            yield ("lost", s, record, None, None)


def v9(page: Page) -> Iterator[Finding]:
    by_output = page.by_output
    rows = page.kind("effect")
    owners = {record: s for s, record in page.accepted()}
    for row in rows:
        record, j = row["id"], row["j"] if by_output else 0
        again = [o for o in rows if o["id"] == record and (not by_output or o["j"] == j)]
        if len(again) > 1 and again[0] is row:
            yield ("double-effect", row["s"], record, None, row["n"])
        if record not in owners:
            yield ("phantom-effect", row["s"], record, None, row["n"])
            continue
        wanted = page.expected(owners[record], record)
        if wanted is ABSENT or uncertain(page, owners[record], record):
            continue
        if not 0 <= j < len(wanted):
            yield ("phantom-effect", row["s"], record, None, row["n"])
        elif "v" in row:
            right = [wanted[j]] if by_output else [wanted, *(wanted if len(wanted) == 1 else [])]
            if canonical(row["v"]) not in [canonical(v) for v in right]:
                yield ("wrong-effect", row["s"], record, None, row["n"])
    if page.finished() and not page.not_whole("audit"):
        yield from lost_effects(page)


def lost_effects(page: Page) -> Iterator[Finding]:
    by_output = page.by_output
    for s, record in page.accepted():
        wanted = page.expected(s, record)
        if wanted is ABSENT or not wanted or uncertain(page, s, record):
            continue
        rows = [e for e in page.kind("effect") if e["id"] == record]
        for j in range(len(wanted)) if by_output else [0]:
            if not any(not by_output or row["j"] == j for row in rows):
                yield ("no-effect", s, record, None, ("output", j))


def uncertain(page: Page, s: int, record: Any) -> bool:
    """A call of it ended unclearly, and nothing or a substitute is expected."""
    outcome = page.deciding(s, record)[1]
    wanted = page.expected(s, record)
    substitute = outcome is not None and outcome.get("r") == "timeout"
    if wanted != [] and not substitute:
        return False
    for where in page.every_attempt():
        calls = [e for e in page.of(*where, "call") if e["id"] == record]
        answers = [e for e in page.of(*where, "res") if e["id"] == record]
        unanswered = [
            call for call in calls
            if not any(res["try"] == call["try"] and res["n"] > call["n"] for res in answers)
        ]  # fmt: skip
        called = [e for e in answers if e["r"] != "ok" and any(call["n"] < e["n"] for call in calls)]
        if unanswered or called:
            return True
    return False
