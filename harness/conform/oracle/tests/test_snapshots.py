"""The oracle's checkpoints: genuine bytes, what they hold, and the replay that reads them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.conform.oracle.tests.talk import Talk, call, emit, kinds

pytestmark = pytest.mark.oracle


def taken(talk: Talk) -> Any:
    """A snapshot's event."""
    [snapshot] = talk.say("snapshot", id=1)
    return snapshot


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
def test_a_snapshot_holds_what_was_not_emitted_and_a_restore_calls_it_anew(talk: Talk, mode: str) -> None:
    """A12, A56, A57, A61: inputs and watermarks, results not; the replay takes the ordinary path."""
    talk.open(mode=mode)
    talk.element("a", 1)
    talk.element({"b": 1}, None)
    talk.say("watermark", ts=9)
    talk.element("c", 3)
    talk.complete(3, "C")
    snapshot = taken(talk)
    assert talk.complete(1, "A") == [emit("A", 1)]
    talk.say("close")

    replayed = talk.open(mode=mode, restore=snapshot["state"], now=500)

    assert snapshot["elements"] == [
        {"value": "a", "ts": 1},
        {"value": {"b": 1}, "ts": None},
        {"watermark": 9},
        {"value": "c", "ts": 3},
    ]
    assert replayed == [call(1, "a"), call(2, {"b": 1}), call(3, "c")]
    assert taken(talk)["elements"] == snapshot["elements"], "A63"
    assert talk.say("stats")[0]["timers"] == 3, "A50"


def test_a_replay_that_does_not_fit_waits_and_is_admitted_whole(talk: Talk) -> None:
    """A62: a smaller capacity, and more elements than the old one had; mails run inside the replay."""
    talk.open(capacity=4)
    for value in "abcd":
        talk.element(value)
    state = taken(talk)["state"]
    talk.say("close")

    assert talk.open(capacity=2, restore=state) == [call(1, "a"), call(2, "b"), {"ev": "blocked"}]
    assert talk.error("element", value="e", ts=None) == "bad-state"
    assert talk.say("snapshot", id=7) == []
    assert talk.complete(1, "A") == [emit("A"), call(3, "c")]
    events = talk.complete(2, "B")

    assert kinds(events) == ["emit", "call", "unblocked", "snapshot"]
    assert [e["value"] for e in events[3]["elements"]] == ["c", "d"]


def test_a_replay_that_is_held_runs_no_mail(talk: Talk) -> None:
    talk.open()
    talk.element("a")
    state = taken(talk)["state"]
    talk.say("close")
    config = {"mode": "ordered", "capacity": 1, "timeout_ms": 0}

    assert talk.say("open", now=0, restore=state, config=config, hold=True) == [call(1, "a")]


def test_a_replay_may_fail_the_task(talk: Talk) -> None:
    talk.open()
    talk.element("a")
    state = taken(talk)["state"]
    talk.say("close")

    assert kinds(talk.open(restore=state, invoke_throws=["a"])) == ["call", "failed"]


def test_a_record_in_backoff_is_in_the_snapshot_without_its_attempts(talk: Talk) -> None:
    """A58, A88."""
    retry = {"strategy": "fixed", "max_retries": 1, "delay_ms": 10, "on": ["error"]}
    config: dict[str, Any] = {"profile": "flink", "retry": retry}
    talk.open(**config)
    talk.element("a")
    talk.fail(1)
    state = taken(talk)["state"]
    talk.say("close")

    assert talk.open(restore=state, **config) == [call(1, "a")]


def test_a_long_segment_has_the_same_order_in_each_process(fresh: Talk, talk: Talk) -> None:
    """A25 leaves the order inside a segment free; the oracle takes the same one each time."""
    fresh.say("hello", protocol=1)
    orders = []
    for one in (fresh, talk):
        one.open(mode="unordered", capacity=50)
        for value in range(40):
            one.element(value)
        orders.append([element["value"] for element in taken(one)["elements"]])

    assert orders[0] == orders[1]
    assert sorted(orders[0]) == list(range(40))
