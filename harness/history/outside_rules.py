"""The rules between events of a history seen from outside, for a reader that passes it line by line.

Implements "Rules" of `docs/reference/history-outside.md`. The rules see only well-typed fields; once a line could not
be read, nothing is said to be missing. Memory grows with offered ids, starts and names of faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from harness.history.fields import LineFields
from harness.history.outside import OutsideHeader
from harness.history.rules import FormatBreach, LineOrder
from harness.history.values import identity, shown
from harness.system.json_types import JsonView

_RESERVED = frozenset({"harness", "outside"})
"""Causes that are no faults."""
_OF_READINGS = frozenset({"table", "dead", "read"})


def header_of_keys(header: Mapping[str, object]) -> Iterator[str]:
    """The breaches of a header whose rows are of keys: such rows show no order, no double and no lost record."""
    sink, claims = header.get("sink"), header.get("claims")
    if not isinstance(sink, dict) or sink.get("rows") != "key":
        return
    claimed = claims if isinstance(claims, dict) else {}
    fields = (
        ("write", sink.get("write"), "upsert"),
        ("j", sink.get("j"), None),
        ("delivery", claimed.get("delivery"), "exactly-once"),
        ("order", claimed.get("order", "none"), "none"),
        ("dead_letters", header.get("dead_letters"), None),
    )
    for name, value, must in fields:
        if value != must:
            yield f'`rows` of the header is "key", so `{name}` must be {shown(must)}'
    if header.get("expect_from") == "none":
        yield '`rows` of the header is "key", so `expect_from` must not be "none"'


class OutsideRules:
    """The rules between events: `check` each line in order. Mutable: the state of a fold."""

    def __init__(self, header: OutsideHeader | None) -> None:
        self._header = header
        self._order = LineOrder()
        self._unread = 0
        self._offers = _Offers(header)
        self._starts = _Starts()
        self._log = _Log(header)
        self._readings = _Readings(header)
        self._faults: Counter[str] = Counter()
        self._over = ""

    def unread(self) -> None:
        """Note an unreadable line; the rules lack the event that it held."""
        self._unread += 1

    def at_end(self) -> Iterable[FormatBreach]:
        """The breaches that need the whole history: there are none."""
        return ()

    def check(self, line: int, fields: LineFields) -> Iterator[str]:
        """The breaches of one line, given its kind and its well-formed fields."""
        kind, good = fields.kind, fields.good
        yield from self._order.check(good)
        if kind and kind != "row":
            self._log.is_apart = True
        if kind and kind not in _OF_READINGS:
            yield from self._readings.other(kind)
        if fields.event is None:
            self.unread()
            return
        match kind:
            case "offer" | "expect":
                yield from self._offers.check(line, kind, good, over=self._over == "finished")
            case "start" | "exit":
                yield from self._starts.check(kind, good, lenient=self._unread > 0)
            case "row":
                yield from self._log.check(good)
                if self._starts.is_new(good.get("start")) and not self._unread:
                    yield f"a `row` is of start {good['start']}, which has not begun"
            case "fault":
                yield from self._fault(good)
            case "table" | "dead" | "read":
                yield from self._readings.check(line, kind, good)
            case "finished" | "giveup":
                if self._over:
                    yield f"`{kind}` follows `{self._over}`; one of them may stand, once"
                self._over = kind
            case _:
                pass

    def _fault(self, good: JsonView) -> Iterator[str]:
        name = good["f"]
        if name in _RESERVED:
            yield f"a fault is named {shown(name)}, which in `by` means that no fault was the cause"
        if good["phase"] == "begin":
            self._faults[name] += 1
        elif self._faults[name]:
            self._faults[name] -= 1
        elif not self._unread:
            yield f"the fault {shown(name)} ends, but has not begun"


class _Offers:
    """What was offered. Mutable; grows with the ids."""

    def __init__(self, header: OutsideHeader | None) -> None:
        self._header = header
        self._lines: dict[Hashable, int] = {}
        self._positions: dict[int, int] = {}

    def check(self, line: int, kind: str, good: JsonView, *, over: bool) -> Iterator[str]:
        header = self._header
        of_keys = header is not None and header.sink.rows == "key"
        if kind == "expect":
            if header is not None and not of_keys:
                yield 'there is an `expect`, though `rows` of the header is not "key"'
            return
        part, pos = good["part"], good["pos"]
        if over:
            yield "an `offer` follows `finished`"
        if header is not None and part >= header.partitions:
            yield f"part {shown(part)} of the source; the header has {header.partitions} `partitions`, from 0"
        last = self._positions.get(part)
        if last is not None and pos <= last:
            yield f"position {shown(pos)} of part {shown(part)} after {shown(last)}; positions rise"
        self._positions[part] = pos
        first = self._lines.setdefault(identity(good["id"]), line)
        if first != line:
            yield f"record {shown(good['id'])} was offered on line {first}; a record is offered once"
        if header is not None and header.expect_from == "none" and "expect" in good:
            yield 'an `offer` has `expect`, though `expect_from` of the header is "none"'
        if of_keys and "expect" in good:
            yield 'an `offer` has `expect`, though `rows` of the header is "key"'
        if good.get("fails") is True and good.get("expect"):
            yield f"record {shown(good['id'])} `fails`, so it expects no row"


class _Starts:
    """Which starts have begun, and which of them have exited. Mutable; grows with them."""

    def __init__(self) -> None:
        self._begun = 0
        self._exited: set[int] = set()

    def is_new(self, start: int | None) -> bool:
        return start is not None and start > self._begun

    def check(self, kind: str, good: JsonView, *, lenient: bool) -> Iterator[str]:
        start = good["start"]
        if kind == "start":
            if start != self._begun + 1 and not (lenient and start > self._begun):
                yield f"start {shown(start)} begins; the next one is {self._begun + 1}"
            self._begun = max(start, self._begun)
            return
        if self.is_new(start) and not lenient:
            yield f"start {shown(start)} exits, but has not begun"
        if start in self._exited:
            yield f"start {shown(start)} exits a second time"
        self._exited.add(start)


class _Log:
    """The transactions of the log. Mutable; its memory is constant."""

    def __init__(self, header: OutsideHeader | None) -> None:
        self._has_log = header is None or header.sink.changes
        self._tx: int | None = None
        """The transaction of the row before."""
        self._author: tuple[Any, Any] = (None, None)
        self._is_open = False
        """Whether that row did not end it."""
        self.is_apart = False
        """Whether another event stood after that row."""

    def check(self, good: JsonView) -> Iterator[str]:
        if not self._has_log:
            yield "there is a `row`, though `changes` of the header is false"
        tx, author = good["tx"], (good.get("session"), good.get("start"))
        if self._tx is not None and tx == self._tx:
            if not self._is_open:
                yield f"a `row` of transaction {shown(tx)} follows the one that is its `last`"
            elif self.is_apart:
                yield f"the rows of transaction {shown(tx)} do not stand together"
            if author != self._author:
                yield f"the rows of transaction {shown(tx)} differ in their `session` or `start`"
        elif self._tx is not None:
            if self._is_open:
                yield f"transaction {shown(self._tx)} has no `last`, and transaction {shown(tx)} follows"
            if tx < self._tx:
                yield f"transaction {shown(tx)} follows {shown(self._tx)}; `tx` rises"
        self._tx, self._author = tx, author
        self._is_open = good.get("last") is not True
        self.is_apart = False


class _Readings:
    """The two readings of the table. Mutable; its memory is constant."""

    def __init__(self, header: OutsideHeader | None) -> None:
        self._header = header
        self._read: dict[tuple[int, str], int] = {}
        self._current = 0
        """The reading of the last event of one."""
        self._crossed = False
        """Whether a `row` stood since then."""

    def other(self, kind: str) -> Iterator[str]:
        """The breaches of an event that is of no reading."""
        if kind == "row":
            self._crossed = True
        elif kind in {"finished", "giveup"} and self._current:
            yield f"`{kind}` follows reading {self._current}"

    def check(self, line: int, kind: str, good: JsonView) -> Iterator[str]:
        reading = good["reading"]
        of = good["of"] if kind == "read" else kind
        if reading < self._current:
            yield f"an event of reading {reading} follows one of reading {self._current}"
        elif reading == self._current and self._crossed:
            yield f"a `row` stands inside reading {reading}"
        if reading >= self._current:
            self._current, self._crossed = reading, False
        if (reading, of) in self._read:
            what = f"a second `read` of `{of}`" if kind == "read" else f"a `{of}` row"
            yield f"{what} in reading {reading}, which has its `read` on line {self._read[reading, of]}"
        elif kind == "read":
            self._read[reading, of] = line
        header = self._header
        if of == "dead" and header is not None and header.dead_letters is None:
            yield "dead letters are read, though the header names no table of them (`dead_letters`)"
        if of == "log" and header is not None and not header.sink.changes:
            yield "the log is read, though `changes` of the header is false"
