"""Claims about a blocking function lifted to an async one, on its own threads: A6, A32, A35, A41, A44, A45, A69."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from reference_impl.errors import CallTimedOut
from reference_impl.operator.functions import from_blocking
from reference_impl.tests.rig import Rig, record, watched_loop


class Gate:
    """A blocking function whose calls wait until a test opens it; knows how many are in it."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.entered = threading.Semaphore(0)
        self.threads: set[int] = set()
        self.values: list[Any] = []
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0

    def __call__(self, value: Any) -> list[Any]:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
            self.threads.add(threading.get_ident())
            self.values.append(value)
        self.entered.release()
        assert self.opened.wait(timeout=60)
        with self._lock:
            self._inside -= 1
        return [value]

    def wait_for(self, calls: int) -> None:
        """Until so many more have entered."""
        for _ in range(calls):
            assert self.entered.acquire(timeout=60)


def test_calls_run_in_at_most_so_many_threads_and_none_of_them_is_the_tasks_a6() -> None:
    gate = Gate()
    with watched_loop() as loop:
        rig = Rig(loop, function=from_blocking(gate, loop=loop, threads=3), capacity=8)
        rig.process(*(record(value) for value in range(8)))
        gate.wait_for(3)
        assert gate.most == 3

        gate.opened.set()
        rig.operator.end_input()
        rig.operator.close()

    assert (rig.values(), gate.most, len(gate.threads)) == (list(range(8)), 3, 3)
    assert threading.get_ident() not in gate.threads


@pytest.mark.parametrize("answer", [None, "text", 7])
def test_a_call_that_returns_no_list_fails_its_record_a35(answer: Any) -> None:
    with watched_loop() as loop:
        rig = Rig(loop, function=from_blocking(lambda _: answer, loop=loop, threads=1))
        rig.process(record(1))
        rig.operator.end_input()
        rig.operator.close()

    assert rig.causes() == [TypeError]


def test_what_a_call_raises_fails_its_record_on_the_tasks_thread_a6_a41() -> None:
    opened = threading.Event()

    def burst(value: Any) -> list[Any]:
        assert opened.wait(timeout=60)
        raise ArithmeticError(value)

    with watched_loop() as loop:
        rig = Rig(loop, function=from_blocking(burst, loop=loop, threads=1))
        rig.process(record(1))
        opened.set()
        rig.operator.end_input()
        rig.operator.close()

    assert (rig.causes(), rig.threads) == ([ArithmeticError], {threading.get_ident()})


def test_a_call_that_timed_out_runs_on_without_a_slot_a32_a44_a45() -> None:
    gate = Gate()
    with watched_loop() as loop:
        function = from_blocking(gate, loop=loop, threads=2, on_timeout=lambda value: [f"no {value}"])
        rig = Rig(loop, function=function, capacity=1, timeout_ms=1)
        rig.process(record(1), record(2))
        gate.wait_for(2)
        rig.operator.end_input()
        assert gate.most == 2

        gate.opened.set()
        rig.operator.close()

    assert (rig.values(), rig.failures) == (["no 1", "no 2"], [])


def test_by_default_its_timeout_fails_the_record_a44() -> None:
    gate = Gate()
    with watched_loop() as loop:
        rig = Rig(loop, function=from_blocking(gate, loop=loop, threads=1), timeout_ms=1)
        rig.process(record(1))
        rig.operator.end_input()
        gate.opened.set()
        rig.operator.close()

    assert rig.causes() == [CallTimedOut]


def test_closing_drops_what_has_not_begun_and_hears_nothing_of_what_has_a68_a69() -> None:
    gate = Gate()
    with watched_loop() as loop:
        rig = Rig(loop, function=from_blocking(gate, loop=loop, threads=1))
        rig.process(record(1), record(2), record(3))
        gate.wait_for(1)

        rig.operator.close()
        rig.mailbox.close()
        gate.opened.set()
        for thread in threading.enumerate():
            if thread.name.startswith("lookup"):
                thread.join(timeout=60)

    assert (gate.values, rig.emitted, rig.failures) == ([1], [], [])
