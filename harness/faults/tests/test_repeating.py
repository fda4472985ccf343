"""Acts that come again: they end with the block, and what one breaks with is not swallowed."""

from __future__ import annotations

import threading

import pytest

from harness.faults.real.server_control import repeating, taking_turns


def test_an_act_comes_again_while_the_block_lasts_and_not_afterwards() -> None:
    thrice, acts = threading.Event(), list[int]()

    def act() -> None:
        acts.append(len(acts))
        if len(acts) == 3:
            thrice.set()

    with repeating(act, 0.001):
        assert thrice.wait(60)
    done = len(acts)

    assert "repeated act of a fault" not in [thread.name for thread in threading.enumerate()]
    assert len(acts) == done


def test_turns_are_taken_in_order() -> None:
    enough, acts = threading.Event(), list[str]()

    def down() -> None:
        acts.append("down")

    def up() -> None:
        acts.append("up")
        if len(acts) >= 6:
            enough.set()

    with taking_turns((down, 0.001), (up, 0.001)):
        assert enough.wait(60)

    assert acts[:6] == ["down", "up"] * 3


def test_the_wait_between_acts_does_not_hold_up_the_end() -> None:
    once, acts = threading.Event(), list[int]()

    def act() -> None:
        acts.append(1)
        once.set()

    with repeating(act, 3600):
        assert once.wait(60)

    assert acts == [1]


def test_what_an_act_breaks_with_is_raised_by_the_block() -> None:
    broken = threading.Event()

    def act() -> None:
        broken.set()
        raise ConnectionError("the server is gone")

    def run() -> None:
        with repeating(act, 0.001):
            assert broken.wait(60)

    with pytest.raises(ConnectionError, match="the server is gone"):
        run()
