"""V10 to V13 and V18 read literally and slowly: what a snap holds, what is restored, committed and completed.

Findings as in `naive_outputs`. Shares no code with the checkers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from harness.checkers.tests.naive_notions import ABSENT, EVER, Element, Json, Page, element
from harness.checkers.tests.naive_outputs import Finding

__all__ = ["left_behind", "v10", "v11", "v12", "v13", "v18", "waiting_shares"]


def v10(page: Page) -> Iterator[Finding]:
    for s in page.subtasks:
        for snap in page.completed_snaps(s):
            for kind, what in _cut(page, snap):
                yield (kind, s, what and what[-1], snap["c"], (snap["n"], what))
        for done in page.kind("done"):
            a = _running(page, s, done["n"])
            if a is not None and not page.snap(s, done["c"], done["n"]):
                yield ("incomplete", s, None, done["c"], done["n"])
            if a is not None and page.kind("ack") and not _acknowledged(page, s, a, done):
                earlier = any(_acknowledged(page, s, b, done) for b in page.attempts(s) if b < a)
                yield ("stale-ack" if earlier else "incomplete", s, None, done["c"], done["n"])
    yield from _two_ends(page)


def _running(page: Page, s: int, by: int) -> int | None:
    """Its newest attempt, if the subtask has started and not ended."""
    ender = page.ender(s)
    if ender is not None and ender["n"] < by:
        return None
    started: list[int] = [e["a"] for e in page.of(s, None, "start") if e["n"] < by]
    if not started or any(e["n"] < by for e in page.of(s, max(started), "ended")):
        return None
    return max(started)


def _acknowledged(page: Page, s: int, a: int, done: Json) -> bool:
    """Of this attempt, after its snap and before the `done`."""
    acks = [e for e in page.kind("ack") if (e["s"], e["a"], e["c"]) == (s, a, done["c"])]
    snaps = [e for e in page.of(s, a, "snap") if e["c"] == done["c"]]
    return any(snap["n"] < ack["n"] < done["n"] for snap in snaps for ack in acks)


def _two_ends(page: Page) -> Iterator[Finding]:
    for e in page.kind("done", "abort"):
        other = "abort" if e["k"] == "done" else "done"
        before = [o["n"] for o in page.kind(other) if o["c"] == e["c"] and o["n"] < e["n"]]
        if not before:
            continue
        if e["k"] == "done":
            running = [s for s in page.subtasks if _running(page, s, e["n"]) is not None]
            meant = [page.snap(s, e["c"], e["n"]) for s in running]
            again = bool(meant) and all(snap is not None and snap["n"] > before[-1] for snap in meant)
        else:
            again = any(o["c"] == e["c"] and before[-1] < o["n"] < e["n"] for o in page.kind("snap"))
        if not again:
            yield ("two-ends", None, None, e["c"], e["n"])


def _cut(page: Page, snap: Json) -> Iterator[tuple[str, Element | None]]:
    s, a, n = snap["s"], snap["a"], snap["n"]
    stored = [element(given) for given in snap["elements"]]
    by_then = [what for what, by in page.came(s, a).items() if by["n"] < n]
    for what in page.came(s, a):
        pos = page.position(s, what)
        if pos is not None and pos >= snap["pos"]:
            if _any_left(page, what, snap) or (what in stored and what in by_then):
                yield "both-sides", what
        elif pos is not None and what in by_then:
            yield from _before_the_cut(page, what, snap, stored=what in stored)
    for what in stored:
        if what not in by_then:
            yield "foreign", what
        if stored.count(what) > 1:
            yield "twice", what
    yield from _misordered(page, s, list(dict.fromkeys(stored)))
    read = [e["pos"] + 1 for e in page.of(s, a, "in", "wm") if e["n"] < n]
    started = [e["pos"] for e in page.of(s, a, "start")]
    if snap["pos"] > (read or started)[-1]:
        yield "skipped", None


def _any_left(page: Page, what: Element, snap: Json) -> bool:
    s, a, n = snap["s"], snap["a"], snap["n"]
    if what[0] == "mark":
        return what in page.left_marks(s, a, n, leniently=False)
    return bool(page.numbers_left(s, a, what[1], n))


def _before_the_cut(page: Page, what: Element, snap: Json, *, stored: bool) -> Iterator[tuple[str, Element]]:
    s, a, n = snap["s"], snap["a"], snap["n"]
    if what[0] == "mark":
        if stored and what in page.left_marks(s, a, n, leniently=False):
            yield "already-out", what
        elif not stored and what not in page.left_marks(s, a, n, leniently=True):
            yield "missing", what
        return
    wanted = page.outputs_by(s, page.outcome(s, a, what[1], n), what[1])
    left = page.numbers_left(s, a, what[1], n)
    count = len(left) if wanted is ABSENT else len(left & set(range(len(wanted))))
    everything = count > 0 and (wanted is ABSENT or count == len(wanted))
    if count > 0 and not everything:
        yield "torn", what
    elif stored and everything:
        yield "already-out", what
    elif not stored and not everything and not page.resolved(s, a, what[1], n):
        yield "missing", what


def _misordered(page: Page, s: int, stored: list[Element]) -> Iterator[tuple[str, Element]]:
    places = [page.position(s, what) for what in stored]
    for i, what in enumerate(stored):
        pos = places[i]
        if pos is None:
            continue
        pairs = list(zip(stored, places, strict=True))
        before = [p for e, p in pairs[:i] if page.ordered or e[0] == "mark"]
        after = [p for e, p in pairs[i + 1 :] if e[0] == "mark"]
        back = any(p is not None and p > pos for p in before)
        ahead = not page.ordered and what[0] == "record" and any(p < pos for p in after)
        if back or ahead:
            yield "misordered", what


def v11(page: Page) -> Iterator[Finding]:
    for s, a in page.every_attempt():
        start = page.start(s, a)
        c, n = start["from"], start["n"]
        if c is None or page.inherits(s, a):
            continue
        snap = page.restored(s, a)
        completed = any(e["c"] == c and e["n"] < n for e in page.completers(s))
        retired = any(e["c"] >= c and e["n"] < n for e in page.kind("retire"))
        if snap is None or not completed or retired:
            yield ("bad-restore", s, None, c, n)
        if snap is None:
            continue
        for restore in page.of(s, a, "restore"):
            if _replay(page, restore["elements"]) != _replay(page, snap["elements"]):
                yield ("restore-differs", s, None, c, n)
        first = [e["pos"] for e in page.of(s, a, "in", "wm")][:1]
        if any(pos != snap["pos"] for pos in [start["pos"], *first]):
            yield ("wrong-position", s, None, c, n)

    for rescale in page.kind("rescale"):
        yield from _redistributed(page, rescale)


def _redistributed(page: Page, rescale: Json) -> Iterator[Finding]:
    c, n = rescale["c"], rescale["n"]
    stored: list[tuple[int, Json]] = []
    for s in [s for s in rescale["of"] if page.stopped(s) is not None]:
        snap = page.cut(s)
        completed = any(e["c"] == c and e["n"] < n for e in page.completers(s))
        retired = any(e["c"] >= c and e["n"] < n for e in page.kind("retire"))
        if snap is None or not completed or retired:
            yield ("bad-restore", s, None, c, (n, s))
        stored += [(s, given) for given in snap["elements"]] if snap else []
    shares = {s: page.share(s) for s in rescale["to"] if s in page.subtasks}
    given_out = [(s, given) for s, share in shares.items() for given in share or []]
    names = [_name(given) for _, given in stored]
    for i, (s, given) in enumerate(given_out):
        before = [_name(other) for _, other in given_out[: i + 1]].count(_name(given))
        if _name(given) not in names:
            yield ("not-stored", s, given.get("id", given.get("w")), c, (n, i))
        elif before > names.count(_name(given)):
            yield ("restored-twice", s, given.get("id", given.get("w")), c, (n, i))
    if _all_restored(page, rescale):
        yield from left_behind(page, rescale)
    for s, share in shares.items():
        yield from _of_share(page, rescale, s, share, stored)
    yield from _partitions(page, rescale)


def _all_restored(page: Page, rescale: Json) -> bool:
    return all(s in page.subtasks and page.share(s) is not None for s in rescale["to"])


def left_behind(page: Page, rescale: Json) -> Iterator[Finding]:
    stored = [
        (s, given) for s in rescale["of"] if page.stopped(s) is not None
        for given in (page.cut(s) or {"elements": []})["elements"]
    ]  # fmt: skip
    shares = [page.share(s) or [] for s in rescale["to"] if s in page.subtasks]
    names = [_name(given) for share in shares for given in share]
    for i, (s, given) in enumerate(stored):
        rank = [_name(other) for _, other in stored[: i + 1]].count(_name(given))
        if rank > names.count(_name(given)):
            yield ("left-behind", s, given.get("id", given.get("w")), rescale["c"], (rescale["n"], i))


def waiting_shares(page: Page) -> bool:
    """Whether something may yet turn up in a share that was not restored."""
    open_ = [e for e in page.kind("rescale") if not _all_restored(page, e)]
    return any(any(left_behind(page, e)) for e in open_)


def _name(given: Json) -> Any:
    return ("id", given["id"]) if "id" in given else ("w", given["w"])


def _of_share(
    page: Page, rescale: Json, s: int, share: list[Json] | None, stored: list[tuple[int, Json]]
) -> Iterator[Finding]:
    c, n = rescale["c"], rescale["n"]
    for a in page.attempts(s) if share is not None else []:
        if not page.inherits(s, a):
            continue
        for restore in page.of(s, a, "restore"):
            if _replay(page, restore["elements"]) != _replay(page, share or []):
                yield ("restore-differs", s, None, c, restore["n"])
        first = [e["pos"] for e in page.of(s, a, "in", "wm")][:1]
        if any(pos != len(share or []) for pos in [page.start(s, a)["pos"], *first]):
            yield ("wrong-position", s, None, c, page.start(s, a)["n"])
    values = [given["w"] for _, given in stored if "w" in given]
    furthest: dict[int, int] = {}
    for given in share or []:
        if "w" in given and values.count(given["w"]) != 1:
            continue
        places = [(old, i) for i, (old, other) in enumerate(stored) if _name(other) == _name(given)]
        if not places:
            continue
        old, i = places[-1]
        rank = i
        if not page.ordered:
            marks = [j for j, (o, other) in enumerate(stored[:i]) if o == old and "w" in other]
            rank = 2 * len(marks) + ("w" in given)
        if rank < furthest.get(old, -1):
            yield ("restore-differs", s, None, c, (n, s, "order"))
            return
        furthest[old] = rank


def _partitions(page: Page, rescale: Json) -> Iterator[Finding]:
    c, n = rescale["c"], rescale["n"]
    ended = [s for s in page.subtasks if (e := page.ender(s)) is not None and e["n"] <= n]
    readers: dict[int, int] = {}
    for s in [s for s in rescale["to"] if s in page.subtasks]:
        own = _told_places(page, s)
        for part in dict.fromkeys(e["part"] for e in own):
            places = [e["at"] for e in own if e["part"] == part]
            past = [
                e["at"] + 1 for old in ended for e in _told_places(page, old)
                if e["part"] == part and e["pos"] < (page.cut(old) or {"pos": EVER})["pos"]
            ]  # fmt: skip
            if part in readers:
                yield ("shared-partition", s, None, c, (n, s, part))
            readers.setdefault(part, s)
            due = max(past, default=0)
            if places != list(range(due, due + len(places))):
                yield ("wrong-position", s, None, c, (n, s, part))


def _told_places(page: Page, s: int) -> list[Json]:
    """The first `in` with a partition at each position, in order."""
    known: dict[int, Json] = {}
    for e in page.of(s, None, "in"):
        if "part" in e and "at" in e:
            known.setdefault(e["pos"], e)
    return [known[pos] for pos in sorted(known)]


def _replay(page: Page, elements: list[Json]) -> list[Any]:
    if page.ordered:
        return [element(given) for given in elements]
    segments: list[Any] = [[]]
    for what in map(element, elements):
        if what[0] == "mark":
            segments += [what, []]
        else:
            segments[-1].append(repr(what))
    return [sorted(part) if isinstance(part, list) else part for part in segments]


def v12(page: Page) -> Iterator[Finding]:
    for s in page.subtasks:
        commits = page.commits(s)
        for i, commit in enumerate(commits):
            c, n, snap = commit["c"], commit["n"], page.shows(commit)
            if any(other["c"] == c for other in commits[:i]):
                yield ("committed-twice", s, None, c, n)
            if any(other["c"] > c for other in commits[:i]):
                yield ("commit-order", s, None, c, n)
            if snap is None:
                yield ("unknown-epoch", s, None, c, n)
            elif page.sink == "two-phase":
                snapped = [e["c"] for e in page.of(s, snap["a"], "snap") if e["c"] >= c and e["n"] < n]
                if not any(done["c"] in snapped and done["n"] < n for done in page.kind("done")):
                    yield ("early-commit", s, None, c, n)
        chain = page.chain(s)
        for snap in page.of(s, None, "snap") if page.finished() else ():
            shown = any(page.shows(commit) is snap for commit in commits)
            if snap["n"] <= chain.get(snap["a"], -EVER) and page.epoch(snap) and not shown:
                yield ("never-committed", s, None, snap["c"], snap["n"])


def v13(page: Page) -> Iterator[Finding]:
    rows = sorted(page.kind("effect"), key=lambda e: e["seq"])
    for i, row in enumerate(rows):
        if any(other["s"] == row["s"] and other["token"] > row["token"] for other in rows[:i]):
            yield ("zombie-effect", row["s"], row["id"], None, row["n"])
        if (ender := page.ender(row["s"])) and any(other["s"] in ender["to"] for other in rows[:i]):
            yield ("zombie-effect", row["s"], row["id"], None, ("rescale", row["n"]))
    for s in page.subtasks:
        commits = [e for e in page.commits(s) if "a" in e]
        for i, commit in enumerate(commits):
            ender = page.ender(s)
            told = [e for e in page.kind("commit") if "a" in e and e["n"] < commit["n"]]
            if ender is not None and any(other["s"] in ender["to"] for other in told):
                yield ("zombie-commit", s, None, commit["c"], ("rescale", commit["n"]))
            if any(other["a"] > commit["a"] for other in commits[:i]):
                yield ("zombie-commit", s, None, commit["c"], commit["n"])


def v18(page: Page) -> Iterator[Finding]:
    if page.sink == "atomic":
        for s in page.subtasks:
            fresh = [e for e in page.commits(s) if page.shows(e)]
            fresh = [
                e for i, e in enumerate(fresh) if not any(page.shows(e) is page.shows(o) for o in fresh[:i])
            ]
            yield from _gaps(page, [s], fresh, s=s, ended=page.ended(s), stopped=page.stopped(s))
        return
    fresh = []
    for done in page.kind("done"):
        earlier = [e for e in page.kind("done") if e["c"] == done["c"] and e["n"] < done["n"]]
        new = [
            s for s in page.subtasks
            if (snap := page.snap(s, done["c"], done["n"]))
            and not any(page.snap(s, e["c"], e["n"]) is snap for e in earlier)
        ]  # fmt: skip
        if not earlier or new:
            fresh.append(done)
    yield from _gaps(page, page.subtasks, fresh, s=None, ended=page.finished())


def _gaps(
    page: Page, subtasks: list[int], fresh: list[Json], *, s: Any, ended: bool, stopped: Json | None = None
) -> Iterator[Finding]:
    starts = [e for e in page.kind("start") if e["s"] in subtasks]
    ends = [e for e in page.kind("end") if e["s"] in subtasks]
    first = [(e["t"], None) for e in starts[:1]]
    last = [stopped] if stopped else ends[-1:] if ended else page.events[-1:]
    points = [*first, *((e["t"], e["c"]) for e in fresh), *((e["t"], None) for e in last)]
    for i, (before, after) in enumerate(pairwise(points)):
        if after[0] - before[0] > page.bounds["checkpoint_gap"] * 1000:
            yield ("checkpoint-gap", s, None, after[1], ("gap", i))
