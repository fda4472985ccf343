"""Claims about the operator at work: A6, A9, A27-A32, A34-A41."""

from __future__ import annotations

import threading
from typing import Any, get_args

import pytest

from reference_impl.checkpoint_events import CheckpointBarrier
from reference_impl.elements import EndOfInput, QueueElement, Record
from reference_impl.errors import CallbackFailed, StreamElementFailed
from reference_impl.mailbox.mailbox import MailboxExecutor
from reference_impl.operator.build import Mode
from reference_impl.operator.result import ResultHandle
from reference_impl.operator.retry import FixedDelay
from reference_impl.tests.rig import HandFunction, OpenRig, open_rig, open_virtual, record, substitute
from tools.cases import each

BOTH = each("mode", get_args(Mode))


# ------------------------------------------------------------------------------ process, backpressure


def test_the_record_has_its_slot_and_its_timer_before_the_function_is_called_a27_a28(rigs: OpenRig) -> None:
    pending: list[tuple[int, int]] = []
    function = HandFunction(invoke=lambda _, __: pending.append((len(rig.operator), len(rig.timers))))
    with rigs(function=function, timeout_ms=60_000) as rig:
        rig.process(record(1))

    assert pending == [(1, 1)]


def test_without_a_timeout_no_timer_is_registered_a3(rigs: OpenRig) -> None:
    with rigs(timeout_ms=0) as rig:
        rig.process(record(1))

        assert len(rig.timers) == 0


@BOTH
def test_a_full_queue_waits_for_a_slot_and_calls_nobody_meanwhile_a27(rigs: OpenRig, mode: Mode) -> None:
    with rigs(mode=mode, capacity=1) as rig:
        rig.process(record(1))
        rig.complete_soon(1, "a")

        rig.process(record(2))

    assert rig.happened == [("called", 1), ("ok", 1), ("emitted", "a"), ("called", 2)]


def test_the_wait_for_a_slot_is_no_part_of_the_timeout_and_the_call_itself_is_a28() -> None:
    def slow(value: Any, _: ResultHandle) -> None:
        if value == 2:
            rig.advance(100, hold=True)  # the call takes 30 ms

    with open_virtual(capacity=1, timeout_ms=60, function=HandFunction(invoke=slow)) as rig:
        rig.process(record(1))
        rig.loop.call_later(0.07, lambda: None)
        rig.complete_soon(1)
        rig.advance(70, hold=True)
        rig.process(record(2))
        assert rig.loop.time() == 0.1
        rig.advance(129)
        assert rig.failures == []

        rig.advance(130)

    assert len(rig.failures) == 1


def test_a_timeout_may_free_the_slot_that_is_waited_for_a31(rigs: OpenRig) -> None:
    function = HandFunction(timeout=substitute("substitute"))
    with rigs(capacity=1, timeout_ms=1, function=function) as rig:
        rig.process(record(1), record(2))

    assert rig.values() == ["substitute"]


def test_the_wait_for_a_slot_runs_no_mail_from_upstream_a30(rigs: OpenRig) -> None:
    ran: list[str] = []
    with rigs(capacity=1) as rig:
        MailboxExecutor(rig.mailbox, -1).execute(lambda: ran.append("barrier"), "barrier")
        rig.process(record(1))
        rig.complete_soon(1)

        rig.process(record(2))

        assert ran == []


def test_a_record_that_waits_for_a_slot_is_in_no_snapshot_a30(rigs: OpenRig) -> None:
    taken: list[tuple[QueueElement, ...]] = []
    with rigs(capacity=1) as rig:
        rig.process(record(1))
        rig.executor.execute(lambda: taken.append(rig.operator.snapshot()), "peek")
        rig.complete_soon(1)

        rig.process(record(2))

    assert taken == [(record(1),)]


def test_calls_that_timed_out_go_on_without_a_slot_a32() -> None:
    """A32: the capacity bounds what is queued, and not what goes on outside."""
    function = HandFunction(timeout=substitute())
    with open_virtual(capacity=2, timeout_ms=1, function=function) as rig:
        for value in range(10):
            rig.process(record(value))
            assert len(rig.operator) <= 2

        assert len(rig.hand.attempts) == 10
        assert rig.loop.time() == 0.004


@each("element", [EndOfInput(), CheckpointBarrier(checkpoint_id=1), "text", None])
def test_only_what_streams_is_processed_a9(rigs: OpenRig, element: Any) -> None:
    with rigs() as rig, pytest.raises(TypeError, match="Cannot process"):
        rig.process(element)


# -------------------------------------------------------------------------------- whose object a record is


class Mutable:
    """A value that its owner goes on using."""

    def __init__(self, number: int) -> None:
        self.number = number


def test_where_records_are_used_again_each_is_copied_a27(rigs: OpenRig) -> None:
    """A27, B16: what is changed after `process` reaches neither the call nor the snapshot."""
    with rigs(copy_value=lambda value: Mutable(value.number)) as rig:
        used_again = Mutable(1)
        rig.process(Record(value=used_again, timestamp=7, position=3))
        used_again.number = 2
        (called,) = rig.hand.attempts
        (held,) = rig.operator.snapshot()

    assert isinstance(held, Record)
    assert held.value is called
    assert (called.number, held.timestamp, held.position) == (1, 7, 3)


def test_else_function_and_queue_share_the_records_own_object_a29(rigs: OpenRig) -> None:
    with rigs() as rig:
        element = record(Mutable(1))
        rig.process(element)

        assert rig.operator.snapshot()[0] is element
        assert next(iter(rig.hand.attempts)) is element.value


def test_a_copy_that_fails_is_the_copiers_error_and_takes_no_slot_a27(rigs: OpenRig) -> None:
    def burst(value: Any) -> Any:
        raise ArithmeticError

    with rigs(copy_value=burst) as rig:
        with pytest.raises(ArithmeticError):
            rig.process(record(1))

        assert len(rig.operator) == 0


def test_a_function_that_raises_fails_the_task_at_once_a34(rigs: OpenRig) -> None:
    def burst(value: Any, _: ResultHandle) -> None:
        raise ArithmeticError

    function = HandFunction(invoke=burst, timeout=lambda _, __: pytest.fail("timed out"))
    with rigs(function=function) as rig, pytest.raises(CallbackFailed, match="invoke") as raised:
        rig.process(record(1))

    assert isinstance(raised.value.__cause__, ArithmeticError)


def test_every_callback_runs_on_the_tasks_thread_a6_b29() -> None:
    """A6, B29: though the outcomes come from others; here the calls, the predicates, a supplier, the timeout."""
    seen: list[tuple[str, int]] = []

    def note(what: str, *, answer: Any = None) -> Any:
        seen.append((what, threading.get_ident()))
        return answer

    def end_elsewhere(_: Any, handle: ResultHandle) -> None:
        note("invoke")
        outcomes = [
            lambda: handle.complete([]),
            lambda: handle.fail(ArithmeticError()),
            lambda: handle.supply(lambda: note("supply", answer=["b"])),
        ]
        foreign = threading.Thread(target=outcomes[len(rig.hand.attempts[1]) - 1])
        foreign.start()
        foreign.join(timeout=60)

    strategy = FixedDelay(
        max_retries=2,
        delay_ms=1,
        on_error=lambda _: note("on_error", answer=True),
        on_result=lambda results: note("on_result", answer=not results),
    )
    with open_rig(function=HandFunction(invoke=end_elsewhere), timeout_ms=60_000, retry=strategy) as rig:
        rig.process(record(1))
        while not rig.emitted:
            rig.executor.yield_()
    silent = HandFunction(timeout=lambda _, handle: handle.complete(note("timeout", answer=[])))
    with open_rig(function=silent, timeout_ms=1) as timed_out:
        timed_out.process(record(1))
        timed_out.operator.end_input()

    calls = ["invoke", "on_result", "invoke", "on_error", "invoke", "supply", "on_result", "timeout"]
    assert [what for what, _ in seen] == calls
    assert {thread for _, thread in seen} == {threading.get_ident()}


# ----------------------------------------------------------------------------------------- completion


def test_a_completion_inside_the_call_is_still_emitted_by_mail_a37(rigs: OpenRig) -> None:
    function = HandFunction(invoke=lambda value, handle: handle.complete([value]))
    with rigs(function=function) as rig:
        rig.process(record(1))
        assert rig.emitted == []

        rig.run_mail()

        assert rig.emitted == [record(1)]


def test_one_mail_emits_one_entry_a38(rigs: OpenRig) -> None:
    with rigs() as rig:
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
def test_results_of_one_input_stay_together_and_in_order_a39(rigs: OpenRig, mode: Mode) -> None:
    with rigs(mode=mode) as rig:
        rig.process(record(1), record(2))
        rig.complete(1, "a", "b", "c")
        rig.complete(2, "d", "e")
        rig.run_mail()

    assert rig.values() == ["a", "b", "c", "d", "e"]


@BOTH
def test_a_failed_call_fails_the_task_and_frees_its_slot_a41(rigs: OpenRig, mode: Mode) -> None:
    with rigs(mode=mode, capacity=2) as rig:
        rig.process(record(1), record(2))
        rig.fail(1, ArithmeticError("no"))
        rig.complete(2, "b")
        rig.run_mail()

    (failure,) = rig.failures
    assert isinstance(failure, StreamElementFailed)
    assert str(failure) == f"Could not complete the stream element: {record(1)}."
    assert isinstance(failure.__cause__, ArithmeticError)
    assert rig.values() == ["b"]


@BOTH
def test_an_empty_list_is_no_output_a35(rigs: OpenRig, mode: Mode) -> None:
    with rigs(mode=mode) as rig:
        rig.process(record(1))
        rig.complete(1)
        rig.run_mail()

        assert (rig.emitted, len(rig.operator)) == ([], 0)


def test_a_late_outcome_changes_nothing_a36(rigs: OpenRig) -> None:
    with rigs() as rig:
        rig.process(record(1))
        rig.complete(1, "first")
        rig.complete(1, "second")
        rig.run_mail()
        rig.fail(1, ArithmeticError())
        rig.run_mail()

    assert (rig.values(), rig.failures) == (["first"], [])
    assert [what for what, _ in rig.happened] == ["called", "ok", "emitted"]


@BOTH
def test_outputs_carry_their_inputs_time_or_none_a40(rigs: OpenRig, mode: Mode) -> None:
    with rigs(mode=mode) as rig:
        rig.process(Record(value="x", timestamp=7), Record(value="y"))
        rig.complete("x", "a", "b")
        rig.complete("y", "c")
        rig.run_mail()

    assert [e.timestamp for e in rig.emitted if isinstance(e, Record)] == [7, 7, None]
