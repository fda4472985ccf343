"""An event that the state of the conversation forbids is misplaced; what the page allows is not."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from harness.conform.protocol.conversation import Conversation, ConversationPhase, Misplaced
from harness.conform.protocol.driver import Command
from harness.conform.protocol.events import (
    Blocked,
    Closed,
    DrainEnded,
    Emit,
    ErrorAnswer,
    Event,
    FunctionCall,
    Hello,
    Marker,
    Snapshot,
    Stats,
    TaskFailed,
    Timeout,
    Unblocked,
)
from tools.cases import each

HELLO = Hello(protocol=1, name="n", version="v", abilities=[])
STATS = Stats(queue=0, calls_running=0, timers=0, mails=0, now=0)
CLOSED = Closed(dropped_mails=0, timers=0)
FAILED = TaskFailed(error="internal", message="")
REFUSED = ErrorAnswer(error="bad-state", message="")
EMIT = Emit(value=1, ts=None)

Turn = tuple[Command, Sequence[Event]]
GREET: list[Turn] = [({"cmd": "hello"}, [HELLO])]
OPEN: list[Turn] = [*GREET, ({"cmd": "open"}, [])]
CALLED: list[Turn] = [*OPEN, ({"cmd": "element"}, [FunctionCall(call=1, value=1, attempt=1)])]
BLOCKED: list[Turn] = [*CALLED, ({"cmd": "element"}, [Blocked()])]
DRAINING: list[Turn] = [*CALLED, ({"cmd": "end_input"}, [])]
ENDED: list[Turn] = [*DRAINING, ({"cmd": "complete"}, [EMIT, DrainEnded()])]
FAILING: list[Turn] = [*CALLED, ({"cmd": "fail"}, [FAILED])]
DUE: list[Turn] = [*BLOCKED, ({"cmd": "snapshot", "id": 7}, [])]


def snapshot(number: int) -> Snapshot:
    return Snapshot(id=number, state=msgspec.Raw(b"0"), elements=[])


def call(number: int) -> FunctionCall:
    return FunctionCall(call=number, value=number, attempt=1)


def follow(turns: Sequence[Turn]) -> Conversation:
    conversation = Conversation()
    for command, events in turns:
        conversation.follow(command, events)
    return conversation


LEGAL: dict[str, list[Turn]] = {
    "a second life counts its calls from 1": [
        *CALLED,
        ({"cmd": "close"}, [CLOSED]),
        ({"cmd": "open"}, []),
        ({"cmd": "element"}, [call(1)]),
    ],
    "a wait that ends within its command may be written": [
        *CALLED,
        ({"cmd": "element"}, [Blocked(), EMIT, call(2), Unblocked()]),
    ],
    "a restore may be blocked": [*GREET, ({"cmd": "open"}, [call(1), Blocked()])],
    "a snapshot sent while blocked is taken after unblocked": [
        *DUE,
        ({"cmd": "complete"}, [EMIT, call(2), Unblocked(), snapshot(7)]),
    ],
    "a snapshot sent while draining is taken after ended": [
        *DRAINING,
        ({"cmd": "snapshot", "id": 7}, []),
        ({"cmd": "complete"}, [EMIT, DrainEnded(), snapshot(7)]),
    ],
    "a snapshot that is due at failed is not taken": [*DUE, ({"cmd": "fail"}, [FAILED])],
    "a snapshot that is due at close is not taken": [*DUE, ({"cmd": "close"}, [CLOSED])],
    "a held fail may tell the failure": [*CALLED, ({"cmd": "fail", "hold": True}, [FAILED])],
    "a refusal changes nothing": [*BLOCKED, ({"cmd": "element"}, [REFUSED]), ({"cmd": "stats"}, [STATS])],
    "after failed, stats and close are answered": [
        *FAILING,
        ({"cmd": "stats"}, [STATS]),
        ({"cmd": "close"}, [CLOSED]),
    ],
    "a stats may be followed by what its mails do": [*CALLED, ({"cmd": "stats"}, [STATS, EMIT])],
    "a failing command owes no answer": [*OPEN, ({"cmd": "marker", "id": 1}, [FAILED])],
}

MISPLACED: dict[str, tuple[list[Turn], Command, list[Event], str]] = {
    "hello twice": (GREET, {"cmd": "hello"}, [HELLO], "out of order"),
    "no hello": ([], {"cmd": "hello"}, [], "lacks the event"),
    "another protocol": ([], {"cmd": "hello"}, [msgspec.structs.replace(HELLO, protocol=2)], "protocol 2"),
    "a command accepted before open": (GREET, {"cmd": "element"}, [], "out of order"),
    "an element accepted while blocked": (BLOCKED, {"cmd": "element"}, [], "while blocked"),
    "an element accepted after end_input": (DRAINING, {"cmd": "element"}, [], "end_input"),
    "a command accepted after failed": (FAILING, {"cmd": "complete"}, [], "out of order"),
    "an unknown command accepted": (OPEN, {"cmd": "dance"}, [], "dance"),
    "no command accepted": (OPEN, {}, [], "None"),
    "an error beside an event": (CALLED, {"cmd": "complete"}, [EMIT, REFUSED], "the only event"),
    "two errors": (CALLED, {"cmd": "complete"}, [REFUSED, REFUSED], "the only event"),
    "a call's number left out": (CALLED, {"cmd": "element"}, [call(3)], "dense"),
    "a call's number twice": (CALLED, {"cmd": "element"}, [call(1)], "dense"),
    "blocked twice": (CALLED, {"cmd": "element"}, [Blocked(), Blocked()], "twice"),
    "blocked by a completion": (CALLED, {"cmd": "complete"}, [Blocked()], "cannot be"),
    "unblocked without blocked": (CALLED, {"cmd": "complete"}, [Unblocked()], "without"),
    "a snapshot that nobody asked for": (CALLED, {"cmd": "complete"}, [snapshot(1)], "none"),
    "a snapshot of another id": (CALLED, {"cmd": "snapshot", "id": 1}, [snapshot(2)], "[1]"),
    "a snapshot twice": (CALLED, {"cmd": "snapshot", "id": 1}, [snapshot(1), snapshot(1)], "none"),
    "a snapshot not taken": (CALLED, {"cmd": "snapshot", "id": 1}, [], "not taken"),
    "a snapshot not taken after unblocked": (DUE, {"cmd": "complete"}, [Unblocked()], "not taken"),
    "a snapshot taken while blocked": (BLOCKED, {"cmd": "snapshot", "id": 1}, [snapshot(1)], "while blocked"),
    "a snapshot taken while draining": (DRAINING, {"cmd": "snapshot", "id": 1}, [snapshot(1)], "end_input"),
    "snapshots in another order": (
        DUE,
        {"cmd": "snapshot", "id": 8},
        [Unblocked(), snapshot(8), snapshot(7)],
        "[7, 8]",
    ),
    "an event after failed": (CALLED, {"cmd": "fail"}, [FAILED, EMIT], "after `failed`"),
    "failed twice": (FAILING, {"cmd": "stats"}, [STATS, FAILED], "after `failed`"),
    "an emission in a failed task": (FAILING, {"cmd": "stats"}, [STATS, EMIT], "after `failed`"),
    "ended without end_input": (CALLED, {"cmd": "complete"}, [EMIT, DrainEnded()], "open"),
    "ended twice": (ENDED, {"cmd": "stats"}, [STATS, DrainEnded()], "ended"),
    "a call after ended": (ENDED, {"cmd": "advance"}, [call(2)], "cannot follow"),
    "close without closed": (CALLED, {"cmd": "close"}, [], "lacks the event"),
    "closed unasked": (CALLED, {"cmd": "stats"}, [STATS, CLOSED], "is in the answer to"),
    "an emission at close": (CALLED, {"cmd": "close"}, [EMIT, CLOSED], "cannot answer"),
    "closed twice": (CALLED, {"cmd": "close"}, [CLOSED, CLOSED], "twice"),
    "stats without its counters": (CALLED, {"cmd": "stats"}, [], "lacks the event"),
    "stats twice": (CALLED, {"cmd": "stats"}, [STATS, STATS], "twice"),
    "another marker": (OPEN, {"cmd": "marker", "id": 1}, [Marker(id=2)], "marker"),
    "a marker swallowed": (OPEN, {"cmd": "marker", "id": 1}, [], "lacks the event"),
    "a held completion emits": (CALLED, {"cmd": "complete", "hold": True}, [EMIT], "held"),
    "a held advance times out": (CALLED, {"cmd": "advance", "hold": True}, [Timeout(value=1)], "held"),
}


@each("name", LEGAL)
def test_what_the_page_allows_is_followed(name: str) -> None:
    follow(LEGAL[name])


@each("name", MISPLACED)
def test_what_the_page_forbids_is_misplaced(name: str) -> None:
    before, command, events, word = MISPLACED[name]
    conversation = follow(before)

    with pytest.raises(Misplaced) as caught:
        conversation.follow(command, events)

    assert word in str(caught.value)


def test_the_phase_follows_the_events() -> None:
    turns = [GREET, CALLED, DRAINING, ENDED, FAILING]

    phases = [follow(turn).phase for turn in turns]

    assert phases == [
        ConversationPhase.SHUT,
        ConversationPhase.OPEN,
        ConversationPhase.DRAINING,
        ConversationPhase.ENDED,
        ConversationPhase.FAILED,
    ]
