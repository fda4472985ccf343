"""Claims about the operator at work: A3, A9, A27-A31, A34-A41, A43-A48, A51, A52."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from reference_impl.async_wait import Mode
from reference_impl.elements import EndOfInput, QueueElement, Watermark
from reference_impl.errors import CallbackFailed, StreamElementFailed
from reference_impl.mailbox import MailboxExecutor
from reference_impl.result import ResultHandle
from reference_impl.tests.rig import HandFunction, open_rig, record, watermark

BOTH = pytest.mark.parametrize("mode", get_args(Mode))


# ------------------------------------------------------------------------------ process, backpressure


def test_a_timer_runs_before_the_function_is_called_a28() -> None:
    class Looking(HandFunction):
        def invoke(self, value: Any, handle: ResultHandle) -> None:
            pending.append(len(rig.timers))

    pending: list[int] = []
    with open_rig(function=Looking(), timeout_ms=60_000) as rig:
        rig.process(record(1))

    assert pending == [1]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_a_timeout_no_timer_is_registered_a3(timeout_ms: int) -> None:
    with open_rig(timeout_ms=timeout_ms) as rig:
        rig.process(record(1))

        assert len(rig.timers) == 0


@BOTH
def test_a_full_queue_waits_for_a_slot_and_calls_nobody_meanwhile_a27(mode: Mode) -> None:
    with open_rig(mode=mode, capacity=1) as rig:
        rig.process(record(1))
        rig.complete_soon(1, "a")

        rig.process(record(2))

    assert rig.happened == [("called", 1), ("ok", 1), ("emitted", "a"), ("called", 2)]


def test_a_timeout_may_free_the_slot_that_is_waited_for_a31() -> None:
    class Answering(HandFunction):
        def timeout(self, value: Any, handle: ResultHandle) -> None:
            handle.complete(["substitute"])

    with open_rig(capacity=1, timeout_ms=1, function=Answering()) as rig:
        rig.process(record(1), record(2))

    assert rig.values() == ["substitute"]


def test_the_wait_for_a_slot_runs_no_mail_from_upstream_a30() -> None:
    ran: list[str] = []
    with open_rig(capacity=1) as rig:
        MailboxExecutor(rig.mailbox, -1).execute(lambda: ran.append("barrier"), "barrier")
        rig.process(record(1))
        rig.complete_soon(1)

        rig.process(record(2))

        assert ran == []


def test_a_record_that_waits_for_a_slot_is_in_no_snapshot_a30() -> None:
    taken: list[tuple[QueueElement, ...]] = []
    with open_rig(capacity=1) as rig:
        rig.process(record(1))
        rig.executor.execute(lambda: taken.append(rig.operator.snapshot()), "peek")
        rig.complete_soon(1)

        rig.process(record(2))

    assert taken == [(record(1),)]


@pytest.mark.parametrize("element", [EndOfInput(), "text"])
def test_only_records_and_watermarks_are_processed_a9(element: Any) -> None:
    with open_rig() as rig, pytest.raises(TypeError, match="Cannot process"):
        rig.process(element)


def test_a_function_that_raises_fails_the_task_at_once_a34() -> None:
    class Raising(HandFunction):
        def invoke(self, value: Any, handle: ResultHandle) -> None:
            raise ArithmeticError

    with open_rig(function=Raising()) as rig, pytest.raises(CallbackFailed) as raised:
        rig.process(record(1))

    assert isinstance(raised.value.__cause__, ArithmeticError)


# ----------------------------------------------------------------------------------------- completion


def test_a_completion_inside_the_call_is_still_emitted_by_mail_a37() -> None:
    class Immediate(HandFunction):
        def invoke(self, value: Any, handle: ResultHandle) -> None:
            handle.complete([value])

    with open_rig(function=Immediate()) as rig:
        rig.process(record(1))
        assert rig.emitted == []

        rig.run_mail()

        assert rig.emitted == [record(1)]


def test_one_mail_emits_one_entry_a38() -> None:
    with open_rig() as rig:
        rig.process(record(1), record(2), record(3))
        for value in (3, 2):
            rig.complete(value, value)
        rig.run_mail()
        rig.complete(1, 1)

        counts = []
        while rig.executor.try_yield():
            counts.append(len(rig.emitted))

    assert counts == [1, 2, 3]


@BOTH
def test_results_of_one_input_stay_together_and_in_order_a39(mode: Mode) -> None:
    with open_rig(mode=mode) as rig:
        rig.process(record(1), record(2))
        rig.complete(1, "a", "b", "c")
        rig.complete(2, "d", "e")
        rig.run_mail()

    assert rig.values() == ["a", "b", "c", "d", "e"]


@BOTH
def test_a_failed_call_fails_the_task_and_frees_its_slot_a41(mode: Mode) -> None:
    with open_rig(mode=mode, capacity=2) as rig:
        rig.process(record(1), record(2))
        rig.hand.handles[1].fail(ArithmeticError("no"))
        rig.complete(2, "b")
        rig.run_mail()

    (failure,) = rig.failures
    assert isinstance(failure, StreamElementFailed)
    assert str(failure) == f"Could not complete the stream element: {record(1)}."
    assert isinstance(failure.__cause__, ArithmeticError)
    assert rig.values() == ["b"]


@BOTH
def test_an_empty_list_is_no_output_a35(mode: Mode) -> None:
    with open_rig(mode=mode) as rig:
        rig.process(record(1))
        rig.complete(1)
        rig.run_mail()

        assert (rig.emitted, len(rig.operator)) == ([], 0)


def test_a_late_outcome_changes_nothing_a36() -> None:
    with open_rig() as rig:
        rig.process(record(1))
        rig.complete(1, "first")
        rig.complete(1, "second")
        rig.run_mail()
        rig.hand.handles[1].fail(ArithmeticError())
        rig.run_mail()

    assert (rig.values(), rig.failures) == (["first"], [])
    assert [what for what, _ in rig.happened] == ["called", "ok", "emitted"]


# -------------------------------------------------------------------------------------------- timeout


def test_by_default_a_timeout_fails_the_task_a44() -> None:
    with open_rig(timeout_ms=1) as rig:
        rig.process(record(1))
        rig.operator.end_input()

    (failure,) = rig.failures
    assert str(failure.__cause__) == "Async function call has timed out."
    assert rig.happened == [("called", 1), ("timeout", 1)]


def test_a_completed_record_does_not_time_out_though_its_mail_still_waits_a43() -> None:
    """FLINK-22573: the timer's mail comes first, the completion's second."""

    class Immediate(HandFunction):
        def timeout(self, value: Any, handle: ResultHandle) -> None:
            pytest.fail("timed out")

    with open_rig(timeout_ms=1, function=Immediate()) as rig:
        rig.process(record(1))
        timer_mail = rig.mailbox.take()
        rig.complete(1, "a")

        timer_mail.action()
        rig.run_mail()

    assert rig.values() == ["a"]


def test_a_late_result_after_the_timeout_is_ignored_a45() -> None:
    class Answering(HandFunction):
        def timeout(self, value: Any, handle: ResultHandle) -> None:
            handle.complete([])

    with open_rig(timeout_ms=1, function=Answering()) as rig:
        rig.process(record(1))
        rig.operator.end_input()
        rig.complete(1, "late")
        rig.run_mail()

    assert (rig.emitted, rig.failures) == ([], [])


def test_a_timeout_that_answers_nothing_keeps_its_slot_until_somebody_does_a46() -> None:
    class Silent(HandFunction):
        def timeout(self, value: Any, handle: ResultHandle) -> None:
            self.handles["timed out"] = handle

    with open_rig(timeout_ms=1, function=Silent()) as rig:
        rig.process(record(1))
        rig.executor.yield_()
        rig.run_mail()
        assert (len(rig.operator), len(rig.timers)) == (1, 0)

        rig.complete("timed out", "at last")
        rig.run_mail()

    assert rig.values() == ["at last"]


def test_a_timeout_that_raises_fails_the_task_a47() -> None:
    class Raising(HandFunction):
        def timeout(self, value: Any, handle: ResultHandle) -> None:
            raise ArithmeticError

    with open_rig(timeout_ms=1, function=Raising()) as rig:
        rig.process(record(1))
        with pytest.raises(CallbackFailed, match="timeout"):
            rig.operator.end_input()


def test_after_a_drain_no_timer_is_left_a48() -> None:
    with open_rig(timeout_ms=60_000) as rig:
        for value in range(5):
            rig.process(record(value))
            rig.complete(value, value)
        assert len(rig.timers) == 5
        rig.operator.end_input()

        assert len(rig.timers) == 0


# ----------------------------------------------------------------------------------------- watermarks


@BOTH
def test_a_watermark_at_an_empty_queue_leaves_at_once_a51(mode: Mode) -> None:
    with open_rig(mode=mode) as rig:
        mark = Watermark(timestamp=3, position=9)
        rig.process(mark)

        assert rig.emitted == [mark]


@BOTH
def test_a_watermark_waits_for_the_records_before_it_a52(mode: Mode) -> None:
    with open_rig(mode=mode) as rig:
        rig.process(record(1), watermark(1), record(2))
        rig.complete(2, "b")
        rig.run_mail()
        assert rig.emitted == []

        rig.complete(1, "a")
        rig.run_mail()

    assert rig.values() == ["a", "w1", "b"]
