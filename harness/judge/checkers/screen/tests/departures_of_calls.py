"""What calls, outcomes, checkpoints' times and threads do in no regular life, each by itself (as `departures`)."""

from __future__ import annotations

from harness.judge.checkers.screen.tests.departures import BUSY, DEAD, KILL, PAIR, TWICE, UNORDERED, Departure
from harness.judge.checkers.tests.small_histories import (
    answered,
    called,
    commit,
    done,
    ended,
    event,
    left,
    owm,
    settled,
    snap,
    stall,
    start,
    took,
    wm,
)

FAILS = answered("a", r="fail", error="no")
TIMEOUT = answered("a", r="timeout", v=[], ms=20)
TIMED = {"timeout_ms": 10}

OF_CALLS: dict[str, Departure] = {
    "over capacity": ("V14", [start(), PAIR, left("a"), left("b"), ended()], {"operator": {"capacity": 1}}),
    "over capacity with a watermark between": (
        "V14",
        [
            [start(), BUSY, wm(1, 1), took("b", 2), called("b")],
            [answered("a"), answered("b"), left("a"), owm(1), left("b"), ended()],
        ],
        {"operator": {"capacity": 2}},
    ),
    "a second one waits": (
        "V14",
        [start(), took("a", 0), took("b", 1), settled("a"), settled("b"), ended()],
        {},
    ),
    "a call of nobody": ("V15", [start(), called("a"), ended()], {}),
    "an answer that nobody asked for": (
        "V15",
        [start(), took("a", 0), answered("a"), left("a"), ended()],
        {},
    ),
    "two outcomes": ("V15", [start(), BUSY, answered("a"), answered("a"), left("a"), ended()], {}),
    "two outcomes, the first of which tells nothing": (
        "V15",
        [
            [start(), event("in", pos=0, id="a"), called("a")],
            [event("res", id="a", **{"try": 1, "r": "ok", "final": True}), answered("a"), left("a"), ended()],
        ],
        {},
    ),
    "two outcomes, the second a failure": ("V15", [start(), BUSY, answered("a"), FAILS, DEAD, ended()], {}),
    "a failure of a call that nobody made": ("V15", [start(), BUSY[0], FAILS, DEAD, ended()], {}),
    "a timeout that is not final, and nothing more": (
        "V8",
        [start(), BUSY, answered("a", r="timeout", v=[], final=False, ms=10), ended()],
        {"operator": TIMED},
    ),
    "one try twice": ("V15", [start(), BUSY, called("a"), answered("a"), left("a"), ended()], {}),
    "a call after a timeout without a call": (
        "V15",
        [start(), BUSY[0], answered("a", r="timeout", ms=10), called("a"), left("a"), ended()],
        {"operator": TIMED},
    ),
    "a result of an answer that is not final": (
        "V15",
        [start(), BUSY, answered("a", final=False), left("a"), ended()],
        {},
    ),
    "a result by the attempt before": (
        "V15",
        [
            [start(), BUSY, start(a=2), took("a", 0, a=2), called("a", a=2), answered("a", a=2)],
            [left("a"), ended(a=2)],
        ],
        {},
    ),
    "another number for the only result": (
        "V8",
        [start(), BUSY, answered("a"), left("a", j=1), ended()],
        {},
    ),
    "a call after the outcome": (
        "V15",
        [start(), BUSY, answered("a"), called("a", **{"try": 2}), left("a"), ended()],
        {"operator": {"max_tries": 3}},
    ),
    "two calls at once": (
        "V15",
        [start(), BUSY, called("a", **{"try": 2}), answered("a", **{"try": 2}), left("a"), ended()],
        {"operator": {"max_tries": 3}},
    ),
    "a try left out": (
        "V15",
        [
            [start(), BUSY, answered("a", r="fail", final=False), called("a", **{"try": 3})],
            [answered("a", **{"try": 3}), left("a"), ended()],
        ],
        {"operator": {"max_tries": 3}},
    ),
    "a first try that is not the first": (
        "V15",
        [start(), took("a", 0), [step | {"try": 2} for step in settled("a")[:2]], left("a"), ended()],
        {"operator": {"max_tries": 3}},
    ),
    "a try too many": (
        "V15",
        [
            [start(), BUSY, answered("a", r="fail", final=False), called("a", **{"try": 2})],
            [answered("a", **{"try": 2}), left("a"), ended()],
        ],
        {},
    ),
    "a timeout too soon": (
        "V15",
        [start(), BUSY, answered("a", r="timeout", v=[], ms=5), ended()],
        {"operator": TIMED},
    ),
    "a timeout where there is none": ("V15", [start(), BUSY, TIMEOUT, ended()], {}),
    "an outcome too late": (
        "V15",
        [start(), BUSY, answered("a", ms=20), left("a"), ended()],
        {"operator": TIMED},
    ),
    "a timeout too late": ("V15", [start(), BUSY, TIMEOUT, ended()], {"operator": TIMED}),
    "an outcome too late after the first of two tries": (
        "V15",
        [
            [start(), BUSY, answered("a", r="fail", final=False), called("a", **{"try": 2}, ms=8)],
            [answered("a", **{"try": 2}, ms=15), left("a"), ended()],
        ],
        {"operator": TIMED | {"max_tries": 2}},
    ),
    "an outcome that never comes": (
        "V15",
        [start(), BUSY, event("abort", c=1, ms=20)],
        {"operator": TIMED},
    ),
    "a dead letter in place of a final answer, and long life": (
        "V15",
        [start(), BUSY, DEAD, ended(), event("abort", c=1, ms=20)],
        {"operator": TIMED},
    ),
    "a result before the outcome": ("V15", [start(), BUSY, left("a"), answered("a"), ended()], {}),
    "given up": ("V16", [start(), took("a", 0), settled("a"), event("giveup", why="slow"), ended()], {}),
    "checkpoints too far apart": (
        "V18",
        [start(), snap(1, 0), done(1, ms=9), ended()],
        {"bounds": {"checkpoint_gap": 5}},
    ),
    "no checkpoint up to the end": (
        "V18",
        [start(), snap(1, 0), done(1), event("end", ms=9), event("ended")],
        {"bounds": {"checkpoint_gap": 5}},
    ),
    "commits of a subtask too far apart": (
        "V18",
        [start(), snap(1, 0), commit(1, ms=9), ended()],
        {"bounds": {"checkpoint_gap": 5}, "sink": "atomic"},
    ),
    "no commit of a subtask up to the end": (
        "V18",
        [start(), snap(1, 0), commit(1), event("end", ms=9), event("ended")],
        {"bounds": {"checkpoint_gap": 5}, "sink": "atomic"},
    ),
    "an answer to another call": (
        "V19",
        [start(), took("a", 0), called("a", nonce=1), answered("a", nonce=2), left("a"), ended()],
        {},
    ),
    "an answer that only looks alike": (
        "V19",
        [start(), took("a", 0), called("a", nonce=1), answered("a", nonce=True), left("a"), ended()],
        {},
    ),
    "a nonce for two calls": (
        "V19",
        [start(), [[took(x, pos), settled(x, nonce=7)[:2], left(x)] for pos, x in enumerate("ab")], ended()],
        {},
    ),
    "a failure that nobody sees": ("V20", [start(), BUSY, FAILS, ended()], {}),
    "a failure that a completed snap leaves behind": (
        "V20",
        [start(), BUSY, FAILS, snap(1, 1), done(1), KILL],
        {},
    ),
    "dead and failed": ("V20", [start(), BUSY, DEAD, event("failed", error="x", id="a"), KILL], {}),
    "failed and dead": ("V20", [start(), BUSY, event("failed", error="x", id="a"), DEAD, KILL], {}),
    "another thread": (
        "V21",
        [start(), took("a", 0), called("a", thread="x"), answered("a", thread="y"), left("a"), ended()],
        {},
    ),
    "results of two records mixed": (
        "V21",
        [
            [start(), TWICE[:3], took("b", 1), called("b"), answered("b")],
            [left("a", v="x"), left("b"), left("a", j=1, v="y"), ended()],
        ],
        {"operator": UNORDERED},
    ),
    "an act after the close": ("V21", [start(), BUSY, event("close"), answered("a")], {}),
    "a fault without evidence": (
        "V23",
        [start(), stall("begin"), stall("end", evidence={}), ended()],
        {},
    ),
    "too little": ("V23", [start(), ended()], {"expects": {"records": 1}}),
}
