"""Claims about the operator's life: A1, A5, A38, A56, A57, A61-A63, A66-A69."""

from __future__ import annotations

from typing import Any, Literal, get_args

import pytest

from reference_impl.async_wait_build import DEFAULT_CAPACITY, Mode, ordered_wait, unordered_wait
from reference_impl.probe import SilentProbe
from reference_impl.result import ResultHandle
from reference_impl.tests.rig import HandFunction, open_rig, record, watermark

BOTH = pytest.mark.parametrize("mode", get_args(Mode))


# --------------------------------------------------------------------------------------- construction


@pytest.mark.parametrize("build", [ordered_wait, unordered_wait])
def test_the_default_capacity_is_a_hundred_a1(build: Any) -> None:
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


def test_an_unknown_mode_is_refused_a5() -> None:
    with pytest.raises(ValueError, match="'sorted'"), open_rig(mode="sorted"):  # type: ignore[arg-type]
        pass


# ----------------------------------------------------------------------------------- snapshot, restore


@BOTH
def test_a_snapshot_holds_what_has_not_left_and_disturbs_nothing_a56_a57(mode: Mode) -> None:
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
def test_a_snapshot_right_after_a_restore_is_the_one_restored_a63(mode: Mode) -> None:
    restored = (record(1), watermark(1), record(2))
    with open_rig(mode=mode) as rig:
        rig.operator.open(restored)

        assert rig.operator.snapshot() == restored
    assert rig.happened == [("called", 1), ("called", 2)]


@BOTH
@pytest.mark.parametrize("stored", [0, 1, 2, 3, 20])
def test_any_number_of_elements_restores_into_a_smaller_capacity_a62(mode: Mode, stored: int) -> None:
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
def test_the_end_of_input_drains_a66(mode: Mode) -> None:
    with open_rig(mode=mode) as rig:
        rig.process(record(1), watermark(1), record(2))
        for value in (2, 1):
            rig.complete_soon(value, value)

        rig.operator.end_input()

    assert rig.values() == [1, "w1", 2]


def test_the_end_of_input_of_an_empty_queue_returns_at_once_a67() -> None:
    with open_rig() as rig:
        rig.operator.end_input()

        assert rig.happened == []


def test_after_the_close_no_outcome_and_no_timer_does_anything_a68_a69() -> None:
    with open_rig(timeout_ms=1) as rig:
        rig.process(record(1), record(2), watermark(2))
        timer_mail = rig.mailbox.take()
        rig.complete(2, "b")

        rig.operator.close()
        timer_mail.action()
        rig.hand.handles[1].fail(ArithmeticError())
        rig.run_mail()

    assert rig.happened == [("called", 1), ("called", 2)]
    assert rig.failures == []


@pytest.mark.parametrize("end", ["quiesce", "close"])
def test_outcomes_after_the_mailbox_has_ended_neither_raise_nor_emit_a38(
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


def test_the_function_is_closed_once_a69() -> None:
    with open_rig() as rig:
        rig.operator.close()
        rig.operator.close()

    assert rig.hand.closed == 1
