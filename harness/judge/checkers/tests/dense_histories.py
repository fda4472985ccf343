"""Very small histories that draw from very few values, so that what a class of form 1.1 asks for comes together often.

Of tables (`tabled_history`), of checkpoints acknowledged and ended (`acknowledged_history`), of what explains a
failure (`caused_history`), and of keys and versions (`versioned_history`). Well-formed, seldom legal.
"""

from __future__ import annotations

from typing import Any

from harness.judge.checkers.tests.small_histories import called, history, left, snap, start, took
from harness.system.choices import Choices

Json = dict[str, Any]
SINKS = ["rollback", "rollback", "append", "atomic", "two-phase"]


class _Few:
    """A history in the making: one or two subtasks, few attempts. Mutable."""

    def __init__(self, seed: int, purpose: str) -> None:
        self.choices = Choices(seed, purpose)
        self.told: list[Json] = []
        self.ms = 0
        self.latest: dict[int, int] = {}
        self.snaps: list[Json] = []
        self.over: set[tuple[int, int]] = set()
        self.next_pos: dict[tuple[int, int], int] = {}
        self.lettered = self.one_in(3)
        """Whether most records come to dead letters."""
        self.expects = [self.pick([["a"], ["a"], ["a", "b"], []]) for _ in range(4)]

    def pick(self, among: list[Any]) -> Any:
        return among[self.choices.index(len(among))]

    def one_in(self, count: int) -> bool:
        return self.choices.index(count) == 0

    def maybe(self, name: str, among: list[Any], chance: int = 2) -> Json:
        return {name: self.pick(among)} if self.one_in(chance) else {}

    def note(self, given: Json) -> Json:
        told = {**given, "ms": self.ms}
        self.told.append(told)
        return told

    def of(self, s: int) -> Json:
        return {"s": s, "a": self.latest[s]}

    def start(self, s: int) -> None:
        """Anew, or from a snap."""
        own = [e for e in self.snaps if e["s"] == s]
        known = self.pick([None, *own[-1:], *own[-1:]]) if own else None
        a = self.latest[s] = self.latest.get(s, 0) + 1
        pos = known["pos"] if known else 0
        self.note({**start(known["c"] if known else None, pos), "s": s, "a": a})
        self.next_pos[s, a] = pos
        if known:
            self.note({"k": "restore", "s": s, "a": a, "c": known["c"], "elements": known["elements"]})

    def take(self, s: int, **fields: Any) -> None:
        a, pos = self.latest[s], self.next_pos[s, self.latest[s]]
        if pos < 3:
            self.note(took(10 * s + pos, pos, s=s, a=a, **fields))
            self.next_pos[s, a] = pos + 1

    def snap(self, s: int, among: list[int]) -> None:
        of = self.of(s)
        known = {e["c"] for e in self.snaps if e["s"] == s and e["a"] == of["a"]}
        free = [c for c in among if c not in known]
        if free:
            pos = self.next_pos[s, of["a"]]
            held = [{"id": 10 * s}] if pos and self.one_in(3) else []
            self.snaps.append(self.note(snap(self.pick(free), pos, *held, **of)))

    def finish(self, subtasks: list[int]) -> None:
        for s in subtasks:
            if not self.one_in(5):
                self.note({"k": "end", **self.of(s)})
                self.note({"k": "ended", **self.of(s)})


def tabled_history(seed: int) -> list[Json]:
    """Outputs, dead letters, effects, and rows of anything."""
    few = _Few(seed, "tables of few rows")
    effects = few.pick([None, "records", "outputs", "outputs"])
    subtasks = few.pick([[0], [0], [0, 1]])
    sink = few.pick(SINKS)
    for s in subtasks:
        few.start(s)
    for _ in range(few.choices.between(3, 20)):
        _act(few, few.pick(subtasks))
        if sink in {"atomic", "two-phase"} and few.told[-1]["k"] in {"out", "dead"} and few.one_in(2):
            _show(few, few.told[-1]["s"])
    few.finish(subtasks)
    tables = _tables(few, effects)
    header = {"sink": sink, "tables": tables, **({"effects": effects} if effects else {})}
    if any("outputs" in table["holds"] and table.get("keep") for table in tables.values()):
        header["sink"] = "rollback"
    return history(few.told, operator={"timeout_ms": few.pick([0, 1])}, **header)


def _show(few: _Few, s: int) -> None:
    """Snap what left just now, and commit it."""
    before = len(few.snaps)
    few.snap(s, [1, 2, 3])
    for shown in few.snaps[before:]:
        few.note({"k": "done", "c": shown["c"]})
        few.note({"k": "commit", **{name: shown[name] for name in few.pick([("s", "c"), ("s", "c", "a")])}})


def _act(few: _Few, s: int) -> None:
    of, record = few.of(s), 10 * s + few.choices.index(2)
    v, j = few.pick(["a", "a", "b"]), few.pick([0, 0, 1])
    final = {"try": 1, "final": True}
    match 5 if few.lettered and few.one_in(2) else few.choices.index(12):
        case 0 | 1:
            few.take(s, expect=few.expects[few.next_pos[s, of["a"]]])
        case 2 | 3 | 4:
            few.note(left(record, v=v, j=j, **of))
        case 5:
            letter = few.maybe("error", ["x", "y"], 1)
            few.note({"k": "res", "id": record, **of, **final, "r": few.pick(["fail", "timeout"]), **letter})
            few.note({"k": "dead", "id": record, **of})
        case 6:
            few.note({"k": "dead", "id": record, **of})
        case 7:
            answer = few.pick([{"r": "ok", "v": [v]}, {"r": "timeout", "v": [v]}, {"r": "fail"}])
            few.note({"k": "res", "id": record, **of, **final, **answer})
        case 8 | 9:
            few.snap(s, [1, 2, 3])
            few.note({"k": few.pick(["done", "retire"]), "c": few.pick([1, 2]) if few.one_in(4) else 0})
        case 10 if few.snaps:
            shown = few.pick(few.snaps)
            few.note({"k": "done", "c": shown["c"]})
            few.note(
                {"k": "commit", **{name: shown[name] for name in few.pick([("s", "c"), ("s", "c", "a")])}}
            )
        case _ if few.one_in(2):
            few.start(s)
        case _:
            few.note({"k": "call", "id": record, **of, "try": 1})


def _tables(few: _Few, effects: str | None) -> dict[str, Json]:
    """Drawn, and their rows noted."""
    both = [["outputs", "effects"]] * 2 if effects == "outputs" else []
    tables: dict[str, Json] = {}
    audit = few.one_in(3)
    rows: list[Json] = []
    seqs = iter(range(100))
    for name in few.pick([["t"], ["t"], ["t", "u"]]):
        holds = few.pick([["outputs"], ["outputs"], ["effects"], ["dead"], ["dead"], *both])
        table = tables[name] = {"holds": holds, **few.maybe("keep", ["all", "first", "last"])}
        if "outputs" in holds and table.get("keep", "all") == "all":
            table["ordered"] = not few.one_in(4)
        if table.get("keep") == "all" and few.one_in(2):
            del table["keep"]
        few_ids = few.pick([[0], [0, 1], [0, 1, 10], [0, 99]])
        for _ in range(few.choices.index(7)):
            row = {"k": "row", "table": name, "id": few.pick(few_ids), "j": few.pick([0, 0, 1])}
            row |= few.maybe("v", ["a", "a", "b", ["a"]]) | few.maybe("token", [1, 1, 2], 4)
            left_before = [e for e in few.told if e["k"] == "out"]
            if left_before and "outputs" in holds and not few.one_in(4):
                row |= _written(few, few.pick(left_before))
            row |= few.maybe("c", [1, 2, 3], 6) | few.maybe("error", ["x", "x", "y"]) | {"seq": next(seqs)}
            rows.insert(few.choices.index(len(rows) + 1), row)
    if effects or few.one_in(3):
        for _ in range(few.choices.index(4)):
            j = few.maybe("j", [0, 0, 1], 1 if effects == "outputs" else 3)
            row = {"k": "effect", "s": 0, "id": few.pick([0, 0, 1, 99]), "token": 1, "seq": next(seqs), **j}
            rows.append(row | few.maybe("v", ["a", "a", "b", ["a"]]))
    for row in rows:
        few.note(row)
    if audit:
        tables["audit"] = {"holds": ["audit"]}
    for name in tables:
        kind = "effect" if name == "audit" else "row"
        count = sum(row["k"] == kind and row.get("table", name) == name for row in rows)
        if not few.one_in(8):
            few.note({"k": "read", "table": name, "rows": count + few.one_in(8)})
    return tables


def _written(few: _Few, out: Json) -> Json:
    """As the sink writes it, but for what is drawn otherwise afterwards."""
    later = few.told[few.told.index(out) :]
    snaps = [e["c"] for e in later if e["k"] == "snap" and e["s"] == out["s"] and e["a"] == out["a"]][:1]
    row = {name: out[name] for name in ("id", "j", "v")} | few.maybe("token", [out["a"]])
    return row | ({"c": snaps[0]} if snaps and not few.one_in(4) else few.maybe("c", [1, 2, 3]))


def acknowledged_history(seed: int) -> list[Json]:
    """Checkpoints of few numbers, acknowledged by anybody, completed and given up."""
    few = _Few(seed, "checkpoints acknowledged")
    subtasks = few.pick([[0], [0, 1], [0, 1]])
    for s in subtasks:
        few.start(s)
    for _ in range(few.choices.between(4, 24)):
        s, c = few.pick(subtasks), few.pick([1, 1, 2])
        match few.choices.index(9):
            case 0 | 1 | 2:
                few.snap(s, [1, 2])
                if few.snaps and not few.one_in(3):
                    last = few.snaps[-1]
                    few.note({"k": "ack", **{name: last[name] for name in ("s", "a", "c")}})
            case 3:
                few.note({"k": "ack", "s": s, "a": few.pick([1, 1, 2, 3]), "c": c})
            case 4 | 5:
                few.note({"k": "done", "c": c})
            case 6:
                few.note({"k": "abort", "c": c})
            case 7:
                few.start(s)
            case _ if few.one_in(6) and tuple(few.of(s).values()) not in few.over:
                few.over.add((s, few.latest[s]))
                few.note({"k": "end", **few.of(s)})
                few.note({"k": "ended", **few.of(s)})
            case _:
                few.take(s) if (s, few.latest[s]) not in few.over else None
    return history(few.told, sink=few.pick(SINKS))


def caused_history(seed: int) -> list[Json]:
    """Failures, kills and restarts, with and without causes."""
    few = _Few(seed, "causes")
    subtasks = few.pick([[0], [0, 1], [0, 1]])
    named = [["outside"], ["planted"], ["cut"], ["cut"], ["pause"]]
    for s in subtasks:
        few.start(s)
    for _ in range(few.choices.between(4, 20)):
        few.ms += few.pick([0, 1, 1, 3])
        s = few.pick(subtasks)
        of, by = few.of(s), few.maybe("by", [name for (name,) in named], 3)
        if few.one_in(6) and few.latest[s] > 1:
            of = {"s": s, "a": few.choices.between(1, few.latest[s] - 1)}
        dead = (s, of["a"]) in few.over
        match few.choices.index(8):
            case 0 | 1:
                few.note(_fault(few))
            case 2 if not dead:
                few.note({"k": "failed", **of, "error": "boom", **few.maybe("id", [0, 1], 3), **by})
            case 3 if not dead:
                few.over.add((s, of["a"]))
                few.note({"k": "kill", **of, **by})
            case 4 | 5 if not dead:
                record = few.pick([0, 0, 1])
                if few.one_in(2):
                    few.note(called(record, **of))
                r = few.pick(
                    [{"r": "fail", "final": not few.one_in(5)}, {"r": "timeout", "final": True, "error": 1}]
                )
                few.note({"k": "res", **of, "id": record, "try": 1, **r, **by})
            case 6 if few.one_in(8) and not dead:
                few.note({"k": "giveup", "why": "tired"} if few.one_in(2) else {"k": "close", **of})
                few.over |= {(s, of["a"])} if few.told[-1]["k"] == "close" else set()
            case 6 | 7:
                few.start(s)
                few.told[-1] |= by
            case _:
                pass
    operator = few.maybe("on_error", ["fail", "fail", "dead"], 1) | few.maybe(
        "on_timeout", ["fail", "substitute"], 1
    )
    bounds = few.maybe("recover", [0, 1, 3])
    return history(few.told, explained=few.pick(["alone", "together"]), operator=operator, bounds=bounds)


def _fault(few: _Few) -> Json:
    name = few.pick(["cut", "pause"])
    active = sum(
        {"begin": 1, "end": -1}[e["phase"]] for e in few.told if e["k"] == "fault" and e["f"] == name
    )
    if active and not few.one_in(3):
        return {"k": "fault", "f": name, "phase": "end", "evidence": {"held": 1}}
    can = few.maybe("can", [["failed"], ["kill"], ["start"], ["res"], ["res"], []])
    return {"k": "fault", "f": name, "phase": "begin", **can, **few.maybe("s", [0, 1], 4)}


def versioned_history(seed: int) -> list[Json]:
    """Calls of two keys while the looked-up rows change."""
    few = _Few(seed, "versions")
    subtasks = few.pick([[0], [0, 1]])
    keys = [few.maybe("key", ["k", "k", "k", "k", "l"], few.pick([1, 1, 1, 4])) for _ in range(20)]
    open_: list[Json] = []
    ver, calm = 0, few.one_in(2)
    for s in subtasks:
        few.start(s)
        _take_all(few, s, keys)
    for _ in range(few.choices.between(6, 36)):
        s = few.pick(subtasks)
        of, record = few.of(s), 10 * s + few.choices.index(3)
        match few.choices.index(10):
            case 0 | 1 | 2 | 3:
                few.note(called(record, **of))
            case 4 | 5 | 6:
                v = few.pick([["a"], ["a"], ["b"], ["a", "b"]])
                ok = {"r": few.pick(["ok", "ok", "ok", "ok", "fail"]), "final": not few.one_in(6), "v": v}
                seen = few.maybe("ver", [ver, max(0, ver - 1), max(0, ver - 2), ver + 1], 1 + few.one_in(4))
                open_calls = [
                    e["id"] for e in few.told if e["k"] == "call" and e["s"] == s and e["a"] == of["a"]
                ]
                record = open_calls[-1] if open_calls and not few.one_in(4) else record
                few.note({"k": "res", **of, "id": record, "try": 1, **ok, **seen})
                for j, value in enumerate(v):
                    few.note(left(record, j=j, v=value, **of))
            case 7 | 8 if open_ and not few.one_in(4):
                few.note({**open_.pop(few.choices.index(len(open_))), "phase": "end"})
            case 7 if not calm and few.one_in(2):
                ver += few.pick([1, 1, 2])
                begin = {"k": "change", "phase": "begin", "ver": ver, **few.maybe("key", ["k", "k", "l"])}
                open_.append(few.note(begin))
            case _ if few.one_in(6):
                few.start(s)
                _take_all(few, s, keys)
            case _:
                few.snap(s, [1, 2, 3])
    few.finish(subtasks)
    claims = few.maybe("by_key", [True, True, True, False], 1) | few.maybe(
        "versions", [True, True, True, False], 1
    )
    source = few.maybe("expect_from", ["given", "calm"], 3)
    decisive = few.maybe("decisive", [["V8"], ["V15"]], 6)
    sink = few.pick(["rollback", "append", few.pick(SINKS)])
    return history(few.told, sink=sink, **claims, **source, **decisive)


def _take_all(few: _Few, s: int, keys: list[Json]) -> None:
    """What the attempt has still to take."""
    of = few.of(s)
    for pos in range(few.next_pos[s, of["a"]], 3):
        few.note({"k": "in", **of, "pos": pos, "id": 10 * s + pos, **keys[10 * s + pos]})
    few.next_pos[s, of["a"]] = 3
