"""V24 read literally and slowly: what explains that an attempt failed, was killed or was started anew.

Findings as in `naive_outputs`. Shares no code with the checkers.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.checkers.tests.naive_attempts import fails
from harness.checkers.tests.naive_notions import EVER, Json, Page
from harness.checkers.tests.naive_outputs import Finding

__all__ = ["v24"]


def v24(page: Page) -> Iterator[Finding]:
    given_up = min((e["n"] for e in page.kind("giveup")), default=EVER)
    for e in page.kind("failed", "kill", "start"):
        if e["n"] > given_up or (e["k"] == "start" and not _is_restart(page, e)):
            continue
        of = _before(page, e) if e["k"] == "start" else e["a"]
        assert of is not None
        begun = page.start(e["s"], of)["n"]
        if _by_name(page, e, begun) or _by_what_is_on(page, e) or _also(page, e, begun):
            continue
        failures = [res["id"] for res in _failures(page, e)] if e["k"] == "failed" else []
        record = e.get("id", failures[-1] if failures else None)
        yield ("unexplained-failure", e["s"], record, None, e["n"])


def _before(page: Page, start: Json) -> int | None:
    """The attempt before this one: the highest lower one."""
    return max((a for a in page.attempts(start["s"]) if a < start["a"]), default=None)


def _is_restart(page: Page, start: Json) -> bool:
    before = _before(page, start)
    if before is None:
        return False
    ends = page.of(start["s"], before, "ended", "failed", "kill")
    return not any(e["n"] < start["n"] for e in ends)


def _by_name(page: Page, e: Json, begun: float) -> bool:
    """`begun`: the `start` that a fault of the name must have reached."""
    if e.get("by") in {"outside", "planted"}:
        return True
    named = [pair for pair in page.faults() if pair[0]["f"] == e.get("by")]
    return any(b["n"] < e["n"] and (end is None or end["n"] > begun) for b, end in named)


def _can(page: Page, kind: str, s: int) -> list[tuple[Json, Json | None]]:
    return [(b, end) for b, end in page.faults() if kind in b.get("can", []) and b.get("s", s) == s]


def _by_what_is_on(page: Page, e: Json) -> bool:
    recover = page.bounds["recover"] * 1000
    return any(
        b["n"] < e["n"] and (end is None or end["n"] > e["n"] or e["t"] - end["t"] <= recover)
        for b, end in _can(page, e["k"], e["s"])
    )


def _also(page: Page, e: Json, begun: float) -> bool:
    s, a, n = e["s"], e["a"], e["n"]
    told = page.kind("failed", "kill")
    elsewhere = [other for other in told if other["s"] != s and begun < other["n"] < n]
    together = page.header["explained"] == "together" and bool(elsewhere)
    later = any(other["a"] > a and other["n"] < n for other in page.of(s, None, "start"))
    match e["k"]:
        case "failed":
            return later or any(_asked_for(page, res) for res in _failures(page, e))
        case "kill":
            over = any(other["n"] < n for other in page.of(s, a, "failed", "ended", "close"))
            return over or later or together
        case _:
            return together


def _failures(page: Page, failed: Json) -> list[Json]:
    """Failures of calls that, by policy, fail the attempt."""
    policies = {"timeout": page.operator.get("on_timeout"), "fail": page.operator.get("on_error")}
    return [
        res for res in fails(page)
        if res["s"] == failed["s"] and res["a"] == failed["a"] and res["n"] < failed["n"]
        and res["id"] == failed.get("id", res["id"]) and policies[res["r"]] == "fail"
    ]  # fmt: skip


def _asked_for(page: Page, res: Json) -> bool:
    s, a = res["s"], res["a"]
    if _by_name(page, res, page.start(s, a)["n"]):
        return True
    calls = [e["t"] for e in page.of(s, a, "call") if e["id"] == res["id"]]
    since = min(calls, default=res["t"]) - page.bounds["recover"] * 1000
    return any(b["n"] < res["n"] and (end is None or end["t"] >= since) for b, end in _can(page, "res", s))
