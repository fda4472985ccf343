"""Conversations with `reference-emitter`: it claims less than the reference, and says what that would say.

Answers to `docs/reference/sut-protocol.md`. Invariant: no answer depends on when the emitter's thread runs, and no
thread is left.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from harness.sut.serve import SYSTEMS, converse
from reference_impl.flip12.wait_operator import THREAD_NAME
from tools.cases import each

Event = dict[str, Any]
Command = dict[str, Any]

HELLO: Command = {"cmd": "hello", "protocol": 1}
CLOSE: Command = {"cmd": "close"}
MODES = pytest.mark.parametrize("mode", ["ordered", "unordered"])


@pytest.fixture(autouse=True)
def _no_emitter_is_left() -> Iterator[None]:
    yield
    assert [thread for thread in threading.enumerate() if thread.name == THREAD_NAME] == []


def answers(commands: Sequence[Command], *, name: str = "reference-emitter") -> list[list[Event]]:
    """What each command is answered with, `quiet` left out; greets first."""
    lines = iter([json.dumps(command).encode() + b"\n" for command in (HELLO, *commands)])
    told: list[list[Event]] = [[]]

    def write(line: bytes) -> None:
        event = json.loads(line)
        if event["ev"] == "quiet":
            told.append([])
        else:
            told[-1].append(event)

    converse(SYSTEMS[name], read=lambda: next(lines, b""), write=write)
    return told[1:-1]


def opened(mode: str = "ordered", *, restore: Any = None, hold: bool = False, **config: Any) -> Command:
    config = {"mode": mode, "capacity": 2, "timeout_ms": 0, **config}
    return {"cmd": "open", "now": 0, "restore": restore, "config": config, "hold": hold}


def element(value: Any, **more: Any) -> Command:
    return {"cmd": "element", "value": value, "ts": value, **more}


def mark(ts: int, **more: Any) -> Command:
    return {"cmd": "watermark", "ts": ts, **more}


def done(call: int, *results: Any, **more: Any) -> Command:
    return {"cmd": "complete", "call": call, "results": list(results), **more}


def snapshot(number: int) -> Command:
    return {"cmd": "snapshot", "id": number}


def said(events: Sequence[Event]) -> list[Any]:
    """An emission by its value, what is stored in a snapshot, a watermark by its time; all else by its name."""
    short: list[Any] = []
    for event in events:
        match event["ev"]:
            case "emit":
                short.append(event["value"])
            case "snapshot":
                short.append([stored.get("value", "w") for stored in event["elements"]])
            case "watermark":
                short.append(f"w{event['ts']}")
            case name:
                short.append(name)
    return short


def test_it_claims_what_the_first_design_has() -> None:
    told: list[Event] = []
    lines = iter([json.dumps(HELLO).encode()])

    converse(
        SYSTEMS["reference-emitter"],
        read=lambda: next(lines, b""),
        write=lambda line: told.append(json.loads(line)),
    )

    assert told[0]["name"] == "reference-emitter"
    assert told[0]["abilities"] == ["ordered", "unordered", "snapshot", "marker"]


@pytest.mark.parametrize(
    "command",
    [
        {"cmd": "status", "idle": True},
        opened(timeout_ms=9, retry={"strategy": "fixed", "max_retries": 1, "delay_ms": 1, "on": ["error"]}),
        opened(profile="flink"),
    ],
)
def test_what_it_does_not_claim_is_refused(command: Command) -> None:
    script = [command] if command["cmd"] == "open" else [opened(), command, CLOSE]

    refused = answers(script)[0 if command["cmd"] == "open" else 1]

    assert [event.get("error") for event in refused] == ["unsupported"]


def test_in_order_one_command_may_let_several_leave_a16() -> None:
    *_, last, _closed = answers([opened(), element(1), element(2), done(2, "b"), done(1, "a"), CLOSE])

    assert said(last) == ["a", "b"]


def test_unordered_none_passes_a_watermark_a20() -> None:
    script = [opened("unordered", capacity=9), element(1), element(2), mark(2), element(3)]

    told = answers([*script, done(3, "c"), done(2, "b"), done(1, "a"), CLOSE])

    assert [said(events) for events in told[5:8]] == [[], ["b"], ["a", "w2", "c"]]


@MODES
def test_a_held_completion_emits_nothing_and_is_in_the_snapshot(mode: str) -> None:
    script = [opened(mode), element(1), done(1, "a", hold=True), {**snapshot(1), "hold": True}]

    told = answers([*script, {"cmd": "stats"}, CLOSE])

    assert [said(events) for events in told[2:5]] == [[], [[1]], ["stats", "a"]]


@MODES
def test_a_held_completion_is_not_timed_out_a43(mode: str) -> None:
    script = [opened(mode, timeout_ms=5, on_timeout={"results": ["late"]}), element(1)]

    told = answers([*script, done(1, "a", hold=True), {"cmd": "advance", "to": 9}, CLOSE])

    assert said(told[3]) == ["a"]


@MODES
def test_at_a_full_buffer_an_element_is_blocked_and_a_snapshot_deferred_a30(mode: str) -> None:
    """So the capacity + 1st element, which the operator would store, is never seen here."""
    script = [opened(mode, capacity=1), element(1), element(2), snapshot(1)]

    told = answers([*script, done(1, "a"), CLOSE])

    assert said(told[2]) == ["blocked"]
    assert said(told[3]) == []
    assert sorted(map(str, said(told[4]))) == sorted(["a", "call", "unblocked", "[2]"])


@MODES
def test_under_hold_an_element_is_blocked_though_a_waiting_mail_would_free_a_slot(mode: str) -> None:
    script = [opened(mode, capacity=1), element(1), done(1, "a", hold=True), element(2, hold=True)]

    told = answers([*script, {"cmd": "stats"}, CLOSE])

    assert said(told[3]) == ["blocked"]
    assert [word for word in said(told[4]) if word != "stats"] == ["a", "call", "unblocked"]


@MODES
def test_more_than_the_capacity_is_restored_as_slots_become_free_a62_b4(mode: str) -> None:
    state = {"elements": [{"value": value, "ts": value} for value in (1, 2, 3)]}

    told = answers([opened(mode, capacity=1, restore=state), done(1, "a"), done(2, "b"), done(3, "c"), CLOSE])

    assert said(told[0]) == ["call", "blocked"]
    assert [word for events in told[1:4] for word in said(events) if word in {"a", "b", "c"}] == [
        "a",
        "b",
        "c",
    ]
    assert "unblocked" in said(told[2])


@MODES
def test_the_drain_ends_in_the_command_that_empties_the_buffer_a66(mode: str) -> None:
    script = [opened(mode), element(1), mark(1), {"cmd": "end_input"}]

    told = answers([*script, done(1, "a"), CLOSE])

    assert [said(events) for events in told[3:5]] == [[], ["a", "w1", "ended"]]


_PHASES: dict[str, list[Command]] = {
    "open": [opened(), element(1), mark(1)],
    "after an emission": [opened(), mark(1), element(1)],
    "held": [opened(), mark(1), element(1), done(1, "a", hold=True)],
    "blocked": [opened(), mark(0), element(1), element(2), element(3)],
    "replaying": [opened(capacity=1, restore={"elements": [{"watermark": 1}, {"value": 1, "ts": 1}] * 2})],
    "draining": [opened(), mark(1), element(1), {"cmd": "end_input"}],
    "ended": [opened(), mark(1), {"cmd": "end_input"}],
    "failed": [opened(), mark(1), element(1), {"cmd": "fail", "call": 1, "error": "no"}],
}


@each("phase", _PHASES)
def test_the_close_ends_every_phase_and_the_next_open_starts_anew_a68(phase: str) -> None:
    script = _PHASES[phase]

    told = answers([*script, CLOSE, opened(), element(7), CLOSE])

    assert said(told[len(script)]) == ["closed"]
    assert told[-2] == [{"ev": "call", "call": 1, "value": 7, "attempt": 1}]


@MODES
def test_a_failed_call_fails_the_task_once_a41(mode: str) -> None:
    failed = {"cmd": "fail", "call": 1, "error": "no"}

    told = answers([opened(mode), element(1), failed, {"cmd": "stats"}, CLOSE])

    assert [event["error"] for event in told[2]] == ["user-error"]
    assert said(told[3]) == ["stats"]


@MODES
def test_it_says_what_the_reference_says_and_always_the_same(mode: str) -> None:
    script = [opened(mode, timeout_ms=20, on_timeout={"results": ["late"]})]
    for value in range(1, 30):
        script += [element(value), {**snapshot(value), "hold": True}]
        script += [done(value, f"r{value}", hold=bool(value % 3)), {"cmd": "advance", "to": value}]
    script += [{"cmd": "end_input"}, {"cmd": "stats"}, CLOSE]

    told = [answers(script) for _ in range(3)]

    assert told[0] == told[1] == told[2] == answers(script, name="reference")
