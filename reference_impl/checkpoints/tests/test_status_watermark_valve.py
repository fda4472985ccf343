"""Claims about one watermark out of several: W1-W3."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reference_impl.checkpoints.input_gate import StatusWatermarkValve
from reference_impl.elements import Watermark, WatermarkStatus
from reference_impl.tests.rig import quickly, shown


class Ear:
    """Notes what leaves."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def emit(self, element: Watermark | WatermarkStatus) -> None:
        self.heard.append(shown(element))


class Valve:
    """A valve and what has left it."""

    def __init__(self, channels: int) -> None:
        self._valve = StatusWatermarkValve(channels)
        self._ear = Ear()

    def watermark(self, channel: int, timestamp: int) -> list[Any]:
        """What leaves for it."""
        self._valve.input_watermark(Watermark(timestamp=timestamp), channel, self._ear)
        return self._taken()

    def idle(self, channel: int) -> list[Any]:
        self._valve.input_watermark_status(WatermarkStatus(idle=True), channel, self._ear)
        return self._taken()

    def active(self, channel: int) -> list[Any]:
        self._valve.input_watermark_status(WatermarkStatus(idle=False), channel, self._ear)
        return self._taken()

    def _taken(self) -> list[Any]:
        heard, self._ear.heard = self._ear.heard, []
        return heard


def test_what_leaves_is_the_least_and_only_when_it_rises_w1() -> None:
    valve = Valve(2)

    assert valve.watermark(0, 5) == []
    assert valve.watermark(1, 3) == ["w3"]
    assert valve.watermark(1, 9) == ["w5"]
    assert valve.watermark(1, 10) == []


def test_one_that_does_not_rise_does_nothing_w1() -> None:
    valve = Valve(1)

    assert valve.watermark(0, 5) == ["w5"]
    assert valve.watermark(0, 5) == []
    assert valve.watermark(0, 4) == []
    assert valve.watermark(0, 6) == ["w6"]


def test_a_watermark_of_an_idle_channel_does_nothing_w1() -> None:
    valve = Valve(2)
    valve.watermark(0, 5)
    valve.watermark(1, 3)
    valve.idle(1)

    assert valve.watermark(1, 20) == []
    assert valve.active(1) == []
    assert valve.watermark(0, 30) == ["w30"]


def test_a_watermark_while_all_are_idle_does_nothing_w1() -> None:
    valve = Valve(1)
    valve.idle(0)

    assert valve.watermark(0, 5) == []
    assert valve.active(0) == ["active"]
    assert valve.watermark(0, 5) == ["w5"]


def test_a_channel_that_wakes_behind_holds_nobody_back_until_it_has_caught_up_w2() -> None:
    valve = Valve(2)
    valve.watermark(0, 5)
    valve.watermark(1, 3)
    assert valve.idle(1) == ["w5"]
    valve.active(1)

    assert valve.watermark(0, 8) == ["w8"]
    assert valve.watermark(1, 7) == []
    assert valve.watermark(1, 8) == []
    assert valve.watermark(0, 12) == []
    assert valve.watermark(1, 10) == ["w10"]


def test_a_channel_that_wakes_at_what_has_left_counts_at_once_w2() -> None:
    valve = Valve(2)
    valve.watermark(0, 5)
    valve.watermark(1, 5)
    valve.idle(1)
    valve.active(1)

    assert valve.watermark(0, 9) == []
    assert valve.watermark(1, 7) == ["w7"]


def test_a_channel_that_wakes_alone_among_those_behind_lets_its_watermark_out_w2() -> None:
    """FLINK-38454, FLINK-40475: it stood until an even higher one came."""
    valve = Valve(3)
    for channel, timestamp in ((0, 10), (1, 5), (2, 3)):
        valve.watermark(channel, timestamp)
    assert valve.idle(2) == ["w5"]
    valve.active(2)  # behind, and so not counted
    assert valve.idle(0) == []
    assert valve.idle(1) == []

    assert valve.active(0) == ["w10"]


def test_without_a_channel_that_counts_nothing_leaves_w2() -> None:
    """FLINK-7721: the greatest number there is left."""
    valve = Valve(2)
    valve.watermark(0, 5)
    valve.watermark(1, 3)
    valve.idle(1)
    valve.active(1)

    assert valve.idle(0) == []
    assert valve.watermark(1, 4) == []


def test_a_channel_that_falls_idle_holds_the_others_no_longer_w3() -> None:
    """FLINK-18934."""
    valve = Valve(3)
    valve.watermark(0, 5)
    valve.watermark(1, 7)

    assert valve.idle(2) == ["w5"]
    assert valve.idle(0) == ["w7"]


def test_when_all_are_idle_the_highest_leaves_and_then_the_status_once_w3() -> None:
    valve = Valve(2)
    valve.watermark(0, 5)
    valve.watermark(1, 9)
    valve.idle(0)
    assert valve.idle(1) == ["idle"]
    assert valve.idle(0) == []

    other = Valve(2)
    other.watermark(0, 5)
    other.watermark(1, 9)
    other.idle(1)
    assert other.idle(0) == ["w9", "idle"]


def test_whoever_falls_idle_last_the_same_has_left_w3() -> None:
    """FLINK-7728."""
    for order in permutations(range(3)):
        valve = Valve(3)
        left = [
            what
            for channel, timestamp in enumerate((5, 9, 2))
            for what in valve.watermark(channel, timestamp)
        ]
        left += [what for channel in order for what in valve.idle(channel)]

        assert left[-2:] == ["w9", "idle"]


def test_the_highest_leaves_also_if_the_last_to_fall_idle_had_not_caught_up_w3() -> None:
    """FLINK-40475: it did so only if that one had stood at what had left."""
    valve = Valve(3)
    for channel, timestamp in ((0, 5), (1, 20), (2, 3)):
        valve.watermark(channel, timestamp)
    valve.idle(1)
    assert valve.idle(2) == ["w5"]
    valve.active(2)
    valve.watermark(2, 4)
    valve.idle(0)

    assert valve.idle(2) == ["w20", "idle"]


def test_the_first_to_wake_makes_it_active_before_anything_else_w3() -> None:
    valve = Valve(2)
    valve.idle(0)
    assert valve.idle(1) == ["idle"]

    assert valve.active(1) == ["active"]
    assert valve.active(0) == []


class NaiveValve:
    """All channels, looked through anew for each question."""

    def __init__(self, channels: int) -> None:
        self.marks: list[int | None] = [None] * channels
        self.idles = [False] * channels
        self.behind = [False] * channels
        self.left: int | None = None
        self.heard: list[Any] = []

    def watermark(self, channel: int, timestamp: int) -> None:
        mark = self.marks[channel]
        if not self.idles[channel] and (mark is None or timestamp > mark):
            self.marks[channel] = timestamp
            self.settle(channel)

    def status(self, channel: int, *, idle: bool) -> None:
        if self.idles[channel] == idle:
            return
        was_idle, self.idles[channel] = all(self.idles), idle
        self.behind[channel] = True
        if was_idle:
            self.heard.append("active")
        if all(self.idles):
            self.leave(max((mark for mark in self.marks if mark is not None), default=None))
            self.heard.append("idle")
        else:
            self.settle(channel)

    def settle(self, channel: int) -> None:
        mark = self.marks[channel]
        if self.left is None or (mark is not None and mark >= self.left):
            self.behind[channel] = False
        counted = [
            mark
            for mark, idle, behind in zip(self.marks, self.idles, self.behind, strict=True)
            if not idle and not behind
        ]
        known = [mark for mark in counted if mark is not None]
        if counted and len(known) == len(counted):
            self.leave(min(known))

    def leave(self, mark: int | None) -> None:
        if mark is not None and (self.left is None or mark > self.left):
            self.left = mark
            self.heard.append(f"w{mark}")


STEPS = st.lists(st.tuples(st.integers(0, 2), st.one_of(st.integers(0, 12), st.booleans())), max_size=40)


def does_as_the_model(steps: list[tuple[int, int | bool]], *, kind: type[StatusWatermarkValve]) -> None:
    """Of three channels; a number is a watermark, a truth whether the channel is idle."""
    naive, ear, valve = NaiveValve(3), Ear(), kind(3)
    for channel, step in steps:
        if isinstance(step, bool):
            naive.status(channel, idle=step)
            valve.input_watermark_status(WatermarkStatus(idle=step), channel, ear)
        else:
            naive.watermark(channel, step)
            valve.input_watermark(Watermark(timestamp=step), channel, ear)
    assert ear.heard == naive.heard, "what left is not what the channels allow"


@quickly
@given(STEPS)
def test_in_any_order_the_valve_does_as_the_model_w1_w2_w3(steps: list[tuple[int, int | bool]]) -> None:
    does_as_the_model(steps, kind=StatusWatermarkValve)
