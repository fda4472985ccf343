"""The rules between events of a history, for a reader that passes it line by line.

Implements "Rules between events" of `docs/reference/history.md`. The rules see only well-typed fields, and no breach
is reported twice: an unreadable line excuses one event that seems to be missing. The source is deterministic: the
first event at a position or with an id defines it, and later ones must agree. Memory grows with positions, ids,
sequence numbers and versions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from harness.history.fields import LineFields
from harness.history.header import Header, Table
from harness.history.values import identity, shown
from harness.system.json_types import JsonView

EVERY_KEY = ("no key",)
"""The identity of an absent key; no JSON value has it."""


class _Place(NamedTuple):
    line: int
    kind: str
    what: int | str
    """The id or the watermark."""


class _Taken(NamedTuple):
    line: int
    s: int
    pos: int
    key: Hashable
    ts: int | None


class SubtaskLifetimes:
    """Which subtasks rescales have ended and begun. Mutable: the state of a fold."""

    def __init__(self) -> None:
        self.ended: dict[int, int] = {}
        """The line of the rescale that ended a subtask."""
        self._begun: dict[int, int] = {}
        """For each subtask that a rescale began, a number that all subtasks related by rescales share."""
        self._families: dict[int, int] = {}

    def check(
        self, line: int, good: JsonView, *, started: Mapping[int, int], excused: Callable[[], bool]
    ) -> Iterator[str]:
        """The breaches of one `rescale`; `started`: those subtasks; `excused`: a start was unreadable."""
        of, to = good.get("of", []), good.get("to", [])
        for s in of:
            if s in self.ended:
                yield f"a `rescale` ends subtask {s}, which the one on line {self.ended[s]} has ended"
            elif s not in started and not excused():
                yield f"a `rescale` ends subtask {s}, which has not started"
            self.ended.setdefault(s, line)
        for s in to:
            if s in started or s in self._begun:
                yield f"a `rescale` begins subtask {s}, which was there before"
        related = {self._families.get(s, s) for s in of}
        family = min(related, default=-1)
        known = {s: family for s, other in self._families.items() if other in related}
        self._families.update({**known, **dict.fromkeys((*of, *to), family)})
        self._begun.update(dict.fromkeys(to, line))

    def begun(self, s: int) -> bool:
        """Whether a rescale has begun subtask `s`."""
        return s in self._begun

    def follows(self, s: int, other: int) -> bool:
        """Whether a rescale has begun subtask `s`, and rescales relate it to `other`."""
        return s in self._begun and self._families.get(other) == self._families[s]


class SourceIdentity:
    """Compares each `in` and `wm` with earlier ones of that position or id. Mutable: the state of a fold."""

    def __init__(self, rescalings: SubtaskLifetimes) -> None:
        self._rescalings = rescalings
        self._places: dict[tuple[int, int], _Place] = {}
        self._taken: dict[int | str, _Taken] = {}
        self._taken_on: dict[tuple[int | str, int], _Taken] = {}
        """By id and subtask, what a subtask took that follows the first one by a rescale."""
        self._expected: dict[tuple[int | str, int], Hashable] = {}

    def check(self, line: int, kind: str, good: JsonView) -> Iterator[str]:
        """The breaches of one `in` or `wm` whose subtask and position are well-formed."""
        what = good.get("id" if kind == "in" else "w")
        if what is None:
            return
        s, pos = good["s"], good["pos"]
        place = self._places.setdefault((s, pos), _Place(line, kind, what))
        if (place.kind, place.what) != (kind, what):
            yield (
                f"position {shown(pos)} of subtask {s} was `{place.kind}` {shown(place.what)}"
                f" on line {place.line} and is `{kind}` {shown(what)} here"
            )
        if kind == "in":
            yield from self._record(line, good)

    def _record(self, line: int, good: JsonView) -> Iterator[str]:
        id_ = good["id"]
        key = identity(good["key"]) if "key" in good else EVERY_KEY
        now = _Taken(line, good["s"], good["pos"], key, good.get("ts"))
        first = self._taken.setdefault(id_, now)
        if first.s != now.s and self._rescalings.follows(now.s, first.s):
            yield from _contradictions(id_, first._replace(s=now.s, pos=now.pos), now)
            first = self._taken_on.setdefault((id_, now.s), now)
            if first.pos != now.pos:
                yield from _contradictions(id_, first, now)
        elif first[1:] != now[1:]:
            yield from _contradictions(id_, first, now)
        if "expect" in good:
            expected = identity(good["expect"])
            if self._expected.setdefault((id_, now.s), expected) != expected:
                yield f"record {shown(id_)} comes with another `expect` than before"


def _contradictions(id_: int | str, first: _Taken, now: _Taken) -> Iterator[str]:
    first_seen = f"record {shown(id_)} was taken on line {first.line}"
    if first.s != now.s:
        yield f"{first_seen} by subtask {first.s}, here by subtask {now.s}"
    elif first.pos != now.pos:
        yield f"{first_seen} at position {shown(first.pos)}, here at {shown(now.pos)}"
    if first.key != now.key:
        yield f"{first_seen} with another `key`"
    if first.ts != now.ts:
        yield f"{first_seen} with the `ts` {shown(first.ts)}, here with {shown(now.ts)}"


_OUTSIDE_LIFE = frozenset({"call", "res", "out", "owm", "snap"})
"""Kinds that are no breach before `start` or after `close`: V21 judges them there."""
_OF_ATTEMPT = _OUTSIDE_LIFE | {
    "start", "restore", "in", "wm", "dead", "failed", "end", "ended", "close", "kill", "held",
}  # fmt: skip
_ORDER = (("n", 1, "strictly increasing"), ("t", 0, "never decreasing"))
_ABSENT = object()


class LineOrder:
    """`n` and `t` rise from line to line, in either view. Mutable: remembers the last line."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def check(self, good: JsonView) -> Iterator[str]:
        """The breaches of one line, given its well-formed fields."""
        for name, least, said in _ORDER:
            if (value := good.get(name)) is not None:
                last = self._last.get(name)
                if last is not None and value < last + least:
                    yield f"`{name}` is {shown(value)} after {shown(last)}; it must be {said}"
                self._last[name] = value


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatBreach:
    """One breach of the format, and its line."""

    line: int
    say: str


@dataclass(slots=True, kw_only=True)
class _Life:
    """The state of one attempt for the rules. Mutable; grows with its snapshots."""

    first_line: int
    named: str
    started: bool = False
    complained: bool = False
    """Whether its missing `start` was reported or excused."""
    origin: Any = _ABSENT
    """`from` of its start, if that was readable."""
    restores: int = 0
    first_taken: int | None = None
    """The line of its first `in` or `wm`."""
    lacks_restore: bool = False
    """Whether it should have restored before its first `in` or `wm`, and no unreadable line excuses that."""
    next_pos: int | None = None
    """None: any position is allowed."""
    snaps: set[int] = field(default_factory=set)
    end: bool = False
    closed: bool = False
    killed: bool = False
    unread: int = 0
    """Unreadable lines of this attempt that have not excused a missing event yet."""


_RESERVED = frozenset({"outside", "planted"})
"""Causes that are no faults."""


class _TableRules:
    """The rules on `row` and `read`. Mutable; grows with the `seq`s of ordered tables."""

    def __init__(self, header: Header | None) -> None:
        self._known = header is not None
        """Without a header nothing is known of its tables."""
        self._tables: Mapping[str, Table] = (header.tables or {}) if header is not None else {}
        self._by_output = header is not None and header.effects == "outputs"
        self._read: dict[str, int] = {}
        self._seqs: dict[tuple[str, int], int] = {}

    def check(self, line: int, kind: str, good: JsonView) -> Iterator[str]:
        """The breaches of one `row` or `read`."""
        if (name := good.get("table")) is None or not self._known:
            return
        if name in self._read:
            what = "a second `read` of" if kind == "read" else "a `row` of"
            yield f"{what} the table {shown(name)}, which has its `read` on line {self._read[name]}"
        elif kind == "read":
            self._read[name] = line
        if (table := self._tables.get(name)) is None:
            yield f"the header has no table {shown(name)}; it has {', '.join(map(shown, self._tables)) or 'none'}"
        elif kind == "row":
            yield from self._row(line, name, table, good)

    def _row(self, line: int, name: str, table: Table, good: JsonView) -> Iterator[str]:
        if "audit" in table.holds:
            yield f"the table {shown(name)} holds the audit, whose rows are `effect`s"
            return
        if "j" not in good and "outputs" in table.holds:
            yield f"a `row` of {shown(name)} lacks `j`, though that table holds outputs"
        elif "j" not in good and "effects" in table.holds and self._by_output:
            yield f'a `row` of {shown(name)} lacks `j`, though `effects` of the header is "outputs"'
        if not table.ordered:
            return
        if (seq := good.get("seq")) is None:
            yield f"a `row` of {shown(name)} lacks `seq`, though that table is ordered"
        elif (first := self._seqs.setdefault((name, seq), line)) != line:
            yield f"`seq` {shown(seq)} in {shown(name)} is the one of line {first}"


class AnnouncedVersions:
    """The versions that `change`s have announced. Mutable; grows with keys and open changes."""

    def __init__(self) -> None:
        self._highest: dict[Hashable, int] = {}
        self._of_all = 0
        """The highest version of any key."""
        self._open: set[tuple[Hashable, int]] = set()

    def begin(self, key: Hashable, ver: int) -> int | None:
        """Note the `begin` of a change; returns the version that `ver` had to exceed, or None if it does."""
        earlier = (
            self._of_all
            if key is EVERY_KEY
            else max(self._highest.get(key, 0), self._highest.get(EVERY_KEY, 0))
        )
        self._highest[key] = max(ver, self._highest.get(key, 0))
        self._of_all = max(ver, self._of_all)
        self._open.add((key, ver))
        return None if ver > earlier else earlier

    def end(self, key: Hashable, ver: int) -> bool:
        """Note the `end` of a change; returns whether that change was under way."""
        if (key, ver) not in self._open:
            return False
        self._open.remove((key, ver))
        return True


class Rules:
    """The rules between events: `check` each line in order, then `at_end`. Mutable: the state of a fold."""

    def __init__(self, header: Header | None) -> None:
        self._outputs = header is not None and header.effects == "outputs"
        self._explained = header is not None and header.explained is not None
        self._unexpecting = header is not None and header.expect_from == "none"
        self._judges_reading = header is not None and header.fixed_source
        self._tables = _TableRules(header)
        self._versions = AnnouncedVersions()
        self._order = LineOrder()
        self._lives: dict[tuple[int, int], _Life] = {}
        self._newest: dict[int, int] = {}
        self._rescalings = SubtaskLifetimes()
        self._source = SourceIdentity(self._rescalings)
        self._seqs: dict[int, int] = {}
        self._faults: Counter[str] = Counter()
        self._unread: Counter[str] = Counter()

    def unread(self, kind: str = "") -> None:
        """Note an unreadable line, with its kind if known; the rules lack the event that it held."""
        self._unread[kind] += 1

    def check(self, line: int, fields: LineFields) -> Iterator[str]:
        """The breaches of one line, given its kind and its well-formed fields."""
        kind, good = fields.kind, fields.good
        yield from self._order.check(good)
        if kind in _OF_ATTEMPT:
            if "s" in good and "a" in good:
                yield from self._attempt(line, kind, good)
            else:
                self.unread(kind)
        elif kind == "effect":
            yield from self._effect(line, good)
        elif kind in {"row", "read"}:
            yield from self._tables.check(line, kind, good)
        elif kind == "change":
            yield from self._change(good)
        elif kind == "rescale":
            yield from self._rescalings.check(
                line, good, started=self._newest, excused=lambda: self._excused("start")
            )
        elif kind == "fault":
            yield from self._fault(good)
        elif not kind:
            self._unknown(good)

    def at_end(self) -> Iterator[FormatBreach]:
        """The breaches that need the whole history."""
        for life in self._lives.values():
            if not life.started and not life.complained and not self._excused("start", life=life):
                yield FormatBreach(line=life.first_line, say=f"{life.named} has no `start`")
            if life.lacks_restore and not life.restores and life.first_taken:
                say = f"{life.named} starts from checkpoint {life.origin}, and reads on without a `restore`"
                yield FormatBreach(line=life.first_taken, say=say)

    def _unknown(self, good: JsonView) -> None:
        """An unknown kind may be a misspelt one; it counts as an unreadable line of its attempt, if known."""
        life = self._lives.get((good.get("s", -1), good.get("a", -1)))
        if life is None:
            self.unread()
        else:
            life.unread += 1

    def _attempt(self, line: int, kind: str, good: JsonView) -> Iterator[str]:
        s, a = good["s"], good["a"]
        life = self._lives.get((s, a))
        if life is None:
            life = self._lives[s, a] = _Life(first_line=line, named=f"attempt {a} of subtask {s}")
        yield from self._alive(life, kind)
        match kind:
            case "start":
                yield from self._start(life, good)
            case "restore":
                yield from self._restore(life, good)
            case "in" | "wm":
                if self._unexpecting and kind == "in" and "expect" in good:
                    yield 'an `in` has `expect`, though `expect_from` of the header is "none"'
                yield from self._taken(line, life, kind, good)
            case "snap" if "c" in good:
                if good["c"] in life.snaps:
                    yield f"{life.named} has a second `snap` of checkpoint {good['c']}"
                life.snaps.add(good["c"])
            case "end" | "ended" | "close" | "kill":
                yield from self._over(life, kind)

    def _alive(self, life: _Life, kind: str) -> Iterator[str]:
        begins = kind == "start" or kind in _OUTSIDE_LIFE
        if not life.started and not begins and not life.complained:
            life.complained = True
            if not self._excused("start", life=life):
                yield f"`{kind}` of {life.named} comes before its `start`"
        if life.killed:
            yield f"`{kind}` follows the `kill` of {life.named}, whose process was reaped"
        elif life.closed and kind != "kill" and kind not in _OUTSIDE_LIFE:
            yield f"`{kind}` follows the `close` of {life.named}; only `kill` may"

    def _start(self, life: _Life, good: JsonView) -> Iterator[str]:
        s, a = good["s"], good["a"]
        if life.started:
            yield f"{life.named} has a second `start`"
            return
        life.started = True
        if (newest := self._newest.get(s)) is not None and a < newest:
            yield f"{life.named} starts after attempt {newest}; attempts start in rising order"
        self._newest[s] = max(a, newest or a)
        if (ended := self._rescalings.ended.get(s)) is not None:
            yield f"{life.named} starts, though the `rescale` on line {ended} has ended its subtask"
        life.origin = good.get("from", _ABSENT)
        if life.origin is None and self._rescalings.begun(s):
            yield f"{life.named} starts from nothing, though a `rescale` has begun its subtask"
        elif life.origin is None:
            life.next_pos = 0
            if good.get("pos", 0) != 0:
                yield f"{life.named} starts from nothing, so at position 0, not {shown(good['pos'])}"

    def _restore(self, life: _Life, good: Mapping[str, object]) -> Iterator[str]:
        life.restores += 1
        if life.origin is None:
            yield f"{life.named} starts from nothing, yet restores"
        elif life.origin is not _ABSENT and good.get("c", life.origin) != life.origin:
            yield f"{life.named} restores checkpoint {good['c']}, but starts from {life.origin}"
        if life.restores > 1:
            yield f"{life.named} has a second `restore`"
        elif life.first_taken is not None:
            yield f"{life.named} restores after it has begun to read its source (line {life.first_taken})"

    def _taken(self, line: int, life: _Life, kind: str, good: JsonView) -> Iterator[str]:
        if life.first_taken is None:
            life.first_taken = line
            restores = life.origin is not None and life.origin is not _ABSENT
            life.lacks_restore = restores and not life.restores and not self._excused("restore", life=life)
        if life.end:
            yield f"`{kind}` of {life.named} follows its `end`"
        if self._judges_reading:
            return
        wanted, pos = life.next_pos, good.get("pos")
        if pos is None:
            life.next_pos = None if wanted is None else wanted + 1
            return
        if (
            wanted is not None
            and pos != wanted
            and not (pos == wanted + 1 and self._excused("in", "wm", life=life))
        ):
            yield f"position {shown(pos)} of {life.named}; the next one is {wanted}"
        life.next_pos = pos + 1
        yield from self._source.check(line, kind, good)

    def _over(self, life: _Life, kind: str) -> Iterator[str]:
        if kind == "end" and life.end:
            yield f"{life.named} has a second `end`"
        elif kind == "ended" and not life.end and not self._excused("end", life=life):
            yield f"{life.named} has `ended` before its `end`"
        life.end |= kind == "end"
        life.closed |= kind == "close"
        life.killed |= kind == "kill"

    def _effect(self, line: int, good: JsonView) -> Iterator[str]:
        if self._outputs and "j" not in good:
            yield 'an `effect` lacks `j`, though `effects` of the header is "outputs"'
        if (seq := good.get("seq")) is not None:
            if seq in self._seqs:
                yield f"`seq` {shown(seq)} is the one of line {self._seqs[seq]}"
            self._seqs.setdefault(seq, line)

    def _fault(self, good: Mapping[str, object]) -> Iterator[str]:
        name = good.get("f")
        if not isinstance(name, str) or "phase" not in good:
            self.unread("fault")
        elif good["phase"] == "begin":
            self._faults[name] += 1
            if self._explained and name in _RESERVED:
                yield f"a fault is named {shown(name)}, which in `by` means that no fault was the cause"
        elif self._faults[name]:
            self._faults[name] -= 1
        elif not self._excused("fault"):
            yield f"the fault {shown(name)} ends, but has not begun"

    def _change(self, good: JsonView) -> Iterator[str]:
        if "phase" not in good or "ver" not in good:
            self.unread("change")
            return
        ver = good["ver"]
        key = identity(good["key"]) if "key" in good else EVERY_KEY
        told = f"of the key {shown(good['key'])}" if "key" in good else "of every key"
        if good["phase"] == "begin":
            if (earlier := self._versions.begin(key, ver)) is not None:
                yield f"a `change` {told} begins version {shown(ver)} after version {shown(earlier)}; it must rise"
        elif not self._versions.end(key, ver) and not self._excused("change"):
            yield f"a `change` {told} ends version {shown(ver)}, which is not under way"

    def _excused(self, *kinds: str, life: _Life | None = None) -> bool:
        """Whether an earlier unreadable line may have been one of `kinds`; each line excuses one event."""
        if life is not None and life.unread:
            life.unread -= 1
            return True
        for kind in (*kinds, ""):
            if self._unread[kind]:
                self._unread[kind] -= 1
                return True
        return False
