"""A second judge of histories, in one file: `history.md` and `history-outside.md` (docs/reference) read literally.

    python second_judge.py HISTORY

It shares no code with Floodmark's checkers, and needs nothing but the standard library, so that a stranger can judge
again what a report tells, from the files beside it. `floodmark check --second` and the tests compare both judges.
HISTORY is `.jsonl` or `.jsonl.gz`. Of the rules for well-formed files only the form of each line is checked here.
It asks the whole history again for most questions, so its time grows with the square of the history. The notions of
the first page are methods of `Page`, those of the other of `Outside`; an invariant is a function, `v1`, `v2`, ...;
a rule is one line where it can be.
"""

# fmt: off

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import wraps
from itertools import pairwise
from math import floor
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

T = TypeVar("T")
Json = dict[str, Any]
Id = int | str
Element = tuple[Any, ...]  # ("record", id), or ("mark", pos, w).
ABSENT: list[object] = [object()]
EVER = float("inf")
OF_RUN = {"done", "abort", "retire", "fault", "giveup", "commit", "effect", "ack", "row", "read", "change", "rescale"}
"""Kinds that are no events of an attempt."""
ACTS = {"start", "call", "res", "out", "dead", "commit"}  # may not follow the reading of a table
LIVES = ("call", "res", "out", "owm", "snap")  # what V21 judges

class Finding(NamedTuple):
    """One anomaly: `what` is an id or watermark, `at` the `n` of the event that shows it, or what tells two apart."""

    kind: str
    s: int | None
    what: Any
    c: int | None
    at: Any
    table: str | None = None
    j: int | None = None

Findings = Iterator[Finding]

def shown(kind: str, e: Json) -> Finding:
    """An anomaly that one event shows."""
    return Finding(kind, e.get("s"), e["id"] if "id" in e else e.get("w"), e.get("c"), e["n"])

def by_id(events: Iterable[Json]) -> dict[Id, list[Json]]:
    found: dict[Id, list[Json]] = {}
    for e in events: found.setdefault(e["id"], []).append(e)
    return found

def canonical(value: object) -> tuple[object, ...]:
    """Equal exactly for values that the page calls equal, and hashable."""
    match value:
        case dict(): return ("object", tuple(sorted((name, canonical(item)) for name, item in value.items())))
        case list(): return ("list", tuple(canonical(item) for item in value))
        case float(): return ("float", value + 0.0)
        case _: return (type(value).__name__, value)

def high(w: float | str) -> float:
    return EVER if isinstance(w, str) else w

def element(given: Json) -> Element:
    return ("record", given["id"]) if "id" in given else ("mark", given["pos"], given["w"])

def asked_once(answer: Callable[..., T]) -> Callable[..., T]:
    """The same question gets the same answer: nothing about a page changes."""

    @wraps(answer)
    def remember(page: Any, *asked: Any) -> T:
        question = (answer, *asked)
        if question not in page.known:
            page.known[question] = answer(page, *asked)
        return cast("T", page.known[question])
    return remember

# ---------------------------------------------------------------------------------- what the page calls things
class Page:
    """One history, and what the page calls its parts ("What counts")."""

    def __init__(self, lines: list[Json]) -> None:
        self.header, self.events = lines[0], lines[1:]
        self.operator: Json = {"max_tries": 1, "watermark_slots": True} | self.header["operator"]
        self.bounds: Json = {"timeout_slack": 0, "timer_resolution": 1, "recover": 0} | self.header.get("bounds", {})
        self.early_us = self.bounds["timer_resolution"] * 1000
        self.sink = self.header.get("sink", "rollback")
        self.ordered = self.operator["mode"] == "ordered"
        self.coalesces = self.operator.get("coalesces_watermarks", False)
        self.by_output = self.header.get("effects") == "outputs"
        self.tables: dict[str, Json] = self.header.get("tables", {})
        self.known: dict[Any, Any] = {}
        self._own: dict[tuple[Any, ...], list[Json]] = {}
        for e in self.events:
            if e["k"] not in OF_RUN:
                for asked in ((e["s"],), (e["s"], e["a"]), (e["s"], e["a"], "of", e.get("id"))):
                    self._own.setdefault(asked, []).append(e)
        ran = {e["s"] for e in self.events if e["k"] == "commit" or e["k"] not in OF_RUN}
        self.subtasks = sorted(ran, key=lambda s: (self.generation(s), s))

    def kind(self, *kinds: str) -> list[Json]:
        return [e for e in self.events if e["k"] in kinds]

    def of(self, s: int, a: int | None, *kinds: str) -> list[Json]:
        """Events of an attempt, or of all of a subtask; without kinds, all."""
        own = self._own.get((s,) if a is None else (s, a), [])
        return [e for e in own if not kinds or e["k"] in kinds]
    def told(self, s: int, a: int, record: Id, *kinds: str) -> list[Json]:
        """Events of an attempt about a record."""
        return [e for e in self._own.get((s, a, "of", record), []) if e["k"] in kinds]
    def by_id(self, *kinds: str) -> dict[Id, list[Json]]:
        """All events of these kinds, by their id."""
        return by_id(self.kind(*kinds))
    def commits(self, s: int) -> list[Json]:
        return [e for e in self.kind("commit") if e["s"] == s]
    def attempts(self, s: int) -> list[int]:
        return sorted({e["a"] for e in self.of(s, None)})
    def every_attempt(self) -> list[tuple[int, int]]:
        return [(s, a) for s in self.subtasks for a in self.attempts(s)]
    def start(self, s: int, a: int) -> Json:
        return self.of(s, a, "start")[0]
    def ended(self, s: int) -> bool:
        return bool(self.attempts(s)) and bool(self.of(s, self.attempts(s)[-1], "ended"))

    def finished(self) -> bool:
        """Normally: every subtask's last attempt has ended."""
        ran = {s for s in self.subtasks if self.attempts(s)}
        due = {s for s in ran if self.ender(s) is None}
        due |= {s for e in self.kind("rescale") for s in e["to"] if self.ender(s) is None}
        return bool(due) and all(s in ran and self.ended(s) for s in due)

    # Rescales.
    def ender(self, s: int) -> Json | None:
        """The rescale that names the subtask among those that end."""
        return next((e for e in self.kind("rescale") if s in e["of"]), None)
    def beginner(self, s: int) -> Json | None:
        return next((e for e in self.kind("rescale") if s in e["to"]), None)
    def generation(self, s: int) -> int:
        began = self.beginner(s)
        return 0 if began is None else 1 + max(map(self.generation, began["of"]))

    def stopped(self, s: int) -> Json | None:
        """The rescale that ended the subtask before it had ended itself."""
        ender = self.ender(s)
        if ender is None or not self.attempts(s): return None
        ends = self.of(s, self.attempts(s)[-1], "ended")[:1]
        return None if any(e["n"] < ender["n"] for e in ends) else ender

    def cut(self, s: int) -> Json | None:
        ender = self.stopped(s)
        return None if ender is None else self.snap(s, ender["c"], ender["n"])

    def inherits(self, s: int, a: int) -> bool:
        """Whether the attempt starts from the share of its subtask."""
        began, starts = self.beginner(s), self.of(s, a, "start")
        if began is None or not starts or starts[0]["from"] != began["c"]: return False
        return self.restored(s, a) is None

    def share(self, s: int) -> list[Json] | None:
        """The elements that the first attempt restores which starts from the rescale."""
        restores = [r for a in self.attempts(s) if self.inherits(s, a) for r in self.of(s, a, "restore")]
        return restores[0]["elements"] if restores else None

    def heritage(self, s: int) -> dict[Id, tuple[int, int]]:
        """Of each inherited record its position, and the subtask that held it before."""
        began = self.beginner(s)
        found: dict[Any, tuple[int, int]] = {}
        before = sorted(began["of"], key=lambda o: (self.generation(o), o)) if began else []
        for place, given in enumerate(self.share(s) or []) if began else ():
            old = [o for o in before if "id" in given and self.taken(o, given["id"])]
            if old: found.setdefault(given["id"], (place, old[-1]))
        return found

    def held_before(self, s: int, record: Id) -> list[tuple[int, int]]:
        """The subtasks that held an inherited record before, and its position there."""
        found = []
        while record in self.heritage(s):
            s = self.heritage(s)[record][1]
            found.append((s, self.taken(s, record)[0]["pos"]))
        return found

    # Which snap, completed, chain, O*.
    def snap(self, s: int, c: int, n: float, *, named: int | None = None, below: float = EVER) -> Json | None:
        snaps = [e for e in self.of(s, named, "snap") if e["c"] == c and e["n"] < n and e["a"] < below]
        return max(snaps, key=lambda e: e["a"], default=None)
    def shows(self, commit: Json) -> Json | None:
        return self.snap(commit["s"], commit["c"], commit["n"], named=commit.get("a"))
    def restored(self, s: int, a: int) -> Json | None:
        start = self.start(s, a)
        return None if start["from"] is None else self.snap(s, start["from"], start["n"], below=a)
    def completers(self, s: int) -> list[Json]:
        """What completes a checkpoint for this subtask."""
        return [e for e in self.commits(s) if self.shows(e)] if self.sink == "atomic" else self.kind("done")
    def completed_snaps(self, s: int) -> list[Json]:
        meant = [self.snap(s, e["c"], e["n"], named=e.get("a")) for e in self.completers(s)]
        return [snap for snap in self.of(s, None, "snap") if any(snap is m for m in meant)]

    def restorable(self, s: int, c: int, n: int) -> bool:
        """Whether checkpoint `c` is completed, and not retired, by event `n`."""
        completed = any(e["c"] == c and e["n"] < n for e in self.completers(s))
        return completed and not any(e["c"] >= c and e["n"] < n for e in self.kind("retire"))

    def chain(self, s: int) -> dict[int, float]:
        """Of each attempt in it, from the far end on, the event before which it stands there."""
        links: dict[int, float] = {}
        a, until = max(self.attempts(s), default=None), EVER
        if (cut := self.cut(s)) is not None: a, until = cut["a"], cut["n"]
        while a is not None:
            links[a] = until
            snap = self.restored(s, a)
            a, until = (snap["a"], snap["n"]) if snap else (None, EVER)
        return dict(reversed(links.items()))

    def in_chain(self, e: Json) -> bool:
        """An emission, outcome or `dead`."""
        return bool(e["n"] < self.chain(e["s"]).get(e["a"], -EVER))

    def epoch_of(self, s: int, a: int, n: int, *kinds: str) -> list[Json]:
        """What left in the attempt between its snap before and the one that is event `n`."""
        since = max((e["n"] for e in self.of(s, a, "snap") if e["n"] < n), default=-EVER)
        return [e for e in self.of(s, a, *kinds) if since < e["n"] < n]

    def visible(self, s: int, *kinds: str) -> list[Json]:
        """O* with the kinds `out` and `owm` (the default), or the part of it that is of the given ones."""
        kinds = kinds or ("out", "owm")
        emissions = self.of(s, None, *kinds)
        if self.sink == "append": return emissions
        if self.sink == "rollback":
            chain = self.chain(s)
            return [e for a in chain for e in emissions if e["a"] == a and e["n"] < chain[a]]
        shown = [snap for commit in self.commits(s) if (snap := self.shows(commit))]
        return [e for snap in shown for e in self.epoch_of(s, snap["a"], snap["n"], *kinds)]

    def outs(self, s: int) -> list[Json]:
        return self.visible(s, "out")
    def seen(self, *kinds: str) -> dict[Id, list[Json]]:
        """What is visible of any subtask, by id."""
        return by_id(e for s in self.subtasks for e in self.visible(s, *kinds))

    # The source.
    def ins(self, s: int) -> dict[Id, list[Json]]:
        return by_id(self.of(s, None, "in"))

    def taken(self, s: int, record: Id) -> list[Json]:
        own = self.ins(s).get(record, [])
        if record not in self.heritage(s): return own
        place, old = self.heritage(s)[record]
        return [*({**e, "pos": place} for e in self.taken(old, record)), *own]

    def accepted(self) -> dict[Id, int]:
        """Each record that was taken in, with the last subtask that held it."""
        return {record: s for s in self.subtasks for record in [*self.heritage(s), *self.ins(s)]}
    def expect(self, s: int, record: Id) -> list[object]:
        """What the subtask was told, or those before it that held the record."""
        return next((e["expect"] for e in self.taken(s, record) if "expect" in e), ABSENT)

    def key(self, record: Id) -> tuple[object, ...] | None:
        s = self.accepted().get(record)
        taken = self.taken(s, record)[0] if s is not None else {}
        return canonical(taken["key"]) if "key" in taken else None

    def marks(self, s: int) -> list[tuple[int, int | str]]:
        """The watermarks of the subtask's source, by position."""
        inherited = [given for given in (self.share(s) or []) if "w" in given] if self.beginner(s) else []
        places: dict[int, Any] = {}
        for e in [*inherited, *self.of(s, None, "wm")]: places.setdefault(e["pos"], e["w"])
        return sorted(places.items(), key=lambda mark: mark[0])

    def position(self, s: int, what: Element) -> int | None:
        return what[1] if what[0] == "mark" else next((e["pos"] for e in self.taken(s, what[1])), None)

    # The input of an attempt, and which watermark an `owm` is.
    def came(self, s: int, a: int) -> dict[Element, Json]:
        """Its elements, each with the event by which it came first."""
        found: dict[Element, Json] = {}
        for restore in self.of(s, a, "restore"):
            for given in restore["elements"]: found.setdefault(element(given), restore)
        for e in self.of(s, a, "in", "wm"):
            found.setdefault(("record", e["id"]) if e["k"] == "in" else ("mark", e["pos"], e["w"]), e)
        return found

    def stands(self, emissions: list[Json], marks: list[tuple[int, int | str]]) -> list[int | None]:
        """For each emission its position as a watermark; None for an `out` and for a surplus one."""
        free: dict[Any, list[int]] = {}
        for pos, w in sorted(marks, key=lambda mark: mark[0]): free.setdefault(w, []).append(pos)
        known = [free.get(e["w"]) if e["k"] == "owm" else None for e in emissions]
        return [positions.pop(0) if positions else None for positions in known]

    def visible_stands(self, s: int) -> list[int | None]:
        return self.stands(self.visible(s), self.marks(s))

    def attempt_stands(self, s: int, a: int) -> list[tuple[Json, int]]:
        """Its `owm`s that are not surplus, and where they stand."""
        emissions = self.of(s, a, "owm")
        marks = [(what[1], what[2]) for what in self.came(s, a) if what[0] == "mark"]
        pairs = zip(emissions, self.stands(emissions, marks), strict=True)
        return [(e, place) for e, place in pairs if place is not None]

    def left_marks(self, s: int, a: int, by: float, *, leniently: bool) -> set[Element]:
        """What has left by then; leniently: with what may count as left where watermarks coalesce."""
        stands = [(e, place) for e, place in self.attempt_stands(s, a) if e["n"] < by]
        if not self.coalesces: return {("mark", place, e["w"]) for e, place in stands}
        marks = [what for what in self.came(s, a) if what[0] == "mark"]
        if leniently: stands = [(e, max(what[1] for what in marks if what[2] == e["w"])) for e, _ in stands]
        last = max((place for _, place in stands), default=-EVER)
        return {what for what in marks if what[1] <= last}

    # Outcomes and what they call for.
    def outcome(self, s: int, a: int, record: Id, by: float = EVER) -> Json | None:
        ends = [e for e in self.told(s, a, record, "res", "dead") if e["n"] < by]
        return next((e for e in ends if e["k"] == "dead" or e["final"]), None)

    def outputs_by(self, expect: list[object], outcome: Json | None) -> list[object]:
        if outcome is None: return expect
        if outcome["k"] == "dead" or outcome["r"] == "fail": return []
        if outcome["r"] == "timeout": return [] if "error" in outcome else outcome.get("v", [])
        return expect if expect is not ABSENT else outcome.get("v", ABSENT)

    def deciding(self, s: int, record: Id) -> tuple[int | None, Json | None]:
        """The deciding attempt, and its outcome of the record; with a rescale, over all subtasks."""
        among = self.subtasks if self.kind("rescale") else [s]
        visible = [e for e in self.seen("out").get(record, []) if e["s"] in among]
        if visible: return visible[0]["a"], self.outcome(visible[0]["s"], visible[0]["a"], record)
        ends = [self.outcome(one, a, record) for one in among for a in self.chain(one)]
        standing = [(e["a"], e) for e in ends if e is not None and self.in_chain(e)]
        return max(standing, key=lambda pair: pair[1]["n"], default=(None, None))

    def expected(self, s: int, record: Id) -> list[object]:
        """The expected outputs, or ABSENT."""
        among = reversed(self.subtasks) if self.kind("rescale") else [s]
        told = [expect for one in among if (expect := self.expect(one, record)) is not ABSENT]
        return self.outputs_by(told[0] if told else ABSENT, self.deciding(s, record)[1])

    def numbers_left(self, s: int, a: int, record: Id, by: float) -> set[int]:
        return {e["j"] for e in self.told(s, a, record, "out") if e["n"] < by}

    def resolved(self, s: int, a: int, record: Id, by: float) -> bool:
        outcome = self.outcome(s, a, record, by)
        wanted = self.outputs_by(self.expect(s, record), outcome)
        if wanted in (ABSENT, []): return outcome is not None
        return set(range(len(wanted))) <= self.numbers_left(s, a, record, by)

    # Faults, and the end of an attempt's life.
    def faults(self) -> list[tuple[Json, Json | None]]:
        """Each that began, with its end: one of a name that ends is the oldest."""
        pairs: list[tuple[Json, Json | None]] = []
        for begin in [e for e in self.kind("fault") if e["phase"] == "begin"]:
            before = sum(other["f"] == begin["f"] for other, _ in pairs)
            own = [e for e in self.kind("fault") if e["phase"] == "end" and e["f"] == begin["f"]]
            pairs.append((begin, own[before] if before < len(own) else None))
        return pairs

    def disturbed(self, since: float, until: float, *, by_stalls: bool) -> bool:
        """Whether a fault, any one or one that stalls, overlaps the time."""
        among = [pair for pair in self.faults() if not by_stalls or pair[0].get("stalls") is True]
        return any(b["t"] <= until and (e is None or e["t"] >= since) for b, e in among)

    def life_end(self, s: int, a: int) -> int:
        """When the attempt's life ended, at the latest with the history."""
        over = self.ender(s) is not None or a < self.attempts(s)[-1] or bool(self.of(s, a, "kill", "close"))
        own: list[int] = [e["t"] for e in self.of(s, a) if e["k"] != "kill"]
        return max(own, default=0) if over else int(self.events[-1]["t"])

    # Tables.
    def tables_of(self, what: str) -> list[str]:
        return [name for name, table in self.tables.items() if what in table["holds"]]
    def rows(self, name: str) -> list[Json]:
        return [e for e in self.kind("row") if e["table"] == name]

    def read_whole(self, name: str) -> bool:
        rows = self.kind("effect") if "audit" in self.tables[name]["holds"] else self.rows(name)
        reads = [e for e in self.kind("read") if e["table"] == name]
        if not reads or reads[0]["rows"] != len(rows): return False
        began = min(e["n"] for e in [*reads, *rows])
        return not any(e["k"] in ACTS and e["n"] > began for e in self.events)

    def not_whole(self, what: str) -> bool:
        """Whether a table of it is not."""
        return not all(self.read_whole(name) for name in self.tables_of(what))
    def has_audit(self) -> bool:
        told = bool(self.kind("effect") or self.tables_of("audit"))
        return told or ("effects" in self.header and not self.tables_of("effects"))

for _asked in (
    "kind", "of", "by_id", "attempts", "finished", "share", "heritage", "completed_snaps", "chain", "epoch_of",
    "visible", "seen", "ins", "taken", "accepted", "expect", "marks", "position", "came", "visible_stands",
    "attempt_stands", "deciding", "expected", "faults", "rows", "read_whole",
):
    setattr(Page, _asked, asked_once(getattr(Page, _asked)))

# ------------------------------------------------------------------- V1 to V8: what leaves, and in which order
def v1(page: Page) -> Findings:
    """Ordered: no `out` behind a later one, ahead of a watermark that precedes it, behind one that follows it."""
    for s in page.subtasks:
        seen, stands = page.visible(s), page.visible_stands(s)
        before: list[tuple[int, int]] = []
        for i, e in enumerate(seen):
            pos = page.position(s, ("record", e["id"])) if e["k"] == "out" else None
            if pos is None: continue
            back = any((pos, e["j"]) < other for other in before)
            ahead = any(m is not None and m < pos for m in stands[i:]) and not page.coalesces
            behind = any(m is not None and m > pos for m in stands[:i])
            if back or ahead or behind or _overtaken_before(page, s, e): yield shown("reordered", e)
            before.append((pos, e["j"]))

def _overtaken_before(page: Page, s: int, e: Json) -> bool:
    """By what the O* shows of a subtask that held the record before a rescale."""
    for old, pos in page.held_before(s, e["id"]):
        outs = [(page.position(old, ("record", o["id"])), o["j"]) for o in page.outs(old)]
        if any(p is not None and (pos, e["j"]) < (p, j) for p, j in outs): return True
        if any(m is not None and m > pos for m in page.visible_stands(old)): return True
    return False

def v2(page: Page) -> Findings:
    """Segments: no `out` ahead of the last watermark that precedes its record."""
    for s in page.subtasks:
        stands = page.visible_stands(s)
        for i, e in enumerate(page.visible(s)):
            pos = page.position(s, ("record", e["id"])) if e["k"] == "out" else None
            preceding = [p for p, _ in page.marks(s) if pos is not None and p < pos]
            if preceding and preceding[-1] in stands[i:]: yield shown("overtook-watermark", e)

def v3(page: Page) -> Findings:
    """Per-key order: no `out` behind a later one of its key."""
    for s in page.subtasks:
        keyed: list[tuple[Any, int]] = []
        for e in page.outs(s):
            taken = next(iter(page.taken(s, e["id"])), {})
            if "key" not in taken: continue
            key, pos = canonical(taken["key"]), taken["pos"]
            before = (
                "key" in other and canonical(other["key"]) == key and other["pos"] > place
                for old, place in page.held_before(s, e["id"])
                for o in page.outs(old)
                for other in page.taken(old, o["id"])[:1]
            )
            if any(key == other and pos < p for other, p in keyed) or any(before): yield shown("key-reordered", e)
            keyed.append((key, pos))

def v4(page: Page) -> Findings:
    """Monotone: no `owm` behind a higher one, in O* or in an attempt, unless the source falls so itself."""
    for s in page.subtasks:
        places: dict[Any, list[float]] = {}
        for p, w in page.marks(s): places.setdefault(w, []).append(p)
        pairs = zip(page.visible(s), page.visible_stands(s), strict=True)
        sequences = [[e for e, place in pairs if place is not None]]
        sequences += [[e for e, _ in page.attempt_stands(s, a)] for a in page.attempts(s)]
        for sequence in sequences:
            highest = -EVER
            for i, e in enumerate(sequence):
                now = high(e["w"])
                highest = max(highest, now)
                for before in [b for b in sequence[:i] if high(b["w"]) > now] if now < highest else []:
                    fell = min(places.get(before["w"], [EVER])) < max(places.get(e["w"], [-EVER]))
                    if not fell: yield shown("watermark-back", e)

def v5(page: Page) -> Findings:
    """No crossing: what precedes an `owm` in its attempt's input is resolved."""
    for s, a in page.every_attempt():
        places = {what[1]: page.position(s, what) for what in page.came(s, a) if what[0] == "record"}
        for e, place in page.attempt_stands(s, a):
            for record, pos in places.items():
                if pos is not None and pos < place and not page.resolved(s, a, record, e["n"]):
                    yield Finding("crossed", s, record, None, ("attempt", a))

def lost_watermarks(page: Page) -> Findings:
    for s in [s for s in page.subtasks if page.stopped(s) is None]:
        marks, visible = page.marks(s), set(page.visible_stands(s)) - {None}
        values = [w for pos, w in marks if pos in visible]
        may_have_left = [pos for pos, w in marks if w in values] if page.coalesces else []
        for pos, w in marks:
            if pos not in visible and not any(other >= pos for other in may_have_left):
                yield Finding("watermark-lost", s, w, None, ("position", pos))

def v6(page: Page) -> Findings:
    """Not held: each watermark leaves, and within `watermark_hold` of being ready."""
    if page.finished(): yield from lost_watermarks(page)
    bound_us = page.bounds.get("watermark_hold", 0) * 1000
    for s, a in page.every_attempt() if "watermark_hold" in page.bounds else ():
        for e, place in page.attempt_stands(s, a):
            places = [w[1] for w in page.came(s, a) if w[0] == "mark" and w[2] == e["w"] and w[1] >= place]
            waits = {p: _ready_since(page, e, p) for p in places if p == place or page.coalesces}
            ready, now = [t for t in waits.values() if t is not None], e["t"]
            late = all(now - t > bound_us and not page.disturbed(t, now, by_stalls=True) for t in ready)
            if waits.get(place) is not None and late: yield shown("held", e)

def _ready_since(page: Page, e: Json, place: int) -> int | None:
    """Since when the watermark at that place has been ready as `e` leaves; None: it is not, and V5's."""
    s, a, n = e["s"], e["a"], e["n"]
    came = page.came(s, a)
    own = came.get(("mark", place, e["w"]))
    if own is None or own["n"] > n: return None
    since: int = own["t"]
    for what in [what for what in came if what[0] == "record"]:
        pos = page.position(s, what)
        if pos is None or pos >= place: continue
        if not page.resolved(s, a, what[1], n): return None
        for earlier in page.told(s, a, what[1], "res", "dead", "out"):
            resolves = not page.resolved(s, a, what[1], earlier["n"])
            if earlier["n"] < n and resolves and page.resolved(s, a, what[1], earlier["n"] + 1):
                since = max(since, earlier["t"])
    return since

def v7(page: Page) -> Findings:
    """No phantom: an `owm` came in before, leaves no more often than it came, and nothing follows the end."""
    for s, a in page.every_attempt():
        for e in page.of(s, a, "owm"):
            came = page.came(s, a).items()
            if not any(what[0] == "mark" and what[2] == e["w"] and by["n"] < e["n"] for what, by in came):
                yield shown("phantom-watermark", e)
    for s in page.subtasks:
        seen, over = page.visible(s), False
        for e, place in zip(seen, page.visible_stands(s), strict=True):
            if e["k"] == "owm" and place is None and any(w == e["w"] for _, w in page.marks(s)):
                yield shown("repeated-watermark", e)
            if over: yield shown("after-end", e)
            over = over or e.get("w") == "end"

def v8(page: Page) -> Findings:
    """Exactly once: the expected outputs of each accepted record are visible, once, and nothing else is."""
    together = [page.subtasks] if page.kind("rescale") else [[s] for s in page.subtasks]
    for group in together:
        seen: dict[tuple[Any, int], int] = {}
        for i, e in enumerate(e for s in group for e in page.outs(s)):
            if not page.taken(e["s"], e["id"]): yield shown("phantom", e)
            elif _wrong(page, e): yield shown("wrong-value", e)
            if (e["id"], e["j"]) in seen: yield Finding("duplicate", e["s"], e["id"], None, (i,))
            seen[e["id"], e["j"]] = i
        for record in [record for record, s in page.accepted().items() if s in group]:
            s = page.accepted()[record]
            numbers = {e["j"] for e in page.seen("out").get(record, []) if e["s"] in group}
            if page.expected(s, record) is ABSENT and numbers != set(range(len(numbers))):
                yield Finding("wrong-value", s, record, None, "gap")
    if page.finished(): yield from lost_outputs(page)

def _wrong(page: Page, out: Json) -> bool:
    s, j = out["s"], out["j"]
    wanted = page.expected(s, out["id"])
    if wanted is not ABSENT and (j >= len(wanted) or canonical(out["v"]) != canonical(wanted[j])): return True
    return "ts" in out and out["ts"] != page.taken(s, out["id"])[0].get("ts")

def lost_outputs(page: Page) -> Findings:
    for record, s in page.accepted().items():
        among = page.subtasks if page.kind("rescale") else [s]
        numbers = {e["j"] for e in page.seen("out").get(record, []) if e["s"] in among}
        wanted = page.expected(s, record)
        nothing_known = wanted is ABSENT and page.deciding(s, record)[0] is None
        if nothing_known if wanted is ABSENT else not set(range(len(wanted))) <= numbers:
            yield Finding("lost", s, record, None, None)

# ---------------------------------- V8 beyond expectations: results of one key, versions of answers, no values
def without_values(page: Page) -> bool:
    source, accepted = page.header.get("expect_from"), page.accepted()
    known = any(page.expect(s, record) is not ABSENT for record, s in accepted.items())
    return source == "none" or (source is not None and bool(accepted) and not known)

def inconsistent(page: Page) -> Findings:
    """`by_key`: two records of one key have different results, and no change of its rows explains it."""
    answered = []
    for record, home in page.accepted().items() if page.header.get("by_key", False) else ():
        (a, outcome), key = page.deciding(home, record), page.key(record)
        if a is None or outcome is None or outcome.get("r") != "ok" or key is None: continue
        s = outcome["s"]
        calls = [e["n"] for e in page.told(s, a, record, "call") if e["n"] < outcome["n"]]
        if calls: answered.append((outcome["n"], min(calls), key, s, record))
    answered.sort(key=lambda item: item[0])
    told: list[Any] = []
    for i, (until, since, key, s, record) in enumerate(answered):
        for other_until, other_since, other_key, other_s, other in answered[:i]:
            if key != other_key or key in told or not _differ(page, (s, record), (other_s, other)): continue
            span = min(since, other_since), max(until, other_until)
            if not any(b["n"] <= span[1] and (e is None or e["n"] >= span[0]) for b, e in _changes(page, key)):
                told.append(key)
                yield Finding("inconsistent", s, record, None, until)

def _differ(page: Page, *two: tuple[int, Id]) -> bool:
    visible = ([e for e in reversed(page.outs(s)) if e["id"] == record] for s, record in two)
    mine, theirs = ({e["j"]: canonical(e["v"]) for e in outs} for outs in visible)
    several = any(mine[j] != theirs[j] for j in mine.keys() & theirs.keys())
    return several or (page.finished() and len(mine) != len(theirs))

@asked_once
def _changes(page: Page, key: object) -> list[tuple[Json, Json | None]]:
    """Those of a key and those of every key, each with its end."""
    own = [e for e in page.kind("change") if "key" not in e or canonical(e["key"]) == key]
    pairs = []
    for begin in [e for e in own if e["phase"] == "begin"]:
        ends = [e for e in own if e["phase"] == "end" and e["ver"] == begin["ver"] and e["n"] > begin["n"]]
        pairs.append((begin, next((e for e in ends if ("key" in e) == ("key" in begin)), None)))
    return pairs

def versions(page: Page) -> Findings:
    """`versions`: a visible answer is older than a change that had ended, or newer than any that had begun."""
    for res in page.kind("res") if page.header.get("versions", False) else ():
        s, a, record, key = res["s"], res["a"], res["id"], page.key(res["id"])
        calls = [e for e in page.told(s, a, record, "call") if e["try"] == res["try"] and e["n"] < res["n"]]
        right = res["r"] == "ok" and res["final"] and "ver" in res and key is not None
        if not (right and calls and any(e["id"] == record and e["a"] == a for e in page.outs(s))): continue
        changes = _changes(page, key)
        if any(b["ver"] > res["ver"] and e and e["n"] < calls[-1]["n"] for b, e in changes):
            yield Finding("stale", s, record, None, ("attempt", a))
        if res["ver"] > 0 and not any(b["ver"] == res["ver"] and b["n"] < res["n"] for b, _ in changes):
            yield Finding("future", s, record, None, ("attempt", a))

# ------------------------------------------------------------------------------ V9: what the audit log shows
def v9(page: Page) -> Findings:
    """Effect once: each expected effect is in the audit, once, and nothing else is."""
    for row in page.kind("effect"):
        record, j = row["id"], row["j"] if page.by_output else 0
        same = [e for e in page.by_id("effect")[record] if not page.by_output or e["j"] == j]
        if len(same) > 1 and same[0] is row: yield shown("double-effect", row)
        owner = page.accepted().get(record)
        wanted = ABSENT if owner is None else page.expected(owner, record)
        if owner is None: yield shown("phantom-effect", row)
        elif wanted is ABSENT or uncertain(page, owner, record): continue
        elif not 0 <= j < len(wanted): yield shown("phantom-effect", row)
        elif "v" in row and canonical(row["v"]) not in _right_values(page, wanted, j): yield shown("wrong-effect", row)
    if page.finished() and not page.not_whole("audit"): yield from lost_effects(page)

def _right_values(page: Page, wanted: list[object], j: int) -> list[tuple[object, ...]]:
    right = [wanted[j]] if page.by_output else [wanted, *(wanted if len(wanted) == 1 else [])]
    return [canonical(v) for v in right]

def lost_effects(page: Page) -> Findings:
    for record, s in page.accepted().items():
        wanted = page.expected(s, record)
        if wanted is ABSENT or not wanted or uncertain(page, s, record): continue
        for j in range(len(wanted)) if page.by_output else [0]:
            if not _of_key(page, page.by_id("effect"), record, j):
                yield Finding("no-effect", s, record, None, ("output", j))

@asked_once
def uncertain(page: Page, s: int, record: Id) -> bool:
    """A call of it ended unclearly, and nothing or a substitute is expected: its row may be there or not."""
    outcome = page.deciding(s, record)[1]
    substitute = outcome is not None and outcome.get("r") == "timeout"
    if page.expected(s, record) != [] and not substitute: return False
    for where in page.every_attempt():
        calls, answers = page.told(*where, record, "call"), page.told(*where, record, "res")
        if any(all(e["try"] != call["try"] or e["n"] < call["n"] for e in answers) for call in calls): return True
        if any(e["r"] != "ok" and any(call["n"] < e["n"] for call in calls) for e in answers): return True
    return False

# ------------------------------------------------------- tables: rows of outputs (V8), effects (V9), dead letters (V20)
Suspicion = tuple[bool, Finding]  # whether it is certain (else it leaves the invariant open), and the finding
Claims = Iterator[tuple[str, bool]]  # classes, each with whether it is certain

def _of_table(page: Page, name: str, key: tuple[Id, int | None], claims: Claims) -> Iterator[Suspicion]:
    for kind, certain in claims:
        if kind not in {"row-missing", "row-deleted"} or page.read_whole(name):
            owner = page.accepted().get(key[0])
            yield certain, Finding(kind, owner, key[0], None, "row", name, key[1])

def _values(events: list[Json], name: str = "v") -> list[tuple[object, ...]]:
    return [canonical(e[name]) for e in events if name in e]

def _too_many(rows: list[Json], written: list[Json], keep: str) -> bool:
    return len(rows) > 1 if keep != "all" else len(rows) > len(written)

def _too_few(rows: list[Json], written: list[Json], keep: str) -> bool:
    return bool(written and not rows) if keep != "all" else len(rows) < len(written)

def output_rows(page: Page) -> Iterator[Suspicion]:
    for name in page.tables_of("outputs"):
        ever = [e for s in page.subtasks for e in page.of(s, None, "out")]
        for record, j in dict.fromkeys((e["id"], e["j"]) for e in [*ever, *page.rows(name)]):
            yield from _of_table(page, name, (record, j), _of_output(page, name, record, j))
        yield from _disordered(page, name) if page.tables[name].get("ordered", False) else ()

def _of_output(page: Page, name: str, record: Id, j: int) -> Claims:
    keep, finished = page.tables[name].get("keep", "all"), page.finished()
    rows, seen, ever = (
        [e for e in found.get(record, []) if e["j"] == j]
        for found in (_rows_by_id(page, name), page.seen("out"), page.by_id("out"))
    )
    lasting = {e["n"]: e for e in seen if page.in_chain(e)}
    open_ = not finished and bool(ever)
    if _too_few(rows, list(lasting.values()), keep): yield "row-missing", finished
    if seen and _too_many(rows, seen, keep): yield "row-doubled", not open_
    strange = keep != "first" and any(_of_none(page, row, seen) for row in rows)
    if rows and (not seen or strange): yield "row-foreign", not open_
    right = _values(ever if keep == "first" else seen)
    altered = [v for v in _values(rows) if v not in right]
    if seen and altered: yield "row-altered", finished or any(v not in _values(ever) for v in altered)

@asked_once
def _rows_by_id(page: Page, name: str) -> dict[Id, list[Json]]:
    return by_id(page.rows(name))

def _of_none(page: Page, row: Json, seen: list[Json]) -> bool:
    """Written by an attempt, or in an epoch, of which no such output is seen."""
    if "token" in row and all(row["token"] != e["a"] for e in seen): return True
    if "c" not in row or page.sink not in {"atomic", "two-phase"}: return False
    snaps = [snap for e in seen for snap in page.of(e["s"], e["a"], "snap")]
    epochs = [(snap["c"], page.epoch_of(snap["s"], snap["a"], snap["n"], "out")) for snap in snaps]
    return row["c"] not in {c for c, epoch in epochs if any(o is e for o in epoch for e in seen)}

def _disordered(page: Page, name: str) -> Iterator[Suspicion]:
    places: list[tuple[int, int]] = []
    for row in sorted(page.rows(name), key=lambda e: e["seq"]):
        record, j = row["id"], row["j"]
        same = [e for e in _rows_by_id(page, name)[record] if e["j"] == j]
        seen = [e for e in page.seen("out").get(record, []) if e["j"] == j]
        if len(same) != 1 or len(seen) != 1: continue
        s = seen[0]["s"]
        place = next(i for i, e in enumerate(page.visible(s)) if e is seen[0])
        if any(other == s and place < earlier for other, earlier in places):
            yield True, Finding("row-disordered", page.accepted().get(record), record, None, row["n"], name, j)
        places.append((s, place))

def effect_rows(page: Page) -> Iterator[Suspicion]:
    for name in page.tables_of("effects"):
        told = [*page.kind("effect"), *page.rows(name)]
        keys = {(e["id"], e["j"] if page.by_output else None) for e in told}
        for record, s in page.accepted().items():
            numbers = [] if page.expected(s, record) is ABSENT else range(len(page.expected(s, record)))
            keys |= {(record, j) for j in numbers} if page.by_output else {(record, None)}
        against = _against_the_audit if page.has_audit() else _against_what_is_expected
        for record, j in keys: yield from _of_table(page, name, (record, j), against(page, name, record, j))

def _of_key(page: Page, among: dict[Id, list[Json]], record: Id, j: int | None) -> list[Json]:
    return [e for e in among.get(record, []) if not page.by_output or e["j"] == j]

def _against_the_audit(page: Page, name: str, record: Id, j: int | None) -> Claims:
    keep = page.tables[name].get("keep", "all")
    rows = _of_key(page, _rows_by_id(page, name), record, j)
    effects = _of_key(page, page.by_id("effect"), record, j)
    all_known = not page.not_whole("audit")
    if _too_few(rows, effects, keep): yield "row-deleted", True
    if rows and not effects and all_known: yield "row-foreign", True
    if effects and _too_many(rows, effects, keep) and (all_known or keep != "all"): yield "row-doubled", True
    if keep == "last": yield from _of_expected_value(page, rows, record, j)
    elif effects and all_known and all("v" in e for e in effects) and set(_values(rows)) - set(_values(effects)):
        yield "row-altered", True

def _against_what_is_expected(page: Page, name: str, record: Id, j: int | None) -> Claims:
    rows = _of_key(page, _rows_by_id(page, name), record, j)
    s = page.accepted().get(record)
    wanted: Any = ABSENT if s is None else page.expected(s, record)
    if len(rows) > 1: yield "row-doubled", True
    if s is None: yield "row-foreign", True
    if s is None or wanted is ABSENT or uncertain(page, s, record): return
    if not 0 <= (j or 0) < len(wanted): yield from [("row-foreign", True)] if rows else []
    elif not rows: yield "row-missing", page.finished()
    else: yield from _of_expected_value(page, rows, record, j)

def _of_expected_value(page: Page, rows: list[Json], record: Id, j: int | None) -> Claims:
    s = page.accepted().get(record)
    wanted: Any = ABSENT if s is None else page.expected(s, record)
    if s is None or wanted is ABSENT or uncertain(page, s, record) or not 0 <= (j or 0) < len(wanted): return
    if any(v not in _right_values(page, wanted, j or 0) for v in _values(rows)): yield "row-altered", page.finished()

def dead_rows(page: Page) -> Iterator[Suspicion]:
    for name in page.tables_of("dead"):
        letters = [e for s in page.subtasks for e in page.of(s, None, "dead")]
        for record in dict.fromkeys(e["id"] for e in [*letters, *page.rows(name)]):
            yield from _of_table(page, name, (record, None), _of_dead(page, name, record))

def _of_dead(page: Page, name: str, record: Id) -> Claims:
    keep, finished = page.tables[name].get("keep", "all"), page.finished()
    rows = _rows_by_id(page, name).get(record, [])
    ever, seen = page.by_id("dead").get(record, []), page.seen("dead").get(record, [])
    outs = page.seen("out").get(record, [])
    open_ = not finished and bool(ever) and not outs
    if _too_few(rows, [e for e in ever if page.in_chain(e)], keep): yield "row-missing", finished
    if seen and _too_many(rows, seen, keep): yield "row-doubled", not open_
    if rows and (not seen or outs): yield "row-foreign", not open_
    behind = [_failure_behind(page, e) for e in (ever if keep == "first" or not finished else seen)]
    errors = _values([res or {} for res in behind], "error")
    if seen and len(errors) == len(behind) and any(v not in errors for v in _values(rows, "error")):
        yield "row-altered", True

def _failure_behind(page: Page, dead: Json) -> Json | None:
    answers = page.told(dead["s"], dead["a"], dead["id"], "res")
    return next((e for e in reversed(answers) if e["n"] < dead["n"] and is_failure(e)), None)

# -------------------------------------------------- V10 to V13 and V18: checkpoints, restores, commits, fencing
def v10(page: Page) -> Findings:
    """Cut: what precedes a completed snap has left or is stored, and not both; and `done` and `abort` are meant."""
    for s in page.subtasks:
        for snap in page.completed_snaps(s):
            for kind, what in _cut(page, snap): yield Finding(kind, s, what and what[-1], snap["c"], (snap["n"], what))
        for done in page.kind("done"):
            a = _running(page, s, done["n"])
            if a is not None and not page.snap(s, done["c"], done["n"]):
                yield Finding("incomplete", s, None, done["c"], done["n"])
            if a is not None and page.kind("ack") and not _acknowledged(page, s, a, done):
                earlier = any(_acknowledged(page, s, b, done) for b in page.attempts(s) if b < a)
                yield Finding("stale-ack" if earlier else "incomplete", s, None, done["c"], done["n"])
    yield from _two_ends(page)
    yield from _misread(page) if page.header.get("fixed_source") else ()

def _misread(page: Page) -> Findings:
    """With `fixed_source`: read otherwise than before. An element is what it is, where, and with what."""
    read = page.kind("in", "wm")
    for i, e in enumerate(read):
        own = [o for o in read if e["k"] == "in" == o["k"] and o["id"] == e["id"]]
        if page.kind("rescale"): own = [o for o in own if o["s"] == e["s"]]
        there = next(o for o in read if (o["s"], o["pos"]) == (e["s"], e["pos"]))
        before = [o["pos"] for o in read[:i] if (o["s"], o["a"]) == (e["s"], e["a"])]
        gap = bool(before) and e["pos"] != before[-1] + 1
        other, place = _element_read(there) != _element_read(e), [(o["s"], o["pos"]) for o in own[:1]]
        fields = ["key", "ts", *["expect"] * all("expect" in o for o in (*own[:1], e))]
        if other or gap or any(stood != (e["s"], e["pos"]) for stood in place): yield shown("skipped", e)
        elif own and any(_field(own[0], name) != _field(e, name) for name in fields): yield shown("altered", e)

def _element_read(e: Json) -> tuple[Any, ...]:
    return (e["k"], e.get("id"), e.get("w"))

def _field(e: Json, name: str) -> object:
    return canonical(e[name]) if name in e else None if name == "key" else canonical(None)

def _running(page: Page, s: int, by: int) -> int | None:
    """Its newest attempt, if the subtask has started and not ended."""
    ender = page.ender(s)
    a: int | None = max((e["a"] for e in page.of(s, None, "start") if e["n"] < by), default=None)
    if a is None or (ender is not None and ender["n"] < by): return None
    return None if any(e["n"] < by for e in page.of(s, a, "ended")) else a

def _acknowledged(page: Page, s: int, a: int, done: Json) -> bool:
    """Of this attempt, after its snap and before the `done`."""
    acks = [e for e in page.kind("ack") if (e["s"], e["a"], e["c"]) == (s, a, done["c"])]
    snaps = [e for e in page.of(s, a, "snap") if e["c"] == done["c"]]
    return any(snap["n"] < ack["n"] < done["n"] for snap in snaps for ack in acks)

def _two_ends(page: Page) -> Findings:
    for e in page.kind("done", "abort"):
        other = "abort" if e["k"] == "done" else "done"
        before = [o["n"] for o in page.kind(other) if o["c"] == e["c"] and o["n"] < e["n"]]
        if not before: continue
        if e["k"] == "done":
            running = [s for s in page.subtasks if _running(page, s, e["n"]) is not None]
            meant = [page.snap(s, e["c"], e["n"]) for s in running]
            again = bool(meant) and all(snap is not None and snap["n"] > before[-1] for snap in meant)
        else: again = any(o["c"] == e["c"] and before[-1] < o["n"] < e["n"] for o in page.kind("snap"))
        if not again: yield shown("two-ends", e)

def _cut(page: Page, snap: Json) -> Iterator[tuple[str, Element | None]]:
    s, a, n = snap["s"], snap["a"], snap["n"]
    stored = [element(given) for given in snap["elements"]]
    by_then = {what for what, by in page.came(s, a).items() if by["n"] < n}
    surely, perhaps = (page.left_marks(s, a, n, leniently=leniently) for leniently in (False, True))
    for what in page.came(s, a):
        pos = page.position(s, what)
        if pos is not None and pos >= snap["pos"]:
            left = what in surely if what[0] == "mark" else page.numbers_left(s, a, what[1], n)
            if left or (what in stored and what in by_then): yield "both-sides", what
        elif pos is not None and what in by_then and what[0] == "record":
            yield from _record_before_the_cut(page, what, snap, stored=what in stored)
        elif pos is not None and what in by_then:
            if what in stored and what in surely: yield "already-out", what
            elif what not in stored and what not in perhaps: yield "missing", what
    for what in stored:
        if what not in by_then: yield "foreign", what
        if stored.count(what) > 1: yield "twice", what
    yield from _misordered(page, s, list(dict.fromkeys(stored)))
    read = [e["pos"] + 1 for e in page.of(s, a, "in", "wm") if e["n"] < n]
    if snap["pos"] > (read or [e["pos"] for e in page.of(s, a, "start")])[-1]: yield "skipped", None

def _record_before_the_cut(page: Page, what: Element, snap: Json, *, stored: bool) -> Iterator[tuple[str, Element]]:
    s, a, n = snap["s"], snap["a"], snap["n"]
    wanted = page.outputs_by(page.expect(s, what[1]), page.outcome(s, a, what[1], n))
    left = page.numbers_left(s, a, what[1], n)
    count = len(left) if wanted is ABSENT else len(left & set(range(len(wanted))))
    everything = count > 0 and (wanted is ABSENT or count == len(wanted))
    if count > 0 and not everything: yield "torn", what
    elif stored and everything: yield "already-out", what
    elif not stored and not everything and not page.resolved(s, a, what[1], n): yield "missing", what

def _misordered(page: Page, s: int, stored: list[Element]) -> Iterator[tuple[str, Element]]:
    pairs = [(what, pos) for what in stored if (pos := page.position(s, what)) is not None]
    for i, (what, pos) in enumerate(pairs):
        back = any(p > pos for e, p in pairs[:i] if page.ordered or e[0] == "mark")
        ahead = any(p < pos for e, p in pairs[i + 1 :] if e[0] == "mark")
        if back or (ahead and not page.ordered and what[0] == "record"): yield "misordered", what

def v11(page: Page) -> Findings:
    """Restore: an attempt goes on where its checkpoint stands; a rescale hands on what was stored, each once."""
    for s, a in page.every_attempt():
        start = page.start(s, a)
        c, n = start["from"], start["n"]
        if c is None or page.inherits(s, a): continue
        snap = page.restored(s, a)
        if snap is None or not page.restorable(s, c, n): yield Finding("bad-restore", s, None, c, n)
        if snap is None: continue
        yield from (Finding(kind, s, None, c, n) for kind, _ in _astray(page, s, a, snap["elements"], snap["pos"]))
    for rescale in page.kind("rescale"): yield from _redistributed(page, rescale)
    yield from kept(page) if "keeps" in page.header else ()

def kept(page: Page) -> Findings:
    """With `keeps`: who starts from nothing beside a checkpoint, or retires one of the newest."""
    for s, a in page.every_attempt():
        for start in [e for e in page.of(s, a, "start") if e["from"] is None and page.of(s, a, "in", "wm", "end")]:
            numbers = {e["c"] for e in page.of(s, None, "snap") if e["n"] < start["n"] and e["a"] < a}
            left = [c for c in numbers if page.restorable(s, c, start["n"])]
            if left: yield Finding("started-over", s, None, max(left), start["n"])
    for e in page.kind("retire"):
        for s in page.subtasks:
            done = sorted({o["c"] for o in page.completers(s) if o["n"] < e["n"]})[-page.header["keeps"] :]
            if any(c <= e["c"] and page.restorable(s, c, e["n"]) for c in done):
                yield shown("retired-early", e)
                break

def _astray(page: Page, s: int, a: int, elements: list[Json], pos: int) -> Iterator[tuple[str, Json]]:
    """Where the attempt does not go on with these elements, from this position."""
    for restore in page.of(s, a, "restore"):
        if _replay(page, restore["elements"]) != _replay(page, elements): yield "restore-differs", restore
    if any(e["pos"] != pos for e in [page.start(s, a), *page.of(s, a, "in", "wm")[:1]]):
        yield "wrong-position", page.start(s, a)

def _replay(page: Page, elements: list[Json]) -> list[object]:
    """Equal for equal replays: unordered, up to the order between watermarks."""
    if page.ordered: return [element(given) for given in elements]
    segments: list[Any] = [[]]
    for what in map(element, elements):
        if what[0] == "mark": segments += [what, []]
        else: segments[-1].append(repr(what))
    return [sorted(part) if isinstance(part, list) else part for part in segments]

def _name(given: Json) -> tuple[str, Id]:
    return ("id", given["id"]) if "id" in given else ("w", given["w"])

def _stored(page: Page, rescale: Json) -> list[tuple[int, Json]]:
    """What the snaps hold at which the old subtasks are cut, each element with its subtask."""
    cuts = [(s, page.cut(s)) for s in rescale["of"] if page.stopped(s) is not None]
    return [(s, given) for s, snap in cuts if snap for given in snap["elements"]]

def _redistributed(page: Page, rescale: Json) -> Findings:
    c, n, stored = rescale["c"], rescale["n"], _stored(page, rescale)
    for s in [s for s in rescale["of"] if page.stopped(s) is not None]:
        if page.cut(s) is None or not page.restorable(s, c, n): yield Finding("bad-restore", s, None, c, (n, s))
    shares = {s: page.share(s) for s in rescale["to"] if s in page.subtasks}
    given_out = [(s, given) for s, share in shares.items() for given in share or []]
    for i, s, given in _surplus(given_out, stored):
        known = any(_name(other) == _name(given) for _, other in stored)
        yield Finding("restored-twice" if known else "not-stored", s, _name(given)[1], c, (n, i))
    if _all_restored(page, rescale): yield from _left_behind(page, rescale)
    for s, share in shares.items(): yield from _of_share(page, rescale, s, share)
    yield from _partitions(page, rescale)

def _all_restored(page: Page, rescale: Json) -> bool:
    return all(s in page.subtasks and page.share(s) is not None for s in rescale["to"])

def _left_behind(page: Page, rescale: Json) -> Findings:
    given_out = [(s, given) for s in rescale["to"] if s in page.subtasks for given in page.share(s) or []]
    for i, s, given in _surplus(_stored(page, rescale), given_out):
        yield Finding("left-behind", s, _name(given)[1], rescale["c"], (rescale["n"], i))

def _surplus(these: list[tuple[int, Json]], those: list[tuple[int, Json]]) -> Iterator[tuple[int, int, Json]]:
    """Those of the first that are there more often than among the second."""
    names, others = ([_name(given) for _, given in held] for held in (these, those))
    for i, (s, given) in enumerate(these):
        if names[: i + 1].count(names[i]) > others.count(names[i]): yield i, s, given

def waiting_shares(page: Page) -> bool:
    """Whether something may yet turn up in a share that was not restored."""
    open_ = [e for e in page.kind("rescale") if not _all_restored(page, e)]
    return any(any(_left_behind(page, e)) for e in open_)

def _of_share(page: Page, rescale: Json, s: int, share: list[Json] | None) -> Findings:
    c, n = rescale["c"], rescale["n"]
    for a in [a for a in page.attempts(s) if share is not None and page.inherits(s, a)]:
        astray = _astray(page, s, a, share or [], len(share or []))
        yield from (Finding(kind, s, None, c, e["n"]) for kind, e in astray)
    stored = _stored(page, rescale)
    values = [given["w"] for _, given in stored if "w" in given]
    furthest: dict[int, int] = {}
    for given in [given for given in share or [] if "id" in given or values.count(given["w"]) == 1]:
        places = [(old, i) for i, (old, other) in enumerate(stored) if _name(other) == _name(given)]
        if not places: continue
        old, rank = places[-1]
        if not page.ordered: rank = 2 * sum(o == old and "w" in other for o, other in stored[:rank]) + ("w" in given)
        if rank < furthest.get(old, -1):
            yield Finding("restore-differs", s, None, c, (n, s, "order"))
            return
        furthest[old] = rank

def _partitions(page: Page, rescale: Json) -> Findings:
    """Each partition is read by one of the new subtasks, place by place from where it was cut."""
    c, n = rescale["c"], rescale["n"]
    ended = [s for s in page.subtasks if (e := page.ender(s)) is not None and e["n"] <= n]
    read = [(e, (page.cut(s) or {"pos": EVER})["pos"]) for s in ended for e in _told_places(page, s)]
    readers: dict[int, int] = {}
    for s in [s for s in rescale["to"] if s in page.subtasks]:
        own = _told_places(page, s)
        for part in dict.fromkeys(e["part"] for e in own):
            places = [e["at"] for e in own if e["part"] == part]
            past = [e["at"] + 1 for e, end in read if e["part"] == part and e["pos"] < end]
            if part in readers: yield Finding("shared-partition", s, None, c, (n, s, part))
            readers.setdefault(part, s)
            due = max(past, default=0)
            if places != list(range(due, due + len(places))): yield Finding("wrong-position", s, None, c, (n, s, part))

def _told_places(page: Page, s: int) -> list[Json]:
    """The first `in` with a partition at each position, in order."""
    known = {e["pos"]: e for e in reversed(page.of(s, None, "in")) if "part" in e and "at" in e}
    return [known[pos] for pos in sorted(known)]

def v12(page: Page) -> Findings:
    """Epochs: each is committed once, in order, not before it may be, and in the end."""
    for s in page.subtasks:
        commits = page.commits(s)
        for i, commit in enumerate(commits):
            c, n, snap = commit["c"], commit["n"], page.shows(commit)
            if any(other["c"] == c for other in commits[:i]): yield shown("committed-twice", commit)
            if any(other["c"] > c for other in commits[:i]): yield shown("commit-order", commit)
            if snap is None: yield shown("unknown-epoch", commit)
            elif page.sink == "two-phase":
                snapped = [e["c"] for e in page.of(s, snap["a"], "snap") if e["c"] >= c and e["n"] < n]
                if not any(done["c"] in snapped and done["n"] < n for done in page.kind("done")):
                    yield shown("early-commit", commit)
        for snap in page.of(s, None, "snap") if page.finished() else ():
            in_chain = snap["n"] <= page.chain(s).get(snap["a"], -EVER)
            committed = any(page.shows(commit) is snap for commit in commits)
            if in_chain and not committed and page.epoch_of(s, snap["a"], snap["n"], "out", "owm"):
                yield shown("never-committed", snap)

def v13(page: Page) -> Findings:
    """Fencing: once a newer attempt has had effect, an older one has none; nor an old subtask after a rescale."""
    highest: dict[int, int] = {}
    for row in sorted(page.kind("effect"), key=lambda e: e["seq"]):
        ender = page.ender(row["s"])
        if row["token"] < highest.get(row["s"], -EVER): yield shown("zombie-effect", row)
        if ender and any(s in ender["to"] for s in highest):
            yield shown("zombie-effect", row)._replace(at=("rescale", row["n"]))
        highest[row["s"]] = max(row["token"], highest.get(row["s"], row["token"]))
    for s in page.subtasks:
        commits = [e for e in page.commits(s) if "a" in e]
        for i, commit in enumerate(commits):
            ender = page.ender(s)
            told = {e["s"] for e in page.kind("commit") if "a" in e and e["n"] < commit["n"]}
            if ender and told & set(ender["to"]):
                yield shown("zombie-commit", commit)._replace(at=("rescale", commit["n"]))
            if any(other["a"] > commit["a"] for other in commits[:i]): yield shown("zombie-commit", commit)

def v18(page: Page) -> Findings:
    """Checkpoints go on: no longer than `checkpoint_gap` lies between two completions."""
    if page.sink == "atomic":
        for s in page.subtasks:
            fresh: dict[int, Json] = {}
            for commit in page.commits(s):
                if snap := page.shows(commit): fresh.setdefault(snap["n"], commit)
            yield from _gaps(page, [s], list(fresh.values()), s=s, ended=page.ended(s), stopped=page.stopped(s))
        return
    completed: list[Json] = []
    for done in page.kind("done"):
        earlier = [e for e in page.kind("done") if e["c"] == done["c"] and e["n"] < done["n"]]
        snaps = [(s, snap) for s in page.subtasks if (snap := page.snap(s, done["c"], done["n"]))]
        new = [s for s, snap in snaps if not any(page.snap(s, e["c"], e["n"]) is snap for e in earlier)]
        if not earlier or new: completed.append(done)
    yield from _gaps(page, page.subtasks, completed, s=None, ended=page.finished())

def left_out(page: Page) -> Findings:
    """With `barrier_every`: an attempt is behind a barrier, and has not taken its checkpoint."""
    every = page.header.get("barrier_every", 0)
    for s, a in page.every_attempt() if every else ():
        began = page.beginner(s)
        first, number = (0, 0) if began is None else (len(page.share(s) or []), began["c"])
        restored, known = page.start(s, a)["from"] or 0, set()
        for e in page.of(s, a, "in", "wm", "snap"):
            if e["k"] == "snap": known.add(e["c"])
            passed = number + (e["pos"] - first) // every if e["k"] != "snap" else 0
            for c in [c for c in range(restored + 1, passed + 1) if c not in known]:
                yield shown("left-out", e)._replace(c=c)
            if e["k"] != "snap": known |= set(range(restored + 1, passed + 1))

def _gaps(
    page: Page, subtasks: list[int], fresh: list[Json], *, s: int | None, ended: bool, stopped: Json | None = None
) -> Findings:
    starts, ends = ([e for e in page.kind(k) if e["s"] in subtasks] for k in ("start", "end"))
    last = [stopped] if stopped else ends[-1:] if ended else page.events[-1:]
    points = [(e["t"], None) for e in starts[:1]]
    points += [(e["t"], e["c"]) for e in fresh] + [(e["t"], None) for e in last]
    for i, (before, after) in enumerate(pairwise(points)):
        if after[0] - before[0] > page.bounds["checkpoint_gap"] * 1000:
            yield Finding("checkpoint-gap", s, None, after[1], ("gap", i))

# ----------------------------------------------------- V14 to V16: how many calls, how often, in time, to the end
def v14(page: Page) -> Findings:
    """Capacity: what is called and not resolved, and the watermarks between, are no more than there is room for."""
    for s, a in page.every_attempt():
        for call in page.of(s, a, "call"):
            after = _in_flight(page, s, a, call["n"] + 1)
            if after > page.operator["capacity"] and _in_flight(page, s, a, call["n"]) < after:
                yield shown("over-capacity", call)
        waiting: list[Json] = []
        for e in page.of(s, a, "in"):
            waiting = [other for other in waiting if _waits(page, other, e["n"])]
            if waiting: yield shown("over-admitted", e)
            waiting.append(e)

def _waits(page: Page, taken: Json, by: int) -> bool:
    """Neither called nor with an outcome by then."""
    told = page.told(taken["s"], taken["a"], taken["id"], "call", "res", "dead")
    return not any(e["n"] < by and (e["k"] != "res" or e["final"]) for e in told)

def _in_flight(page: Page, s: int, a: int, by: int) -> int:
    called = dict.fromkeys(e["id"] for e in page.of(s, a, "call") if e["n"] < by)
    records = [record for record in called if not page.resolved(s, a, record, by)]
    if not page.operator["watermark_slots"]: return len(records)
    came = page.came(s, a)
    places = {what[1]: page.position(s, what) for what in came if what[0] == "record"}
    furthest = max((place for r in called if (place := places.get(r)) is not None), default=-EVER)
    marks = {what for what, e in came.items() if what[0] == "mark" and e["n"] < by and what[1] < furthest}
    held = marks - page.left_marks(s, a, by, leniently=True)
    if not page.coalesces: return len(records) + len(held)
    return len(records) + len({sum(p is not None and p < what[1] for p in places.values()) for what in held})

def v15(page: Page) -> Findings:
    """Attempts: a record's calls come one after the other and end in one outcome, in time."""
    for s, a in page.every_attempt():
        for e in page.of(s, a, "call", "res", "out"):
            own = [o for o in page.told(s, a, e["id"], "call", "res") if o["n"] < e["n"]]
            calls, answers = ([o for o in own if o["k"] == k] for k in ("call", "res"))
            by = page.came(s, a).get(("record", e["id"]))
            if e["k"] != "out" and (by is None or by["n"] > e["n"]): yield shown("unknown-record", e)
            if e["k"] == "out" and page.outcome(s, a, e["id"], e["n"]) is None: yield shown("out-before-outcome", e)
            if e["k"] != "out":
                claims = _of_call if e["k"] == "call" else _of_outcome
                yield from (shown(kind, e) for kind in claims(page, e, calls, answers))
        yield from _late(page, s, a) if page.operator["timeout_ms"] else ()

def _of_call(page: Page, call: Json, calls: list[Json], answers: list[Json]) -> Iterator[str]:
    """Given what was known of its record before."""
    ends = [e["n"] for e in page.of(call["s"], call["a"], "end") if e["n"] < call["n"]]
    if page.operator.get("retry", {}).get("profile") == "flink" and ends and all(e["n"] < ends[0] for e in calls):
        return  # its set of records to call again is not exact
    if any(e["final"] for e in answers): yield "call-after-final"
    if any(not any(r["try"] == c["try"] and r["n"] > c["n"] for r in answers) for c in calls): yield "concurrent-call"
    if call["try"] != (calls[-1]["try"] + 1 if calls else 1) or call["try"] > page.operator["max_tries"]: yield "tries"

def _of_outcome(page: Page, res: Json, calls: list[Json], answers: list[Json]) -> Iterator[str]:
    timeout_us = page.operator["timeout_ms"] * 1000
    if res["final"] and any(e["final"] for e in answers): yield "two-outcomes"
    if res["r"] != "timeout" and all(e["try"] != res["try"] for e in calls): yield "unknown-call"
    if res["r"] == "timeout" and (timeout_us == 0 or (calls and res["t"] < calls[0]["t"] + timeout_us - page.early_us)):
        yield "early-timeout"

def _held_over(page: Page, s: int, a: int, due: float) -> float:
    """The time, from `due` on, at which the attempt's thread is not held."""
    for e in page.of(s, a, "held"): due = e["t"] if e["since"] <= due < e["t"] else due
    return due

def _late(page: Page, s: int, a: int) -> Findings:
    over, slack = [e["t"] for e in page.of(s, a, "failed")] + [page.life_end(s, a)], page.bounds["timeout_slack"] * 1000

    def excused(first: float, limit: float) -> bool:
        return any(t <= limit for t in over) or page.disturbed(first, limit, by_stalls=True)
    for record in dict.fromkeys(e["id"] for e in page.of(s, a, "call")):
        first = page.told(s, a, record, "call")[0]["t"]
        due = _held_over(page, s, a, first + page.operator["timeout_ms"] * 1000)
        finals = [e for e in page.told(s, a, record, "res") if e["final"]][:1]
        if not excused(first, due + slack) and not any(e["t"] <= due + slack for e in finals):
            yield Finding("late-timeout", s, record, None, ("attempt", a))
        last, limit = page.told(s, a, record, "call")[-1], due + (slack if page.early_us else 0)
        is_asked = page.operator.get("retry", {}).get("profile") != "flink" and all(e["n"] > last["n"] for e in finals)
        if is_asked and last["t"] > limit and not excused(first, limit): yield shown("call-after-timeout", last)

def retries(page: Page) -> Findings:
    """V15, with `operator.retry`: each retry is made, in time, and only where the strategy asks for it."""
    for s, a in page.every_attempt() if "retry" in page.operator else ():
        for record in dict.fromkeys(e["id"] for e in page.of(s, a, "call", "res", "dead")):
            own = page.told(s, a, record, "call", "res", "dead")
            for e in [e for e in own if _is_first_of_latest(own, e)]:
                yield from (shown(kind, at) for kind, at in _after(page, own, e))
            yield from _given_up(page, own)

def _retried(page: Page, res: Json) -> bool:
    if "retry" in res: return bool(res["retry"])
    on = page.operator["retry"].get("on", ["fail"])
    return res["r"] in on or ("empty" in on and res["r"] == "ok" and res.get("v") == [])

def _is_first_of_latest(own: list[Json], res: Json) -> bool:
    """Whether it is an R: the first `res` of the record's latest call, not final, no `timeout`."""
    calls = [e for e in own if e["k"] == "call" and e["n"] < res["n"]]
    if res["k"] != "res" or res["final"] or res["r"] == "timeout" or not calls: return False
    latest = calls[-1]
    answers = [e for e in own if e["k"] == "res" and e["try"] == latest["try"] and e["n"] > latest["n"]]
    return answers[0] is res if answers else False

def _waits_us(retry: Json, k: int) -> tuple[float, float]:
    """The shortest and the longest wait after the k-th call."""

    def wait_us(number: int) -> float:
        if retry["backoff"] == "fixed" or number == 1: return int(retry["initial_ms"]) * 1000
        grown = floor(retry["initial_ms"] * Fraction(repr(retry["multiplier"])) ** (number - 1))
        return float(min(grown, retry.get("max_ms", EVER)) * 1000)
    if retry.get("profile") == "flink" and k > 1: return wait_us(2), retry.get("max_ms", EVER) * 1000
    return wait_us(k), wait_us(k)

def _next(own: list[Json], res: Json) -> Json | None:
    """What comes next of the record: a `call`, a final `res`, a `timeout` or a `dead`."""
    later = [e for e in own if e["n"] > res["n"]]
    return next((e for e in later if e["k"] != "res" or e["final"] or e["r"] == "timeout"), None)

def _after(page: Page, own: list[Json], res: Json) -> Iterator[tuple[str, Json]]:
    s, a, retry = res["s"], res["a"], page.operator["retry"]
    k = sum(e["k"] == "call" and e["n"] < res["n"] for e in own)
    shortest, longest = _waits_us(retry, k)
    following = _next(own, res)
    until = following["n"] if following else EVER
    ends = [e["t"] for e in page.of(s, a, "end") if res["n"] < e["n"] < until]
    at_once = bool(ends) and retry.get("at_end", "once") == "once"
    due = min(res["t"] + longest, ends[0]) if at_once else res["t"] + longest
    limit = _held_over(page, s, a, due) + retry.get("slack_ms", 0) * 1000
    called = following is not None and following["k"] == "call"
    late = (following is None or following["t"] > limit) and not _excused(page, own, res, limit)
    if following and called and not _retried(page, res): yield "retried-anyway", following
    if following and called and following["t"] < res["t"] + shortest - page.early_us and not at_once:
        yield "retry-early", following
    if following and called and late: yield "retry-late", following
    if any(e["n"] < until for e in page.of(s, a, "ended")) or (late and not called): yield "retry-missing", res

def _excused(page: Page, own: list[Json], res: Json, limit: float) -> bool:
    s, a, timeout_us = res["s"], res["a"], page.operator["timeout_ms"] * 1000
    first = next(e["t"] for e in own if e["k"] == "call")
    over = [e["t"] for e in page.of(s, a, "failed")] + [page.life_end(s, a)] + [first + timeout_us] * (timeout_us > 0)
    return any(t <= limit for t in over) or page.disturbed(res["t"], limit, by_stalls=False)

def _given_up(page: Page, own: list[Json]) -> Findings:
    finals = [e for e in own if e["k"] == "res" and e["final"]][:1]
    given_up = [e for e in finals if e["r"] != "timeout" and _retried(page, e)]
    for res in [e for e in own if _is_first_of_latest(own, e) and _retried(page, e)]:
        following = _next(own, res)
        given_up += [following] if following and following["k"] == "dead" else []
    for e in given_up:
        calls = [call for call in own if call["k"] == "call" and call["n"] < e["n"]]
        if 1 <= len(calls) < page.operator["max_tries"] and not _may_give_up(page, e, calls[0]):
            yield shown("gave-up-early", e)

def _may_give_up(page: Page, e: Json, first: Json) -> bool:
    timeout_ms = page.operator["timeout_ms"]
    at_end = page.operator["retry"].get("at_end", "once") == "once"
    ended = any(end["n"] < e["n"] for end in page.of(e["s"], e["a"], "end"))
    return (at_end and ended) or (timeout_ms > 0 and e["t"] >= first["t"] + timeout_ms * 1000 - page.early_us)

def is_excused(page: Page, giveup: Json) -> bool:
    """By a fault that is active, or too recent."""
    since, ends = giveup["t"] - page.bounds["recover"] * 1000, [e for b, e in page.faults() if b["n"] < giveup["n"]]
    return any(e is None or e["n"] > giveup["n"] or e["t"] > since for e in ends)

def v16(page: Page) -> Findings:
    """Liveness: the harness does not have to give up, unless a fault excuses it."""
    for giveup in [e for e in page.kind("giveup") if not is_excused(page, e)]:
        n, open_ = giveup["n"], []
        for s in page.subtasks:
            a = max((e["a"] for e in page.of(s, None, "start") if e["n"] < n), default=None)
            ender = page.ender(s)
            if a is None or (ender is not None and ender["n"] < n): continue
            left = page.left_marks(s, a, n, leniently=True)
            for place, (what, by) in enumerate(page.came(s, a).items()):
                done = what in left if what[0] == "mark" else page.resolved(s, a, what[1], n)
                if by["n"] < n and not done: open_.append((by["n"], place, s, what[-1]))
        _, _, s_open, what_open = min(open_, key=lambda o: o[:2], default=(0, 0, None, None))
        yield Finding("stuck", s_open, what_open, None, n)

def unserved(page: Page) -> Findings:
    """V16, with `service_after`: after the last fault calls are answered, as they were before the first one."""
    faults = page.kind("fault")
    if "service_after" not in page.bounds or not faults or any(end is None for _, end in page.faults()): return
    healed = [e for e in faults if e["phase"] == "end"][-1]
    since = healed["t"] + (page.bounds["service_after"] + page.operator["timeout_ms"]) * 1000
    named = "explained" in page.header
    ends = [res for res in page.kind("res") if res["final"] and not (named and res.get("by") == "planted")]
    calm, after = [res for res in ends if res["n"] < faults[0]["n"]], [res for res in ends if res["t"] >= since]
    after = [res for res in after if res["n"] > healed["n"]]
    late, early = ([res for res in some if res["r"] in {"fail", "timeout"}] for some in (after, calm))
    most = page.bounds.get("unserved", 25)
    if min(len(calm), len(after)) * most < 500 or len(early) * 250 > len(calm) * most: return
    if len(late) * 100 > len(after) * most:
        yield Finding("unserved", None, None, None, late[-1]["n"])

# ----------------------------------------- V19 to V21, V23: answers, failures, threads, and what there was to see
def v19(page: Page) -> Findings:
    """Integrity: an answer has the nonce of its call, and no two calls have one nonce."""
    first: dict[Any, Json] = {}
    for call in [e for e in page.kind("call") if "nonce" in e]:
        if canonical(call["nonce"]) in first: yield shown("nonce-reused", call)
        first.setdefault(canonical(call["nonce"]), call)
    for res in [e for e in page.kind("res") if "nonce" in e]:
        calls = page.told(res["s"], res["a"], res["id"], "call")
        sent = [canonical(e["nonce"]) for e in calls if e["try"] == res["try"] and "nonce" in e]
        other = first.get(canonical(res["nonce"]))
        of_another = other is not None and other["n"] < res["n"]
        if canonical(res["nonce"]) not in sent and (sent or of_another): yield shown("foreign-response", res)

def is_failure(res: Json) -> bool:
    """A final `fail`, or a `timeout` with `error`."""
    return bool(res["final"] and res["r"] == "fail") or (res["r"] == "timeout" and "error" in res)

def failures(page: Page) -> list[Json]:
    return [res for res in page.kind("res") if is_failure(res)]

def declared(page: Page, res: Json) -> object:
    """The policy for the failure of a record."""
    return page.operator.get("on_timeout" if res["r"] == "timeout" else "on_error")

def judged(page: Page) -> list[Json]:
    """The outcomes of which V20 asks what they yield."""
    timeouts = page.kind("res") if page.header.get("raised") or "substitute" in page.header else []
    return failures(page) + [res for res in timeouts if res["r"] == "timeout" and not is_failure(res)]

def against_policy(page: Page) -> Findings:
    """V20, with `raised` and `substitute`: each outcome is what its call gave, and yields what is declared."""
    asks, instead = page.header.get("raised", False), page.header.get("substitute")
    for res in page.kind("res"):
        late, has = res["r"] == "timeout", "error" in res
        kept = "raised" in res and canonical(res.get("error", ABSENT)) == canonical(res["raised"])
        if late and instead is not None:
            if has or canonical(res.get("v", [])) != canonical(instead): yield shown("wrong-substitute", res)
            if has: continue
        elif late and asks and not has and declared(page, res) in {"fail", "dead"}: yield shown("wrong-substitute", res)
        if asks and declared(page, res) == "dead" and (res["r"] == "fail" or (late and has)) and not kept:
            yield shown("error-altered", res)
        if asks and res["r"] == "ok" and "raised" in res: yield shown("result-of-error", res)
    for res in failures(page) if asks else ():
        dead, failed = (page.told(res["s"], res["a"], res["id"], k) for k in ("dead", "failed"))
        other = {"dead": [] if dead else failed, "fail": [] if failed else dead}.get(str(declared(page, res)), [])
        if any(res is lost for lost, _ in _untold(page)): continue
        if any(e["n"] > res["n"] for e in other): yield Finding("misrouted", res["s"], res["id"], None, res["n"])

def _untold(page: Page) -> Iterator[tuple[Json, bool]]:
    """Each failure that nobody heard of, and whether nobody can any more."""
    for res in failures(page):
        s, a, n = res["s"], res["a"], res["n"]
        later = [e for e in page.of(s, a) if e["n"] > n]
        snaps = [e for e in page.completed_snaps(s) if e["a"] == a and e["n"] > n]
        kept = min((e["n"] for e in snaps if all(o.get("id") != res["id"] for o in e["elements"])), default=EVER)
        heard = [e for e in later if e["n"] < kept or not page.header.get("raised")]
        told = any(e["k"] == "failed" or (e["k"] == "dead" and e["id"] == res["id"]) for e in heard)
        killed = any(e["k"] == "kill" and e["n"] < kept for e in later)
        stopped = page.stopped(s)
        if stopped and a == page.attempts(s)[-1] and not page.of(s, a, "kill"): killed = n < stopped["n"] < kept
        if kept == EVER and snaps and not page.of(s, a, "ended"):
            killed |= any(e["k"] == "close" and e["n"] > snaps[-1]["n"] for e in later)
        if not told and not killed:
            yield res, bool(page.of(s, a, "ended", "close") or a < page.attempts(s)[-1] or kept < EVER)

def v20(page: Page) -> Findings:
    """Errors visible: a failure for good fails the attempt or becomes a dead letter, and not both."""
    yield from (shown("swallowed", res) for res, over in _untold(page) if over)
    yield from against_policy(page)
    for s, a in page.every_attempt():
        dead = {e["id"] for e in page.of(s, a, "dead")}
        for record in dead & {e["id"] for e in page.of(s, a, "failed") if "id" in e}:
            yield Finding("double-routed", s, record, None, ("attempt", a))

def v21(page: Page) -> Findings:
    """Mailbox: one thread acts, between `start` and `close`, on one record after the other."""
    for s, a in page.every_attempt():
        acts = page.of(s, a, *LIVES)
        threads = [e["thread"] for e in acts if "thread" in e]
        begin, close = page.start(s, a)["n"], min((e["n"] for e in page.of(s, a, "close")), default=EVER)
        for e in acts:
            if "thread" in e and e["thread"] != threads[0]: yield shown("foreign-thread", e)
            if e["n"] < begin or e["n"] > close: yield shown("outside-life", e)
        outs = page.of(s, a, "out")
        for i, e in enumerate(outs):
            back = [k for k, o in enumerate(outs[:i]) if o["id"] == e["id"] and o["j"] < e["j"]]
            if back and any(o["id"] != e["id"] for o in outs[back[0] : i]):
                yield Finding("interleaved", s, e["id"], None, ("attempt", a))

def shortfalls(page: Page) -> bool:
    """V23: whether something was to be seen and was not."""
    expects = page.header.get("expects", {})
    begun = {e["f"] for e in page.kind("fault") if e["phase"] == "begin"}
    commits = [e for s in page.subtasks for e in page.completers(s)] if page.sink == "atomic" else []
    completed = {e["c"] for e in (commits if page.sink == "atomic" else page.kind("done"))}
    counted = {"records": len(page.accepted()), "checkpoints": len(completed)}
    counted |= {"restores": len(page.kind("restore")), "rescales": len(page.kind("rescale"))}
    if any(count < expects.get(name, 0) for name, count in counted.items()): return True
    unseen = any(e["phase"] == "end" and not e["evidence"] for e in page.kind("fault"))
    return unseen or any(name not in begun for name in expects.get("faults", []))

# ------------------------------------------- V24: an attempt fails, is killed or restarted only for a given reason
def v24(page: Page) -> Findings:
    given_up = min((e["n"] for e in page.kind("giveup")), default=EVER)
    for e in page.kind("failed", "kill", "start"):
        before = max((a for a in page.attempts(e["s"]) if a < e["a"]), default=None)
        of = e["a"] if e["k"] != "start" else before
        if e["n"] > given_up or of is None: continue
        ends = page.of(e["s"], of, "ended", "failed", "kill")
        if e["k"] == "start" and any(end["n"] < e["n"] for end in ends): continue
        begun = page.start(e["s"], of)["n"]
        if _by_name(page, e, begun) or _by_what_is_on(page, e) or _also(page, e, begun): continue
        failed = [res["id"] for res in _failed_by(page, e)] if e["k"] == "failed" else []
        yield Finding("unexplained-failure", e["s"], e.get("id", failed[-1] if failed else None), None, e["n"])

def _by_name(page: Page, e: Json, begun: float) -> bool:
    """`begun`: the `start` that a fault of the name must have reached."""
    if e.get("by") in {"outside", "planted"}: return True
    named = [pair for pair in page.faults() if pair[0]["f"] == e.get("by")]
    return any(b["n"] < e["n"] and (end is None or end["n"] > begun) for b, end in named)

def _can(page: Page, kind: str, s: int) -> list[tuple[Json, Json | None]]:
    return [(b, end) for b, end in page.faults() if kind in b.get("can", []) and b.get("s", s) == s]

def _by_what_is_on(page: Page, e: Json) -> bool:
    since, on = e["t"] - page.bounds["recover"] * 1000, _can(page, e["k"], e["s"])
    return any(b["n"] < e["n"] and (end is None or end["n"] > e["n"] or end["t"] >= since) for b, end in on)

def _also(page: Page, e: Json, begun: float) -> bool:
    s, a, n = e["s"], e["a"], e["n"]
    elsewhere = [o for o in page.kind("failed", "kill") if o["s"] != s and begun < o["n"] < n]
    together = page.header["explained"] == "together" and bool(elsewhere)
    later = any(other["a"] > a and other["n"] < n for other in page.of(s, None, "start"))
    if e["k"] == "failed": return later or any(_asked_for(page, res) for res in _failed_by(page, e))
    over = e["k"] == "kill" and any(other["n"] < n for other in page.of(s, a, "failed", "ended", "close"))
    return together or over or (later and e["k"] == "kill")

def _failed_by(page: Page, failed: Json) -> list[Json]:
    """Failures of calls that, by policy, fail the attempt."""
    policies = {"timeout": page.operator.get("on_timeout"), "fail": page.operator.get("on_error")}
    own = [e for e in page.of(failed["s"], failed["a"], "res") if is_failure(e) and e["n"] < failed["n"]]
    return [res for res in own if res["id"] == failed.get("id", res["id"]) and policies[res["r"]] == "fail"]

def _asked_for(page: Page, res: Json) -> bool:
    s, a = res["s"], res["a"]
    if _by_name(page, res, page.start(s, a)["n"]): return True
    calls = page.told(s, a, res["id"], "call")
    since = min((e["t"] for e in calls), default=res["t"]) - page.bounds["recover"] * 1000
    began = {e["try"]: e["t"] for e in calls if e["n"] < res["n"]}.get(res["try"], -EVER)
    waited = res["r"] == "timeout" or res["t"] - began >= 1000  # no limit of a call passes sooner
    blamed = [] if res.get("met") == "nothing" else _can(page, "res", s)
    if waited and res.get("met", "limit") == "limit": blamed = [*blamed, *_can(page, "late", s)]
    return any(b["n"] < res["n"] and (end is None or end["t"] >= since) for b, end in blamed)

# ------------------------------------------------------------------------------------------------- the verdict
class Opinion(NamedTuple):
    """On one invariant."""

    outcome: str
    findings: tuple[Finding, ...] = ()
    counts: bool = False  # whether a `vacuous` counts in the verdict

def opinions(lines: list[Json]) -> dict[str, Opinion]:
    """On each invariant of a well-formed history, given as its lines."""
    if lines[0].get("view") == "outside": return outside_opinions(lines)
    page = Page(lines)
    results = any(page.outs(s) for s in page.subtasks)
    marks = bool(page.kind("wm", "owm")) or any(page.marks(s) for s in page.subtasks)
    calls, starts = bool(page.kind("call")), bool(page.kind("start"))
    keeps_keys = page.ordered or page.operator.get("per_key_order", False)
    snaps = any(page.completed_snaps(s) for s in page.subtasks)
    rescales = bool(page.kind("rescale"))
    restarts = any(e["from"] is not None for e in page.kind("start"))
    several = any(len(page.attempts(s)) > 1 for s in page.subtasks) or rescales
    written = page.kind("effect") or any("a" in e for e in page.kind("commit")) or page.tables_of("audit")
    fenced = bool(page.header.get("fenced", True) and written)
    segments, explained = not page.ordered and not page.coalesces, "explained" in page.header
    epochs, gap = page.sink in {"atomic", "two-phase"}, "checkpoint_gap" in page.bounds
    goes_on = gap or "barrier_every" in page.header
    restarts |= "keeps" in page.header and any(kept(page))
    open_, giveups = not page.finished(), page.kind("giveup")
    undecided = any(is_excused(page, e) for e in giveups) or (open_ and not giveups)
    return {
        "V1": _opinion(v1(page), claimed=page.ordered, exposed=results),
        "V2": _opinion(v2(page), claimed=segments, exposed=results),
        "V3": _opinion(v3(page), claimed=keeps_keys and any("key" in e for e in page.kind("in")), exposed=results),
        "V4": _opinion(v4(page), exposed=marks),
        "V5": _opinion(v5(page), exposed=marks),
        "V6": _opinion(v6(page), exposed=marks, pending=open_ and any(lost_watermarks(page))),
        "V7": _opinion(v7(page), exposed=marks),
        "V8": _on_v8(page, results=results),
        "V9": _on_v9(page),
        "V10": _opinion(v10(page), exposed=snaps),
        "V11": _opinion(v11(page), claimed=restarts or rescales, pending=waiting_shares(page)),
        "V12": _opinion(v12(page), claimed=epochs, exposed=snaps or bool(page.kind("commit"))),
        "V13": _opinion(v13(page), claimed=fenced, exposed=several, pending=page.not_whole("audit")),
        "V14": _opinion(v14(page), exposed=calls),
        "V15": _opinion([*v15(page), *retries(page)], exposed=calls),
        "V16": _opinion([*v16(page), *unserved(page)], pending=undecided),
        "V18": _opinion([*(v18(page) if gap else ()), *left_out(page)], claimed=goes_on, exposed=starts),
        "V19": _opinion(v19(page), claimed=any("nonce" in e for e in page.kind("call", "res"))),
        "V20": _on_v20(page),
        "V21": _opinion(v21(page), exposed=bool(page.kind(*LIVES))),
        "V23": _opinion((), claimed="expects" in page.header or bool(page.kind("fault")), exposed=not shortfalls(page)),
        "V24": _opinion(v24(page) if explained else (), claimed=explained, exposed=starts),
    }

def _on_v8(page: Page, *, results: bool) -> Opinion:
    rows = list(output_rows(page))
    found = [*v8(page), *inconsistent(page), *versions(page), *_certain(rows)]
    lost = not page.finished() and any(lost_outputs(page))
    exposed = results or any(page.rows(name) for name in page.tables_of("outputs"))
    opinion = _opinion(found, exposed=exposed, pending=lost or page.not_whole("outputs") or bool(rows))
    if not without_values(page): return opinion
    return opinion._replace(outcome="vacuous" if opinion.outcome == "pass" else opinion.outcome, counts=True)

def _on_v9(page: Page) -> Opinion:
    rows = list(effect_rows(page))
    lost = page.has_audit() and not page.finished() and any(lost_effects(page))
    expecting = any(page.expected(s, record) not in (ABSENT, []) for record, s in page.accepted().items())
    exposed = expecting or any(page.rows(name) for name in page.tables_of("effects"))
    read = page.tables_of("effects") + page.tables_of("audit")
    claimed = bool(page.kind("effect") or page.header.get("effects") or read)
    pending = lost or page.not_whole("effects") or page.not_whole("audit") or bool(rows)
    found = [*(v9(page) if page.has_audit() else ()), *_certain(rows)]
    return _opinion(found, claimed=claimed, exposed=exposed, pending=pending)

def _on_v20(page: Page) -> Opinion:
    rows = list(dead_rows(page))
    exposed = bool(judged(page)) or any(page.rows(name) for name in page.tables_of("dead"))
    waiting = any(not over for _, over in _untold(page))
    pending = waiting or page.not_whole("dead") or bool(rows)
    return _opinion([*v20(page), *_certain(rows)], exposed=exposed, pending=pending)

def _certain(suspicions: list[Suspicion]) -> list[Finding]:
    return [finding for certain, finding in suspicions if certain]

def _opinion(told: Iterable[Finding], *, claimed: bool = True, exposed: bool = True, pending: bool = False) -> Opinion:
    if not claimed: return Opinion("not-claimed")
    if found := tuple(dict.fromkeys(told)): return Opinion("fail", found)
    return Opinion("unknown" if pending else "pass" if exposed else "vacuous")

def verdict(lines: list[Json], given: dict[str, Opinion]) -> str:
    """The overall one, of what was said on each invariant."""
    decisive = lines[0].get("decisive")
    counted = set()
    for name, opinion in given.items():
        named = decisive is not None and name in decisive
        counts = {"fail": True, "pass": True, "unknown": named or decisive is None, "not-claimed": named}
        if counts.get(opinion.outcome, named or name == "V23" or opinion.counts): counted.add(opinion.outcome)
    if counted & {"fail", "unknown"}: return "fail" if "fail" in counted else "unknown"
    took = any(e["k"] in {"in", "wm", "offer"} for e in lines[1:])
    return "pass" if took and counted == {"pass"} else "vacuous"

# ------------------------------------------------------------------------------ a whole job, seen from outside
Slot = tuple[Any, int | None]
Rows = list[Any]

def told(id_: Any) -> Any:
    return tuple(id_) if isinstance(id_, list) else (None,) if id_ is None else id_

def less(some: Rows, others: Rows) -> Rows:
    """The first multiset less the second one."""
    left, kept = list(others), []
    for row in some:
        if row in left: left.remove(row)
        else: kept.append(row)
    return kept

class Outside:
    """A history of `view` outside, and what `history-outside.md` calls its parts."""

    def __init__(self, lines: list[Json]) -> None:
        self.header, self.events = lines[0], lines[1:]
        self.sink: Json = {"j": None, "changes": True, "rows": "record"} | self.header["sink"]
        self.claims: Json = {"order": "none", "explained": False} | self.header["claims"]
        self.bounds: Json = {"recover": 0} | self.header.get("bounds", {})
        self.delivery, self.write = self.claims["delivery"], self.sink["write"]
        self.of_keys, self.numbered = self.sink["rows"] == "key", self.sink["j"] is not None
        self.letters = self.header.get("dead_letters") is not None
        self.known: dict[Any, Any] = {}
        self.offers = {told(e["id"]): e for e in self.kind("offer")}
        self.due: dict[Any, list[Json]] = {}
        for e in self.kind("expect"): self.due.setdefault(told(e["id"]), []).append(e)
        self.taken_from_nothing = False
        self.over: dict[Slot, list[tuple[int, Rows]]] = {}
        """For each slot, by the event that ends a transaction: its rows from there on."""
        self.first_row: dict[Slot, int] = {}
        self.effects: list[Json] = []
        """The last row of each transaction with an effect."""
        self.touched: list[tuple[Json, dict[Slot, tuple[Rows, Rows]]]] = []
        """Each transaction: its last row, and the rows of each slot before and after it."""
        self._replay()

    def kind(self, *kinds: str) -> list[Json]:
        return [e for e in self.events if e["k"] in kinds]

    def slot(self, e: Json) -> Slot:
        return told(e["id"]), e.get("j")

    def _replay(self) -> None:
        rows, whole = self.kind("row"), []
        while rows:
            end = next((i for i, e in enumerate(rows, 1) if e.get("last") is True), None)
            if end is None: break
            whole.append(rows[:end])
            rows = rows[end:]
        now: dict[Slot, Rows] = {}
        for tx in whole:
            before: dict[Slot, Rows] = {}
            for e in tx:
                for slot, value, comes in self._changes(e):
                    before.setdefault(slot, list(now.get(slot, [])))
                    there = now.setdefault(slot, [])
                    if comes:
                        there.append(value)
                        self.first_row.setdefault(slot, e["n"])
                    elif value in there: there.remove(value)
                    else: self.taken_from_nothing = True
            for slot in before: self.over.setdefault(slot, []).append((tx[-1]["n"], list(now[slot])))
            self.touched.append((tx[-1], {slot: (was, list(now[slot])) for slot, was in before.items()}))
            if any(less(was, now[slot]) or less(now[slot], was) for slot, was in before.items()):
                self.effects.append(tx[-1])

    def _changes(self, e: Json) -> Iterator[tuple[Slot, Any, bool]]:
        if e["op"] == "update": yield self.slot(e["was"]), canonical(e["was"]["v"]), False
        yield self.slot(e), canonical(e["v"]), e["op"] != "delete"

    def at(self, slot: Slot, n: float) -> Rows:
        """Its rows in the replay at that moment."""
        return next((rows for end, rows in reversed(self.over.get(slot, [])) if end < n), [])

    # readings
    def reading(self, r: int, *kinds: str) -> list[Json]:
        return [e for e in self.kind(*kinds) if e["reading"] == r]
    def begun(self, r: int) -> bool:
        return bool(self.reading(r, "table", "dead", "read"))
    def read(self, r: int) -> set[str]:
        """The parts that were read to their end."""
        found = set()
        for e in self.reading(r, "read"):
            rows = [o for o in self.kind("row") if o["n"] < e["n"]] if e["of"] == "log" else self.reading(r, e["of"])
            if len(rows) == e["rows"]: found.add(e["of"])
        return found
    def whole(self, r: int) -> bool:
        needed = {"table"} | ({"log"} if self.sink["changes"] else set()) | ({"dead"} if self.letters else set())
        return needed <= self.read(r)
    def in_reading(self, r: int, slot: Slot) -> Rows:
        return [canonical(e["v"]) for e in self.reading(r, "table") if self.slot(e) == slot]
    def slots_in(self, r: int) -> list[Slot]:
        return list(dict.fromkeys(map(self.slot, self.reading(r, "table"))))
    def letters_of(self, id_: Any) -> list[Json]:
        return [e for e in self.reading(1, "dead") if told(e["id"]) == id_]

    @asked_once
    def disagrees(self) -> bool:
        if not self.sink["changes"]: return False
        told_ = [r for r in (1, 2) if any(e["of"] == "log" for e in self.reading(r, "read"))]
        return self.taken_from_nothing or any("log" not in self.read(r) or self._differs(r) for r in told_)
    def _differs(self, r: int) -> bool:
        if not {"table", "log"} <= self.read(r): return False
        first = self.reading(r, "table", "dead", "read")[0]["n"]
        slots = [*self.over, *self.slots_in(r)]
        return any(less(a := self.at(s, first), b := self.in_reading(r, s)) or less(b, a) for s in slots)
    def has_log(self) -> bool:
        return self.sink["changes"] and not self.disagrees()

    # what a slot must hold
    def expected(self, slot: Slot) -> Rows | None:
        id_, j = slot
        if self.of_keys: return [canonical(e["v"]) for e in self.due.get(id_, [])]
        offer = self.offers.get(id_)
        if offer is None: return None
        rows = [] if offer.get("fails") is True else offer.get("expect")
        if rows is None: return None
        return [canonical(v) for v in (rows if j is None else rows[j : j + 1])]
    def wrong(self, slot: Slot, rows: Rows) -> Rows:
        right = self.expected(slot)
        return [] if right is None else [v for v in less(rows, right) if v not in right]
    def missing(self, slot: Slot, rows: Rows) -> int:
        right = self.expected(slot)
        if right is None: return 0 if rows else 1
        lacking = len(less(right, rows))
        return lacking if self.of_keys else max(0, lacking - len(self.wrong(slot, rows)))
    def crowded(self, slot: Slot, rows: Rows) -> bool:
        right = self.expected(slot)
        if right is None: return self.numbered and len(rows) > 1
        return bool(right) and len(rows) > len(right)
    def doubled(self, slot: Slot, rows: Rows) -> bool:
        right = self.expected(slot)
        if right is None: return len(rows) > 1 if self.numbered else any(rows.count(v) > 1 for v in rows)
        return bool(right) and (len(rows) > len(right) or any(v in right for v in less(rows, right)))
    def has_all(self, slot: Slot, rows: Rows) -> bool:
        right = self.expected(slot)
        if right is None: return bool(rows)
        return not less(right, rows) and not (self.of_keys and less(rows, right))
    def is_sentinel(self, id_: Any) -> bool:
        return not self.of_keys and self.offers.get(id_, {}).get("sentinel") is True
    def excused(self, id_: Any) -> bool:
        offer = self.offers[id_]
        if offer.get("sentinel") is True: return True
        return bool(self.letters_of(id_)) and (offer.get("fails") is True or bool(self.kind("fault")))
    def visible(self) -> set[Slot]:
        ever = {slot for slot, states in self.over.items() if any(rows for _, rows in states)}
        return (ever if self.has_log() else set()) | set(self.slots_in(1)) | set(self.slots_in(2))
    def slots_of(self, id_: Any) -> list[Slot]:
        """Those of an offered record of which something can be missing."""
        if not self.numbered: return [(id_, None)]
        rows = [] if self.offers[id_].get("fails") is True else self.offers[id_].get("expect")
        shown_j = [j for other, j in self.visible() if other == id_ and j is not None]
        return [(id_, j) for j in range(max(shown_j, default=0) + 1 if rows is None else len(rows))]
    def wanted(self) -> list[Slot]:
        if self.of_keys: return [(id_, None) for id_ in self.due]
        return [slot for id_ in self.offers if not self.excused(id_) for slot in self.slots_of(id_)]

    # its end
    def at_end(self, slot: Slot, n: float) -> Rows:
        """Its rows at the `finished` or `giveup`; without a log those of reading 1."""
        return self.at(slot, n) if self.sink["changes"] else self.in_reading(1, slot)
    def starts_before(self, n: float) -> list[Json]:
        return [e for e in self.kind("start") if e["n"] < n]
    @asked_once
    def finished(self) -> Json | None:
        ends = self.kind("finished")
        return ends[0] if ends and getattr(self, "_by_" + ends[0]["how"].replace("-", "_"))(ends[0]) else None
    def _by_exit(self, end: Json) -> bool:
        begun = self.starts_before(end["n"])
        exits = [e for e in self.kind("exit") if begun and e["start"] == begun[-1]["start"] and e["n"] < end["n"]]
        if not exits or exits[0].get("by") == "harness" or exits[0].get("code") != 0: return False
        return bool(exits[0]["n"] > max((e["n"] for e in self.offers.values()), default=-EVER))
    def _by_file(self, end: Json) -> bool:
        return end is not None
    def _is_shown(self) -> bool:
        return not self.disagrees() and (self.sink["changes"] or self.whole(1))
    def _by_all_rows(self, end: Json) -> bool:
        if not self._is_shown(): return False
        slots = self.wanted()
        if self.of_keys: slots = [*slots, *(self.over if self.sink["changes"] else self.slots_in(1))]
        if not all(self.has_all(slot, self.at_end(slot, end["n"])) for slot in slots): return False
        first = min((e["n"] for e in self.reading(1, "table", "dead", "read")), default=EVER)
        return not (self.of_keys and any(end["n"] < e["n"] < first for e in self.effects))
    def _by_settled(self, end: Json) -> bool:
        begun, quiet = self.starts_before(end["n"]), self.bounds.get("quiet")
        if self.of_keys or not self._is_shown() or not begun or quiet is None: return False
        if any(e["start"] == begun[-1]["start"] and e["n"] < end["n"] for e in self.kind("exit")): return False
        disturbed = [e["t"] for e in self.kind("row", "start", "exit", "fault") if e["n"] < end["n"]]
        if disturbed and end["t"] - disturbed[-1] < quiet * 1000: return False
        for part in {e["part"] for e in self.offers.values()}:
            own = [(id_, e) for id_, e in self.offers.items() if e["part"] == part]
            yields = {id_ for id_, e in own if e.get("fails") is not True and e.get("expect") != []}
            some = [id_ for id_, _ in own if not self.excused(id_) and id_ in yields]
            passed = any(e.get("sentinel") is True and not self._lacks(id_, end) for id_, e in own)
            if some and self._lacks(some[-1], end) and not passed: return False
        return not self._less_missing_later(end["n"])
    def _lacks(self, id_: Any, end: Json) -> bool:
        return any(self.missing(slot, self.at_end(slot, end["n"])) for slot in self.slots_of(id_))
    def _less_missing_later(self, n: int) -> bool:
        later = [(slot, rows) for slot, states in self.over.items() for end, rows in states if end > n]
        for r in (1, 2):
            slots = [slot for slot in self.slots_in(r) if self.whole(r) and slot[0] in self.offers]
            later += [(slot, self.in_reading(r, slot)) for slot in slots]
        judged_ = [(slot, rows) for slot, rows in later if not self.is_sentinel(slot[0])]
        return any(self.missing(slot, rows) < self.missing(slot, self.at_end(slot, n)) for slot, rows in judged_)

    def fault_spans(self) -> list[tuple[Json, Json | None]]:
        spans: list[tuple[Json, Json | None]] = []
        for e in self.kind("fault"):
            place = next((i for i, (b, end) in enumerate(spans) if end is None and b["f"] == e["f"]), None)
            if e["phase"] == "begin": spans.append((e, None))
            elif place is not None: spans[place] = (spans[place][0], e)
        return spans
    def log_unread(self) -> bool:
        return self.disagrees() or "log" not in self.read(2 if self.begun(2) else 1)

def found(kind: str, slot: Slot, at: Any = None) -> Finding:
    return Finding(kind, None, slot[0], None, at, None, slot[1])

def reordered(job: Outside, kind: str, *, by_key: bool) -> tuple[list[Finding], bool]:
    """What came after a later one of its group; and whether two could be compared."""
    highest: dict[Any, tuple[int, int]] = {}
    told_: list[Finding] = []
    compared = False
    slots = [s for s in job.first_row if s[0] in job.offers and not job.of_keys]
    for slot in sorted(slots, key=lambda s: job.first_row[s]):
        offer = job.offers[slot[0]]
        if by_key and "key" not in offer: continue
        group = (offer["part"], canonical(offer["key"]) if by_key else None)
        place = (offer["pos"], slot[1] or 0)
        compared |= group in highest
        if place < highest.get(group, place): told_.append(found(kind, slot, job.first_row[slot]))
        highest[group] = max(place, highest.get(group, place))
    return told_ if job.has_log() else [], compared

def delivered(job: Outside) -> Findings:
    """V8, of records."""
    doubles, end, upserts = job.delivery != "at-least-once", job.finished(), job.write == "upsert"
    for _, slots in job.touched if job.has_log() else ():
        for slot, (was, now) in slots.items(): yield from _in_log(job, slot, was, now)
    for r in (1, 2):
        for slot in job.slots_in(r):
            rows, final = job.in_reading(r, slot), not upserts or bool(end)
            if slot[0] not in job.offers: yield found("phantom", slot)
            twice = job.doubled(slot, rows) and (final or job.crowded(slot, rows))
            if doubles and twice: yield found("duplicate", slot)
            if job.wrong(slot, rows) and final: yield found("wrong-value", slot)
    if end and job.whole(1):
        for slot in job.wanted(): yield from _gone(job, slot)
    if end and job.whole(1) and job.whole(2): yield from changed_again(job)

def _in_log(job: Outside, slot: Slot, was: Rows, now: Rows) -> Findings:
    """V8, of the rows of a slot before and after one transaction."""
    offered, upserts = slot[0] in job.offers, job.write == "upsert"
    if not offered and now: yield found("phantom", slot)
    crowded = (job.crowded if upserts else job.doubled)(slot, now)
    if crowded and job.delivery != "at-least-once" and (offered or now): yield found("duplicate", slot)
    if not offered: return
    if job.wrong(slot, now) and not upserts: yield found("wrong-value", slot)
    if job.write == "append" and job.missing(slot, now) > job.missing(slot, was): yield found("deleted", slot)

def _gone(job: Outside, slot: Slot) -> Findings:
    lacking = job.missing(slot, job.in_reading(1, slot))
    if not lacking: return
    least = _least(job, slot)
    if least < lacking and job.write != "append": yield found("deleted", slot)
    if least >= lacking and job.delivery != "at-most-once" and _is_known(job, slot): yield found("lost", slot)

def _least(job: Outside, slot: Slot) -> float:
    """The least that was missing after a transaction before reading 1."""
    first = min((e["n"] for e in job.reading(1, "table", "dead", "read")), default=EVER)
    states = job.over.get(slot, []) if job.has_log() else []
    return min((job.missing(slot, rows) for end, rows in states if end < first), default=EVER)

def _is_known(job: Outside, slot: Slot) -> bool:
    """Whether it is known that its record yields a row."""
    offer = job.offers[slot[0]]
    return "expect" in offer or offer.get("fails") is True or any(s[0] == slot[0] for s in job.visible())

def changed_again(job: Outside) -> Findings:
    for slot in dict.fromkeys([*job.slots_in(1), *job.slots_in(2)]):
        one, other = job.in_reading(1, slot), job.in_reading(2, slot)
        if job.delivery == "at-least-once" and not job.of_keys: one, other = list({*one}), list({*other})
        if not job.is_sentinel(slot[0]) and (less(one, other) or less(other, one)): yield found("changed-again", slot)

def whole_table(job: Outside) -> Findings:
    """V8, of keys."""
    if not job.finished() or not job.whole(1): return
    for slot in differing(job):
        right, rows = job.expected(slot) or [], job.in_reading(1, slot)
        lacking, surplus = less(right, rows), less(rows, right)
        if lacking and surplus: yield found("wrong-value", slot)
        elif surplus: yield found("duplicate" if right else "phantom", slot)
        else: yield found("deleted" if _least(job, slot) < len(lacking) else "lost", slot)
    if job.whole(2): yield from changed_again(job)

def differing(job: Outside) -> list[Slot]:
    slots = dict.fromkeys([*job.wanted(), *job.slots_in(1)])
    both = {slot: (job.expected(slot) or [], job.in_reading(1, slot)) for slot in slots}
    return [slot for slot, (right, rows) in both.items() if less(right, rows) or less(rows, right)]

def delivery_open(job: Outside) -> bool:
    """Whether what does not convict may still be wrong (V8)."""
    end = job.finished()
    begun_again = job.begun(2) or bool(end and any(e["n"] > end["n"] for e in job.kind("start")))
    if not job.whole(1) or job.disagrees() or (begun_again and not job.whole(2)): return True
    if job.of_keys: return not end and bool(differing(job))
    if job.delivery != "at-most-once":
        lacking = [s for s in job.wanted() if job.missing(s, job.in_reading(1, s))]
        if lacking and (not end or any(not _is_known(job, s) for s in lacking)): return True
    if job.write != "upsert" or end: return False
    doubles = job.delivery != "at-least-once"
    shown_ = [(s, job.in_reading(r, s)) for r in (1, 2) for s in job.slots_in(r)]
    twice = [s for s, rows in shown_ if doubles and job.doubled(s, rows) and not job.crowded(s, rows)]
    return bool(twice) or any(job.wrong(s, rows) for s, rows in shown_)

def zombies(job: Outside) -> Findings:
    highest = 0
    for e in job.effects:
        start = e.get("start")
        if start is None: continue
        if start < highest: yield Finding("zombie-effect", None, None, None, e["n"])
        highest = max(highest, start)

def failed_exit(e: Json) -> bool:
    return e.get("by") != "harness" and e.get("code") not in {None, 0}

def stuck(job: Outside) -> tuple[list[Finding], bool]:
    """What V16 tells, and whether it is undecided."""
    giveups, end = job.kind("giveup"), job.finished()
    if end: return [], False
    if not giveups: return [], True
    (up,) = giveups
    for begin, over in job.fault_spans():
        if begin["n"] > up["n"]: continue
        if over is None or over["n"] > up["n"] or up["t"] - over["t"] < job.bounds["recover"] * 1000: return [], True
    highest = max((e["start"] for e in job.kind("start")), default=0)
    failed = next((e for e in job.kind("exit") if e["start"] == highest and failed_exit(e)), None)
    for id_, offer in job.offers.items():
        poison = offer.get("sentinel") is True or (offer.get("fails") is True and not job.letters_of(id_))
        if failed and poison and offer["n"] < failed["n"]: return [], True
    slots = job.wanted() if job.of_keys else [slot for id_ in job.offers for slot in job.slots_of(id_)]
    then = {slot: job.at(slot, up["n"]) if job.has_log() else job.in_reading(1, slot) for slot in slots}
    lacking = [slot for slot, rows in then.items() if job.missing(slot, rows)]
    return [Finding("stuck", None, lacking[0][0] if lacking else None, None, up["n"])], False

def letters(job: Outside) -> tuple[list[Finding], bool]:
    """What V20 tells, and whether it is undecided."""
    told_: list[Finding] = []
    repeats, dead = job.delivery == "at-least-once", job.reading(1, "dead")
    for id_ in dict.fromkeys(told(e["id"]) for e in dead):
        own = job.letters_of(id_)
        if id_ not in job.offers: told_.append(found("row-foreign", (id_, None), own[0]["n"]))
        if len(own) > 1 and not repeats: told_.append(found("row-doubled", (id_, None)))
        written = any(s[0] == id_ for s in job.slots_in(1))
        if id_ in job.offers and not repeats and written: told_.append(found("double-routed", (id_, None)))
    unread = job.letters and "dead" not in job.read(1)
    failures = [e["n"] for e in job.kind("exit") if failed_exit(e)]
    failing = [id_ for id_, e in job.offers.items() if e.get("fails") is True and not any(n > e["n"] for n in failures)]
    swallowed = [id_ for id_ in failing if not job.letters_of(id_)]
    if unread: return told_, True
    if job.finished(): return [*told_, *(found("swallowed", (id_, None)) for id_ in swallowed)], False
    return told_, bool(swallowed)

def unproven(job: Outside) -> bool:
    """Whether V23 is vacuous."""
    expects, spans = job.header.get("expects", {}), job.fault_spans()
    begun = {begin["f"] for begin, _ in spans}
    counts = {"records": len(job.offers), "starts": len(job.kind("start")), "asked": len(job.kind("asked"))}
    if any(counts[name] < expects.get(name, 0) for name in counts): return True
    if set(expects.get("faults", ())) - begun: return True
    if any(end is not None and not end.get("evidence") for _, end in spans): return True
    proven = [(begin, end) for begin, end in spans if end is not None and end.get("evidence")]
    if not spans or not job.has_log(): return False
    return not any(_bit(job, begin) or _followed(job, begin) for begin, _ in proven)

def _bit(job: Outside, begin: Json) -> bool:
    """Whether after a later transaction less of a slot is missing than at its beginning."""
    return any(
        job.missing(slot, rows) < job.missing(slot, job.at(slot, begin["n"]))
        for slot, states in job.over.items() if job.of_keys or slot[0] in job.offers
        for end, rows in states if end > begin["n"]
    )

def _followed(job: Outside, begin: Json) -> bool:
    end = job.finished()
    if not end: return False
    exits = [e["n"] for e in job.kind("exit") if e.get("by") == begin["f"] and e["n"] > begin["n"]]
    return bool(exits) and any(e["n"] > min(exits) for e in job.starts_before(end["n"]))

def unexplained(job: Outside) -> Findings:
    up = min((e["n"] for e in job.kind("giveup")), default=EVER)
    for e in job.kind("exit"):
        failed = "signal" in e or e.get("code") not in {None, 0}
        if failed and e["n"] < up and not _exit_explained(job, e): yield shown("unexplained-failure", e)

def _exit_explained(job: Outside, e: Json) -> bool:
    if e.get("by") in {"harness", "outside"}: return True
    begun = next(s["n"] for s in job.kind("start") if s["start"] == e["start"])
    for begin, over in job.fault_spans():
        if begin["n"] > e["n"]: continue
        if e.get("by") == begin["f"] and (over is None or over["n"] > begun): return True
        late = over is not None and over["n"] < e["n"] and e["t"] - over["t"] > job.bounds["recover"] * 1000
        if "exit" in (begin.get("can") or ()) and not late: return True
    if any(s["start"] > e["start"] and s["n"] < e["n"] for s in job.kind("start")): return True
    if "code" not in e: return False
    earlier = [o for o in job.offers.values() if o["n"] < e["n"]]
    return any(o.get("sentinel") is True or (o.get("fails") is True and not job.letters) for o in earlier)

def outside_opinions(lines: list[Json]) -> dict[str, Opinion]:
    """On each invariant of a history of `view` outside."""
    job = Outside(lines)
    given = {"V1": _on_order(job, "reordered"), "V3": _on_order(job, "key-reordered"), "V8": _on_delivery(job)}
    effects, several = [e.get("start") for e in job.effects], len(job.kind("start")) > 1
    fenced = job.claims.get("fenced", job.delivery != "at-least-once")
    owned = job.sink["changes"] and any(e.get("start") is not None for e in job.kind("row"))
    given["V13"] = _opinion(
        zombies(job) if several and job.has_log() else (), claimed=bool(fenced and owned), exposed=several,
        pending=several and (job.log_unread() or (job.has_log() and None in effects)),
    )
    told_, undecided = stuck(job)
    given["V16"] = _opinion(told_, pending=undecided)
    told_, waiting = letters(job)
    fails = any(e.get("fails") is True for e in job.offers.values())
    exposed = fails or bool(job.kind("dead"))
    given["V20"] = _opinion(told_, claimed=job.letters or fails, exposed=exposed, pending=waiting)
    given["V23"] = _opinion(
        (), claimed="expects" in job.header or bool(job.kind("fault")), exposed=not unproven(job),
        pending=any("error" in e for e in job.kind("fault") if e["phase"] == "end"),
    )
    given["V24"] = _opinion(unexplained(job), claimed=job.claims["explained"], exposed=bool(job.kind("start")))
    return {f"V{n}": given.get(f"V{n}", Opinion("not-claimed")) for n in range(1, 25) if n not in {17, 22}}

def _on_order(job: Outside, kind: str) -> Opinion:
    by_key, order = kind == "key-reordered", job.claims["order"]
    told_, compared = reordered(job, kind, by_key=by_key)
    kept = order != "none" and any("key" in e for e in job.offers.values()) if by_key else order == "source"
    return _opinion(told_, claimed=kept and job.sink["changes"], exposed=compared, pending=job.log_unread())

def _on_delivery(job: Outside) -> Opinion:
    told_ = whole_table(job) if job.of_keys else delivered(job)
    given = _opinion(told_, exposed=bool(job.offers) and bool(job.visible()), pending=delivery_open(job))
    if not outside_without_values([job.header, *job.events]): return given
    return given._replace(outcome="vacuous" if given.outcome == "pass" else given.outcome, counts=True)

def outside_without_values(lines: list[Json]) -> bool:
    """Whether no value is judged."""
    offers = [e for e in lines[1:] if e["k"] == "offer"]
    if lines[0]["sink"].get("rows") == "key": return False
    known = any("expect" in e or e.get("fails") is True for e in offers)
    return lines[0]["expect_from"] == "none" or (bool(offers) and not known)

# ------------------------------------------------------------------------------------- reading, and the command
NEEDED = {
    "start": "s a from pos", "restore": "s a c elements", "in": "s a pos id", "wm": "s a pos w", "call": "s a id try",
    "res": "s a id try r final", "out": "s a id j v", "owm": "s a w", "snap": "s a c pos elements", "dead": "s a id",
    "failed": "s a error", "end": "s a", "ended": "s a", "close": "s a", "kill": "s a", "held": "s a since",
    "done": "c", "abort": "c",
    "retire": "c", "commit": "s c", "effect": "s id token seq", "fault": "f phase", "giveup": "why", "ack": "s a c",
    "row": "table id", "read": "table rows", "change": "phase ver", "rescale": "c of to",
}  # the fields that an event of each kind must have, besides `n`, `t` and `k`
NEEDED_OUTSIDE = {
    "offer": "part pos id", "start": "start", "exit": "start", "fault": "f phase", "row": "op tx id v", "asked": "key",
    "table": "reading id v", "dead": "reading id", "read": "reading of rows", "finished": "how", "giveup": "why",
    "expect": "id v",
}  # the same, seen from outside
INTEGERS = {"n", "t", "s", "a", "pos", "try", "c", "j", "token", "seq", "rows", "ver", "part", "at", "since"}
LISTS = {"elements", "of", "to", "expect", "can"}

def read_lines(path: Path) -> list[Json]:
    """The header and the events; a last line that was cut off is left out. Raises ValueError (which line), OSError."""
    sys.set_int_max_str_digits(0)
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        texts = file.read().split(b"\n")
    last, lines = len(texts), []
    for number, text in enumerate(texts if texts[-1] else texts[:-1], 1):
        try:
            line = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
            if not isinstance(line, dict): raise ValueError("no JSON object")
        except (ValueError, RecursionError) as error:
            if number == last and number > 1: break
            raise ValueError(f"line {number}: {error}") from error
        if complaint := _complaint(line) if number > 1 else _complaint_of_header(line):
            raise ValueError(f"line {number}: {complaint}")
        lines.append(line)
    if not lines: raise ValueError("line 1: there is no header")
    return lines

def _once(pairs: list[tuple[str, object]]) -> Json:
    if len({name for name, _ in pairs}) < len(pairs): raise ValueError("a key stands twice")
    return dict(pairs)

def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")

def _complaint_of_header(line: Json) -> str:
    operator = line.get("operator")
    if line.get("history") == 1 and line.get("view") == "outside":
        missing = {"claims", "sink", "expect_from"} - line.keys()
        return f"the header lacks {', '.join(sorted(missing))}" if missing else ""
    if line.get("history") != 1 or not isinstance(operator, dict): return "a header has `history` 1 and an `operator`"
    if line.get("view") is not None: return "its `view` is neither absent nor `outside`"
    missing = {"mode", "capacity", "timeout_ms"} - operator.keys()
    return f"the operator lacks {', '.join(sorted(missing))}" if missing else ""

def _complaint(e: Json) -> str:
    kind = e.get("k")
    if kind in NEEDED_OUTSIDE and not {"n", "t", *NEEDED_OUTSIDE[kind].split()} - e.keys(): return ""
    if kind not in NEEDED: return f"unknown kind {kind!r}"
    if missing := {"n", "t", *NEEDED[kind].split()} - e.keys(): return f"a {kind} lacks {', '.join(sorted(missing))}"
    bad = [name for name in INTEGERS & e.keys() if type(e[name]) is not int]
    bad += [name for name in LISTS & e.keys() if not isinstance(e[name], list)]
    return f"ill-typed: {', '.join(sorted(bad))}" if bad else ""

def said(given: dict[str, Opinion]) -> Iterator[str]:
    """A line an invariant, and one for each of its first findings."""
    for name, opinion in given.items():
        yield f"{name:<4} {opinion.outcome}"
        for told in opinion.findings[:10]:
            named = {"subtask": told.s, "of": told.what, "checkpoint": told.c, "table": told.table, "j": told.j}
            named |= {"event" if isinstance(told.at, int) else "place": told.at}
            yield f"    {told.kind}: " + ", ".join(f"{word} {it!a}" for word, it in named.items() if it is not None)
        if len(opinion.findings) > 10: yield f"       and {len(opinion.findings) - 10} more"

def main(words: list[str]) -> int:
    """Prints the verdicts on a file; returns the exit code: 0 pass, 1 fail, 10 unknown or vacuous, 4 not readable."""
    if len(words) != 1:
        sys.stderr.write("usage: python second_judge.py HISTORY  (.jsonl or .jsonl.gz)\n")
        return 4
    try:
        lines = read_lines(Path(words[0]))
        given = opinions(lines)
    except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
        what = "" if isinstance(error, OSError | EOFError | ValueError) else "a rule between events is broken: "
        sys.stderr.write(f"{words[0]}: {what}{error}\n")
        return 4
    overall = verdict(lines, given)
    sys.stdout.write(f"{overall.upper()}  {words[0]}\n" + "".join(f"  {line}\n" for line in said(given)))
    return {"pass": 0, "fail": 1}.get(overall, 10)

if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
