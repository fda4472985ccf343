"""V14 to V16, V19 to V21 and V23 read literally and slowly: what goes on inside an attempt, and in the run.

Findings as in `naive_outputs`. Shares no code with the checkers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from harness.checkers.tests.naive_notions import ABSENT, EVER, Json, Page, canonical
from harness.checkers.tests.naive_outputs import Finding

__all__ = [
    "excused_giveups",
    "fails",
    "shortfalls",
    "v14",
    "v15",
    "v16",
    "v19",
    "v20",
    "v21",
    "waiting_failures",
]

LIVES = ("call", "res", "out", "owm", "snap")


def v14(page: Page) -> Iterator[Finding]:
    for s, a in page.every_attempt():
        for call in page.of(s, a, "call"):
            after = _in_flight(page, s, a, call["n"] + 1)
            if _in_flight(page, s, a, call["n"]) < after > page.operator["capacity"]:
                yield ("over-capacity", s, call["id"], None, call["n"])
        taken = page.of(s, a, "in")
        for i, e in enumerate(taken):
            if any(_waits(page, other, e["n"]) for other in taken[:i]):
                yield ("over-admitted", s, e["id"], None, e["n"])


def _waits(page: Page, taken: Json, by: int) -> bool:
    s, a, record = taken["s"], taken["a"], taken["id"]
    called = any(e["id"] == record and e["n"] < by for e in page.of(s, a, "call"))
    return not called and page.outcome(s, a, record, by) is None


def _in_flight(page: Page, s: int, a: int, by: int) -> int:
    called = {e["id"] for e in page.of(s, a, "call") if e["n"] < by}
    records = [record for record in called if not page.resolved(s, a, record, by)]
    if not page.operator["watermark_slots"]:
        return len(records)
    came = page.came(s, a)
    places = {what[1]: page.position(s, what) for what in came if what[0] == "record"}
    behind = [places[r] for r in called if places.get(r) is not None]
    left = page.left_marks(s, a, by, leniently=True)
    held = [
        what for what, e in came.items()
        if what[0] == "mark" and e["n"] < by and what not in left and any(p > what[1] for p in behind)
    ]  # fmt: skip
    if page.coalesces:
        known = [p for p in places.values() if p is not None]
        return len(records) + len({sum(p < what[1] for p in known) for what in held})
    return len(records) + len(held)


def v15(page: Page) -> Iterator[Finding]:
    for s, a in page.every_attempt():
        seen: list[Json] = []
        for e in page.of(s, a):
            own = [other for other in seen if other.get("id") == e.get("id", ABSENT)]
            if e["k"] in {"call", "res"}:
                by = [what for what, came in page.came(s, a).items() if came["n"] < e["n"]]
                if ("record", e["id"]) not in by:
                    yield ("unknown-record", s, e["id"], None, e["n"])
            if e["k"] == "call":
                for kind in () if _called_again_at_the_end(page, e, own) else _bad_call(page, e, own):
                    yield (kind, s, e["id"], None, e["n"])
            elif e["k"] == "res":
                for kind in _bad_outcome(page, e, own):
                    yield (kind, s, e["id"], None, e["n"])
            elif e["k"] == "out" and page.outcome(s, a, e["id"], e["n"]) is None:
                yield ("out-before-outcome", s, e["id"], None, e["n"])
            seen.append(e)
        yield from _late(page, s, a)


def _called_again_at_the_end(page: Page, call: Json, own: list[Json]) -> bool:
    """As Flink may: its set of records to call again is not exact."""
    if page.operator.get("retry", {}).get("profile") != "flink":
        return False
    ends = [e["n"] for e in page.of(call["s"], call["a"], "end") if e["n"] < call["n"]]
    return bool(ends) and not any(e["k"] == "call" and e["n"] > ends[0] for e in own)


def _bad_call(page: Page, call: Json, own: list[Json]) -> Iterator[str]:
    """Of a call, given what was known of its record before."""
    calls = [e for e in own if e["k"] == "call"]
    answers = [e for e in own if e["k"] == "res"]
    if any(e["final"] for e in answers):
        yield "call-after-final"
    if any(not any(r["try"] == c["try"] and r["n"] > c["n"] for r in answers) for c in calls):
        yield "concurrent-call"
    if call["try"] != (calls[-1]["try"] + 1 if calls else 1) or call["try"] > page.operator["max_tries"]:
        yield "tries"


def _bad_outcome(page: Page, res: Json, own: list[Json]) -> Iterator[str]:
    calls = [e for e in own if e["k"] == "call"]
    timeout_ms = page.operator["timeout_ms"]
    if res["final"] and any(e["k"] == "res" and e["final"] for e in own):
        yield "two-outcomes"
    if res["r"] == "timeout":
        soon = calls and res["t"] < calls[0]["t"] + (timeout_ms - 1) * 1000
        if timeout_ms == 0 or soon:
            yield "early-timeout"
    elif all(e["try"] != res["try"] for e in calls):
        yield "unknown-call"


def _late(page: Page, s: int, a: int) -> Iterator[Finding]:
    timeout_ms = page.operator["timeout_ms"]
    life_end = page.life_end(s, a)
    calls = page.of(s, a, "call")
    for record in dict.fromkeys(e["id"] for e in calls) if timeout_ms else ():
        first = next(e["t"] for e in calls if e["id"] == record)
        limit = first + (timeout_ms + page.bounds["timeout_slack"]) * 1000
        finals = [e for e in page.of(s, a, "res") if e["id"] == record and e["final"]]
        in_time = any(e["t"] <= limit for e in finals[:1])
        failed = any(e["t"] <= limit for e in page.of(s, a, "failed"))
        if not (in_time or failed or life_end <= limit or page.stalled(first, limit)):
            yield ("late-timeout", s, record, None, ("attempt", a))


def excused_giveups(page: Page) -> list[Json]:
    """Those with a fault active, or too recent."""
    recover = page.bounds["recover"] * 1000
    excused = []
    for giveup in page.kind("giveup"):
        begun = [(b, e) for b, e in page.faults() if b["n"] < giveup["n"]]
        if any(e is None or e["n"] > giveup["n"] or giveup["t"] - e["t"] < recover for _, e in begun):
            excused.append(giveup)
    return excused


def v16(page: Page) -> Iterator[Finding]:
    for giveup in page.kind("giveup"):
        if giveup in excused_giveups(page):
            continue
        n = giveup["n"]
        open_ = []
        for s in page.subtasks:
            started = [e["a"] for e in page.of(s, None, "start") if e["n"] < n]
            a = max(started, default=None)
            ender = page.ender(s)
            if a is None or (ender is not None and ender["n"] < n):
                continue
            left = page.left_marks(s, a, n, leniently=True)
            for place, (what, by) in enumerate(page.came(s, a).items()):
                done = what in left if what[0] == "mark" else page.resolved(s, a, what[1], n)
                if by["n"] < n and not done:
                    open_.append((by["n"], place, s, what[-1]))
        where = min(open_)[2:] if open_ else (None, None)
        yield ("stuck", *where, None, n)


def v19(page: Page) -> Iterator[Finding]:
    asked = [e for e in page.kind("call") if "nonce" in e]
    for i, call in enumerate(asked):
        if any(canonical(other["nonce"]) == canonical(call["nonce"]) for other in asked[:i]):
            yield ("nonce-reused", call["s"], call["id"], None, call["n"])
    for res in page.kind("res"):
        if "nonce" not in res:
            continue
        nonce = canonical(res["nonce"])
        sent = [e for e in asked if all(e[name] == res[name] for name in ("s", "a", "id", "try"))]
        of_another = any(canonical(e["nonce"]) == nonce and e["n"] < res["n"] for e in asked)
        mine = any(canonical(e["nonce"]) == nonce for e in sent)
        if not mine and (sent or of_another):
            yield ("foreign-response", res["s"], res["id"], None, res["n"])


def fails(page: Page) -> list[Json]:
    answers = page.kind("res")
    return [e for e in answers if (e["final"] and e["r"] == "fail") or (e["r"] == "timeout" and "error" in e)]


def _untold(page: Page) -> Iterator[tuple[Json, bool]]:
    """Each failure that nobody heard of, and whether nobody can any more."""
    for res in fails(page):
        s, a, n = res["s"], res["a"], res["n"]
        later = [e for e in page.of(s, a) if e["n"] > n]
        told = any(e["k"] == "failed" or (e["k"] == "dead" and e["id"] == res["id"]) for e in later)
        completed = page.completed_snaps(s)
        kept = [
            e["n"]
            for e in later
            if e["k"] == "snap"
            and any(e is snap for snap in completed)
            and all(held.get("id") != res["id"] for held in e["elements"])
        ]
        killed = any(e["k"] == "kill" and e["n"] < min(kept, default=EVER) for e in later)
        stopped = page.stopped(s)
        if stopped and a == page.attempts(s)[-1] and not page.of(s, a, "kill"):
            killed = n < stopped["n"] < min(kept, default=EVER)
        over = (
            any(e["k"] in {"ended", "close"} for e in page.of(s, a)) or a < page.attempts(s)[-1] or bool(kept)
        )
        if not told and not killed:
            yield res, over


def waiting_failures(page: Page) -> list[Json]:
    return [res for res, over in _untold(page) if not over]


def v20(page: Page) -> Iterator[Finding]:
    for res, over in _untold(page):
        if over:
            yield ("swallowed", res["s"], res["id"], None, res["n"])
    for s, a in page.every_attempt():
        dead = {e["id"] for e in page.of(s, a, "dead")}
        for record in dead & {e["id"] for e in page.of(s, a, "failed") if "id" in e}:
            yield ("double-routed", s, record, None, ("attempt", a))


def _named(e: Json) -> Any:
    return e["id"] if "id" in e else e.get("w")


def v21(page: Page) -> Iterator[Finding]:
    for s, a in page.every_attempt():
        acts = page.of(s, a, *LIVES)
        threads = [e["thread"] for e in acts if "thread" in e]
        begin, close = page.start(s, a)["n"], min((e["n"] for e in page.of(s, a, "close")), default=EVER)
        for e in acts:
            if "thread" in e and e["thread"] != threads[0]:
                yield ("foreign-thread", s, _named(e), e.get("c"), e["n"])
            if e["n"] < begin or e["n"] > close:
                yield ("outside-life", s, _named(e), e.get("c"), e["n"])
        outs = page.of(s, a, "out")
        for one, other in combinations(outs, 2):
            between = [e for e in outs if one["n"] < e["n"] < other["n"]]
            if (
                one["id"] == other["id"]
                and one["j"] < other["j"]
                and any(e["id"] != one["id"] for e in between)
            ):
                yield ("interleaved", s, one["id"], None, ("attempt", a))


def shortfalls(page: Page) -> bool:
    """V23: whether something was to be seen and was not."""
    expects = page.header.get("expects", {})
    begun = {e["f"] for e in page.kind("fault") if e["phase"] == "begin"}
    completed = {e["c"] for s in page.subtasks for e in page.completers(s)}
    if page.sink != "atomic":
        completed = {e["c"] for e in page.kind("done")}
    return (
        any(e["phase"] == "end" and not e["evidence"] for e in page.kind("fault"))
        or any(name not in begun for name in expects.get("faults", []))
        or len(page.accepted()) < expects.get("records", 0)
        or len(completed) < expects.get("checkpoints", 0)
        or len(page.kind("restore")) < expects.get("restores", 0)
        or len(page.kind("rescale")) < expects.get("rescales", 0)
    )
