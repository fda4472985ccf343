"""The oracle's full queue, its holds and its drain: who waits, when it says so, and what is still heard meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from harness.conform.oracle.tests.talk import Talk, call, emit, kinds

pytestmark = pytest.mark.oracle

REFUSED_WHILE_WAITING = ("element", "watermark", "marker", "notify", "end_input", "open", "status")
FIELDS: dict[str, dict[str, Any]] = {
    "element": {"value": 1, "ts": None},
    "watermark": {"ts": 1},
    "marker": {"id": 1},
    "notify": {"id": 1, "outcome": "complete"},
    "end_input": {},
    "open": {"now": 0, "restore": None, "config": {"mode": "ordered", "capacity": 1, "timeout_ms": 0}},
    "status": {"idle": True},
}


@pytest.fixture
def full(talk: Talk) -> Talk:
    """An operator whose only slot is taken, and an element that waits for it."""
    talk.open(capacity=1)
    talk.element("a")
    assert talk.element("b") == [{"ev": "blocked"}]
    return talk


def test_the_wait_is_said_once_and_its_end_once(full: Talk) -> None:
    assert full.say("stats")[0]["queue"] == 1
    assert full.advance(50) == []

    events = full.complete(1, "A")

    assert events == [emit("A"), call(2, "b"), {"ev": "unblocked"}]
    assert full.complete(2, "B") == [emit("B")]


@pytest.mark.parametrize("cmd", REFUSED_WHILE_WAITING)
def test_while_blocked_only_what_the_page_names_is_in_order(full: Talk, cmd: str) -> None:
    assert full.error(cmd, **FIELDS[cmd]) == "bad-state"
    assert kinds(full.complete(1)) == ["call", "unblocked"]


@pytest.mark.parametrize("cmd", REFUSED_WHILE_WAITING)
def test_while_draining_only_what_the_page_names_is_in_order(talk: Talk, cmd: str) -> None:
    talk.open()
    talk.element("a")
    assert talk.say("end_input") == []

    assert talk.error(cmd, **FIELDS[cmd]) == "bad-state"
    assert talk.complete(1, "A") == [emit("A"), {"ev": "ended"}]


def test_a_timeout_frees_the_slot_that_the_operator_waits_for(talk: Talk) -> None:
    """A28, A31: the waiting element's own timeout starts when it is admitted, in the midst of the advance."""
    talk.open(capacity=1, timeout_ms=100, on_timeout={"results": ["late"]})
    talk.element("a")
    talk.advance(40)
    talk.element("b")

    events = talk.advance(199)

    assert events == [
        {"ev": "timeout", "value": "a"},
        emit("late"),
        call(2, "b"),
        {"ev": "unblocked"},
    ]
    assert talk.say("stats")[0]["now"] == 199
    assert talk.advance(200) == [{"ev": "timeout", "value": "b"}, emit("late")]


def test_a_snapshot_asked_for_while_blocked_comes_right_after_and_holds_the_element_once(full: Talk) -> None:
    """A30: the element that waits is not in the state."""
    assert full.say("snapshot", id=1) == []
    assert full.say("snapshot", id=2) == []

    events = full.complete(1, "A")

    assert kinds(events) == ["emit", "call", "unblocked", "snapshot", "snapshot"]
    assert [(e["id"], e["elements"]) for e in events[3:]] == [
        (n, [{"value": "b", "ts": None}]) for n in (1, 2)
    ]


def test_a_watermark_waits_for_its_slot_too(talk: Talk) -> None:
    """A8, A51: it takes a slot, and it is emitted as soon as it is first."""
    talk.open(capacity=1)
    assert talk.say("watermark", ts=1) == [{"ev": "watermark", "ts": 1}]
    talk.element("a")
    assert talk.say("watermark", ts=2) == [{"ev": "blocked"}]

    assert set(kinds(talk.complete(1))) == {"unblocked", "watermark"}


def test_close_leaves_the_wait_and_what_was_due_is_not_done(full: Talk) -> None:
    full.say("snapshot", id=1)

    [closed] = full.say("close")

    assert closed == {"ev": "closed", "dropped_mails": 0, "timers": 1}
    assert full.open() == []


def test_a_held_command_is_performed_and_its_mail_waits(talk: Talk) -> None:
    talk.open()
    talk.element("a", 1)
    assert talk.complete(1, "A", hold=True) == []

    [stats] = talk.say("stats", hold=True)
    [snapshot] = talk.say("snapshot", id=1, hold=True)

    assert stats["mails"] > 0
    assert stats["calls_running"] == 0
    assert snapshot["elements"] == [{"value": "a", "ts": 1}]
    assert kinds(talk.say("stats")) == ["stats", "emit"]
    assert talk.say("stats")[0]["mails"] == 0


def test_an_element_under_hold_blocks_though_a_waiting_mail_would_free_a_slot(talk: Talk) -> None:
    talk.open(capacity=1)
    talk.element("a")
    talk.complete(1, "A", hold=True)

    assert talk.element("b", hold=True) == [{"ev": "blocked"}]
    assert talk.say("stats", hold=True)[0]["mails"] > 0
    assert kinds(talk.advance(0)) == ["emit", "call", "unblocked"]


def test_without_hold_the_waiting_mail_frees_the_slot_in_the_same_command(talk: Talk) -> None:
    talk.open(capacity=1)
    talk.element("a")
    talk.complete(1, "A", hold=True)

    assert talk.element("b") == [emit("A"), call(2, "b")]


def test_a_refused_command_runs_no_waiting_mail_of_a_blocked_operator(talk: Talk) -> None:
    talk.open(capacity=1)
    talk.element("a")
    talk.element("b")
    talk.complete(1, "A", hold=True)

    assert talk.error("complete", call=9, results=[]) == "unknown-call"
    assert talk.say("stats", hold=True)[0]["queue"] == 1


def test_a_drain_writes_ended_in_the_command_that_empties_the_queue(talk: Talk) -> None:
    """A66, A67: and at once where nothing is in flight."""
    talk.open()
    talk.element("a")
    talk.element("b")

    assert talk.say("end_input") == []
    assert talk.complete(2, "B") == []
    assert talk.say("snapshot", id=5) == []
    events = talk.complete(1, "A")

    assert kinds(events) == ["emit", "emit", "ended", "snapshot"]
    assert events[3]["elements"] == []
    assert talk.say("stats")[0] == {
        "ev": "stats",
        "queue": 0,
        "calls_running": 0,
        "timers": 0,
        "mails": 0,
        "now": 0,
    }


def test_after_ended_a_late_outcome_changes_nothing_and_input_is_over(talk: Talk) -> None:
    talk.open()
    talk.element("a")
    talk.complete(1, "A")
    assert talk.say("end_input") == [{"ev": "ended"}]

    assert talk.complete(1, "late") == []
    assert talk.fail(1) == []
    assert talk.advance(1000) == []
    assert kinds(talk.say("snapshot", id=1)) == ["snapshot"]
    assert talk.say("notify", id=1, outcome="complete") == []
    assert talk.error("element", value=1, ts=None) == "bad-state"
    assert talk.error("end_input") == "bad-state"
    assert kinds(talk.say("close")) == ["closed"]


def test_ordered_keeps_arrival_and_unordered_keeps_segments(talk: Talk) -> None:
    """A16, A20, A21: unordered emits in the order of the outcomes, never across a watermark."""
    for mode, expected in (("ordered", ["a", "b", 5, "c"]), ("unordered", ["b", "a", 5, "c"])):
        talk.open(mode=mode)
        talk.element("a")
        talk.element("b")
        talk.say("watermark", ts=5)
        talk.element("c")
        events = [*talk.complete(3, "c"), *talk.complete(2, "b"), *talk.complete(1, "a")]
        talk.say("close")

        assert [e["value"] if e["ev"] == "emit" else e["ts"] for e in events] == expected
