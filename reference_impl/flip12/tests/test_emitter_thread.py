"""Claims about the emitter's thread: B5, B6, A38, A68, A69; what goes wrong on it, and how it ends."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread, current_thread
from typing import Any

import pytest

from reference_impl.elements import LatencyMarker, OperatorInput
from reference_impl.errors import WrongState
from reference_impl.flip12 import wait_operator
from reference_impl.flip12.wait_operator import THREAD_NAME, EmitterWaitOperator, build_operator
from reference_impl.mailbox.loops import real_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.build import Mode
from reference_impl.tests.rig import HandFunction, OpenRig, record, watermark

BOTH = pytest.mark.parametrize("mode", ["ordered", "unordered"])
LIMIT_S = 60


def emitters() -> list[Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


@pytest.fixture(autouse=True)
def _no_emitter_is_left() -> Iterator[None]:
    assert emitters() == []
    yield
    assert emitters() == []


class ThreadSpy:
    """Where each emission ran."""

    def __init__(self) -> None:
        self.threads: list[Thread] = []

    def __call__(self, _element: OperatorInput) -> None:
        self.threads.append(current_thread())


class Refused(Exception):
    """What comes next does not take an element."""


def test_one_thread_of_its_own_emits_all_that_is_buffered(
    rigs: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = ThreadSpy()
    with rigs() as rig:
        monkeypatch.setattr(rig, "_next", spy)
        rig.process(record(1), watermark(1), record(2))
        rig.complete(1, "a", "b")
        rig.complete(2, "c")
        rig.operator.end_input()

    assert [thread.name for thread in spy.threads] == [THREAD_NAME] * 4
    assert len(set(spy.threads)) == 1


def test_what_passes_the_buffer_by_is_emitted_by_the_task(
    rigs: OpenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = ThreadSpy()
    with rigs() as rig:
        monkeypatch.setattr(rig, "_next", spy)
        rig.process(LatencyMarker(id=1))

    assert spy.threads == [current_thread()]


def test_an_operator_that_emits_nothing_has_no_thread(rigs: OpenRig) -> None:
    with rigs() as rig:
        rig.operator.open()
        rig.process(record(1))

        assert emitters() == []


def test_the_end_of_input_returns_when_all_is_out_and_nothing_leaves_later_b6(rigs: OpenRig) -> None:
    with rigs() as rig:
        rig.process(record(1), watermark(1), record(2), watermark(2))
        for value in (2, 1):
            rig.complete_soon(value, value)

        rig.operator.end_input()
        assert rig.values() == [1, "w1", 2, "w2"]

        rig.complete(1, "late")
        rig.run_mail()
    assert rig.values() == [1, "w1", 2, "w2"]


def test_more_immediate_completions_than_frames_are_allowed_grow_no_stack(rigs: OpenRig) -> None:
    many = 3 * sys.getrecursionlimit()
    function = HandFunction(invoke=lambda value, handle: handle.complete([value]))
    with rigs(capacity=many, function=function) as rig:
        for value in range(many):
            rig.process(record(value))
        rig.operator.end_input()

    assert rig.values() == list(range(many))


# -------------------------------------------------------------------------------------------- errors


@BOTH
@pytest.mark.parametrize("error", [Refused("full"), SystemExit(3)])
def test_what_an_emission_raises_reaches_the_task_and_the_record_stays_in_the_snapshot(
    rigs: OpenRig, mode: Mode, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_element: OperatorInput) -> None:
        raise error

    with rigs(mode=mode) as rig:
        monkeypatch.setattr(rig, "_next", refuse)
        rig.process(record(1))
        rig.complete(1, "a")

        with pytest.raises(type(error)) as raised:
            rig.run_mail()

        assert raised.value is error
        assert rig.operator.snapshot() == (record(1),)


def test_an_emitter_that_met_an_error_goes_on(rigs: OpenRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the task does is the task's affair; a dead emitter would be a hang (B9)."""

    def refuse_once(_element: OperatorInput) -> None:
        monkeypatch.setattr(rig, "_next", None)
        raise Refused

    with rigs() as rig:
        monkeypatch.setattr(rig, "_next", refuse_once)
        rig.process(record(1))
        rig.complete(1, "a")
        with pytest.raises(Refused):
            rig.run_mail()

        rig.operator.process(watermark(1))
        rig.run_mail()

    assert rig.values() == ["a", "a", "w1"]


# --------------------------------------------------------------------------------------------- close


@BOTH
def test_the_close_ends_the_thread_with_records_in_flight_a68(rigs: OpenRig, mode: Mode) -> None:
    with rigs(mode=mode) as rig:
        rig.process(watermark(0), record(1), record(2))
        assert len(emitters()) == 1

        rig.operator.close()

        assert emitters() == []
        assert rig.hand.closed == 1


@BOTH
def test_completions_from_other_threads_around_the_close_neither_raise_nor_emit_a38_a68(mode: Mode) -> None:
    with real_loop() as loop, ThreadPoolExecutor(4) as pool:
        bench = Bench(loop, mode=mode)
        for value in range(100):
            bench.operator.process(record(value))
        early = [pool.submit(bench.hand.attempts[value][0].complete, [value]) for value in range(50)]
        bench.operator.close()
        late = [pool.submit(bench.hand.attempts[value][0].complete, [value]) for value in range(50, 90)]
        late += [pool.submit(bench.hand.attempts[value][0].fail, Refused()) for value in range(90, 100)]
        for each in (*early, *late):
            each.result(timeout=LIMIT_S)
        bench.mailbox.let_loop_turn()
        bench.run_mail()

        assert (bench.emitted, bench.failures) == ([], [])
        bench.mailbox.close()
        bench.hand.attempts[0][0].complete([0])


@BOTH
def test_the_close_ends_though_an_emission_hangs_and_says_so_b5(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLINK-5638: the lock was held by whoever waited for the emitter, which waited for what came next."""
    monkeypatch.setattr(wait_operator, "STOP_LIMIT_S", 0.02)
    emitting, go_on = Event(), Event()

    def hang(_element: OperatorInput) -> None:
        emitting.set()
        assert go_on.wait(LIMIT_S)

    benches: list[Bench] = []

    def be_task() -> None:
        with real_loop() as loop:
            benches.append(Bench(loop, mode=mode, emit=hang))
            benches[0].operator.process(watermark(1))

    task = Thread(target=be_task)
    task.start()
    assert emitting.wait(LIMIT_S)
    (emitter,) = emitters()

    with pytest.raises(WrongState, match=r"did not stop within 0.02 s"):
        benches[0].operator.close()

    assert benches[0].hand.closed == 1
    go_on.set()
    task.join(LIMIT_S)
    emitter.join(LIMIT_S)
    assert not task.is_alive()


# ----------------------------------------------------------------------------- calls on other threads


@BOTH
def test_calls_that_end_on_other_threads_are_all_emitted_once_a36(mode: Mode) -> None:
    """Each is completed twice, by two threads."""
    with real_loop() as loop, ThreadPoolExecutor(4) as pool:

        def ask(value: Any, handle: Any) -> None:
            for _ in range(2):
                pool.submit(handle.complete, [value])

        bench = Bench(loop, mode=mode, capacity=7, function=HandFunction(invoke=ask))
        for value in range(300):
            bench.operator.process(record(value))
        bench.operator.end_input()
        bench.operator.close()

        values = [element.value for element in bench.emitted if hasattr(element, "value")]
        assert (values if mode == "ordered" else sorted(values)) == list(range(300))


def test_an_error_from_another_thread_fails_the_task_by_mail_a41() -> None:
    with real_loop() as loop:
        bench = Bench(loop, mode="ordered")
        bench.operator.process(record(1))
        thread = Thread(target=bench.hand.attempts[1][0].fail, args=(Refused(),))
        thread.start()
        thread.join(LIMIT_S)
        assert bench.failures == []

        bench.operator.end_input()
        bench.operator.close()

        assert [type(failure.__cause__) for failure in bench.failures] == [Refused]


class Bench:
    """An operator on a loop, with calls that other threads may end; closed by its test."""

    def __init__(
        self,
        loop: Any,
        *,
        mode: Mode,
        capacity: int = 100,
        function: HandFunction | None = None,
        emit: Any = None,
    ) -> None:
        self.mailbox = Mailbox(loop=loop)
        self.executor = MailboxExecutor(self.mailbox, 0)
        self.hand = function or HandFunction()
        self.emitted: list[OperatorInput] = []
        self.failures: list[BaseException] = []
        self.operator: EmitterWaitOperator = build_operator(
            mode=mode,
            capacity=capacity,
            function=self.hand,
            timeout_ms=0,
            executor=self.executor,
            timers=Timers(loop, self.executor),
            emit=emit or self.emitted.append,
            fail=self.failures.append,
        )

    def run_mail(self) -> None:
        while self.executor.try_yield():
            pass
