"""The page read literally and slowly, on the JSON alone: what the fast checkers are compared with.

Quadratic and without any shared code on purpose. Gives the set of (invariant, class, subtask, what, number): what
is an id or a watermark, number a checkpoint. For histories without coalescing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
Finding = tuple[Any, ...]
ABSENT = object()


def high(w: Any) -> float:
    return float("inf") if w == "end" else float(w)


class Naive:
    def __init__(self, lines: list[Json]) -> None:
        self.header = lines[0]
        self.events = lines[1:]
        self.sink = self.header.get("sink", "rollback")
        self.ordered = self.header["operator"]["mode"] == "ordered"
        self.subtasks = sorted({e["s"] for e in self.events if "a" in e and e["k"] != "commit"})

    def findings(self) -> set[Finding]:
        found: set[Finding] = set()
        for s in self.subtasks:
            found |= {*self.v1_v2(s), *self.v4(s), *self.v8(s), *self.incomplete(s)}
            for a in self.attempts(s):
                found |= {*self.v5(s, a), *self.v11(s, a)}
                for snap in self.of(s, a, "snap"):
                    if self.is_completed(snap):
                        found |= {*self.v10(s, a, snap)}
        return found

    def of(self, s: int, a: int | None, *kinds: str) -> list[Json]:
        return [
            e for e in self.events if e["k"] in kinds and e.get("s") == s and (a is None or e.get("a") == a)
        ]

    def attempts(self, s: int) -> list[int]:
        return sorted({e["a"] for e in self.events if e.get("s") == s and "a" in e and e["k"] != "commit"})

    def which_snap(self, s: int, c: int, n: int, named: int | None = None, below: float = 1e9) -> Json | None:
        snaps = [e for e in self.of(s, named, "snap") if e["c"] == c and e["n"] < n and e["a"] < below]
        return max(snaps, key=lambda e: e["a"], default=None)

    def completers(self, s: int) -> list[Json]:
        if self.sink == "atomic":
            return [e for e in self.of(s, None, "commit") if self.which_snap(s, e["c"], e["n"], e.get("a"))]
        return [e for e in self.events if e["k"] == "done"]

    def is_completed(self, snap: Json) -> bool:
        return any(
            e["c"] == snap["c"] and self.which_snap(snap["s"], e["c"], e["n"], e.get("a")) is snap
            for e in self.completers(snap["s"])
        )

    def chain(self, s: int) -> list[tuple[int, float]]:
        links: list[tuple[int, float]] = []
        a, until = max(self.attempts(s)), float("inf")
        while True:
            links.append((a, until))
            start = next((e for e in self.of(s, a, "start")), None)
            snap = (
                start and start["from"] is not None and self.which_snap(s, start["from"], start["n"], below=a)
            )
            if not snap:
                return links[::-1]
            a, until = snap["a"], snap["n"]

    def output(self, s: int) -> list[Json]:
        emissions = self.of(s, None, "out", "owm")
        if self.sink == "append":
            return emissions
        if self.sink == "rollback":
            return [e for a, until in self.chain(s) for e in emissions if e["a"] == a and e["n"] < until]
        shown = []
        for commit in self.of(s, None, "commit"):
            snap = self.which_snap(s, commit["c"], commit["n"], commit.get("a"))
            if snap:
                before = max(
                    (e["n"] for e in self.of(s, snap["a"], "snap") if e["n"] < snap["n"]), default=-1
                )
                shown += [e for e in emissions if e["a"] == snap["a"] and before < e["n"] < snap["n"]]
        return shown

    def position(self, s: int, record: Any) -> Any:
        return next((e["pos"] for e in self.of(s, None, "in") if same_id(e["id"], record)), None)

    def marks(self, s: int) -> list[tuple[int, Any]]:
        return sorted({(e["pos"], e["w"]) for e in self.of(s, None, "wm")}, key=lambda mark: mark[0])

    def stands(self, emissions: list[Json], marks: list[tuple[int, Any]]) -> list[int | None]:
        places: list[int | None] = []
        for i, e in enumerate(emissions):
            if e["k"] != "owm":
                places.append(None)
                continue
            k = sum(other["k"] == "owm" and other["w"] == e["w"] for other in emissions[:i])
            known = sorted(pos for pos, w in marks if w == e["w"])
            places.append(known[k] if k < len(known) else None)
        return places

    def v1_v2(self, s: int) -> Iterator[Finding]:
        out = self.output(s)
        stands = self.stands(out, self.marks(s))
        for i, e in enumerate(out):
            pos = self.position(s, e["id"]) if e["k"] == "out" else None
            if pos is None:
                continue
            earlier = [(self.position(s, o["id"]), o["j"]) for o in out[:i] if o["k"] == "out"]
            reordered = (
                any(p is not None and (pos, e["j"]) < (p, j) for p, j in earlier)
                or any(m is not None and m < pos for m in stands[i + 1 :])
                or any(m is not None and m > pos for m in stands[:i])
            )
            if self.ordered and reordered:
                yield ("V1", "reordered", s, e["id"], None)
            last = max((p for p, _ in self.marks(s) if p < pos), default=None)
            if not self.ordered and last is not None and last in stands[i + 1 :]:
                yield ("V2", "overtook-watermark", s, e["id"], None)

    def v4(self, s: int) -> Iterator[Finding]:
        marks = self.marks(s)
        sequences = [(self.output(s), marks)]
        sequences += [(self.of(s, a, "out", "owm"), self.attempt_marks(s, a)) for a in self.attempts(s)]
        for emissions, known in sequences:
            places = self.stands(emissions, known)
            left = [e["w"] for e, place in zip(emissions, places, strict=True) if place is not None]
            for i, w2 in enumerate(left):
                for w1 in left[:i]:
                    follows = any(w == w1 and x == w2 and p < q for p, w in marks for q, x in marks)
                    if high(w1) > high(w2) and not follows:
                        yield ("V4", "watermark-back", s, w2, None)

    def restored(self, s: int, a: int) -> list[Json]:
        return [element for e in self.of(s, a, "restore") for element in e["elements"]]

    def attempt_marks(self, s: int, a: int, by: float = float("inf")) -> list[tuple[int, Any]]:
        taken = {(e["pos"], e["w"]) for e in self.of(s, a, "wm") if e["n"] < by}
        when = [e for e in self.of(s, a, "restore") if e["n"] < by]
        return [*taken | {(e["pos"], e["w"]) for r in when for e in r["elements"] if "w" in e}]

    def attempt_records(self, s: int, a: int, by: float = float("inf")) -> list[Any]:
        when = [e for e in self.of(s, a, "restore") if e["n"] < by]
        ids = [e["id"] for r in when for e in r["elements"] if "id" in e]
        ids += [e["id"] for e in self.of(s, a, "in") if e["n"] < by]
        return list(dict.fromkeys(ids))

    def expect(self, s: int, record: Any) -> Any:
        given = (e["expect"] for e in self.of(s, None, "in") if same_id(e["id"], record) and "expect" in e)
        return next(given, ABSENT)

    def outcome(self, s: int, a: int, record: Any, by: float = float("inf")) -> Json | None:
        ends = [e for e in self.of(s, a, "res", "dead") if same_id(e["id"], record) and e["n"] < by]
        return next((e for e in ends if e["k"] == "dead" or e["final"]), None)

    def outputs_by(self, s: int, outcome: Json | None, record: Any) -> Any:
        expect = self.expect(s, record)
        if outcome is None:
            return expect
        if outcome["k"] == "dead" or outcome["r"] == "fail":
            return []
        if outcome["r"] == "timeout":
            return [] if "error" in outcome else outcome.get("v", [])
        return expect if expect is not ABSENT else outcome.get("v", ABSENT)

    def left(self, s: int, a: int, record: Any, by: float) -> set[int]:
        return {e["j"] for e in self.of(s, a, "out") if same_id(e["id"], record) and e["n"] < by}

    def resolved(self, s: int, a: int, record: Any, by: float) -> bool:
        outcome = self.outcome(s, a, record, by)
        wanted = self.outputs_by(s, outcome, record)
        if outcome is not None and wanted in (ABSENT, []):
            return True
        return wanted not in (ABSENT, []) and set(range(len(wanted))) <= self.left(s, a, record, by)

    def v5(self, s: int, a: int) -> Iterator[Finding]:
        emissions = self.of(s, a, "out", "owm")
        for e, mark in zip(emissions, self.stands(emissions, self.attempt_marks(s, a)), strict=True):
            for record in self.attempt_records(s, a) if mark is not None else ():
                pos = self.position(s, record)
                if pos is not None and pos < mark and not self.resolved(s, a, record, e["n"]):
                    yield ("V5", "crossed", s, record, None)

    def v8(self, s: int) -> Iterator[Finding]:
        out = [e for e in self.output(s) if e["k"] == "out"]
        for i, e in enumerate(out):
            if self.position(s, e["id"]) is None:
                yield ("V8", "phantom", s, e["id"], None)
            if any(same_id(o["id"], e["id"]) and o["j"] == e["j"] for o in out[:i]):
                yield ("V8", "duplicate", s, e["id"], None)
        finished = self.subtasks and all(self.of(t, max(self.attempts(t)), "ended") for t in self.subtasks)
        for record in dict.fromkeys(e["id"] for e in self.of(s, None, "in")):
            mine = [e for e in out if same_id(e["id"], record)]
            if mine:
                deciding = self.outcome(s, mine[0]["a"], record)
            else:
                chain = dict(self.chain(s))
                ends = [self.outcome(s, a, record) for a in chain]
                standing = [e for e in ends if e is not None and e["n"] < chain[e["a"]]]
                deciding = max(standing, key=lambda e: e["n"], default=None)
            wanted = self.outputs_by(s, deciding, record)
            yield from self.v8_record(
                s, record, mine, wanted, known=deciding is not None, done=bool(finished)
            )

    def v8_record(
        self, s: int, record: Any, mine: list[Json], wanted: Any, *, known: bool, done: bool
    ) -> Iterator[Finding]:
        taken = self.of(s, None, "in")
        ts = next(e.get("ts") for e in taken if same_id(e["id"], record))
        numbers = {e["j"] for e in mine}
        for e in mine:
            wrong = wanted is not ABSENT and (e["j"] >= len(wanted) or repr(e["v"]) != repr(wanted[e["j"]]))
            if wrong or ("ts" in e and e["ts"] != ts):
                yield ("V8", "wrong-value", s, record, None)
        if wanted is ABSENT and numbers != set(range(len(numbers))):
            yield ("V8", "wrong-value", s, record, None)
        missing = wanted is not ABSENT and not set(range(len(wanted))) <= numbers
        if done and (missing or (wanted is ABSENT and not known and not mine)):
            yield ("V8", "lost", s, record, None)

    def v10(self, s: int, a: int, snap: Json) -> Iterator[Finding]:
        n, cut, c = snap["n"], snap["pos"], snap["c"]
        stored = [e["id"] if "id" in e else (e["pos"], e["w"]) for e in snap["elements"]]
        for record in self.attempt_records(s, a, n):
            pos = self.position(s, record)
            wanted = self.outputs_by(s, self.outcome(s, a, record, n), record)
            left = self.left(s, a, record, n)
            count = len(left) if wanted is ABSENT else len(left & set(range(len(wanted))))
            everything = count > 0 and (wanted is ABSENT or count == len(wanted))
            if pos is None:
                continue
            if pos >= cut and (record in stored or left):
                yield ("V10", "both-sides", s, record, c)
            elif pos < cut and count > 0 and not everything:
                yield ("V10", "torn", s, record, c)
            elif pos < cut and record in stored and everything:
                yield ("V10", "already-out", s, record, c)
            elif pos < cut and record not in stored and not everything and not self.resolved(s, a, record, n):
                yield ("V10", "missing", s, record, c)
        for record in self.attempt_records(s, a):
            pos = self.position(s, record)
            if pos is not None and pos >= cut and self.left(s, a, record, n):
                yield ("V10", "both-sides", s, record, c)
        yield from self.v10_marks(s, a, snap, stored)
        yield from self.v10_stored(s, a, snap, stored)

    def v10_marks(self, s: int, a: int, snap: Json, stored: list[Any]) -> Iterator[Finding]:
        n, cut, c = snap["n"], snap["pos"], snap["c"]
        emissions = self.of(s, a, "out", "owm")
        standing = self.stands(emissions, self.attempt_marks(s, a))
        marks_left = {m for e, m in zip(emissions, standing, strict=True) if m is not None and e["n"] < n}
        for pos, w in self.attempt_marks(s, a):
            taken = (pos, w) in self.attempt_marks(s, a, n)
            if pos >= cut and (pos in marks_left or (taken and (pos, w) in stored)):
                yield ("V10", "both-sides", s, w, c)
            elif taken and pos < cut and (pos, w) in stored and pos in marks_left:
                yield ("V10", "already-out", s, w, c)
            elif taken and pos < cut and (pos, w) not in stored and pos not in marks_left:
                yield ("V10", "missing", s, w, c)

    def v10_stored(self, s: int, a: int, snap: Json, stored: list[Any]) -> Iterator[Finding]:
        n, c = snap["n"], snap["c"]
        known = [*self.attempt_records(s, a, n), *self.attempt_marks(s, a, n)]
        first = list(dict.fromkeys(stored))
        places = [e[0] if isinstance(e, tuple) else self.position(s, e) for e in first]
        for i, element in enumerate(first):
            what = element[1] if isinstance(element, tuple) else element
            if element not in known:
                yield ("V10", "foreign", s, what, c)
            if stored.count(element) > 1:
                yield ("V10", "twice", s, what, c)
            pos = places[i]
            if pos is None:
                continue
            before = [
                p for e, p in zip(first[:i], places, strict=False) if self.ordered or isinstance(e, tuple)
            ]
            after = [p for e, p in zip(first[i + 1 :], places[i + 1 :], strict=True) if isinstance(e, tuple)]
            back = any(p is not None and p > pos for p in before)
            ahead = not self.ordered and not isinstance(element, tuple) and any(p < pos for p in after)
            if back or ahead:
                yield ("V10", "misordered", s, what, c)
        start = self.of(s, a, "start")
        taken = [e["pos"] + 1 for e in self.of(s, a, "in", "wm") if e["n"] < n]
        if snap["pos"] > (taken[-1] if taken else start[0]["pos"] if start else 0):
            yield ("V10", "skipped", s, None, c)

    def incomplete(self, s: int) -> Iterator[Finding]:
        for done in (e for e in self.events if e["k"] == "done"):
            started = [e for e in self.of(s, None, "start") if e["n"] < done["n"]]
            if not started:
                continue
            last = max(e["a"] for e in started)
            ended = any(e["n"] < done["n"] for e in self.of(s, last, "ended"))
            if not ended and not self.which_snap(s, done["c"], done["n"]):
                yield ("V10", "incomplete", s, None, done["c"])

    def v11(self, s: int, a: int) -> Iterator[Finding]:
        start = next(iter(self.of(s, a, "start")), None)
        if start is None or start["from"] is None:
            return
        c, n = start["from"], start["n"]
        snap = self.which_snap(s, c, n, below=a)
        completed = any(e["c"] == c and e["n"] < n for e in self.completers(s))
        retired = any(e["k"] == "retire" and e["c"] >= c and e["n"] < n for e in self.events)
        if snap is None or not completed or retired:
            yield ("V11", "bad-restore", s, None, c)
        if snap is None:
            return
        for restore in self.of(s, a, "restore"):
            if self.replay(restore["elements"]) != self.replay(snap["elements"]):
                yield ("V11", "restore-differs", s, None, c)
        first = [e["pos"] for e in self.of(s, a, "in", "wm")][:1]
        if any(pos != snap["pos"] for pos in [start["pos"], *first]):
            yield ("V11", "wrong-position", s, None, c)

    def replay(self, elements: list[Json]) -> list[Any]:
        if self.ordered:
            return elements
        segments: list[Any] = [[]]
        for element in elements:
            if "w" in element:
                segments += [element, []]
            else:
                segments[-1].append(repr(element["id"]))
        return [sorted(part) if isinstance(part, list) else part for part in segments]


def same_id(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)
