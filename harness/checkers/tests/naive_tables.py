"""What tables are judged for, read literally and slowly: the rows of outputs (V8), effects (V9) and dead letters (V20).

Each yields whether a finding is certain (else it leaves the invariant open), and the finding: (class, subtask, id,
None, table, `j`, what tells two apart). Shares no code with the checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from harness.checkers.tests.naive_attempts import fails
from harness.checkers.tests.naive_notions import ABSENT, Json, Page, canonical
from harness.checkers.tests.naive_outputs import Finding, uncertain

__all__ = ["Suspicion", "dead_rows", "effect_rows", "output_rows"]

Suspicion = tuple[bool, Finding]
Claim = tuple[str, bool]
"""A class, and whether it is certain."""


def _told(page: Page, name: str, key: tuple[Any, int | None], claims: Iterator[Claim]) -> Iterator[Suspicion]:
    record, j = key
    for kind, certain in claims:
        if kind in {"row-missing", "row-deleted"} and not page.read_whole(name):
            continue
        yield certain, (kind, page.owner(record), record, None, name, j, "row")


def _values(events: list[Json], name: str = "v") -> list[Any]:
    return [canonical(e[name]) for e in events if name in e]


def _too_many(rows: list[Json], written: list[Json], keep: str) -> bool:
    return len(rows) > 1 if keep != "all" else len(rows) > len(written)


def _too_few(rows: list[Json], written: list[Json], keep: str) -> bool:
    return bool(written and not rows) if keep != "all" else len(rows) < len(written)


def output_rows(page: Page) -> Iterator[Suspicion]:
    for name in page.tables_of("outputs"):
        ever = [e for s in page.subtasks for e in page.of(s, None, "out")]
        keys = dict.fromkeys((e["id"], e["j"]) for e in [*ever, *page.rows(name)])
        for record, j in keys:
            yield from _told(page, name, (record, j), _of_output(page, name, record, j))
        yield from _disordered(page, name)


def _seen(page: Page, record: Any, j: int) -> list[Json]:
    visible = [e for s in page.subtasks for e in page.visible(s) if e["k"] == "out"]
    return [e for e in visible if e["id"] == record and e["j"] == j]


def _of_output(page: Page, name: str, record: Any, j: int) -> Iterator[Claim]:
    keep, finished = page.tables[name].get("keep", "all"), page.finished()
    rows = [e for e in page.rows(name) if (e["id"], e["j"]) == (record, j)]
    seen = _seen(page, record, j)
    outs = [e for s in page.subtasks for e in page.of(s, None, "out")]
    ever = [e for e in outs if (e["id"], e["j"]) == (record, j)]
    lasting = {e["n"]: e for e in seen if page.stands_in_chain(e)}
    open_ = not finished and bool(ever)
    if _too_few(rows, list(lasting.values()), keep):
        yield "row-missing", finished
    if seen and _too_many(rows, seen, keep):
        yield "row-doubled", not open_
    strange = keep != "first" and any(_of_none(page, row, seen) for row in rows)
    if rows and (not seen or strange):
        yield "row-foreign", not open_
    right = _values(ever if keep == "first" else seen)
    altered = [v for v in _values(rows) if v not in right]
    if seen and altered:
        yield "row-altered", finished or any(v not in _values(ever) for v in altered)


def _of_none(page: Page, row: Json, seen: list[Json]) -> bool:
    """Written by an attempt, or in an epoch, of which no such output is seen."""
    if "token" in row and all(row["token"] != e["a"] for e in seen):
        return True
    if "c" not in row or page.sink not in {"atomic", "two-phase"}:
        return False
    snaps = [snap for e in seen for snap in page.of(e["s"], e["a"], "snap")]
    epochs = {snap["c"] for snap in snaps if any(o is e for o in page.epoch(snap) for e in seen)}
    return row["c"] not in epochs


def _disordered(page: Page, name: str) -> Iterator[Suspicion]:
    if not page.tables[name].get("ordered", False):
        return
    places: list[tuple[int, int, Json]] = []
    for row in sorted(page.rows(name), key=lambda e: e["seq"]):
        same = [e for e in page.rows(name) if (e["id"], e["j"]) == (row["id"], row["j"])]
        seen = _seen(page, row["id"], row["j"])
        if len(same) == 1 and len(seen) == 1:
            s = seen[0]["s"]
            place = next(i for i, e in enumerate(page.visible(s)) if e is seen[0])
            places.append((s, place, row))
    for i, (s, place, row) in enumerate(places):
        if any(other == s and place < earlier for other, earlier, _ in places[:i]):
            where = (name, row["j"], row["n"])
            yield True, ("row-disordered", page.owner(row["id"]), row["id"], None, *where)


def effect_rows(page: Page) -> Iterator[Suspicion]:
    for name in page.tables_of("effects"):
        told = [*page.kind("effect"), *page.rows(name)]
        keys = {(e["id"], e["j"] if page.by_output else None) for e in told}
        for s, record in page.accepted():
            wanted = page.expected(s, record)
            numbers = range(0 if wanted is ABSENT else len(wanted))
            keys |= {(record, j) for j in numbers} if page.by_output else {(record, None)}
        against = _against_the_audit if page.has_audit() else _against_what_is_expected
        for record, j in keys:
            yield from _told(page, name, (record, j), against(page, name, record, j))


def _of_key(page: Page, events: list[Json], record: Any, j: int | None) -> list[Json]:
    return [e for e in events if e["id"] == record and (not page.by_output or e["j"] == j)]


def _against_the_audit(page: Page, name: str, record: Any, j: int | None) -> Iterator[Claim]:
    keep = page.tables[name].get("keep", "all")
    rows = _of_key(page, page.rows(name), record, j)
    effects = _of_key(page, page.kind("effect"), record, j)
    all_known = not page.not_whole("audit")
    if _too_few(rows, effects, keep):
        yield "row-deleted", True
    if rows and not effects and all_known:
        yield "row-foreign", True
    if effects and _too_many(rows, effects, keep) and (all_known or keep != "all"):
        yield "row-doubled", True
    if keep == "last":
        yield from (claim for claim in _expected_value(page, rows, record, j))
        return
    told = all("v" in e for e in effects)
    altered = any(v not in _values(effects) for v in _values(rows))
    if effects and told and altered and all_known:
        yield "row-altered", True


def _against_what_is_expected(page: Page, name: str, record: Any, j: int | None) -> Iterator[Claim]:
    rows = _of_key(page, page.rows(name), record, j)
    s = page.owner(record)
    if len(rows) > 1:
        yield "row-doubled", True
    if s is None:
        yield "row-foreign", True
        return
    wanted = page.expected(s, record)
    if wanted is ABSENT or uncertain(page, s, record):
        return
    if not 0 <= (j or 0) < len(wanted):
        yield from [("row-foreign", True)] if rows else []
    elif not rows:
        yield "row-missing", page.finished()
    else:
        yield from _expected_value(page, rows, record, j)


def _expected_value(page: Page, rows: list[Json], record: Any, j: int | None) -> Iterator[Claim]:
    s = page.owner(record)
    wanted: Any = ABSENT if s is None else page.expected(s, record)
    if s is None or wanted is ABSENT or uncertain(page, s, record) or not 0 <= (j or 0) < len(wanted):
        return
    right = [wanted, *(wanted if len(wanted) == 1 else [])] if j is None else [wanted[j]]
    if any(v not in [canonical(good) for good in right] for v in _values(rows)):
        yield "row-altered", page.finished()


def dead_rows(page: Page) -> Iterator[Suspicion]:
    for name in page.tables_of("dead"):
        letters = [e for s in page.subtasks for e in page.of(s, None, "dead")]
        for record in dict.fromkeys(e["id"] for e in [*letters, *page.rows(name)]):
            yield from _told(page, name, (record, None), _of_dead(page, name, record))


def _of_dead(page: Page, name: str, record: Any) -> Iterator[Claim]:
    def of_it(kinds: tuple[str, ...], of: Callable[[int, tuple[str, ...]], list[Json]]) -> list[Json]:
        return [e for s in page.subtasks for e in of(s, kinds) if e["id"] == record]

    keep, finished = page.tables[name].get("keep", "all"), page.finished()
    rows = [e for e in page.rows(name) if e["id"] == record]
    ever = of_it(("dead",), lambda s, kinds: page.of(s, None, *kinds))
    seen = of_it(("dead",), page.visible)
    outs = [e for s in page.subtasks for e in page.visible(s) if e["k"] == "out" and e["id"] == record]
    open_ = not finished and bool(ever) and not outs
    if _too_few(rows, [e for e in ever if page.stands_in_chain(e)], keep):
        yield "row-missing", finished
    if seen and _too_many(rows, seen, keep):
        yield "row-doubled", not open_
    if rows and (not seen or outs):
        yield "row-foreign", not open_
    behind = [_failure_behind(page, e) for e in (ever if keep == "first" or not finished else seen)]
    told = [res for res in behind if res is not None and "error" in res]
    errors = _values(told, "error")
    if seen and len(told) == len(behind) and any(v not in errors for v in _values(rows, "error")):
        yield "row-altered", True


def _failure_behind(page: Page, dead: Json) -> Json | None:
    failures = [e for e in fails(page) if all(e[name] == dead[name] for name in ("s", "a", "id"))]
    return next((e for e in reversed(failures) if e["n"] < dead["n"]), None)
