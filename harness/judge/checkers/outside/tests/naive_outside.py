"""A second judge of histories seen from outside: the page read literally and slowly, with no code of the first.

It works on the objects of the lines. Each notion of `docs/reference/history-outside.md` is a function over the whole
history; a table is a multiset of (id, j, values), made anew for each moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from harness.history.values import identity

Json = dict[str, Any]
Opinion = tuple[str, Counter[Any]]
"""An outcome, and the anomalies: class, id, j, tx, start."""
Slot = tuple[Any, Any]
Table = Counter[Any]
JUDGED = ("V1", "V3", "V8", "V13", "V16", "V20", "V23", "V24")


class Page:
    """The notions of the page, on one history."""

    def __init__(self, lines: list[Json]) -> None:
        self.header, self.events = lines[0], lines[1:]
        self.claims, self.sink = self.header["claims"], self.header["sink"]
        self.has_j = self.sink.get("j") is not None
        self.of_keys = self.sink.get("rows") == "key"
        self.changes = self.sink.get("changes", True)
        self.write = self.sink["write"]
        self.delivery = self.claims["delivery"]
        self.recover = self.header.get("bounds", {}).get("recover", 0)
        self.dead_letters = self.header.get("dead_letters")

    def all(self, kind: str) -> list[Json]:
        return [e for e in self.events if e["k"] == kind]

    def one(self, kind: str) -> Json | None:
        return next(iter(self.all(kind)), None)

    @cached_property
    def offers(self) -> dict[Any, Json]:
        return {identity(e["id"]): e for e in self.all("offer")}

    @cached_property
    def due(self) -> dict[Any, list[Any]]:
        """The expected rows of each key."""
        found: dict[Any, list[Any]] = {}
        for e in self.all("expect"):
            found.setdefault(identity(e["id"]), []).append(identity(e["v"]))
        return found

    @property
    def subjects(self) -> list[Any]:
        """What rows are of: the offered ids, or the keys that have expected rows."""
        return [*(self.due if self.of_keys else self.offers)]

    # Log and replay

    @cached_property
    def transactions(self) -> list[list[Json]]:
        found: dict[int, list[Json]] = {}
        for row in self.all("row"):
            found.setdefault(row["tx"], []).append(row)
        return [rows for rows in found.values() if rows[-1].get("last") is True]

    def replay(self, before: int) -> Table:
        """The table that the log makes up to event `before`."""
        table: Table = Counter()
        for rows in self.transactions:
            if rows[-1]["n"] < before:
                for row in rows:
                    self.apply(table, row)
        return +table

    def apply(self, table: Table, row: Json) -> bool:
        """Apply a row; False if what it takes away is not there."""
        there = True
        if row["op"] == "delete" or row["op"] == "update":
            gone = self.row(row if row["op"] == "delete" else row["was"])
            there = table[gone] > 0
            table[gone] -= there
        if row["op"] != "delete":
            table[self.row(row)] += 1
        return there

    @staticmethod
    def row(event: Json) -> Any:
        return identity(event["id"]), event.get("j"), identity(event["v"])

    @cached_property
    def moments(self) -> list[tuple[int, Table]]:
        """After each transaction: the number of its last row, and the table."""
        return [(rows[-1]["n"], self.replay(rows[-1]["n"] + 1)) for rows in self.transactions]

    # Readings

    def reading(self, r: int) -> list[Json]:
        return [e for e in self.events if e["k"] in ("table", "dead", "read") and e["reading"] == r]

    def table(self, r: int) -> Table:
        return Counter(self.row(e) for e in self.reading(r) if e["k"] == "table")

    def dead(self, r: int) -> list[Any]:
        return [identity(e["id"]) for e in self.reading(r) if e["k"] == "dead"]

    def has_read(self, r: int, of: str) -> bool:
        return any(e["k"] == "read" and e["of"] == of and self.counts(e) for e in self.reading(r))

    def counts(self, read: Json) -> bool:
        if read["of"] == "log":
            return bool(read["rows"] == sum(e["n"] < read["n"] for e in self.all("row")))
        rows = [e for e in self.reading(read["reading"]) if e["k"] == read["of"] and e["n"] < read["n"]]
        return bool(read["rows"] == len(rows))

    def whole(self, r: int) -> bool:
        return (
            self.has_read(r, "table")
            and (not self.changes or self.has_read(r, "log"))
            and (self.dead_letters is None or self.has_read(r, "dead"))
        )

    @cached_property
    def disagreement(self) -> bool:
        table: Table = Counter()
        for rows in self.transactions:
            for row in rows:
                if not self.apply(table, row):
                    return True
        for r in (1, 2):
            if any(e["k"] == "read" and e["of"] == "log" and not self.counts(e) for e in self.reading(r)):
                return True
            both = self.has_read(r, "table") and self.has_read(r, "log")
            if both and self.table(r) != self.replay(self.reading(r)[0]["n"]):
                return True
        return False

    @property
    def log_shows(self) -> bool:
        return bool(self.changes) and not self.disagreement

    @cached_property
    def log_moments(self) -> list[tuple[int, Table]]:
        return self.moments if self.log_shows else []

    @cached_property
    def shown_tables(self) -> list[Table]:
        """Every table that the log or a reading shows: inside a transaction nothing is visible."""
        return [*(table for _, table in self.log_moments), self.table(1), self.table(2)]

    @cached_property
    def visible(self) -> set[Any]:
        """Ids of which some row is ever visible."""
        return {row[0] for table in self.shown_tables for row in table}

    def highest(self, key: Any) -> int:
        return max((int(j or 0) for table in self.shown_tables for k, j, _ in table if k == key), default=0)

    # Slots

    def slot(self, row: Any) -> Slot:
        return (row[0], row[1]) if self.has_j else (row[0], None)

    def expect(self, key: Any) -> list[Any] | None:
        if self.of_keys:
            return self.due.get(key, [])
        offer = self.offers.get(key, {})
        if offer.get("fails"):
            return []
        return [identity(v) for v in offer["expect"]] if "expect" in offer else None

    def slots(self, key: Any) -> list[Slot]:
        """The slots of an offered record of which something can be missing."""
        if not self.has_j:
            return [(key, None)]
        expect = self.expect(key)
        return [(key, j) for j in range(self.highest(key) + 1 if expect is None else len(expect))]

    def e(self, slot: Slot) -> Counter[Any] | None:
        expect = self.expect(slot[0])
        if expect is None:
            return None
        return Counter(expect if not self.has_j else expect[slot[1] : slot[1] + 1])

    def m(self, slot: Slot, table: Table) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for row, times in table.items():
            if self.slot(row) == slot:
                found[row[2]] += times
        return found

    def wrong(self, slot: Slot, table: Table) -> int:
        e = self.e(slot)
        return 0 if e is None else sum(t for v, t in (self.m(slot, table) - e).items() if v not in e)

    def missing(self, slot: Slot, table: Table) -> int:
        e, m = self.e(slot), self.m(slot, table)
        if e is None:
            return int(not m)
        return max(0, (e - m).total() - (0 if self.of_keys else self.wrong(slot, table)))

    def has_all(self, slot: Slot, table: Table) -> bool:
        e, m = self.e(slot), self.m(slot, table)
        if self.of_keys:
            return e == m
        return self.missing(slot, table) == 0 if e is None else not e - m

    def too_many(self, slot: Slot, table: Table) -> bool:
        e, m = self.e(slot), self.m(slot, table)
        return (self.has_j and m.total() > 1) if e is None else bool(e) and m.total() > e.total()

    def doubled(self, slot: Slot, table: Table) -> bool:
        e, m = self.e(slot), self.m(slot, table)
        if e is None:
            return m.total() > 1 if self.has_j else any(times > 1 for times in m.values())
        right_surplus = any(v in e for v in m - e)
        return bool(e) and (m.total() > e.total() or right_surplus)

    # Finished

    @cached_property
    def excused(self) -> set[Any]:
        faults = bool(self.all("fault"))
        dead = {
            key for key in self.dead(1) if key in self.offers and (faults or self.offers[key].get("fails"))
        }
        return dead | {key for key in self.offers if self.is_sentinel(key)}

    def is_sentinel(self, key: Any) -> bool:
        return bool(self.offers.get(key, {}).get("sentinel"))

    @cached_property
    def there(self) -> Table:
        """The table at the `finished`."""
        finished = self.one("finished")
        assert finished is not None
        return self.replay(finished["n"]) if self.changes else self.table(1)

    @cached_property
    def finished(self) -> bool:
        finished = self.one("finished")
        if finished is None:
            return False
        n, how = finished["n"], finished["how"]
        begun = [e["start"] for e in self.all("start") if e["n"] < n]
        exits = [e for e in self.all("exit") if begun and e["start"] == max(begun) and e["n"] < n]
        if how == "exit":
            last_offer = max((e["n"] for e in self.all("offer")), default=-99)
            return any(e.get("code") == 0 and e.get("by") != "harness" and e["n"] > last_offer for e in exits)
        if how == "file":
            return True
        if self.disagreement or (not self.changes and not self.whole(1)):
            return False
        if self.of_keys:
            return how == "all-rows" and self.is_whole_table(n)
        if how == "all-rows":
            wanted = [slot for key in self.offers if key not in self.excused for slot in self.slots(key)]
            return all(self.has_all(slot, self.there) for slot in wanted)
        lives = bool(begun) and not exits
        return lives and self.is_quiet(finished) and self.last_are_there() and not self.came_later(n)

    def is_whole_table(self, n: int) -> bool:
        """The table is the expected one at event `n`, and nothing changes it up to reading 1."""
        keys = {*self.due, *(row[0] for row in self.there)}
        if not all(self.has_all((key, None), self.there) for key in keys):
            return False
        until = self.reading(1)[0]["n"] if self.reading(1) else float("inf")
        later = [table for at, table in self.moments if n < at < until]
        return all(table == self.there for table in later)

    def is_quiet(self, finished: Json) -> bool:
        quiet = self.header.get("bounds", {}).get("quiet")
        if quiet is None:
            return False
        loud = [
            e for e in self.events if e["n"] < finished["n"] and e["k"] in ("row", "start", "exit", "fault")
        ]
        return all(finished["t"] - e["t"] >= 1000 * quiet for e in loud)

    def last_are_there(self) -> bool:
        last: dict[int, Any] = {}
        for key, offer in self.offers.items():
            if key not in self.excused and self.expect(key) != []:
                last[offer["part"]] = key
        whole = {
            key for key in self.offers if not any(self.missing(slot, self.there) for slot in self.slots(key))
        }
        passed = {self.offers[key]["part"] for key in whole if self.is_sentinel(key)}
        return all(part in passed or key in whole for part, key in last.items())

    def came_later(self, n: int) -> bool:
        tables = [table for at, table in self.log_moments if at > n]
        tables += [self.table(r) for r in (1, 2) if self.whole(r)]
        return any(
            self.missing(slot, table) < self.missing(slot, self.there)
            for table in tables
            for key in self.subjects
            if not self.is_sentinel(key)
            for slot in self.slots(key)
        )

    def bad_exit(self, e: Json) -> bool:
        return e.get("by") != "harness" and e.get("code", 0) != 0


def _v1(page: Page, *, by_key: bool) -> Iterator[Any]:
    seen: list[tuple[Any, Any]] = []
    places: set[Slot] = set()
    for rows in page.transactions:
        for row in rows:
            slot = page.slot(page.row(row))
            if row["op"] == "delete" or slot in places or slot[0] not in page.offers:
                continue
            places.add(slot)
            offer = page.offers[slot[0]]
            if by_key and "key" not in offer:
                continue
            group = (offer["part"], identity(offer["key"]) if by_key else None)
            place = (offer["pos"], slot[1] or 0)
            if any(other == group and there > place for other, there in seen):
                yield slot
            seen.append((group, place))


def _compared(page: Page, *, by_key: bool) -> bool:
    groups: Counter[Any] = Counter()
    slots = {page.slot(page.row(row)) for rows in page.transactions for row in rows if row["op"] != "delete"}
    for slot in slots:
        if slot[0] in page.offers and not (by_key and "key" not in page.offers[slot[0]]):
            offer = page.offers[slot[0]]
            groups[offer["part"], identity(offer["key"]) if by_key else None] += 1
    return any(times > 1 for times in groups.values())


def _log_unread(page: Page) -> bool:
    return not page.has_read(2 if page.reading(2) else 1, "log")


def _order(page: Page, *, by_key: bool) -> Opinion | None:
    order = page.claims.get("order", "none")
    if not page.changes or order not in (("source", "key") if by_key else ("source",)):
        return None
    if by_key and not any("key" in offer for offer in page.offers.values()):
        return None
    kind = "key-reordered" if by_key else "reordered"
    found = (
        Counter((kind, *slot, None, None) for slot in _v1(page, by_key=by_key))
        if page.log_shows
        else Counter()
    )
    if found:
        return "fail", found
    if page.disagreement or _log_unread(page):
        return "unknown", found
    return "pass" if _compared(page, by_key=by_key) else "vacuous", found


def _v8_of_keys(page: Page) -> Opinion:
    found = [*_v8_whole_table(page), *_v8_changed(page, page.table(1))]
    differs = any(kind != "changed-again" for kind, *_ in found)
    if not page.whole(2):
        found = [one for one in found if one[0] != "changed-again"]
    anomalies = Counter((*one, None, None) for one in found)
    if page.finished and page.whole(1) and found:
        return "fail", anomalies
    if not page.whole(1) or page.disagreement or differs or _v8_further_unread(page):
        return "unknown", Counter()
    return ("pass" if page.offers and page.visible else "vacuous"), Counter()


def _v8_whole_table(page: Page) -> Iterator[Any]:
    first = page.table(1)
    before = [table for at, table in page.log_moments if page.reading(1) and at < page.reading(1)[0]["n"]]
    for key in dict.fromkeys([*page.due, *(row[0] for row in first)]):
        slot = (key, None)
        e, m = page.e(slot) or Counter(), page.m(slot, first)
        if e - m and m - e:
            yield "wrong-value", *slot
        elif m - e:
            yield "duplicate" if e else "phantom", *slot
        elif e - m:
            had_more = any(page.missing(slot, table) < page.missing(slot, first) for table in before)
            yield "deleted" if had_more else "lost", *slot


def _v8(page: Page) -> Opinion:
    if page.of_keys:
        return _v8_of_keys(page)
    everything = [slot for key in page.offers for slot in page.slots(key)]
    first = page.table(1)
    found = dict.fromkeys(
        [
            *_v8_shown(page),
            *(_v8_taken_back(page, everything) if page.write == "append" else ()),
            *(_v8_gone(page, everything, first) if page.finished and page.whole(1) else ()),
            *(_v8_changed(page, first) if page.finished and page.whole(1) and page.whole(2) else ()),
        ]
    )
    anomalies = Counter((*one, None, None) for one in found)
    if found:
        return "fail", anomalies
    if _v8_by_value(page) or not page.whole(1) or page.disagreement or _v8_open(page, everything, first):
        return "unknown", anomalies
    if not page.offers or not page.visible or without_values(page):
        return "vacuous", anomalies
    return "pass", anomalies


def _v8_shown(page: Page) -> Iterator[Any]:
    """After any transaction, or in a reading."""
    tables = [*((True, t) for _, t in page.log_moments), (False, page.table(1)), (False, page.table(2))]
    for logged, table in tables:
        by_value = page.write != "upsert" or (not logged and page.finished)
        for slot in {page.slot(row) for row in table}:
            if slot[0] not in page.offers:
                yield "phantom", *slot
            doubled = page.doubled(slot, table) if by_value else page.too_many(slot, table)
            if doubled and page.delivery != "at-least-once":
                yield "duplicate", *slot
            if by_value and page.wrong(slot, table):
                yield "wrong-value", *slot


def _v8_by_value(page: Page) -> bool:
    """What the values of an `upsert` that is not finished would convict of."""
    return (
        page.write == "upsert"
        and not page.finished
        and any(
            page.wrong(slot, table) or (page.delivery != "at-least-once" and page.doubled(slot, table))
            for table in (page.table(1), page.table(2))
            for slot in {page.slot(row) for row in table}
        )
    )


def _v8_taken_back(page: Page, everything: list[Slot]) -> Iterator[Any]:
    beyond = {page.slot(row) for table in page.shown_tables for row in table if row[0] in page.offers}
    before: Table = Counter()
    for _, table in page.log_moments:
        for slot in {*everything, *beyond}:
            if page.missing(slot, table) > page.missing(slot, before):
                yield "deleted", *slot
        before = table


def _v8_gone(page: Page, everything: list[Slot], first: Table) -> Iterator[Any]:
    began = page.reading(1)[0]["n"]
    for slot in everything:
        missing = page.missing(slot, first)
        if slot[0] in page.excused or not missing:
            continue
        less = any(page.missing(slot, table) < missing for at, table in page.log_moments if at < began)
        known = page.expect(slot[0]) is not None or slot[0] in page.visible
        if less and page.write != "append":
            yield "deleted", *slot
        if not less and page.delivery != "at-most-once" and known:
            yield "lost", *slot


def _v8_changed(page: Page, first: Table) -> Iterator[Any]:
    second = page.table(2)
    for slot in {page.slot(row) for row in [*first, *second]}:
        if page.is_sentinel(slot[0]):
            continue
        one, other = page.m(slot, first), page.m(slot, second)
        if (set(one) != set(other)) if page.delivery == "at-least-once" else one != other:
            yield "changed-again", *slot


def _v8_further_unread(page: Page) -> bool:
    finished = page.one("finished")
    later = page.finished and finished is not None and any(e["n"] > finished["n"] for e in page.all("start"))
    return bool(later or page.reading(2)) and not page.whole(2)


def _v8_open(page: Page, everything: list[Slot], first: Table) -> bool:
    if _v8_further_unread(page):
        return True
    if page.delivery == "at-most-once":
        return False
    for slot in everything:
        if slot[0] not in page.excused and page.missing(slot, first):
            nobody_knows = page.expect(slot[0]) is None and slot[0] not in page.visible
            if not page.finished or nobody_knows:
                return True
    return False


def without_values(page: Page) -> bool:
    offers = page.offers.values()
    if page.of_keys:
        return False
    if page.header["expect_from"] == "none":
        return True
    return bool(offers) and not any("expect" in offer or offer.get("fails") for offer in offers)


def _v13(page: Page) -> Opinion | None:
    fenced = page.claims.get("fenced", page.delivery != "at-least-once")
    if not fenced or not page.changes or not any(row.get("start") for row in page.all("row")):
        return None
    if len(page.all("start")) < 2:
        return "vacuous", Counter()
    found: Counter[Any] = Counter()
    effects: list[int] = []
    unowned = False
    before: Table = Counter()
    for rows, (_, table) in zip(page.transactions, page.moments, strict=True):
        if table != before:
            start = rows[0].get("start")
            if start is None:
                unowned = True
            else:
                if any(start < other for other in effects):
                    found["zombie-effect", None, None, rows[0]["tx"], start] += 1
                effects.append(start)
        before = table
    if page.disagreement:
        return "unknown", Counter()
    if found:
        return "fail", found
    return "unknown" if unowned or _log_unread(page) else "pass", found


def _v16(page: Page) -> Opinion:
    giveup = page.one("giveup")
    if page.finished:
        return "pass", Counter()
    if giveup is None:
        return "unknown", Counter()
    for begin, end in _faults(page):
        over = end is not None and end["n"] < giveup["n"] and giveup["t"] - end["t"] >= 1000 * page.recover
        if begin["n"] < giveup["n"] and not over:
            return "unknown", Counter()
    highest = max((e["start"] for e in page.all("start")), default=0)
    for e in page.all("exit"):
        if e["start"] == highest and page.bad_exit(e):
            for key, offer in page.offers.items():
                poisoned = offer.get("fails") and key not in page.dead(1)
                if (poisoned or page.is_sentinel(key)) and offer["n"] < e["n"]:
                    return "unknown", Counter()
    at = page.replay(giveup["n"]) if page.log_shows else page.table(1)
    for key in page.subjects:
        if any(page.missing(slot, at) for slot in page.slots(key)):
            return "fail", Counter({("stuck", key, None, None, None): 1})
    return "fail", Counter({("stuck", None, None, None, None): 1})


def _faults(page: Page) -> list[tuple[Json, Json | None]]:
    spans: list[tuple[Json, Json | None]] = []
    for e in page.all("fault"):
        if e["phase"] == "begin":
            spans.append((e, None))
        else:
            index = next(i for i, (b, end) in enumerate(spans) if b["f"] == e["f"] and end is None)
            spans[index] = (spans[index][0], e)
    return spans


def _v20(page: Page) -> Opinion | None:
    fails = [key for key, offer in page.offers.items() if offer.get("fails")]
    if page.dead_letters is None and not fails:
        return None
    unread = page.dead_letters is not None and not page.has_read(1, "dead")
    dead = page.dead(1)
    found: Counter[Any] = Counter()
    undecided = False
    for key in fails:
        noticed = any(page.bad_exit(e) and e["n"] > page.offers[key]["n"] for e in page.all("exit"))
        if key not in dead and not noticed and not unread:
            if page.finished:
                found["swallowed", key, None, None, None] += 1
            undecided = True
    for key in set(dead):
        if key not in page.offers:
            found["row-foreign", key, None, None, None] += 1
        elif any(row[0] == key for row in page.table(1)) and page.delivery != "at-least-once":
            found["double-routed", key, None, None, None] += 1
        if dead.count(key) > 1 and page.delivery != "at-least-once":
            found["row-doubled", key, None, None, None] += 1
    if found:
        return "fail", found
    if unread or undecided:
        return "unknown", found
    return "pass" if fails or page.all("dead") else "vacuous", found


def _v23(page: Page) -> Opinion | None:
    spans, expects = _faults(page), page.header.get("expects")
    if expects is None and not spans:
        return None
    if any(end is not None and "error" in end for _, end in spans):
        return "unknown", Counter()
    expects = expects or {}
    short = any(end is not None and not end["evidence"] for _, end in spans)
    short |= bool(set(expects.get("faults", ())) - {begin["f"] for begin, _ in spans})
    for name, kind in (("records", "offer"), ("starts", "start"), ("asked", "asked")):
        short |= len(page.all(kind)) < expects.get(name, 0)
    if spans and page.log_shows:
        proven = [begin for begin, end in spans if end is not None and end["evidence"]]
        short |= not any(_bit(page, begin) or _replaced(page, begin) for begin in proven)
    return "vacuous" if short else "pass", Counter()


def _replaced(page: Page, begin: Json) -> bool:
    """In a finished job, a start that exited by it was followed by another."""
    finished = page.one("finished")
    return (
        page.finished
        and finished is not None
        and any(
            begin["n"] < e["n"] < start["n"] < finished["n"]
            for e in page.all("exit")
            if e.get("by") == begin["f"]
            for start in page.all("start")
        )
    )


def _bit(page: Page, begin: Json) -> bool:
    then = page.replay(begin["n"])
    return any(
        page.missing(slot, table) < page.missing(slot, then)
        for at, table in page.log_moments
        if at > begin["n"]
        for key in page.subjects
        for slot in page.slots(key)
    )


def _v24(page: Page) -> Opinion | None:
    if not page.claims.get("explained", False):
        return None
    giveup = page.one("giveup")
    found: Counter[Any] = Counter()
    for e in page.all("exit"):
        asked = "signal" in e or e.get("code", 0) != 0
        if asked and not (giveup and giveup["n"] < e["n"]) and not _explained(page, e):
            found["unexplained-failure", None, None, None, e["start"]] += 1
    if found:
        return "fail", found
    return "pass" if page.all("start") else "vacuous", found


def _explained(page: Page, e: Json) -> bool:
    start = next(s for s in page.all("start") if s["start"] == e["start"])
    by = e.get("by")
    if by in ("harness", "outside"):
        return True
    for begin, end in _faults(page):
        if begin["n"] > e["n"]:
            continue
        if by == begin["f"] and (end is None or end["n"] > start["n"]):
            return True
        on = end is None or end["n"] > e["n"] or e["t"] - end["t"] <= 1000 * page.recover
        if "exit" in begin.get("can", ()) and on:
            return True
    if any(s["start"] > e["start"] and s["n"] < e["n"] for s in page.all("start")):
        return True
    before = [offer for offer in page.offers.values() if offer["n"] < e["n"]]
    poisoned = page.dead_letters is None and any(offer.get("fails") for offer in before)
    return "code" in e and (poisoned or any(offer.get("sentinel") for offer in before))


def opinions_on(lines: list[Json]) -> dict[str, Opinion]:
    """What the page says of each invariant; those that are missing are not claimed."""
    page = Page(lines)
    given: dict[str, Opinion | None] = {
        "V1": _order(page, by_key=False),
        "V3": _order(page, by_key=True),
        "V8": _v8(page),
        "V13": _v13(page),
        "V16": _v16(page),
        "V20": _v20(page),
        "V23": _v23(page),
        "V24": _v24(page),
    }
    return {name: opinion for name, opinion in given.items() if opinion is not None}


def verdict_on(lines: list[Json], opinions: dict[str, Opinion]) -> str:
    """The overall verdict."""
    decisive = lines[0].get("decisive")
    page = Page(lines)
    counted = []
    for name, (outcome, _) in opinions.items():
        named = name in (decisive or ())
        if outcome == "vacuous" and not (named or name == "V23" or (name == "V8" and without_values(page))):
            continue
        if outcome == "unknown" and decisive is not None and not named:
            continue
        counted.append(outcome)
    counted += ["vacuous" for name in decisive or () if name not in opinions]
    worst = next((o for o in ("fail", "unknown", "vacuous", "pass") if o in counted), "vacuous")
    return "vacuous" if worst == "pass" and not page.offers else worst
