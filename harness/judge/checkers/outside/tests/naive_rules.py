"""A second reader of histories seen from outside: whether the objects of the lines keep every rule of the page."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

from harness.history.values import identity

Json = dict[str, Any]
Test = Callable[[Any], bool]


def _int(low: int | None = None) -> Test:
    return lambda value: type(value) is int and (low is None or value >= low)


def _or_null(test: Test) -> Test:
    return lambda value: value is None or test(value)


def _word(*words: str) -> Test:
    return lambda value: isinstance(value, str) and value in words


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _any(_: Any) -> bool:
    return True


def _cell(value: Any) -> bool:
    return type(value) is int or isinstance(value, str)


class _Shape:
    """What the header says of ids and values."""

    def __init__(self, header: Json) -> None:
        self.columns = len(header["sink"]["id"])
        self.values = len(header["sink"]["values"])
        self.has_j = header["sink"].get("j") is not None
        self.of_keys = header["sink"].get("rows") == "key"

    def id(self, value: Any) -> bool:
        return _cell(value) if self.of_keys else self._is_id(value, _cell)

    def row_id(self, value: Any) -> bool:
        return self._is_id(value, _or_null(_cell))

    def _is_id(self, value: Any, cell: Test) -> bool:
        if self.columns == 1:
            return cell(value)
        return isinstance(value, list) and len(value) == self.columns and all(map(cell, value))

    def v(self, value: Any) -> bool:
        return isinstance(value, list) and len(value) == self.values

    def expect(self, value: Any) -> bool:
        return isinstance(value, list) and all(map(self.v, value))

    def row(self, event: Json) -> bool:
        has_j = _int(0)(event.get("j")) if self.has_j else "j" not in event
        return has_j and "id" in event and self.row_id(event["id"]) and self.v(event.get("v"))


def _fields(shape: _Shape) -> dict[str, tuple[dict[str, Test], dict[str, Test]]]:
    """Of each kind its required and its optional fields."""
    reading: dict[str, Test] = {"reading": lambda value: type(value) is int and value in (1, 2)}
    writer = {"session": _or_null(_int()), "start": _or_null(_int(1)), "last": _flag}
    cans: Test = lambda value: isinstance(value, list) and all(word == "exit" for word in value)  # noqa: E731
    return {
        "offer": (
            {"part": _int(0), "pos": _int(), "id": shape.id},
            {"key": _any, "expect": shape.expect, "fails": _flag, "sentinel": _flag},
        ),
        "start": ({"start": _int(1)}, {}),
        "exit": ({"start": _int(1)}, {"code": _int(), "signal": _int(1), "by": _text}),
        "fault-begin": ({"f": _text}, {"stalls": _flag, "can": cans}),
        "fault-end": ({"f": _text, "evidence": lambda value: isinstance(value, dict)}, {"error": _any}),
        "row": ({"op": _word("insert", "update", "delete"), "tx": _int()}, writer),
        "asked": ({"key": _any}, {"session": _or_null(_int())}),
        "table": (reading, {}),
        "expect": ({"id": shape.row_id, "v": shape.v}, {}),
        "dead": ({**reading, "id": shape.row_id}, {"error": _any}),
        "read": ({**reading, "of": _word("table", "dead", "log"), "rows": _int(0)}, {}),
        "finished": ({"how": _word("exit", "file", "all-rows", "settled")}, {}),
        "giveup": ({"why": _any}, {}),
    }


def _well_formed(event: Json, shape: _Shape) -> bool:
    kind = event.get("k")
    if kind == "fault":
        kind = f"fault-{event.get('phase')}"
    fields = _fields(shape)
    if (
        not isinstance(kind, str)
        or kind not in fields
        or not _int()(event.get("n"))
        or not _int(0)(event.get("t"))
    ):
        return False
    needed, optional = fields[kind]
    if not all(name in event and test(event[name]) for name, test in needed.items()):
        return False
    if not all(test(event[name]) for name, test in optional.items() if name in event):
        return False
    if kind == "exit":
        return not {"code", "signal"} <= event.keys() and bool({"code", "signal", "by"} & event.keys())
    if kind == "row":
        was = event.get("was")
        has_was = isinstance(was, dict) and shape.row(was) if event["op"] == "update" else "was" not in event
        return shape.row(event) and has_was
    return shape.row(event) if kind == "table" else True


def keeps_the_rules(lines: list[Json]) -> bool:
    """Whether a history with a legal header is well-formed."""
    header, events = lines[0], lines[1:]
    shape = _Shape(header)
    if not all(_well_formed(event, shape) for event in events):
        return False
    for one, two in itertools.pairwise(events):
        if two["n"] <= one["n"] or two["t"] < one["t"]:
            return False
    rules = (_offers, _starts, _log, _readings, _ends, _faults)
    return all(rule(header, events) for rule in rules)


def _offers(header: Json, events: list[Json]) -> bool:
    offers = [e for e in events if e["k"] == "offer"]
    finished = [e["n"] for e in events if e["k"] == "finished"]
    ids = [identity(e["id"]) for e in offers]
    for part in {e["part"] for e in offers}:
        places = [e["pos"] for e in offers if e["part"] == part]
        if part >= header.get("partitions", 1) or any(b <= a for a, b in itertools.pairwise(places)):
            return False
    return (
        len(set(ids)) == len(ids)
        and not any(e["n"] > finished[0] for e in offers if finished)
        and not any("expect" in e for e in offers if header["expect_from"] == "none")
        and not any(e.get("expect") for e in offers if e.get("fails"))
        and not any("expect" in e for e in offers if header["sink"].get("rows") == "key")
        and (header["sink"].get("rows") == "key" or not any(e["k"] == "expect" for e in events))
    )


def _starts(header: Json, events: list[Json]) -> bool:
    del header
    begun, exited = 0, set()
    for e in events:
        if e["k"] == "start":
            begun += 1
            if e["start"] != begun:
                return False
        elif e["k"] == "exit":
            if e["start"] > begun or e["start"] in exited:
                return False
            exited.add(e["start"])
        elif e["k"] == "row" and (e.get("start") or 0) > begun:
            return False
    return True


def _log(header: Json, events: list[Json]) -> bool:
    places = [(at, e) for at, e in enumerate(events) if e["k"] == "row"]
    if places and not header["sink"].get("changes", True):
        return False
    for (at, one), (then, two) in itertools.pairwise(places):
        if two["tx"] == one["tx"]:
            alike = one.get("session") == two.get("session") and one.get("start") == two.get("start")
            if one.get("last") is True or then != at + 1 or not alike:
                return False
        elif one.get("last") is not True or two["tx"] < one["tx"]:
            return False
    return True


def _readings(header: Json, events: list[Json]) -> bool:
    last: dict[int, int] = {}
    read = set()
    for at, e in enumerate(events):
        if e["k"] not in ("table", "dead", "read"):
            continue
        r, of = e["reading"], e.get("of", e["k"])
        if (r == 1 and 2 in last) or (r, of) in read:
            return False
        if of == "dead" and header.get("dead_letters") is None:
            return False
        if of == "log" and not header["sink"].get("changes", True):
            return False
        if e["k"] == "read":
            read.add((r, of))
        if r in last and any(other["k"] == "row" for other in events[last[r] : at]):
            return False
        last[r] = at
    return True


def _ends(header: Json, events: list[Json]) -> bool:
    del header
    ends = [e["n"] for e in events if e["k"] in ("finished", "giveup")]
    of_readings = [e["n"] for e in events if e["k"] in ("table", "dead", "read")]
    return len(ends) <= 1 and not any(n > min(of_readings) for n in ends if of_readings)


def _faults(header: Json, events: list[Json]) -> bool:
    del header
    running: Counter[str] = Counter()
    for e in events:
        if e["k"] == "fault":
            running[e["f"]] += 1 if e["phase"] == "begin" else -1
            if running[e["f"]] < 0 or e["f"] in ("harness", "outside"):
                return False
    return True
