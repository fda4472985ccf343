"""The page's notions read literally and slowly, on the JSON alone: O*, chain, deciding attempt, resolved, ...

Shares no code with the checkers, on purpose: it is what they are compared with (`naive_judge`). Every question scans
the whole history again, so it is for tiny histories only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

__all__ = ["ABSENT", "EVER", "Element", "Json", "Page", "canonical", "high"]

T = TypeVar("T")
Json = dict[str, Any]
Element = tuple[Any, ...]
"""("record", id), or ("mark", pos, w)."""
ABSENT = object()
EVER = float("inf")
_OF_RUN = {
    "done", "abort", "retire", "fault", "giveup", "commit", "effect", "ack", "row", "read", "change", "rescale",
}  # fmt: skip
_ACTS = {"start", "call", "res", "out", "dead", "commit"}
"""What may not follow the reading of a table."""


def high(w: Any) -> float:
    return EVER if w == "end" else w


def canonical(value: Any) -> Any:
    """Equal exactly for equal values of the page."""
    match value:
        case dict():
            return ("object", sorted((name, canonical(item)) for name, item in value.items()))
        case list():
            return ("list", [canonical(item) for item in value])
        case float():
            return ("float", value + 0.0)
        case _:
            return (type(value).__name__, value)


def element(given: Json) -> Element:
    return ("record", given["id"]) if "id" in given else ("mark", given["pos"], given["w"])


def _asked_once(answer: Callable[..., T]) -> Callable[..., T]:
    """The same question gets the same answer: nothing about a page changes."""

    @wraps(answer)
    def remember(page: Page, *asked: Any, **named: Any) -> T:
        question = (answer.__name__, *asked, *named.items())
        if question not in page.known:
            page.known[question] = answer(page, *asked, **named)
        return cast("T", page.known[question])

    return remember


class Page:
    """One history, and what the page calls its parts."""

    def __init__(self, lines: list[Json]) -> None:
        self.header, self.events = lines[0], lines[1:]
        self.operator: Json = {"max_tries": 1, "watermark_slots": True} | self.header["operator"]
        self.bounds: Json = {"timeout_slack": 0, "recover": 0} | self.header.get("bounds", {})
        self.sink = self.header.get("sink", "rollback")
        self.ordered = self.operator["mode"] == "ordered"
        self.coalesces = self.operator.get("coalesces_watermarks", False)
        self.by_output = self.header.get("effects") == "outputs"
        self.tables: dict[str, Json] = self.header.get("tables", {})
        own = (e for e in self.events if e["k"] == "commit" or e["k"] not in _OF_RUN)
        self.known: dict[Any, Any] = {}
        self.subtasks = sorted({e["s"] for e in own}, key=lambda s: (self.generation(s), s))

    @_asked_once
    def kind(self, *kinds: str) -> list[Json]:
        return [e for e in self.events if e["k"] in kinds]

    @_asked_once
    def of(self, s: int, a: int | None, *kinds: str) -> list[Json]:
        """Events of an attempt, or of all of a subtask; without kinds, all."""
        own = [e for e in self.events if e.get("s") == s and e["k"] not in _OF_RUN]
        known = [e for e in own if not kinds or e["k"] in kinds]
        return [e for e in known if a is None or e["a"] == a]

    def commits(self, s: int) -> list[Json]:
        return [e for e in self.kind("commit") if e["s"] == s]

    @_asked_once
    def attempts(self, s: int) -> list[int]:
        return sorted({e["a"] for e in self.of(s, None)})

    def every_attempt(self) -> list[tuple[int, int]]:
        return [(s, a) for s in self.subtasks for a in self.attempts(s)]

    def start(self, s: int, a: int) -> Json:
        return self.of(s, a, "start")[0]

    def ended(self, s: int) -> bool:
        return bool(self.attempts(s)) and bool(self.of(s, self.attempts(s)[-1], "ended"))

    def finished(self) -> bool:
        ran = {s for s in self.subtasks if self.attempts(s)}
        due = {s for s in ran if self.ender(s) is None} | {
            s for e in self.kind("rescale") for s in e["to"] if self.ender(s) is None
        }
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
        if ender is None or not self.attempts(s):
            return None
        ends = self.of(s, self.attempts(s)[-1], "ended")[:1]
        return None if any(e["n"] < ender["n"] for e in ends) else ender

    def cut(self, s: int) -> Json | None:
        ender = self.stopped(s)
        return None if ender is None else self.snap(s, ender["c"], ender["n"])

    def inherits(self, s: int, a: int) -> bool:
        """Whether the attempt starts from the share of its subtask."""
        began, starts = self.beginner(s), self.of(s, a, "start")
        if began is None or not starts or starts[0]["from"] != began["c"]:
            return False
        return self.restored(s, a) is None

    @_asked_once
    def share(self, s: int) -> list[Json] | None:
        """The elements that the first attempt restores which starts from the rescale."""
        first = [
            r["elements"] for a in self.attempts(s) if self.inherits(s, a) for r in self.of(s, a, "restore")
        ]
        return first[0] if first else None

    @_asked_once
    def heritage(self, s: int) -> dict[Any, tuple[int, int]]:
        """Of each inherited record its position, and the subtask that held it before."""
        began = self.beginner(s)
        found: dict[Any, tuple[int, int]] = {}
        for place, given in enumerate((self.share(s) or []) if began else []):
            old = [
                o for o in sorted(began["of"], key=lambda o: (self.generation(o), o))
                if "id" in given and self.taken(o, given["id"])
            ] if began else []  # fmt: skip
            if old:
                found.setdefault(given["id"], (place, old[-1]))
        return found

    def held_before(self, s: int, record: Any) -> list[tuple[int, int]]:
        """The subtasks that held an inherited record before, and its position there."""
        found = []
        while record in self.heritage(s):
            s = self.heritage(s)[record][1]
            found.append((s, self.position(s, ("record", record))))
        return found

    # Which snap, completed, chain, O*.

    def snap(self, s: int, c: int, n: float, *, named: Any = None, below: float = EVER) -> Json | None:
        snaps = [e for e in self.of(s, named, "snap") if e["c"] == c and e["n"] < n and e["a"] < below]
        return max(snaps, key=lambda e: e["a"], default=None)

    def shows(self, commit: Json) -> Json | None:
        return self.snap(commit["s"], commit["c"], commit["n"], named=commit.get("a"))

    def restored(self, s: int, a: int) -> Json | None:
        start = self.start(s, a)
        return None if start["from"] is None else self.snap(s, start["from"], start["n"], below=a)

    def completers(self, s: int) -> list[Json]:
        """What completes a checkpoint for this subtask."""
        if self.sink == "atomic":
            return [e for e in self.commits(s) if self.shows(e)]
        return self.kind("done")

    @_asked_once
    def completed_snaps(self, s: int) -> list[Json]:
        meant = [self.snap(s, e["c"], e["n"], named=e.get("a")) for e in self.completers(s)]
        return [snap for snap in self.of(s, None, "snap") if any(snap is m for m in meant)]

    @_asked_once
    def chain(self, s: int) -> dict[int, float]:
        """Of each attempt in it, from the far end on, the event before which it stands there."""
        links: dict[int, float] = {}
        a, until = max(self.attempts(s), default=None), EVER
        if (cut := self.cut(s)) is not None:
            a, until = cut["a"], cut["n"]
        while a is not None:
            links[a] = until
            snap = self.restored(s, a)
            a, until = (snap["a"], snap["n"]) if snap else (None, EVER)
        return dict(reversed(links.items()))

    def stands_in_chain(self, e: Json) -> bool:
        """An emission, outcome or `dead`."""
        chain = self.chain(e["s"])
        return e["a"] in chain and e["n"] < chain[e["a"]]

    def epoch(self, snap: Json, kinds: tuple[str, ...] = ("out", "owm")) -> list[Json]:
        earlier = [e["n"] for e in self.of(snap["s"], snap["a"], "snap") if e["n"] < snap["n"]]
        since = max(earlier, default=-EVER)
        return [e for e in self.of(snap["s"], snap["a"], *kinds) if since < e["n"] < snap["n"]]

    @_asked_once
    def visible(self, s: int, kinds: tuple[str, ...] = ("out", "owm")) -> list[Json]:
        """O*; D* with the kind `dead`."""
        emissions = self.of(s, None, *kinds)
        if self.sink == "append":
            return emissions
        if self.sink == "rollback":
            chain = self.chain(s)
            return [e for a in chain for e in emissions if e["a"] == a and e["n"] < chain[a]]
        shown = [snap for commit in self.commits(s) if (snap := self.shows(commit))]
        return [e for snap in shown for e in self.epoch(snap, kinds)]

    # Tables.

    def tables_of(self, what: str) -> list[str]:
        return [name for name, table in self.tables.items() if what in table["holds"]]

    @_asked_once
    def rows(self, name: str) -> list[Json]:
        return [e for e in self.kind("row") if e["table"] == name]

    @_asked_once
    def read_whole(self, name: str) -> bool:
        rows = self.kind("effect") if "audit" in self.tables[name]["holds"] else self.rows(name)
        reads = [e for e in self.kind("read") if e["table"] == name]
        if not reads or reads[0]["rows"] != len(rows):
            return False
        began = min(e["n"] for e in [*reads, *rows])
        return not any(e["k"] in _ACTS and e["n"] > began for e in self.events)

    def not_whole(self, what: str) -> bool:
        """Whether a table of it is not."""
        return not all(self.read_whole(name) for name in self.tables_of(what))

    def has_audit(self) -> bool:
        told = bool(self.kind("effect") or self.tables_of("audit"))
        return told or ("effects" in self.header and not self.tables_of("effects"))

    def owner(self, record: Any) -> int | None:
        """The last subtask that held it."""
        return next((s for s in reversed(self.subtasks) if record in self.records(s)), None)

    def changes(self, key: Any) -> list[tuple[Json, Json | None]]:
        """Those of a key (given canonically) and those of every key, each with its end."""
        told = self.kind("change")
        own = [e for e in told if "key" not in e or canonical(e["key"]) == key]
        pairs = []
        for begin in [e for e in own if e["phase"] == "begin"]:
            ends = [e for e in own if e["phase"] == "end" and e["ver"] == begin["ver"]]
            same = [e for e in ends if ("key" in e) == ("key" in begin) and e["n"] > begin["n"]]
            pairs.append((begin, same[0] if same else None))
        return pairs

    # The source.

    @_asked_once
    def taken(self, s: int, record: Any) -> list[Json]:
        own = [e for e in self.of(s, None, "in") if e["id"] == record]
        if record not in self.heritage(s):
            return own
        place, old = self.heritage(s)[record]
        return [*({**e, "pos": place} for e in self.taken(old, record)), *own]

    @_asked_once
    def records(self, s: int) -> list[Any]:
        own = (e["id"] for e in self.of(s, None, "in"))
        return list(dict.fromkeys([*self.heritage(s), *own]))

    @_asked_once
    def accepted(self) -> list[tuple[int, Any]]:
        """Each with the last subtask that held it."""
        last = {record: s for s in self.subtasks for record in self.records(s)}
        return [(s, record) for record, s in last.items()]

    @_asked_once
    def expect(self, s: int, record: Any) -> Any:
        """What the subtask was told, or those before it that held the record."""
        return next((e["expect"] for e in self.taken(s, record) if "expect" in e), ABSENT)

    @_asked_once
    def expect_in_the_end(self, record: Any) -> Any:
        told = [self.expect(s, record) for s in self.subtasks]
        return next((one for one in reversed(told) if one is not ABSENT), ABSENT)

    @_asked_once
    def marks(self, s: int) -> list[tuple[int, Any]]:
        inherited = [g for g in ((self.share(s) or []) if self.beginner(s) else []) if "w" in g]
        places: dict[int, Any] = {}
        for e in [*inherited, *self.of(s, None, "wm")]:
            places.setdefault(e["pos"], e["w"])
        return sorted(places.items(), key=lambda mark: mark[0])

    def position(self, s: int, what: Element) -> Any:
        if what[0] == "mark":
            return what[1]
        return next((e["pos"] for e in self.taken(s, what[1])), None)

    # The input of an attempt.

    @_asked_once
    def came(self, s: int, a: int) -> dict[Element, Json]:
        """Its elements, each with the event by which it came first."""
        found: dict[Element, Json] = {}
        for restore in self.of(s, a, "restore"):
            for given in restore["elements"]:
                found.setdefault(element(given), restore)
        for e in self.of(s, a, "in", "wm"):
            what = ("record", e["id"]) if e["k"] == "in" else ("mark", e["pos"], e["w"])
            found.setdefault(what, e)
        return found

    def stands(self, emissions: list[Json], marks: list[tuple[int, Any]]) -> list[int | None]:
        """For each emission its position as a watermark; None for an `out` and for a surplus one."""
        places: list[int | None] = []
        for i, e in enumerate(emissions):
            k = sum(other["k"] == "owm" and other["w"] == e.get("w") for other in emissions[:i])
            known = sorted(pos for pos, w in marks if e["k"] == "owm" and w == e["w"])
            places.append(known[k] if k < len(known) else None)
        return places

    @_asked_once
    def attempt_stands(self, s: int, a: int) -> list[tuple[Json, int]]:
        """Its `owm`s that are not surplus, and where they stand."""
        emissions = self.of(s, a, "out", "owm")
        marks = [(what[1], what[2]) for what in self.came(s, a) if what[0] == "mark"]
        pairs = zip(emissions, self.stands(emissions, marks), strict=True)
        return [(e, place) for e, place in pairs if place is not None]

    @_asked_once
    def left_marks(self, s: int, a: int, by: float, *, leniently: bool) -> set[Element]:
        """What has left by then; leniently: with what may count as left where watermarks coalesce."""
        marks = [what for what in self.came(s, a) if what[0] == "mark"]
        gone: set[Element] = set()
        for e, place in self.attempt_stands(s, a):
            if e["n"] >= by:
                continue
            last = max(pos for _, pos, w in marks if w == e["w"]) if leniently else place
            if self.coalesces:
                gone |= {what for what in marks if what[1] <= last}
            else:
                gone.add(("mark", place, e["w"]))
        return gone

    # Outcomes and what they call for.

    @_asked_once
    def outcome(self, s: int, a: int, record: Any, by: float = EVER) -> Json | None:
        ends = [e for e in self.of(s, a, "res", "dead") if e["id"] == record and e["n"] < by]
        return next((e for e in ends if e["k"] == "dead" or e["final"]), None)

    def outputs_by(self, s: int | None, outcome: Json | None, record: Any) -> Any:
        """`s` None: over all subtasks."""
        expect = self.expect_in_the_end(record) if s is None else self.expect(s, record)
        if outcome is None:
            return expect
        if outcome["k"] == "dead" or outcome["r"] == "fail":
            return []
        if outcome["r"] == "timeout":
            return [] if "error" in outcome else outcome.get("v", [])
        return expect if expect is not ABSENT else outcome.get("v", ABSENT)

    @_asked_once
    def deciding(self, s: int, record: Any) -> tuple[int | None, Json | None]:
        """The deciding attempt, and its outcome of the record."""
        if self.kind("rescale"):
            return self.deciding_of_all(record)
        first = next((e for e in self.visible(s) if e["k"] == "out" and e["id"] == record), None)
        if first is not None:
            return first["a"], self.outcome(s, first["a"], record)
        chain = self.chain(s)
        ends = [(a, self.outcome(s, a, record)) for a in chain]
        standing = [(a, e) for a, e in ends if e is not None and e["n"] < chain[a]]
        return max(standing, key=lambda pair: pair[1]["n"], default=(None, None))

    @_asked_once
    def deciding_of_all(self, record: Any) -> tuple[int | None, Json | None]:
        """As `deciding`, over all subtasks in their order."""
        seen = [e for s in self.subtasks for e in self.visible(s)]
        first = next((e for e in seen if e["k"] == "out" and e["id"] == record), None)
        if first is not None:
            return first["a"], self.outcome(first["s"], first["a"], record)
        standing = []
        for s in self.subtasks:
            chain = self.chain(s)
            ends = [(a, self.outcome(s, a, record)) for a in chain]
            standing += [(a, e) for a, e in ends if e is not None and e["n"] < chain[a]]
        return max(standing, key=lambda pair: pair[1]["n"], default=(None, None))

    @_asked_once
    def expected(self, s: int, record: Any) -> Any:
        of = None if self.kind("rescale") else s
        return self.outputs_by(of, self.deciding(s, record)[1], record)

    @_asked_once
    def numbers_left(self, s: int, a: int, record: Any, by: float) -> set[int]:
        return {e["j"] for e in self.of(s, a, "out") if e["id"] == record and e["n"] < by}

    @_asked_once
    def resolved(self, s: int, a: int, record: Any, by: float) -> bool:
        outcome = self.outcome(s, a, record, by)
        wanted = self.outputs_by(s, outcome, record)
        if outcome is not None and wanted in (ABSENT, []):
            return True
        numbers = self.numbers_left(s, a, record, by)
        return wanted not in (ABSENT, []) and set(range(len(wanted))) <= numbers

    # Faults.

    def faults(self) -> list[tuple[Json, Json | None]]:
        """Each that began, with its end."""
        ends = self.kind("fault")
        pairs: list[tuple[Json, Json | None]] = []
        for begin in [e for e in ends if e["phase"] == "begin"]:
            before = sum(other["f"] == begin["f"] for other, _ in pairs)
            own = [e for e in ends if e["phase"] == "end" and e["f"] == begin["f"]]
            pairs.append((begin, own[before] if before < len(own) else None))
        return pairs

    def stalled(self, since: float, until: float) -> bool:
        return self._overlapped(
            since, until, [pair for pair in self.faults() if pair[0].get("stalls") is True]
        )

    def disturbed(self, since: float, until: float) -> bool:
        """By a fault, any one."""
        return self._overlapped(since, until, self.faults())

    def _overlapped(self, since: float, until: float, among: list[tuple[Json, Json | None]]) -> bool:
        spans = [(b["t"], e["t"] if e else EVER) for b, e in among]
        return any(begin <= until and end >= since for begin, end in spans)

    def life_end(self, s: int, a: int) -> int:
        """When the attempt's life ended, at the latest with the history."""
        own = self.of(s, a)
        stopped = self.ender(s) is not None
        over = stopped or a < self.attempts(s)[-1] or any(e["k"] in {"kill", "close"} for e in own)
        last: int = (
            max((e["t"] for e in own if e["k"] != "kill"), default=0) if over else self.events[-1]["t"]
        )
        return last
