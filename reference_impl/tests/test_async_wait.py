"""Claims about the operator: A27-A32, A34, A36-A41, A43-A52, A56-A63, A66-A69."""

from __future__ import annotations

from typing import Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.async_wait import DEFAULT_CAPACITY, Mode, ordered_wait, unordered_wait
from reference_impl.elements import EndOfInput, QueueElement, Record, Watermark
from reference_impl.errors import CallbackFailed, StreamElementFailed
from reference_impl.mailbox import MailboxExecutor
from reference_impl.probe import SilentProbe
from reference_impl.result import ResultHandle
from reference_impl.tests.rig import HandFunction, Rig, open_rig, quickly, record, watermark

BOTH = pytest.mark.parametrize("mode", get_args(Mode))


# ------------------------------------------------------------------------------ process, backpressure


def test_a_timer_runs_before_the_function_is_called_A28() -> None:
    class Looking(HandFunction):
        def invoke(self, value: Any, handle: ResultHandle) -> None:
            pending.append(len(rig.timers))

    pending: list[int] = []
    with open_rig(function=Looking(), timeout_ms=60_000) as rig:
        rig.process(record(1))

    assert pending == [1]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_a_timeout_no_timer_is_registered_A3(timeout_ms: int) -> None:
    with open_rig(timeout_ms=timeout_ms) as rig:
        rig.process(record(1))

        assert len(rig.timers) == 0


@BOTH
def test_a_full_queue_waits_for_a_slot_and_calls_nobody_meanwhile_A27(mode: Mode) -> None:
    with open_rig(mode=mode, capacity=1) as rig:
        rig.process(record(1))
        rig.complete_soon(1, "a")

        rig.process(record(2))

    assert rig.happened == [("called", 1), ("ok", 1), ("emitted", "a"), ("called", 2)]


def test_a_timeout_may_free_the_slot_that_is_waited_for_A31() -> None:
    class Answering(HandFunction):
        def timeout(self, value: Any, handle: ResultHandle) -> None:
            handle.complete(["substitute"])

    with open_rig(capacity=1, timeout_ms=1, function=Answering()) as rig:
        rig.process(record(1), record(2))

    assert rig.values() == ["substitute"]


def test_the_wait_for_a_slot_runs_no_mail_from_upstream_A30() -> None:
    ran: list[str] = []
    with open_rig(capacity=1) as rig:
        MailboxExecutor(rig.mailbox, -1).execute(lambda: ran.append("barrier"), "barrier")
        rig.process(record(1))
        rig.complete_soon(1)

        rig.process(record(2))

        assert ran == []


def test_a_record_that_waits_for_a_slot_is_in_no_snapshot_A30() -> None:
    taken: list[tuple[QueueElement, ...]] = []
    with open_rig(capacity=1) as rig:
        rig.process(record(1))
        rig.executor.execute(lambda: taken.append(rig.operator.snapshot()), "peek")
        rig.complete_soon(1)

        rig.process(record(2))

    assert taken == [(record(1),)]


@pytest.mark.parametrize("element", [EndOfInput(), "text"])
def test_only_records_and_watermarks_are_processed_A9(element: Any) -> None:
    with open_rig() as rig, pytest.raises(TypeError, match="Cannot process"):
        rig.process(element)


def test_a_function_that_raises_fails_the_task_at_once_A34() -> None:
    class Raising(HandFunction):
        def invoke(self, value: Any, handle: ResultHandle) -> None:
            raise ArithmeticError

    with open_rig(function=Raising()) as rig, pytest.raises(CallbackFailed) as raised:
        rig.process(record(1))

    assert isinstance(raised.value.__cause__, ArithmeticError)


# ----------------------------------------------------------------------------------------- completion


def test_a_completion_inside_the_call_is_still_emitted_by_mail_A37() -> None:
    class Immediate(HandFunction):
        def invoke(self, value: Any, handle: ResultHandle) -> None:
            handle.complete([value])

    with open_rig(function=Immediate()) as rig:
        rig.process(record(1))
        assert rig.emitted == []

        rig.run_mail()

        assert rig.emitted == [record(1)]


def test_one_mail_emits_one_entry_A38() -> None:
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
def test_results_of_one_input_stay_together_and_in_order_A39(mode: Mode) -> None:
    with open_rig(mode=mode) as rig:
        rig.process(record(1), record(2))
        rig.complete(1, "a", "b", "c")
        rig.complete(2, "d", "e")
        rig.run_mail()

    assert rig.values() == ["a", "b", "c", "d", "e"]


@BOTH
def test_a_failed_call_fails_the_task_and_frees_its_slot_A41(mode: Mode) -> None:
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
def test_an_empty_list_is_no_output_A35(mode: Mode) -> None:
    with open_rig(mode=mode) as rig:
        rig.process(record(1))
        rig.complete(1)
        rig.run_mail()

        assert (rig.emitted, len(rig.operator)) == ([], 0)


def test_a_late_outcome_changes_nothing_A36() -> None:
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


def test_by_default_a_timeout_fails_the_task_A44() -> None:
    with open_rig(timeout_ms=1) as rig:
        rig.process(record(1))
        rig.operator.end_input()

    (failure,) = rig.failures
    assert str(failure.__cause__) == "Async function call has timed out."
    assert rig.happened == [("called", 1), ("timeout", 1)]


def test_a_completed_record_does_not_time_out_though_its_mail_still_waits_A43() -> None:
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


def test_a_late_result_after_the_timeout_is_ignored_A45() -> None:
    class Answering(HandFunction):
        def timeout(self, value: Any, handle: ResultHandle) -> None:
            handle.complete([])

    with open_rig(timeout_ms=1, function=Answering()) as rig:
        rig.process(record(1))
        rig.operator.end_input()
        rig.complete(1, "late")
        rig.run_mail()

    assert (rig.emitted, rig.failures) == ([], [])


def test_a_timeout_that_answers_nothing_keeps_its_slot_until_somebody_does_A46() -> None:
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


def test_a_timeout_that_raises_fails_the_task_A47() -> None:
    class Raising(HandFunction):
        def timeout(self, value: Any, handle: ResultHandle) -> None:
            raise ArithmeticError

    with open_rig(timeout_ms=1, function=Raising()) as rig:
        rig.process(record(1))
        with pytest.raises(CallbackFailed, match="timeout"):
            rig.operator.end_input()


def test_after_a_drain_no_timer_is_left_A48() -> None:
    with open_rig(timeout_ms=60_000) as rig:
        for value in range(5):
            rig.process(record(value))
            rig.complete(value, value)
        assert len(rig.timers) == 5
        rig.operator.end_input()

        assert len(rig.timers) == 0


# ----------------------------------------------------------------------------------------- watermarks


@BOTH
def test_a_watermark_at_an_empty_queue_leaves_at_once_A51(mode: Mode) -> None:
    with open_rig(mode=mode) as rig:
        mark = Watermark(timestamp=3, position=9)
        rig.process(mark)

        assert rig.emitted == [mark]


@BOTH
def test_a_watermark_waits_for_the_records_before_it_A52(mode: Mode) -> None:
    with open_rig(mode=mode) as rig:
        rig.process(record(1), watermark(1), record(2))
        rig.complete(2, "b")
        rig.run_mail()
        assert rig.emitted == []

        rig.complete(1, "a")
        rig.run_mail()

    assert rig.values() == ["a", "w1", "b"]


# ----------------------------------------------------------------------------------- snapshot, restore


@BOTH
def test_a_snapshot_holds_what_has_not_left_and_disturbs_nothing_A56_A57(mode: Mode) -> None:
    with open_rig(mode=mode) as rig:
        rig.process(record(1), record(2), watermark(2), record(3))
        rig.complete(3, "c")
        rig.run_mail()
        assert rig.operator.snapshot() == (record(1), record(2), watermark(2), record(3))

        rig.complete(1, "a")
        rig.complete(2, "b")
        assert len(rig.operator.snapshot()) == 4  # their mail has not run, so nothing has left
        rig.run_mail()

        assert rig.operator.snapshot() == ()
    assert rig.values() == ["a", "b", "w2", "c"]


@BOTH
def test_a_snapshot_right_after_a_restore_is_the_one_restored_A63(mode: Mode) -> None:
    restored = (record(1), watermark(1), record(2))
    with open_rig(mode=mode) as rig:
        rig.operator.open(restored)

        assert rig.operator.snapshot() == restored
    assert rig.happened == [("called", 1), ("called", 2)]


@BOTH
@pytest.mark.parametrize("stored", [0, 1, 2, 3, 20])
def test_any_number_of_elements_restores_into_a_smaller_capacity_A62(mode: Mode, stored: int) -> None:
    class Prompt(HandFunction):
        def invoke(self, value: Any, handle: ResultHandle) -> None:
            sizes.append(len(rig.operator))
            rig.loop.call_soon(handle.complete, [value])

    sizes: list[int] = []
    with open_rig(mode=mode, capacity=2, function=Prompt()) as rig:
        rig.operator.open([record(value) for value in range(stored)])
        rig.operator.end_input()

    assert rig.values() == list(range(stored))
    assert max(sizes, default=0) <= 2


# ----------------------------------------------------------------------------------------- end, close


@BOTH
def test_the_end_of_input_drains_A66(mode: Mode) -> None:
    with open_rig(mode=mode) as rig:
        rig.process(record(1), watermark(1), record(2))
        for value in (2, 1):
            rig.complete_soon(value, value)

        rig.operator.end_input()

    assert rig.values() == [1, "w1", 2]


def test_the_end_of_input_of_an_empty_queue_returns_at_once_A67() -> None:
    with open_rig() as rig:
        rig.operator.end_input()

        assert rig.happened == []


def test_after_the_close_no_outcome_and_no_timer_does_anything_A68_A69() -> None:
    with open_rig(timeout_ms=1) as rig:
        rig.process(record(1), record(2), watermark(2))
        timer_mail = rig.mailbox.take()
        rig.complete(2, "b")

        rig.operator.close()
        timer_mail.action()
        rig.complete(1, "a")
        rig.run_mail()

    assert (rig.emitted, rig.failures) == ([], [])


@pytest.mark.parametrize("end", ["quiesce", "close"])
def test_outcomes_after_the_mailbox_has_ended_neither_raise_nor_emit_A38(
    end: Literal["quiesce", "close"],
) -> None:
    """FLINK-24846: the first completion's mail is in; the emission that it would put is refused."""
    with open_rig() as rig:
        rig.process(record(1), record(2), record(3))
        rig.complete(2, "b")
        rig.run_mail()
        rig.complete(1, "a")
        first = rig.mailbox.take()
        rig.mailbox.quiesce() if end == "quiesce" else rig.mailbox.close()

        first.action()
        rig.complete(3, "c")

        assert rig.values() == ["a"]
        assert rig.operator.snapshot() == (record(2), record(3))


def test_the_function_is_closed_once_A69() -> None:
    with open_rig() as rig:
        rig.operator.close()
        rig.operator.close()

    assert rig.hand.closed == 1


# -------------------------------------------------------------------------------- for any interleaving


@st.composite
def interleavings(draw: st.DrawFn) -> list[tuple[str, int]]:
    steps = st.sampled_from(["record", "watermark", "complete", "fail", "mail", "mail", "snapshot"])
    return draw(st.lists(st.tuples(steps, st.integers(0, 7)), max_size=40))


class Run:
    """An interleaving, played; holds what the claims are about."""

    def __init__(self, rig: Rig, capacity: int) -> None:
        self.rig = rig
        self.capacity = capacity
        self.taken: list[QueueElement] = []
        self.open: list[int] = []

    def step(self, what: str, number: int) -> None:
        match what:
            case "record" | "watermark" if len(self.rig.operator) < self.capacity:
                index = len(self.taken)
                element = record(index) if what == "record" else watermark(index)
                self.taken.append(element)
                self.open += [index] if what == "record" else []
                self.rig.process(element)
            case "complete" | "fail" if self.open:
                index = self.open.pop(number % len(self.open))
                self.end(index, well=what == "complete")
            case "mail":
                self.rig.executor.try_yield()
            case "snapshot":
                self.check_cut()
            case _:
                pass
        assert len(self.rig.operator) <= self.capacity

    def end(self, index: int, *, well: bool) -> None:
        handle = self.rig.hand.handles[index]
        if well:
            handle.complete([index] * (index % 3))
            handle.complete(["second"])
        else:
            handle.fail(ArithmeticError(index))

    def check_cut(self) -> None:
        """A59: of each input, either it is in the snapshot, or all of its outputs have left."""
        held = self.rig.operator.snapshot()
        gone = [element for element in self.taken if element not in held]
        settled_well = {value for what, value in self.rig.happened if what == "ok"}
        due: list[Any] = []
        for element in gone:
            if isinstance(element, Watermark):
                due.append(f"w{element.timestamp}")
            elif element.value in settled_well:
                due += [element.value] * (element.value % 3)
        assert sorted(map(str, self.rig.values())) == sorted(map(str, due))
        assert len(held) + len(gone) == len(self.taken)

    def finish(self) -> None:
        while self.open:
            self.end(self.open.pop(), well=True)
        self.rig.operator.end_input()
        self.rig.run_mail()
        self.check_cut()


@pytest.mark.parametrize("mode", get_args(Mode))
@quickly
@given(st.integers(1, 4), interleavings())
def test_whatever_interleaves_nothing_is_lost_doubled_or_out_of_place(
    mode: Mode, capacity: int, steps: list[tuple[str, int]]
) -> None:
    with open_rig(mode=mode, capacity=capacity) as rig:
        run = Run(rig, capacity)
        for what, number in steps:
            run.step(what, number)
        run.finish()

        assert rig.operator.snapshot() == ()
        assert len(rig.mailbox) == 0
        check_order(mode, run)
        check_outcomes(run)


def check_order(mode: Mode, run: Run) -> None:
    """Ordered: timestamps never fall. Unordered: none crosses a watermark, whose number is its position."""
    places = [e.timestamp for e in run.rig.emitted if e.timestamp is not None]
    if mode == "ordered":
        assert places == sorted(places)
    for index, element in enumerate(run.rig.emitted):
        if isinstance(element, Watermark):
            assert all(place < element.timestamp for place in places[:index])
            assert all(place > element.timestamp for place in places[index + 1 :])


def check_outcomes(run: Run) -> None:
    """Each record is called once, then settled once, and only then emitted; a failure fails the task."""
    records = [element.value for element in run.taken if isinstance(element, Record)]
    called = [value for what, value in run.rig.happened if what == "called"]
    settled = [value for what, value in run.rig.happened if what in {"ok", "fail"}]
    assert called == records
    assert sorted(settled) == records
    assert len(run.rig.failures) == sum(what == "fail" for what, _ in run.rig.happened)


# --------------------------------------------------------------------------------------- construction


@pytest.mark.parametrize("build", [ordered_wait, unordered_wait])
def test_the_default_capacity_is_a_hundred_A1(build: Any) -> None:
    with open_rig() as rig:
        operator = build(
            function=HandFunction(),
            timeout_ms=0,
            executor=rig.executor,
            timers=rig.timers,
            emit=rig.emitted.append,
            fail=rig.failures.append,
            probe=SilentProbe(),
        )
        operator.open([record(value) for value in range(100)])

    assert len(operator) == DEFAULT_CAPACITY == 100


def test_an_unknown_mode_is_refused_A5() -> None:
    with pytest.raises(ValueError, match="'sorted'"), open_rig(mode="sorted"):  # type: ignore[arg-type]
        pass
