"""What output, cuts and restarts do in no regular life, each by itself, and the invariant that convicts it.

Each is a name, and the invariant, the events and the header of a small history.
"""

from __future__ import annotations

from typing import Any

from harness.judge.checkers.tests.small_histories import (
    answered,
    called,
    commit,
    done,
    ended,
    event,
    left,
    owm,
    restart,
    settled,
    snap,
    start,
    took,
    wm,
)

Departure = tuple[str, list[Any], dict[str, Any]]
A, B = {"id": "a"}, {"id": "b"}
DEAD = event("dead", id="a")
KILL = event("kill")
ROW = event("effect", id="a", token=1, seq=1, v="v")
AGAIN = [KILL, start(a=2)]
UNORDERED = {"mode": "unordered"}
BUSY = [took("a", 0), called("a")]
PAIR = [took("a", 0), called("a"), took("b", 1), called("b"), answered("a"), answered("b")]
TWO = {"expect": ["x", "y"]}
TWICE = [took("a", 0, **TWO), called("a"), answered("a"), left("a", v="x"), left("a", j=1, v="y")]
CUT = [start(), *BUSY, snap(1, 1, A), done(1)]
PREPARED = [start(), took("a", 0), settled("a"), snap(1, 1)]


def row(**fields: Any) -> dict[str, Any]:
    return {**ROW, **fields}


OF_OUTPUT: dict[str, Departure] = {
    "a result out of order": ("V1", [start(), PAIR, left("b"), left("a"), ended()], {}),
    "a result ahead of a watermark before it": (
        "V1",
        [start(), wm(1, 0), took("a", 1), settled("a"), owm(1), ended()],
        {},
    ),
    "a result ahead of its segment": (
        "V2",
        [start(), wm(1, 0), took("a", 1), settled("a"), owm(1), ended()],
        {"operator": UNORDERED},
    ),
    "keys out of order": (
        "V3",
        [
            start(),
            [took(x, pos, key=0) for pos, x in enumerate("ab")],
            [settled("b"), settled("a")],
            ended(),
        ],
        {"operator": UNORDERED | {"per_key_order": True}},
    ),
    "a watermark ahead of an open record": (
        "V5",
        [start(), BUSY, wm(1, 1), owm(1), answered("a"), left("a"), ended()],
        {},
    ),
    "a watermark that is never let go": ("V6", [start(), wm(1, 0), ended()], {}),
    "a watermark held too long": (
        "V6",
        [start(), wm(1, 0), owm(1, ms=9), ended()],
        {"bounds": {"watermark_hold": 5}},
    ),
    "a watermark held too long after a record": (
        "V6",
        [start(), BUSY, wm(1, 1), answered("a", ms=9), left("a"), owm(1, ms=20), ended()],
        {"bounds": {"watermark_hold": 5}},
    ),
    "a watermark from nowhere": ("V7", [start(), wm(1, 0), owm(2), ended()], {}),
    "a watermark twice": ("V7", [start(), wm(1, 0), owm(1), owm(1), ended()], {}),
    "a record after the final watermark": (
        "V7",
        [start(), wm("end", 0), owm("end"), took("a", 1), settled("a"), ended()],
        {},
    ),
    "another value": ("V8", [start(), took("a", 0), settled("a")[:2], left("a", v="w"), ended()], {}),
    "an integer for a float": (
        "V8",
        [start(), took("a", 0, expect=[1.0]), settled("a")[:2], left("a", v=1), ended()],
        {},
    ),
    "true for one, deep inside": (
        "V8",
        [start(), took("a", 0, expect=[{"x": [1]}]), settled("a")[:2], left("a", v={"x": [True]}), ended()],
        {},
    ),
    "another timestamp": (
        "V8",
        [start(), took("a", 0, ts=1), settled("a")[:2], left("a", ts=2), ended()],
        {},
    ),
    "a timestamp for none": ("V8", [start(), took("a", 0), settled("a")[:2], left("a", ts=2), ended()], {}),
    "no timestamp for one": (
        "V8",
        [start(), took("a", 0, ts=1), settled("a")[:2], left("a", ts=None), ended()],
        {},
    ),
    "a result twice": ("V8", [start(), took("a", 0), settled("a"), left("a"), ended()], {}),
    "a result beyond the expected ones": (
        "V8",
        [start(), took("a", 0), settled("a"), left("a", j=1), ended()],
        {},
    ),
    "a number left out": ("V8", [start(), TWICE[:3], left("a", j=1, v="y"), ended()], {}),
    "the second result alone missing": ("V8", [start(), TWICE[:4], ended()], {}),
    "a record that is forgotten": ("V8", [start(), took("a", 0), ended()], {}),
    "a dead letter after the outcome, and no result": (
        "V8",
        [start(), BUSY, answered("a"), DEAD, ended()],
        {},
    ),
    "what was accepted is not read again": (
        "V8",
        [start(), took("a", 0), settled("a"), AGAIN, ended(a=2)],
        {},
    ),
    "what append keeps is emitted again": (
        "V8",
        [start(), took("a", 0), settled("a"), AGAIN, took("a", 0, a=2), settled("a", a=2), ended(a=2)],
        {"sink": "append"},
    ),
    "what a zombie emits, append keeps": (
        "V8",
        [
            [start(), BUSY, start(a=2), took("a", 0, a=2), settled("a", a=2), ended(a=2)],
            [answered("a"), left("a")],
        ],
        {"sink": "append"},
    ),
    "what left is in no epoch": ("V8", [start(), took("a", 0), settled("a"), ended()], {"sink": "atomic"}),
    "no row": ("V9", [start(), took("a", 0), settled("a"), ended()], {"effects": "records"}),
    "two rows": (
        "V9",
        [start(), took("a", 0), settled("a"), ended(), ROW, row(seq=2)],
        {"effects": "records"},
    ),
    "a row with another value": (
        "V9",
        [start(), took("a", 0), settled("a"), ended(), row(v="w")],
        {"effects": "records"},
    ),
    "a row of nobody": (
        "V9",
        [start(), took("a", 0), settled("a"), ended(), row(id="b")],
        {"effects": "records"},
    ),
    "a row of another number": (
        "V9",
        [start(), took("a", 0), settled("a"), ended(), row(j=1)],
        {"effects": "outputs"},
    ),
    "no row, though another shows that there are some": (
        "V9",
        [start(), [[took(x, pos), settled(x)] for pos, x in enumerate("ab")], ended(), ROW],
        {},
    ),
    "two rows of an unclear call": (
        "V9",
        [start(), BUSY, DEAD, ended(), ROW, row(seq=2)],
        {"effects": "records"},
    ),
    "something open is not stored": ("V10", [start(), BUSY, snap(1, 1), done(1), KILL], {}),
    "a watermark is not stored": ("V10", [start(), wm(1, 0), snap(1, 1), done(1), KILL], {}),
    "a watermark is stored at another position": (
        "V10",
        [start(), wm(1, 0), snap(1, 1, {"w": 1, "pos": 4}), done(1), KILL],
        {},
    ),
    "what has left is stored": (
        "V10",
        [start(), took("a", 0), settled("a"), snap(1, 1, A), done(1), KILL],
        {},
    ),
    "a record is stored twice": ("V10", [start(), BUSY, snap(1, 1, A, A), done(1), KILL], {}),
    "records are stored out of order": (
        "V10",
        [start(), PAIR[:4], snap(1, 2, B, A), done(1), KILL],
        {},
    ),
    "a record is stored behind a watermark that follows it": (
        "V10",
        [start(), BUSY, wm(1, 1), snap(1, 2, {"w": 1, "pos": 1}, A), done(1), KILL],
        {"operator": UNORDERED},
    ),
    "a cut beyond what was taken": ("V10", [start(), BUSY, snap(1, 2, A), done(1), KILL], {}),
    "a torn record": ("V10", [start(), TWICE[:4], snap(1, 1, A), done(1), KILL], {}),
    "a checkpoint without a snap": ("V10", [start(), done(1), KILL], {}),
    "a start from what was never completed": (
        "V11",
        [CUT[:-1], restart(1, 1, A), settled("a", a=2), ended(a=2)],
        {},
    ),
    "a start from what was retired": (
        "V11",
        [CUT, event("retire", c=1), restart(1, 1, A), settled("a", a=2), ended(a=2)],
        {},
    ),
    "a start at another position": (
        "V11",
        [CUT, restart(1, 2, A), settled("a", a=2), ended(a=2)],
        {},
    ),
    "a restore of something else": ("V11", [CUT, restart(1, 1), ended(a=2)], {}),
    "a restore in another order": (
        "V11",
        [
            [start(), PAIR[:4], snap(1, 2, A, B), done(1), restart(1, 2, B, A)],
            [settled("a", a=2), settled("b", a=2), ended(a=2)],
        ],
        {},
    ),
    "a restore across a watermark": (
        "V11",
        [
            [start(), BUSY, wm(1, 1), snap(1, 2, A, {"w": 1, "pos": 1}), done(1)],
            [restart(1, 2, {"w": 1, "pos": 1}, A), settled("a", a=2), owm(1, a=2), ended(a=2)],
        ],
        {"operator": UNORDERED},
    ),
    "a commit before its checkpoint": ("V12", [PREPARED, commit(1), done(1), ended()], {"sink": "two-phase"}),
    "a second commit": ("V12", [PREPARED, done(1), commit(1), commit(1), ended()], {"sink": "two-phase"}),
    "a commit that names another attempt": (
        "V12",
        [PREPARED, done(1), commit(1, a=2), ended()],
        {"sink": "two-phase"},
    ),
    "no commit": ("V12", [PREPARED, done(1), ended()], {"sink": "two-phase"}),
    "an epoch that is passed over": (
        "V12",
        [PREPARED, took("b", 1), settled("b"), snap(2, 2), done(2), commit(2), ended()],
        {"sink": "two-phase"},
    ),
    "commits the wrong way round": (
        "V12",
        [PREPARED, took("b", 1), settled("b"), snap(2, 2), done(2), commit(2), commit(1), ended()],
        {"sink": "two-phase"},
    ),
    "a token that falls": (
        "V13",
        [
            start(),
            [[took(x, pos), settled(x)] for pos, x in enumerate("ab")],
            [ended(), row(token=2), row(id="b", seq=2)],
        ],
        {"effects": "records"},
    ),
    "a commit by an attempt before, where commits show nothing": (
        "V13",
        [start(), [snap(1, 0), commit(1, a=2), snap(2, 0), commit(2, a=1)], ended()],
        {},
    ),
}
