"""Answers are alike up to exactly the freedom that the protocol's page gives, and no further."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.conform.protocol.comparison import MismatchKind, Moment, compare
from harness.conform.protocol.driver import Command
from harness.conform.protocol.events import (
    Blocked,
    Closed,
    Emit,
    ErrorAnswer,
    Event,
    FunctionCall,
    Snapshot,
    Stats,
    TaskFailed,
    Timeout,
    Unblocked,
    Watermark,
)
from tools.cases import each

ORDERED = Moment(mode="ordered")
UNORDERED = Moment(mode="unordered")
BLOCKED = Moment(mode="unordered", blocked=True)
REISSUED = Moment(mode="unordered", reissued=True)
AFTER_FAILURE = Moment(failed=True)
ADVANCE: Command = {"cmd": "advance", "to": 3}
WATERMARK = Watermark(ts=1)


def emit(value: object) -> Emit:
    return Emit(value=value, ts=1)


def call(number: int, value: object, attempt: int = 1) -> FunctionCall:
    return FunctionCall(call=number, value=value, attempt=attempt)


def snapshot(*values: object, state: bytes = b"0") -> Snapshot:
    elements = [{"watermark": 0} if value == "wm" else {"value": value, "ts": None} for value in values]
    return Snapshot(id=1, state=msgspec.Raw(state), elements=elements)


def stats(*, mails: int = 0, queue: int = 0) -> Stats:
    return Stats(queue=queue, calls_running=0, timers=0, mails=mails, now=0)


def failed(error: str, message: str = "") -> TaskFailed:
    return msgspec.convert({"ev": "failed", "error": error, "message": message}, TaskFailed)


def refused(code: str, message: str = "") -> ErrorAnswer:
    return msgspec.convert({"ev": "error", "error": code, "message": message}, ErrorAnswer)


Answer = Sequence[Event]
FREE: dict[str, tuple[Moment, Answer, Answer]] = {
    "messages": (ORDERED, [refused("bad-state", "a")], [refused("bad-state", "b")]),
    "a failure's message": (ORDERED, [failed("timeout", "a")], [failed("timeout", "b")]),
    "what a failing command did before": (ORDERED, [emit(1), failed("timeout")], [failed("timeout")]),
    "the counters of a failed task": (AFTER_FAILURE, [stats(queue=1)], [stats(queue=2)]),
    "the place of unblocked": (BLOCKED, [emit(1), Unblocked(), emit(2)], [emit(1), emit(2), Unblocked()]),
    "an admission's place": (BLOCKED, [emit(1), call(1, 3), Unblocked()], [call(1, 3), Unblocked(), emit(1)]),
    "a wait within a command": (ORDERED, [Blocked(), Unblocked()], []),
    "the states": (ORDERED, [snapshot(1, state=b"1")], [snapshot(1, state=b"[2]")]),
    "a snapshot's order in a segment": (UNORDERED, [snapshot(1, 2, "wm", 3)], [snapshot(2, 1, "wm", 3)]),
    "a snapshot right after unblocked": (
        BLOCKED,
        [emit(1), Unblocked(), snapshot(2, 3), emit(2)],
        [emit(1), emit(2), Unblocked(), snapshot(3)],
    ),
    "how many mails wait": (ORDERED, [stats(mails=1)], [stats(mails=7)]),
    "how many mails are dropped": (
        ORDERED,
        [Closed(dropped_mails=1, timers=2)],
        [Closed(dropped_mails=3, timers=2)],
    ),
    "the order in a segment, once re-issued": (
        REISSUED,
        [emit(1), emit(2), WATERMARK, emit(3)],
        [emit(2), emit(1), WATERMARK, emit(3)],
    ),
    "the numbers of calls, once re-issued": (REISSUED, [call(1, 1), call(2, 2)], [call(1, 2), call(2, 1)]),
}
DIFFERENT: dict[str, tuple[Moment, Answer, Answer, MismatchKind]] = {
    "a code": (ORDERED, [refused("bad-state")], [refused("bad-argument")], MismatchKind.REFUSAL),
    "a refusal": (ORDERED, [refused("bad-state")], [], MismatchKind.REFUSAL),
    "a failure": (ORDERED, [failed("timeout")], [], MismatchKind.FAILURE),
    "a failure's error": (ORDERED, [failed("timeout")], [failed("internal")], MismatchKind.FAILURE),
    "an emission": (ORDERED, [emit(1)], [], MismatchKind.OUTPUTS),
    "1 and 1.0": (ORDERED, [emit(1)], [emit(1.0)], MismatchKind.OUTPUTS),
    "1 and true": (ORDERED, [emit(1)], [emit(True)], MismatchKind.OUTPUTS),
    "a timestamp": (ORDERED, [Emit(value=1, ts=0)], [Emit(value=1, ts=None)], MismatchKind.OUTPUTS),
    "the order of emissions": (UNORDERED, [emit(1), emit(2)], [emit(2), emit(1)], MismatchKind.OUTPUTS),
    "a watermark overtakes": (REISSUED, [emit(1), WATERMARK], [WATERMARK, emit(1)], MismatchKind.OUTPUTS),
    "an attempt": (ORDERED, [call(1, 1, 2)], [call(1, 1, 1)], MismatchKind.CALLS),
    "a timeout": (ORDERED, [Timeout(value=1)], [], MismatchKind.CALLS),
    "the order of calls": (ORDERED, [call(1, 1), call(2, 2)], [call(1, 2), call(2, 1)], MismatchKind.NUMBERS),
    "calls among emissions": (
        ORDERED,
        [emit(1), call(2, 2)],
        [call(2, 2), emit(1)],
        MismatchKind.INTERLEAVING,
    ),
    "blocked": (ORDERED, [Blocked()], [], MismatchKind.BLOCKED),
    "still blocked": (BLOCKED, [Unblocked()], [], MismatchKind.BLOCKED),
    "a snapshot's order": (ORDERED, [snapshot(1, 2)], [snapshot(2, 1)], MismatchKind.SNAPSHOT),
    "a snapshot's segments": (
        UNORDERED,
        [snapshot(1, "wm", 2)],
        [snapshot(2, "wm", 1)],
        MismatchKind.SNAPSHOT,
    ),
    "a snapshot's elements": (UNORDERED, [snapshot(1, 2)], [snapshot(1)], MismatchKind.SNAPSHOT),
    "a snapshot taken": (ORDERED, [snapshot(1)], [], MismatchKind.SNAPSHOT),
    "none and some mails": (ORDERED, [stats(mails=0)], [stats(mails=1)], MismatchKind.STATS),
    "a counter": (ORDERED, [stats(queue=1)], [stats(queue=2)], MismatchKind.STATS),
    "timers left": (
        ORDERED,
        [Closed(dropped_mails=1, timers=2)],
        [Closed(dropped_mails=1, timers=3)],
        MismatchKind.CLOSED,
    ),
    "none and some dropped": (
        ORDERED,
        [Closed(dropped_mails=0, timers=0)],
        [Closed(dropped_mails=1, timers=0)],
        MismatchKind.CLOSED,
    ),
}


@each("name", FREE)
def test_a_freedom_is_no_difference(name: str) -> None:
    moment, left, right = FREE[name]

    assert compare(ADVANCE, left, right, moment=moment) is None
    assert compare(ADVANCE, right, left, moment=moment) is None


@each("name", DIFFERENT)
def test_what_is_no_freedom_is_a_difference_of_its_kind(name: str) -> None:
    moment, left, right, kind = DIFFERENT[name]

    for ours, theirs in ((left, right), (right, left)):
        mismatch = compare(ADVANCE, ours, theirs, moment=moment)
        assert mismatch is not None
        assert mismatch.kind is kind


def test_of_several_flaws_any_may_be_named() -> None:
    flawed: Command = {"cmd": "watermark", "ts": None}

    assert compare(flawed, [refused("bad-state")], [refused("bad-argument")], moment=BLOCKED) is None
