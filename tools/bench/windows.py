"""The asyncio peers of the operator: an ordered, bounded window without mailbox, timeouts, state or watermarks.

Invariant: like the operator they hold at most `capacity` records and emit in order; what the operator costs more than
they do is the price of its guarantees.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial

from harness.system.clock import monotonic_us
from reference_impl.mailbox.loops import real_loop
from tools.bench.answer import require_all_in_order
from tools.bench.operator_rate import OperatorLoad


def run_task_window(load: OperatorLoad) -> float:
    """Seconds for all records with a `create_task` for each; the coroutine answers at once and ignores the latency."""
    with real_loop() as loop:
        began_us = monotonic_us()
        came_out = loop.run_until_complete(_tasks(loop, load.records, load.capacity))
        took_s = (monotonic_us() - began_us) / 1e6
    require_all_in_order(came_out, load.records)
    return took_s


async def _tasks(loop: asyncio.AbstractEventLoop, count: int, capacity: int) -> list[int]:
    came_out: list[int] = []
    window: deque[asyncio.Task[list[int]]] = deque()
    for number in range(count):
        if len(window) == capacity:
            came_out += await window.popleft()
        window.append(loop.create_task(_echo(number)))
    for task in window:
        came_out += await task
    return came_out


async def _echo(value: int) -> list[int]:
    return [value]


def run_callback_window(load: OperatorLoad) -> float:
    """Seconds for all records with a `call_later` for each, on real timers."""
    with real_loop() as loop:
        window = _CallbackWindow(loop, load)
        began_us = monotonic_us()
        came_out = window.run()
        took_s = (monotonic_us() - began_us) / 1e6
    require_all_in_order(came_out, load.records)
    return took_s


class _CallbackWindow:
    """A queue of slots, each empty until its result comes. Mutable."""

    def __init__(self, loop: asyncio.AbstractEventLoop, load: OperatorLoad) -> None:
        self._loop = loop
        self._load = load
        self._latency_s = load.latency_ms / 1000
        self._slots: deque[list[int]] = deque()
        self._next = 0
        self._came_out: list[int] = []

    def run(self) -> list[int]:
        while self._next < min(self._load.capacity, self._load.records):
            self._begin()
        self._loop.run_forever()
        return self._came_out

    def _begin(self) -> None:
        slot: list[int] = []
        self._slots.append(slot)
        self._loop.call_later(self._latency_s, partial(self._end, slot, self._next))
        self._next += 1

    def _end(self, slot: list[int], value: int) -> None:
        slot.append(value)
        slots = self._slots
        while slots and slots[0]:
            self._came_out += slots.popleft()
            if self._next < self._load.records:
                self._begin()
        if not slots:
            self._loop.stop()
