"""V3, V6, V7, V12, V18, V19 on random histories: legal ones are acquitted, mutated ones judged as a slow reading does.

The histories get keys, nonces and bounds here, which the model leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.checkers.judge import Malformed, judge_reader
from harness.checkers.registry import CHECKERS
from harness.checkers.tests.blind_mutations import mutated
from harness.checkers.tests.legal_histories import legal_history
from harness.checkers.tests.naive_judge import ABSENT, Finding, Json, Naive, same_id
from harness.checkers.tests.small_histories import text
from harness.choices import Choices
from harness.history.read import open_text
from harness.verdict import Judgement, Outcome

NAMES = ("V3", "V6", "V7", "V12", "V18", "V19")
MINE = [checker for checker in CHECKERS if checker.name in NAMES]
SINKS = ["rollback", "append", "atomic", "two-phase"]
KEYS = [ABSENT, None, 0, 0.0, "k"]
BATCHES, SEEDS_EACH, AGREED_EACH = 20, 100, 5


def adorned(lines: list[Json]) -> list[Json]:
    """With a key of each record where its order is kept, a nonce of each call, and bounds."""
    header = {**lines[0], "bounds": {"checkpoint_gap": 10**6, "watermark_hold": 10**6}}
    events = []
    for told in lines[1:]:
        event = dict(told)
        if event["k"] == "in" and (key := KEYS[event["pos"] % len(KEYS)]) is not ABSENT:
            event["key"] = key
        if event["k"] in {"call", "res"}:
            event["nonce"] = f"{event['s']}/{event['a']}/{event['id']}/{event['try']}"
        events.append(event)
    return [header, *events]


def judged(lines: list[Json]) -> Judgement | Malformed:
    return judge_reader(open_text(text(lines)), checkers=MINE)


@pytest.mark.parametrize("sink", SINKS)
def test_a_legal_history_is_never_convicted(sink: str) -> None:
    for seed in range(20):
        judgement = judged(adorned(legal_history(seed, sink=sink)))

        assert isinstance(judgement, Judgement)
        outcomes = {verdict.outcome for verdict in judgement.invariants}
        assert not outcomes & {Outcome.FAIL, Outcome.UNKNOWN}, (seed, judgement)


@pytest.mark.parametrize("sink", SINKS)
def test_one_that_breaks_off_anywhere_is_not_convicted_either(sink: str) -> None:
    for seed in range(4):
        lines = adorned(legal_history(seed, sink=sink))
        for end in range(1, len(lines), max(1, len(lines) // 8)):
            judgement = judged(lines[:end])

            assert isinstance(judgement, Malformed) or not judgement.convicted(), (seed, end)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_checkers_find_what_a_slow_and_literal_reading_finds(batch: int) -> None:
    agreed = 0
    for seed in range(batch * SEEDS_EACH, (batch + 1) * SEEDS_EACH):
        lines = mutated(adorned(legal_history(seed)), Choices(seed, "blind mutations"))
        lines[0]["operator"].pop("coalesces_watermarks", None)
        judgement = judged(lines)
        if isinstance(judgement, Malformed):
            continue

        assert findings(judgement) == set(Slow(lines).all()), seed
        agreed += 1
        if agreed == AGREED_EACH:
            return
    pytest.fail(f"only {agreed} of {SEEDS_EACH} mutated histories were well-formed")


def findings(judgement: Judgement) -> set[Finding]:
    return {
        (verdict.invariant, a.kind, a.s, a.w if a.id is None else a.id, a.c)
        for verdict in judgement.invariants
        for a in verdict.anomalies
    }


class Slow(Naive):
    """The page read once more, literally; nothing here is late, so `held` and `checkpoint-gap` are no matter."""

    def all(self) -> Iterator[Finding]:
        last = {s: max(self.attempts(s)) for s in self.subtasks}
        done = bool(last) and all(self.of(s, a, "ended") for s, a in last.items())
        everywhere = sorted({e["s"] for e in self.events if "s" in e})
        for s in everywhere:
            if s in self.subtasks:
                yield from self.v6(s, done=done)
                yield from self.v7(s)
                if self.ordered:
                    yield from self.v3(s)
            if self.sink in {"atomic", "two-phase"}:
                yield from self.v12(s, done=done)
        yield from self.v19()

    def key(self, s: int, record: Any) -> Any:
        taken = (e for e in self.of(s, None, "in") if same_id(e["id"], record))
        return next((repr(e["key"]) if "key" in e else ABSENT for e in taken), ABSENT)

    def v3(self, s: int) -> Iterator[Finding]:
        out = [e for e in self.output(s) if e["k"] == "out"]
        for i, e in enumerate(out):
            pos, key = self.position(s, e["id"]), self.key(s, e["id"])
            rivals = [o for o in out[:i] if key is not ABSENT and self.key(s, o["id"]) == key]
            if any(self.position(s, o["id"]) > pos for o in rivals):
                yield ("V3", "key-reordered", s, e["id"], None)

    def v6(self, s: int, *, done: bool) -> Iterator[Finding]:
        visible = self.stands(self.output(s), self.marks(s))
        for pos, w in self.marks(s):
            if done and pos not in visible:
                yield ("V6", "watermark-lost", s, w, None)

    def v7(self, s: int) -> Iterator[Finding]:
        for e in self.of(s, None, "owm"):
            if e["w"] not in [w for _, w in self.attempt_marks(s, e["a"], e["n"])]:
                yield ("V7", "phantom-watermark", s, e["w"], None)
        out = self.output(s)
        for i, e in enumerate(out):
            places = sum(w == e.get("w") for _, w in self.marks(s))
            if 0 < places <= sum(o["k"] == "owm" and o["w"] == e.get("w") for o in out[:i]):
                yield ("V7", "repeated-watermark", s, e["w"], None)
            if any(o["k"] == "owm" and o["w"] == "end" for o in out[:i]):
                yield ("V7", "after-end", s, e["id"] if e["k"] == "out" else e["w"], None)

    def v12(self, s: int, *, done: bool) -> Iterator[Finding]:
        commits = self.of(s, None, "commit")
        shown = []
        for i, e in enumerate(commits):
            numbers = [o["c"] for o in commits[:i]]
            snap = self.which_snap(s, e["c"], e["n"], e.get("a"))
            shown.append(snap)
            if e["c"] in numbers:
                yield ("V12", "committed-twice", s, None, e["c"])
            if any(c > e["c"] for c in numbers):
                yield ("V12", "commit-order", s, None, e["c"])
            if snap is None:
                yield ("V12", "unknown-epoch", s, None, e["c"])
            elif self.sink == "two-phase" and not self.allowed(s, snap, e["n"]):
                yield ("V12", "early-commit", s, None, e["c"])
        for a, until in self.chain(s) if done and s in self.subtasks else ():
            emitted = 0
            for e in self.of(s, a, "snap", "out", "owm"):
                emitted += e["k"] != "snap"
                if e["k"] == "snap":
                    if emitted and e["n"] <= until and e not in shown:
                        yield ("V12", "never-committed", s, None, e["c"])
                    emitted = 0

    def allowed(self, s: int, snap: Json, n: int) -> bool:
        own = [e["c"] for e in self.of(s, snap["a"], "snap") if e["n"] < n and e["c"] > snap["c"]]
        return any(e["k"] == "done" and e["n"] < n and e["c"] in [snap["c"], *own] for e in self.events)

    def v19(self) -> Iterator[Finding]:
        calls = [e for e in self.events if e["k"] == "call"]
        for i, e in enumerate(calls):
            if e["nonce"] in [o["nonce"] for o in calls[:i]]:
                yield ("V19", "nonce-reused", e["s"], e["id"], None)
        for e in self.events:
            own = [
                c["nonce"] for c in calls if all(c[name] == e.get(name) for name in ("s", "a", "id", "try"))
            ]
            known = any(c["nonce"] == e.get("nonce") and c["n"] < e["n"] for c in calls)
            if e["k"] == "res" and e["nonce"] not in own and (own or known):
                yield ("V19", "foreign-response", e["s"], e["id"], None)
