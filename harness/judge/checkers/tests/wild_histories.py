"""Wild histories: small, well-formed, half sensible and half anything, for two judges to disagree about.

A legal history goes wrong in few places; these are wrong in many at once, restore what nobody stored, answer what
nobody asked, and come back as zombies. Everything is drawn from one seed; only the format's rules are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.system.choices import Choices

Json = dict[str, Any]
NONCES = [1, 1.0, "1", True, None, [1], {"a": 1, "b": 2.0}, "x", "y", "z"]
VALUES = [
    "v",
    "w",
    1,
    1.0,
    True,
    0.0,
    -0.0,
    {"x": [1], "y": 2},
    {"y": 2, "x": [1]},
    {"y": 2, "x": [1.0]},
    10**20,
]
EXPECTED = [{"x": [1], "y": 2}, 0.0]
SINKS = ["rollback", "rollback", "append", "atomic", "two-phase"]


@dataclass(slots=True)
class Life:
    """One attempt. Mutable."""

    s: int
    a: int
    next_pos: int
    taken: list[Any] = field(default_factory=list)
    marks: list[Json] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)
    snaps: set[int] = field(default_factory=set)
    answered: list[Any] = field(default_factory=list)
    end: bool = False
    ended: bool = False
    closed: bool = False


class Wild:
    """One history in the making."""

    def __init__(self, seed: int) -> None:
        self.choices = Choices(seed, "a wild history")
        self.sane = self.choices.between(1, 12)
        """One in so many things is drawn from anywhere instead of from what would make sense."""
        self.events: list[Json] = []
        self.t = 0
        self.first_n = self.pick([1, 1, -40])
        self.seq = 0
        self.timed = self.one_in(2)
        self.threaded = self.one_in(3)
        self.nonced = self.one_in(3)
        self.header = self._header()
        self.sources = [self._source(s) for s in range(self.pick([1, 1, 2]))]
        self.lives: list[list[Life]] = [[] for _ in self.sources]
        self.snaps: list[Json] = []
        self.completed: list[int] = []
        self.faults: list[str] = []

    def pick(self, among: list[Any]) -> Any:
        return among[self.choices.index(len(among))]

    def one_in(self, count: int) -> bool:
        return self.choices.index(count) == 0

    def sensible(self) -> bool:
        return not self.one_in(self.sane + 1)

    def maybe(self, name: str, among: list[Any], chance: int = 2) -> Json:
        return {name: self.pick(among)} if self.one_in(chance) else {}

    def _header(self) -> Json:
        operator: Json = {
            "mode": self.pick(["ordered", "unordered"]),
            "capacity": self.pick([1, 2, 3]),
            "timeout_ms": self.pick([0, 1, 2, 4]),
            **self.maybe("max_tries", [2, 3]),
            **self.maybe("watermark_slots", [True, False]),
            **self.maybe("coalesces_watermarks", [True], 3),
            **self.maybe("per_key_order", [True], 3),
        }
        bounds: Json = {
            **self.maybe("watermark_hold", [0, 1, 3]),
            **self.maybe("timeout_slack", [0, 1, 2]),
            **self.maybe("recover", [1, 3]),
            **self.maybe("checkpoint_gap", [2, 5, 20]),
        }
        return {
            "history": 1,
            "operator": operator,
            **self.maybe("sink", SINKS, 1),
            **self.maybe("effects", ["records", "outputs"], 3),
            **self.maybe("fenced", [False], 6),
            **({"bounds": bounds} if bounds else {}),
            **self.maybe(
                "expects", [{}, {"records": 2}, {"checkpoints": 1}, {"restores": 1, "faults": ["cut"]}], 4
            ),
            **self.maybe("decisive", [["V8"], ["V10", "V11"], [], ["V3", "V16"]], 6),
        }

    def _source(self, s: int) -> list[Json]:
        """Elements by position, with all that an `in` may say of them."""
        source: list[Json] = []
        w = 0
        records_in = self.pick([2, 3, 5])
        for pos in range(self.choices.between(2, 6)):
            if self.choices.index(5) >= records_in:
                w += self.choices.between(-1, 2)
                source.append({"w": w})
                continue
            record = {"id": self.pick([10 * s + pos, f"r{10 * s + pos}", str(10 * s + pos - 1)])}
            record |= self.maybe("key", [1, 1.0, "k", None]) | self.maybe("ts", [None, 5])
            record |= self.maybe(
                "expect", [["v"], ["v"], ["v", "w"], [], [1], EXPECTED], 1 + self.choices.index(2)
            )
            source.append(record)
        return [*source, {"w": "end"}] if self.one_in(2) else source

    def note(self, k: str, **fields: Any) -> Json:
        self.t += self.pick([0, 10, 400, 1000, 2500]) if self.timed else 1
        event = {"n": len(self.events) + self.first_n, "t": self.t, "k": k, **fields}
        self.events.append(event)
        return event

    def run(self) -> list[Json]:
        for s in range(len(self.sources)):
            self._start(s)
        for _ in range(self.choices.between(5, 60)):
            if self.one_in(7):
                self._of_the_run()
            else:
                self._of_an_attempt(self.choices.index(len(self.sources)))
        self._finish()
        return [self.header, *self.events]

    def _finish(self) -> None:
        if self.one_in(3):
            return
        for s, lives in enumerate(self.lives):
            life = lives[-1]
            while (
                self.sensible() and life.next_pos < len(self.sources[s]) and self._may(life) and not life.end
            ):
                self._step(life, "take")
                for k in ("call", "res", "out") if "id" in self.events[-1] else ("owm",):
                    self._step(life, k)
            for k in ("end", "ended"):
                if self._may(life):
                    self._step(life, k)
        for _ in range(self.choices.index(3)):
            self._of_the_run()

    def _may(self, life: Life) -> bool:
        return not life.closed

    def _of_the_run(self) -> None:
        s = self.choices.index(len(self.sources))
        known = [e for e in self.snaps if e["s"] == s]
        c = self.pick(self.snaps)["c"] if self.snaps and self.sensible() else self.pick([1, 2, 3, 0, -1])
        match self.pick(
            ["done"] * 4
            + ["commit"] * 3
            + ["start"] * 4
            + ["retire", "abort", "effect", "effect", "fault", "giveup"]
        ):
            case "done":
                self.note("done", c=c)
                self.completed.append(c)
            case "commit":
                own = self.pick(known) if known and self.sensible() else {"c": c, "a": self.pick([1, 2])}
                self.note("commit", s=7 if self.one_in(20) else s, c=own["c"], **self.maybe("a", [own["a"]]))
            case "effect":
                self._effect(s)
            case "fault":
                self._fault()
            case "giveup" if self.one_in(3):
                self.note("giveup", why="tired")
            case "retire" | "abort" as k:
                self.note(k, c=c - self.pick([0, 1, 2]))
            case _:
                self._start(s)

    def _effect(self, s: int) -> None:
        record = self._record(s)
        expect = next(
            (e["expect"] for e in self.sources[s] if e.get("id") == record and "expect" in e), ["v"]
        )
        self.seq += self.pick([1, 1, 2])
        j = self.pick([0, 0, 1])
        told = self.pick([expect, *expect[j : j + 1], self.pick(VALUES)])
        given = {"j": j} if self.header.get("effects") == "outputs" or self.one_in(4) else {}
        seq = -self.seq if self.one_in(4) else self.seq
        token = self.pick([life.a for life in self.lives[s]])
        self.note(
            "effect",
            s=7 if self.one_in(20) else s,
            id=record,
            token=token,
            seq=seq,
            **given,
            **self.maybe("v", [told]),
        )

    def _fault(self) -> None:
        name = self.pick(["cut", "pause"])
        if name in self.faults and not self.one_in(3):
            self.faults.remove(name)
            self.note("fault", f=name, phase="end", evidence=self.pick([{}, {"held": 1}]))
        else:
            self.faults.append(name)
            self.note("fault", f=name, phase="begin", **self.maybe("stalls", [True, False]))

    def _start(self, s: int) -> None:
        lives = self.lives[s]
        a = lives[-1].a + self.pick([1, 1, 2]) if lives else 1
        if lives and not lives[-1].closed and self.one_in(2):
            self._step(lives[-1], "kill")
        own = [e for e in self.snaps if e["s"] == s]
        good = [e for e in own if e["c"] in self.completed] or own
        life = Life(s=s, a=a, next_pos=0)
        self.lives[s].append(life)
        if self.one_in(8):
            life.taken = self.pick([old.taken for old in lives])
            for _ in range(self.choices.between(1, 3)):
                self._step(life, self.pick(["call", "res", "out", "owm", "snap", "snap"]))
        own = [e for e in self.snaps if e["s"] == s]
        if not lives[:-1] or (not good and self.sensible()) or self.one_in(6):
            self.note("start", s=s, a=a, pos=0, **{"from": None})
            return
        snap = good[-1] if good and self.sensible() else self.pick([*own, {"c": 7, "pos": 1, "elements": []}])
        pos = self._near(snap["pos"])
        life.next_pos = pos if self.sensible() else self._near(pos)
        self.note("start", s=s, a=a, pos=pos, **{"from": snap["c"]})
        elements = [dict(e) for e in snap["elements"]] if self.sensible() else self._elements(s)
        if len(elements) > 1 and self.one_in(3):
            elements.append(elements.pop(self.choices.index(len(elements))))
        self.note("restore", s=s, a=a, c=snap["c"], elements=elements)
        life.taken = [e["id"] for e in elements if "id" in e]
        life.marks = [e for e in elements if "w" in e]

    def _near(self, pos: int) -> int:
        return pos if self.sensible() else max(0, pos + self.pick([-1, 1]))

    def _record(self, s: int, among: list[Any] | None = None) -> Any:
        if among and self.sensible():
            return self.pick(among)
        return self.pick([e["id"] for source in self.sources for e in source if "id" in e] + ["ghost"])

    def _of_an_attempt(self, s: int) -> None:
        life = self.lives[s][-1] if not self.one_in(6) else self.pick(self.lives[s])
        k = self.pick(
            ["take"] * 6 + ["call"] * 5 + ["res"] * 5 + ["out"] * 5 + ["owm"] * 4 + ["snap"] * 3
            + ["dead", "failed", "end", "ended", "close", "kill"]
        )  # fmt: skip
        if k in {"end", "ended", "close", "kill", "failed"} and not self.one_in(3):
            return
        after_life = k in {"call", "res", "out", "owm", "snap"} and self.one_in(3)
        if self._may(life) or (after_life and not self._killed(life)):
            self._step(life, k)

    def _killed(self, life: Life) -> bool:
        return any(e["k"] == "kill" and e["s"] == life.s and e["a"] == life.a for e in self.events)

    def _step(self, life: Life, k: str) -> None:
        of: Json = {"s": life.s, "a": life.a}
        if self.threaded and k in {"call", "res", "out", "owm", "snap"}:
            of |= self.maybe("thread", ["main"] if self.sensible() else ["main", "other"])
        record = self._record(life.s, life.taken)
        match k:
            case "take":
                self._take(life, of)
            case "call":
                waiting = [r for r in life.taken if all(c["id"] != r for c in life.calls)]
                record = self._record(life.s, waiting or life.taken)
                before = [c["try"] for c in life.calls if c["id"] == record]
                tried = {"try": max(before, default=0) + 1 if self.sensible() else self.pick([1, 2, 3])}
                nonce = {"nonce": self.pick(NONCES) if self.one_in(3) else f"n{len(self.events)}"}
                life.calls.append(
                    self.note("call", **of, id=record, **tried, **(nonce if self.nonced else {}))
                )
            case "res":
                self._answer(life, of)
            case "out":
                record = self._record(life.s, [r for r in life.taken if r in life.answered] or life.taken)
                before = [e["j"] for e in self._own(life, "out") if e["id"] == record]
                j = len(before) if self.sensible() else self.pick([0, 1, 2])
                v = ["v", "w", "v"][j % 3] if self.sensible() else self.pick(VALUES)
                self.note("out", **of, id=record, j=j, v=v, **self.maybe("ts", [None, 5], 6))
            case "owm":
                left = [e["w"] for e in self._own(life, "owm")]
                known = [m["w"] for m in life.marks]
                next_one = known[len(left)] if len(left) < len(known) else None
                w = (
                    next_one
                    if next_one is not None and self.sensible()
                    else self.pick([*known, 0, 1, 2, "end"])
                )
                if next_one is not None or self.one_in(4):
                    self.note("owm", **of, w=w)
            case "snap":
                self._snap(life, of)
            case "dead":
                self.note("dead", **of, id=record)
            case "failed":
                self.note("failed", **of, error="boom", **self.maybe("id", [record]))
            case _:
                self._over(life, of, k)

    def _own(self, life: Life, k: str) -> list[Json]:
        return [e for e in self.events if e["k"] == k and e["s"] == life.s and e["a"] == life.a]

    def _over(self, life: Life, of: Json, k: str) -> None:
        if (k == "end" and life.end) or (k == "ended" and not life.end):
            return
        life.end |= k == "end"
        life.closed |= k in {"close", "kill"}
        self.note(k, **of)

    def _take(self, life: Life, of: Json) -> None:
        source = self.sources[life.s]
        if life.end or not 0 <= life.next_pos < len(source):
            return
        given = dict(source[life.next_pos])
        if "w" in given:
            life.marks.append({**given, "pos": life.next_pos})
            self.note("wm", **of, pos=life.next_pos, **given)
        else:
            life.taken.append(given["id"])
            if self.one_in(4):
                given.pop("expect", None)
            self.note("in", **of, pos=life.next_pos, **given)
        life.next_pos += 1

    def _answer(self, life: Life, of: Json) -> None:
        open_ = [c for c in life.calls if c["id"] not in life.answered]
        call = (
            self.pick(open_ or life.calls)
            if life.calls and self.sensible()
            else {"id": self._record(life.s), "try": 1}
        )
        r = self.pick(["ok", "ok", "ok", "fail", "timeout", "unknown"])
        final = not self.one_in(4)
        nonce = {"nonce": call["nonce"]} if "nonce" in call and not self.one_in(6) else {}
        if self.nonced and not self.sensible():
            nonce = {"nonce": self.pick(NONCES)}
        told = self.maybe("v", [["v"], ["v", "w"], []]) | self.maybe("error", ["late", None], 5)
        tried = {"try": call["try"] if self.sensible() else 2}
        self.note("res", **of, id=call["id"], **tried, r=r, final=final, **told, **nonce)
        if final:
            life.answered.append(call["id"])

    def _elements(self, s: int) -> list[Json]:
        marks = [{"w": e["w"], "pos": pos} for pos, e in enumerate(self.sources[s]) if "w" in e]
        among = [{"id": self._record(s)}, *marks, {"w": 1, "pos": 0}]
        return [self.pick(among) for _ in range(self.choices.index(4))]

    def _snap(self, life: Life, of: Json) -> None:
        c = max([0, *life.snaps]) + 1 if self.sensible() else self.pick([1, 2, 3, 4, 0, -1])
        if c in life.snaps:
            return
        outs = {e["id"] for e in self._own(life, "out")}
        gone = len(self._own(life, "owm"))
        elements = [{"id": r} for r in life.taken if r not in outs] + life.marks[gone:]
        if not self.sensible():
            elements = self._elements(life.s)
        elif self.sensible():
            order = {
                json_id: pos
                for pos, e in enumerate(self.sources[life.s])
                if (json_id := e.get("id")) is not None
            }
            elements.sort(key=lambda e: e["pos"] if "w" in e else order.get(e["id"], 0))
        pos = self._near(life.next_pos)
        life.snaps.add(c)
        self.snaps.append(self.note("snap", **of, c=c, pos=pos, elements=elements))


def wild_history(seed: int) -> list[Json]:
    """Header and events."""
    return Wild(seed).run()
