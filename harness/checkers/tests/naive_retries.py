"""V15 on retries, read literally and slowly: each is made, in time, and only where the strategy asks for it.

Findings as in `naive_outputs`. Shares no code with the checkers.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import floor
from typing import Any

from harness.checkers.tests.naive_notions import EVER, Json, Page
from harness.checkers.tests.naive_outputs import Finding

__all__ = ["retries"]


def retries(page: Page) -> Iterator[Finding]:
    if "retry" not in page.operator:
        return
    for s, a in page.every_attempt():
        told = [e for e in page.of(s, a) if e["k"] in {"call", "res", "dead"}]
        for record in dict.fromkeys(e["id"] for e in told):
            own = [e for e in told if e["id"] == record]
            for e in own:
                if _is_first_of_latest(own, e):
                    yield from _after(page, own, e)
            yield from _given_up(page, own)


def _retried(page: Page, res: Json) -> bool:
    if "retry" in res:
        return bool(res["retry"])
    on = page.operator["retry"].get("on", ["fail"])
    return res["r"] in on or ("empty" in on and res["r"] == "ok" and res.get("v") == [])


def _is_first_of_latest(own: list[Json], res: Json) -> bool:
    """Whether it is an R: the first `res` of the record's latest call, not final, no `timeout`."""
    calls = [e for e in own if e["k"] == "call" and e["n"] < res["n"]]
    if res["k"] != "res" or res["final"] or res["r"] == "timeout" or not calls:
        return False
    latest = calls[-1]
    answers = [e for e in own if e["k"] == "res" and e["try"] == latest["try"] and e["n"] > latest["n"]]
    return answers[:1] == [res]


def _waits_us(retry: Json, k: int) -> tuple[float, float]:
    """The shortest and the longest wait after the k-th call."""

    def wait_us(number: int) -> float:
        if retry["backoff"] == "fixed" or number == 1:
            return int(retry["initial_ms"]) * 1000
        grown = floor(retry["initial_ms"] * Fraction(repr(retry["multiplier"])) ** (number - 1))
        return float(min(grown, retry.get("max_ms", EVER)) * 1000)

    if retry.get("profile") == "flink" and k > 1:
        return wait_us(2), retry.get("max_ms", EVER) * 1000
    return wait_us(k), wait_us(k)


def _next(own: list[Json], res: Json) -> Json | None:
    for e in own:
        counts = e["k"] in {"call", "dead"} or (e["k"] == "res" and (e["final"] or e["r"] == "timeout"))
        if e["n"] > res["n"] and counts:
            return e
    return None


def _after(page: Page, own: list[Json], res: Json) -> Iterator[Finding]:
    s, a, record = res["s"], res["a"], res["id"]
    retry = page.operator["retry"]
    k = sum(e["k"] == "call" and e["n"] < res["n"] for e in own)
    shortest, longest = _waits_us(retry, k)
    following = _next(own, res)
    until = following["n"] if following else EVER
    ends = [e["t"] for e in page.of(s, a, "end") if res["n"] < e["n"] < until]
    at_once = bool(ends) and retry.get("at_end", "once") == "once"
    due = min(res["t"] + longest, ends[0]) if at_once else res["t"] + longest
    limit = due + retry.get("slack_ms", 0) * 1000
    called = following is not None and following["k"] == "call"
    late = following is None or following["t"] > limit
    ended = any(e["n"] < until for e in page.of(s, a, "ended"))
    excused = _excused(page, own, res, limit)
    if following and called and not _retried(page, res):
        yield ("retried-anyway", s, record, None, following["n"])
    if following and called and following["t"] < res["t"] + shortest - 1000 and not at_once:
        yield ("retry-early", s, record, None, following["n"])
    if following and called and late and not excused:
        yield ("retry-late", s, record, None, following["n"])
    if ended or (not called and late and not excused):
        yield ("retry-missing", s, record, None, res["n"])


def _excused(page: Page, own: list[Json], res: Json, limit: float) -> bool:
    s, a = res["s"], res["a"]
    first = next(e["t"] for e in own if e["k"] == "call")
    timeout_us = page.operator["timeout_ms"] * 1000
    return (
        any(e["t"] <= limit for e in page.of(s, a, "failed"))
        or page.life_end(s, a) <= limit
        or page.disturbed(res["t"], limit)
        or (timeout_us > 0 and first + timeout_us <= limit)
    )


def _given_up(page: Page, own: list[Json]) -> Iterator[Finding]:
    finals = [e for e in own if e["k"] == "res" and e["final"]][:1]
    given_up = [e for e in finals if e["r"] != "timeout" and _retried(page, e)]
    for res in own:
        if _is_first_of_latest(own, res) and _retried(page, res):
            following = _next(own, res)
            given_up += [following] if following and following["k"] == "dead" else []
    for e in given_up:
        calls = [call for call in own if call["k"] == "call" and call["n"] < e["n"]]
        if 1 <= len(calls) < page.operator["max_tries"] and not _may_give_up(page, e, calls[0]):
            yield ("gave-up-early", e["s"], e["id"], None, e["n"])


def _may_give_up(page: Page, e: Json, first: dict[str, Any]) -> bool:
    timeout_ms = page.operator["timeout_ms"]
    at_end = page.operator["retry"].get("at_end", "once") == "once"
    ended = any(end["n"] < e["n"] for end in page.of(e["s"], e["a"], "end"))
    timed_out = timeout_ms > 0 and e["t"] >= first["t"] + (timeout_ms - 1) * 1000
    return (at_end and ended) or timed_out
