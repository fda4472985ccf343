"""Claims about the races of retry, each in both orders, as specified (`strict`): A76, A80, A81, A85, A86."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest

from reference_impl.operator.build import Mode
from reference_impl.operator.result import ResultHandle
from reference_impl.operator.retry import FLINK, STRICT, FixedDelay, Quirks, any_error, empty_result
from reference_impl.tests.rig import HandFunction, Rig, open_virtual, record, substitute
from tools.cases import each

BOTH = each("mode", get_args(Mode))

TIMEOUT_MS = 100
DELAY_MS = 10
FIXED = FixedDelay(max_retries=3, delay_ms=DELAY_MS, on_error=any_error, on_result=empty_result)


def first(rig: Rig, *results: Any) -> None:
    """The first attempt says something, again perhaps."""
    rig.complete(1, *results, attempt=1)


WORDS: dict[str, Callable[[Rig], None]] = {
    "ok": lambda rig: rig.complete(1, "ok"),
    "empty": lambda rig: rig.complete(1),
    "fail": lambda rig: rig.fail(1),
    "late": lambda rig: first(rig, "late"),
    "late-empty": first,
    "R": lambda rig: rig.advance(rig.timers.now_ms() + DELAY_MS, hold=True),
    "T": lambda rig: rig.advance(TIMEOUT_MS, hold=True),
    "to-90": lambda rig: rig.advance(TIMEOUT_MS - DELAY_MS),
    "to-89": lambda rig: rig.advance(TIMEOUT_MS - DELAY_MS - 1),
    "run": Rig.run_mail,
    "one": lambda rig: rig.executor.yield_(),
    "close": lambda rig: rig.operator.close(),
}
"""What a race is made of. `R` and `T` put the mail of the backoff's and of the timeout's timer, and do not run it."""

RACES: list[tuple[str, Sequence[str], Sequence[Any]]] = [
    # A76: several outcomes of one attempt: the first is judged, others are dropped, before the mail and after
    ("ok fail run", ["ok"], [1]),
    ("ok run fail run", ["ok"], [1]),
    ("fail ok run R run", [], [1, (1, 2)]),
    ("fail run late run R run", [], [1, (1, 2)]),
    ("fail fail run R run R run", [], [1, (1, 2)]),
    ("empty fail run R run", [], [1, (1, 2)]),
    # A76, B17: one of attempt 1 that comes while attempt 2 runs, before and after that has ended
    ("fail run R run late run ok run", ["ok"], [1, (1, 2)]),
    ("fail run R run ok late run", ["ok"], [1, (1, 2)]),
    ("fail run R run late-empty run R run ok run", ["ok"], [1, (1, 2)]),
    # and one that comes before the backoff's mail has run, though it waits
    ("fail run R late run ok run", ["ok"], [1, (1, 2)]),
    # A80: the backoff's mail against the timeout's
    ("to-90 fail run T run", ["substitute"], [1]),
    ("to-89 fail run R T run", ["substitute"], [1, (1, 2)]),
    ("to-89 fail run R T run ok run", ["substitute"], [1, (1, 2)]),
    ("to-89 fail run R run T ok run", ["substitute"], [1, (1, 2)]),
    # A81: an attempt's outcome, the timeout's mail, in both orders; T leads to an end whatever else waits
    ("T fail run", ["substitute"], [1]),
    ("T ok run", ["substitute"], [1]),
    ("T empty run", ["substitute"], [1]),
    ("fail T run", ["substitute"], [1]),
    ("empty T run", ["substitute"], [1]),
    ("ok T run", ["ok"], [1]),
    ("T one ok run", ["substitute"], [1]),
    ("T one one ok run", ["substitute"], [1]),
    ("fail one T run", ["substitute"], [1, (1, 2)]),
    ("ok one T run", ["ok"], [1]),
    # A68: and the close
    ("fail close run", [], [1]),
    ("fail run close R run", [], [1]),
    ("fail run R close run", [], [1]),
    ("T close run", [], [1]),
    ("close fail run", [], [1]),
]


@BOTH
@each(("script", "values", "calls"), RACES, ids=[script for script, _, _ in RACES])
def test_each_race_of_retry_has_one_end_a76_a80_a81(
    mode: Mode, script: str, values: Sequence[str], calls: Sequence[Any]
) -> None:
    """A68, A76, A80, A81; B1, B10, B17."""
    function = HandFunction(timeout=substitute("substitute"))
    with open_virtual(mode=mode, timeout_ms=TIMEOUT_MS, function=function, retry=FIXED) as rig:
        rig.process(record(1))
        for word in script.split():
            WORDS[word](rig)

        assert (rig.values(), rig.calls(), rig.failures) == (values, calls, [])
        assert len(rig.hand.timeouts.get(1, ())) == (values == ["substitute"])
        finished = bool(values)
        assert not finished or (len(rig.operator), len(rig.timers), len(rig.mailbox)) == (0, 0, 0)


STATES = {
    "attempt 1 runs": "",
    "its outcome waits": "fail",
    "backoff 1": "fail run",
    "the backoff's mail waits": "fail run R",
    "attempt 2 runs": "fail run R run",
    "backoff 2": "fail run R run fail run",
    "attempt 3 runs": "fail run R run empty run R run",
    "a dropped outcome waits": "fail run late",
}


@each("quirks", [STRICT, FLINK], ids=["strict", "flink"])
@each("state", STATES)
def test_from_every_state_the_timeout_ends_the_record_within_one_drain_a81_b1(
    state: str, quirks: Quirks
) -> None:
    """A80, A81, B1, B2: in both profiles, as long as nothing comes at the very instant of the timeout."""
    function = HandFunction(timeout=substitute("substitute"))
    with open_virtual(timeout_ms=TIMEOUT_MS, function=function, quirks=quirks, retry=FIXED) as rig:
        rig.process(record(1))
        for word in STATES[state].split():
            WORDS[word](rig)
        rig.advance(10 * TIMEOUT_MS)

        assert rig.happened[-2:] == [("timeout", 1), ("emitted", "substitute")]
        assert (len(rig.hand.timeouts[1]), rig.failures) == (1, [])
        assert (len(rig.operator), len(rig.timers), len(rig.mailbox)) == (0, 0, 0)


# ------------------------------------------------------------------------------------ the end of the input


def end_input(rig: Rig, *words: str) -> None:
    """The end of input, and what happens while it drains; at last the latest call ends well."""
    for word in words:
        rig.loop.call_soon(WORDS[word], rig)
    rig.loop.call_soon(WORDS["ok"], rig)
    rig.operator.end_input()


@each(
    ("before", "after", "strict", "flink"),
    [
        pytest.param("fail run", "", [1, (1, 2)], [1, (1, 2)], id="in backoff"),
        pytest.param("fail run R run", "", [1, (1, 2)], [1, (1, 2), (1, 3)], id="attempt 2 runs: A86 (i)"),
        pytest.param("fail run R", "", [1, (1, 2)], [1, (1, 2), (1, 3)], id="the backoff's mail waits"),
        pytest.param("fail run late", "", [1, (1, 2)], [1, (1, 2)], id="a dropped outcome waits"),
        pytest.param("", "", [1], [1], id="attempt 1 runs"),
        pytest.param("fail run", "empty", [1, (1, 2)], [1, (1, 2)], id="its outcome is final"),
    ],
)
def test_the_end_of_input_makes_one_last_call_for_who_waits_a85_a86(
    before: str, after: str, strict: list[Any], flink: list[Any]
) -> None:
    """A85, A86, B12: in `strict` never a second call beside a running one."""
    for quirks, calls in ((STRICT, strict), (FLINK, flink)):
        with open_virtual(timeout_ms=TIMEOUT_MS, quirks=quirks, retry=FIXED) as rig:
            rig.process(record(1))
            for word in before.split():
                WORDS[word](rig)

            end_input(rig, *after.split())

            assert rig.calls() == calls
            assert rig.values() == ([] if after else ["ok"])
            assert (len(rig.timers), rig.failures) == (0, [])


def test_an_outcome_before_the_end_of_input_whose_mail_runs_after_it_is_final_a85() -> None:
    with open_virtual(timeout_ms=TIMEOUT_MS, retry=FIXED) as rig:
        rig.process(record(1))
        rig.complete(1)

        rig.operator.end_input()

        assert (rig.calls(), rig.values()) == ([1], [])


def test_a_last_call_may_still_time_out_a85_a79() -> None:
    function = HandFunction(timeout=substitute("substitute"))
    with open_virtual(timeout_ms=TIMEOUT_MS, function=function, retry=FIXED) as rig:
        rig.process(record(1))
        rig.fail(1)
        rig.run_mail()

        rig.operator.end_input()

        assert (rig.calls(), rig.values(), rig.timers.now_ms()) == ([1, (1, 2)], ["substitute"], TIMEOUT_MS)


def test_who_timed_out_in_its_first_backoff_gets_no_last_call_a86() -> None:
    """A86 (ii), B12; its quirk is in `test_quirks.py`."""
    function = HandFunction(timeout=substitute("substitute"))
    with open_virtual(timeout_ms=DELAY_MS, function=function, retry=FIXED) as rig:
        rig.process(record(1))
        rig.advance(1)
        rig.fail(1)
        rig.advance(DELAY_MS)

        rig.operator.end_input()

        assert (rig.calls(), rig.values()) == ([1], ["substitute"])


# --------------------------------------------------------------------- a handler that answers nothing, and the close


def silent(_: Any, __: ResultHandle) -> None:
    """A handler that answers nothing."""


def test_after_the_timeout_no_attempt_begins_though_its_handler_is_silent_a46_a80() -> None:
    """A46, A80: at the very instant of the timeout a strategy would still retry; and so would the end of input."""
    with open_virtual(timeout_ms=TIMEOUT_MS, function=HandFunction(timeout=silent), retry=FIXED) as rig:
        rig.process(record(1))
        rig.advance(TIMEOUT_MS)
        rig.fail(1)
        rig.run_mail()

        assert (rig.calls(), rig.causes(), len(rig.timers)) == ([1], [ArithmeticError], 0)


def test_the_end_of_input_calls_nobody_whose_time_is_up_a80_a85() -> None:
    with open_virtual(timeout_ms=TIMEOUT_MS, function=HandFunction(timeout=silent), retry=FIXED) as rig:
        rig.process(record(1))
        rig.advance(TIMEOUT_MS - 1)
        rig.fail(1)
        rig.advance(TIMEOUT_MS)
        assert (rig.calls(), len(rig.timers)) == ([1], 0)
        rig.loop.call_later(1, rig.hand.timeouts[1][0].complete, ["at last"])

        rig.operator.end_input()

        assert (rig.calls(), rig.values()) == ([1], ["at last"])


def test_after_the_close_the_strategy_is_asked_nothing_a68() -> None:
    def ask(_: Any) -> bool:
        pytest.fail("asked")

    with open_virtual(timeout_ms=TIMEOUT_MS, retry=replace(FIXED, on_error=ask, on_result=ask)) as rig:
        rig.process(record(1))
        rig.fail(1)
        rig.operator.close()

        rig.run_mail()

        assert (rig.calls(), rig.failures) == ([1], [])
