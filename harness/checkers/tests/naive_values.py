"""V8 beyond what is expected, read literally and slowly: results of one key, versions of answers, no values at all.

Findings as in `naive_outputs`. Shares no code with the checkers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.checkers.tests.naive_notions import ABSENT, EVER, Json, Page, canonical
from harness.checkers.tests.naive_outputs import Finding

__all__ = ["inconsistent", "versions", "without_values"]


def without_values(page: Page) -> bool:
    source = page.header.get("expect_from")
    accepted = page.accepted()
    known = any(page.expect(s, record) is not ABSENT for s, record in accepted)
    return source == "none" or (source is not None and bool(accepted) and not known)


def _key(page: Page, record: Any) -> Any:
    s = page.owner(record)
    taken = page.taken(s, record)[0] if s is not None else {}
    return canonical(taken["key"]) if "key" in taken else ABSENT


def inconsistent(page: Page) -> Iterator[Finding]:
    if not page.header.get("by_key", False):
        return
    answered = []
    for home, record in page.accepted():
        a, outcome = page.deciding(home, record)
        s = home if outcome is None else outcome["s"]
        key = _key(page, record)
        if a is None or outcome is None or outcome.get("r") != "ok" or key is ABSENT:
            continue
        calls = [e["n"] for e in page.of(s, a, "call") if e["id"] == record and e["n"] < outcome["n"]]
        if calls:
            answered.append((outcome["n"], min(calls), key, s, record))
    answered.sort(key=lambda item: item[0])
    told: list[Any] = []
    for i, (until, since, key, s, record) in enumerate(answered):
        for other_until, other_since, other_key, other_s, other in answered[:i]:
            if key != other_key or key in told or not _differ(page, (s, record), (other_s, other)):
                continue
            if not _changed(page, key, min(since, other_since), max(until, other_until)):
                told.append(key)
                yield ("inconsistent", s, record, None, until)


def _results(page: Page, s: int, record: Any) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for e in page.visible(s):
        if e["k"] == "out" and e["id"] == record:
            found.setdefault(e["j"], canonical(e["v"]))
    return found


def _differ(page: Page, one: tuple[int, Any], other: tuple[int, Any]) -> bool:
    mine, theirs = _results(page, *one), _results(page, *other)
    both = mine.keys() & theirs.keys()
    return any(mine[j] != theirs[j] for j in both) or (page.finished() and len(mine) != len(theirs))


def _changed(page: Page, key: Any, since: int, until: int) -> bool:
    spans = [(begin["n"], end["n"] if end else EVER) for begin, end in page.changes(key)]
    return any(begin <= until and end >= since for begin, end in spans)


def versions(page: Page) -> Iterator[Finding]:
    if not page.header.get("versions", False):
        return
    for s, a in page.every_attempt():
        visible = {e["id"] for e in page.visible(s) if e["k"] == "out" and e["a"] == a}
        for res in page.of(s, a, "res"):
            key = _key(page, res["id"])
            right = res["r"] == "ok" and res["final"] and "ver" in res
            if not right or key is ABSENT or res["id"] not in visible:
                continue
            for kind in _wrong_version(page, res, key):
                yield (kind, s, res["id"], None, ("attempt", a))


def _wrong_version(page: Page, res: Json, key: Any) -> Iterator[str]:
    calls = [
        e for e in page.of(res["s"], res["a"], "call")
        if e["id"] == res["id"] and e["try"] == res["try"] and e["n"] < res["n"]
    ]  # fmt: skip
    if not calls:
        return
    pairs = page.changes(key)
    if any(begin["ver"] > res["ver"] and end and end["n"] < calls[-1]["n"] for begin, end in pairs):
        yield "stale"
    if res["ver"] > 0 and not any(b["ver"] == res["ver"] and b["n"] < res["n"] for b, _ in pairs):
        yield "future"
