"""What is counted was seen, in its own sense; what was not seen stands in the list with 0."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.conform.protocol.coverage import SIGHTS, Coverage
from harness.conform.protocol.driver import Command
from harness.conform.protocol.events import (
    Blocked,
    DrainEnded,
    Emit,
    ErrorAnswer,
    Event,
    FunctionCall,
    Snapshot,
    Timeout,
    Watermark,
)
from harness.conform.protocol.script import Life
from tools.cases import each

RETRYING = {
    "mode": "ordered",
    "capacity": 1,
    "timeout_ms": 9,
    "retry": {"strategy": "fixed", "max_retries": 2, "delay_ms": 1, "on": ["empty"]},
}
EMPTY: Command = {"cmd": "complete", "call": 1, "results": []}
FIRST = FunctionCall(call=1, value=7, attempt=1)
SECOND = FunctionCall(call=2, value=7, attempt=2)

Turn = tuple[Command, Sequence[Event]]
BEGUN: list[Turn] = [({"cmd": "element", "value": 7, "ts": 1}, [FIRST])]
IN_BACKOFF: list[Turn] = [*BEGUN, (EMPTY, [])]
AGAIN: list[Turn] = [*IN_BACKOFF, ({"cmd": "advance", "to": 1}, [SECOND])]
SEEN: dict[str, list[Turn]] = {
    "retries": AGAIN,
    "second outcome of a call": [*IN_BACKOFF, (EMPTY, [])],
    "second outcome in the backoff": [*IN_BACKOFF, (EMPTY, [])],
    "outcome of an earlier attempt while a later one runs": [*AGAIN, (EMPTY, [])],
    "timeout in the backoff": [*IN_BACKOFF, ({"cmd": "advance", "to": 9}, [Timeout(value=7)])],
    "outcome held when the clock moves": [
        *BEGUN,
        ({**EMPTY, "hold": True}, []),
        ({"cmd": "advance", "to": 9}, []),
    ],
    "timeout of a record whose outcome is held": [
        *BEGUN,
        ({**EMPTY, "hold": True}, []),
        ({"cmd": "advance", "to": 9}, [Timeout(value=7)]),
    ],
    "outcome held while another of its record is held": [
        *BEGUN,
        ({**EMPTY, "hold": True}, []),
        ({**EMPTY, "hold": True}, []),
    ],
    "outcome after its record timed out": [
        *BEGUN,
        ({"cmd": "advance", "to": 9}, [Timeout(value=7)]),
        (EMPTY, []),
    ],
    "call after the timeout": [*BEGUN, ({"cmd": "advance", "to": 9}, [Timeout(value=7), SECOND])],
    "last calls at end of input": [*IN_BACKOFF, ({"cmd": "end_input"}, [SECOND])],
    "last call beside a running one": [*BEGUN, ({"cmd": "end_input"}, [SECOND])],
    "emissions right behind a watermark": [
        (EMPTY, [Emit(value=1, ts=1), Watermark(ts=1), Emit(value=2, ts=1)])
    ],
    "emissions without a timestamp": [(EMPTY, [Emit(value=1, ts=None)])],
    "snapshots while blocked": [
        ({"cmd": "element", "value": 8, "ts": 1}, [Blocked()]),
        ({"cmd": "snapshot", "id": 1}, []),
    ],
    "ends of input that drain at once": [({"cmd": "end_input"}, [DrainEnded()])],
    "ends of input that drain later": [({"cmd": "end_input"}, []), (EMPTY, [DrainEnded()])],
    "commands refused": [({"cmd": "dance"}, [ErrorAnswer(error="unknown-command", message="")])],
}


@each("sight", SEEN)
def test_what_is_seen_is_counted_once(sight: str) -> None:
    coverage = Coverage()
    coverage.begin_life(Life(config=RETRYING), [])

    for command, events in SEEN[sight]:
        coverage.note(command, events)

    assert coverage.counts[sight] == 1


def test_a_restore_is_counted_by_what_its_snapshot_held() -> None:
    coverage = Coverage()
    two = Snapshot(id=1, state=msgspec.Raw(b"0"), elements=[{"watermark": 1}, {"watermark": 2}])
    coverage.begin_life(Life(config={**RETRYING, "mode": "unordered"}), [])
    coverage.note({"cmd": "snapshot", "id": 1}, [two])

    coverage.begin_life(Life(config=RETRYING, restore=1), [])

    assert coverage.counts["restores of something"] == 1
    assert coverage.counts["restores beyond the capacity"] == 1
    assert coverage.counts["restores into the other mode"] == 1


def test_the_unseen_is_listed_with_0() -> None:
    lines = list(Coverage().lines())

    assert len(lines) == len(SIGHTS)
    assert all(line.split()[0] == "0" for line in lines)


def test_nothing_is_counted_that_is_not_listed() -> None:
    coverage = Coverage()
    for turns in SEEN.values():
        coverage.begin_life(Life(config=RETRYING), [])
        for command, events in turns:
            coverage.note(command, events)

    assert set(coverage.counts) <= set(SIGHTS)
