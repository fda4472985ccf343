"""Claims about races, each in both orders: an outcome, another one, the timer's mail, the close. A36-A48, A68."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import pytest

from reference_impl.errors import CallbackFailed, StreamElementFailed
from reference_impl.operator.build import Mode
from reference_impl.tests.rig import HandFunction, Rig, open_virtual, record, substitute

BOTH = pytest.mark.parametrize("mode", get_args(Mode))

TIMEOUT_MS = 10

WORDS: dict[str, Callable[[Rig], None]] = {
    "complete": lambda rig: rig.complete(1, "result"),
    "again": lambda rig: rig.complete(1, "another"),
    "fail": lambda rig: rig.fail(1),
    "supply": lambda rig: rig.hand.attempts[1][0].supply(lambda: ["supplied"]),
    "T": lambda rig: rig.advance(TIMEOUT_MS, hold=True),
    "run": Rig.run_mail,
    "one": lambda rig: rig.executor.yield_(),
    "close": lambda rig: rig.operator.close(),
}
"""What a race is made of; `T` is the timer's mail, put and not run."""

RACES: list[tuple[str, Any]] = [
    # two outcomes: the first one wins, whether or not its mail has run
    ("complete again", ["result"]),
    ("complete run again", ["result"]),
    ("complete fail", ["result"]),
    ("complete run fail", ["result"]),
    ("fail complete", ArithmeticError),
    ("fail run complete", ArithmeticError),
    ("fail fail", ArithmeticError),
    ("supply complete", ["supplied"]),
    ("complete supply", ["result"]),
    ("supply fail", ["supplied"]),
    ("fail supply", ArithmeticError),
    ("supply supply", ["supplied"]),
    # an outcome and the timer's mail: A43
    ("T complete", ["result"]),
    ("complete T", ["result"]),
    ("complete run T", ["result"]),
    ("T run complete", ["substitute"]),
    ("T one complete", ["substitute"]),
    ("T fail", ArithmeticError),
    ("fail T", ArithmeticError),
    ("T run fail", ["substitute"]),
    ("T supply", ["supplied"]),
    ("supply T", ["supplied"]),
    ("T run supply", ["substitute"]),
    # and the close: A68, A69
    ("complete close", []),
    ("close complete", []),
    ("T close", []),
    ("close T", []),
    ("close fail", []),
    ("supply close", []),
    ("T one close", []),
]


@BOTH
@pytest.mark.parametrize(("script", "wins"), RACES, ids=[script for script, _ in RACES])
def test_of_a_race_one_wins_and_the_others_change_nothing_a36_a43_a68(
    mode: Mode, script: str, wins: Sequence[str] | type[BaseException]
) -> None:
    """A36, A37, A43, A45, A48, A68, A69; B13, B27."""
    function = HandFunction(timeout=substitute("substitute"))
    with open_virtual(mode=mode, timeout_ms=TIMEOUT_MS, function=function) as rig:
        rig.process(record(1))
        for word in script.split():
            WORDS[word](rig)
        rig.run_mail()

        closed = "close" in script
        assert rig.values() == ([] if isinstance(wins, type) else wins)
        assert rig.causes() == ([wins] if isinstance(wins, type) else [])
        assert len(rig.hand.timeouts) == (wins == ["substitute"] or script == "T one close")
        assert closed or (len(rig.operator), len(rig.timers), len(rig.mailbox)) == (0, 0, 0)


@BOTH
def test_a_failure_is_told_at_once_and_the_slot_is_freed_by_mail_a41(mode: Mode) -> None:
    """A41, FLINK-6435: both are seen, the failure and a queue that moves."""
    with open_virtual(mode=mode) as rig:
        rig.process(record(1))

        rig.fail(1)
        assert ([type(failure) for failure in rig.failures], len(rig.operator)) == ([StreamElementFailed], 1)
        rig.run_mail()

        assert len(rig.operator) == 0


@BOTH
def test_a_failure_inside_the_call_is_told_like_any_other_a41(mode: Mode) -> None:
    function = HandFunction(invoke=lambda _, handle: handle.fail(ArithmeticError()))
    with open_virtual(mode=mode, function=function) as rig:
        rig.process(record(1))
        assert (rig.causes(), len(rig.operator)) == ([ArithmeticError], 1)

        rig.operator.end_input()


def test_a_supplier_that_raises_fails_the_task_from_its_mail_a42() -> None:
    def burst() -> list[Any]:
        raise ArithmeticError

    with open_virtual() as rig:
        rig.process(record(1))
        rig.hand.attempts[1][0].supply(burst)

        with pytest.raises(CallbackFailed, match="supplier") as raised:
            rig.run_mail()

    assert isinstance(raised.value.__cause__, ArithmeticError)
    assert rig.failures == []


@pytest.mark.parametrize("supplied", [None, "text", 7])
def test_a_supplier_that_gives_no_list_fails_the_task_a35_a42(supplied: Any) -> None:
    with open_virtual() as rig:
        rig.process(record(1))
        rig.hand.attempts[1][0].supply(lambda: supplied)

        with pytest.raises(CallbackFailed, match="supplier") as raised:
            rig.run_mail()

    assert isinstance(raised.value.__cause__, TypeError)


def test_while_it_emits_one_record_others_complete_and_each_leaves_once_a38_a39() -> None:
    """A38, A39: completions that arrive between two emission mails, in each order."""
    with open_virtual() as rig:
        rig.process(*(record(value) for value in range(4)))
        rig.complete(1, "b")
        rig.complete(0, "a1", "a2")
        rig.executor.yield_()
        rig.complete(3, "d")
        rig.executor.yield_()
        rig.complete(2, "c")
        rig.run_mail()

    assert rig.values() == ["a1", "a2", "b", "c", "d"]


def test_two_timeouts_at_one_instant_come_in_the_order_of_their_records_a43_t9() -> None:
    function = HandFunction(timeout=lambda value, handle: handle.complete([value]))
    with open_virtual(mode="unordered", timeout_ms=TIMEOUT_MS, function=function) as rig:
        rig.process(record(2), record(1), record(3))

        rig.advance(TIMEOUT_MS)

    assert rig.values() == [2, 1, 3]
