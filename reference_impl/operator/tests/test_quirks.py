"""Claims about the profiles: each quirk alone does what its name says, and nothing else. A76, A80-A82, A86."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from reference_impl.errors import CallTimedOut
from reference_impl.operator.result import ResultHandle
from reference_impl.operator.retry import (
    FLINK,
    FLINK_1_20,
    PROFILES,
    STRICT,
    ExponentialBackoff,
    FixedDelay,
    Quirks,
    any_error,
    empty_result,
)
from reference_impl.tests.rig import HandFunction, Rig, open_virtual, record, substitute
from tools.cases import each

Seen = tuple[list[Any], list[type[BaseException | None]], list[Any]]
"""What was emitted, what failed the task, which calls were made."""

FIXED = FixedDelay(max_retries=5, delay_ms=10, on_error=any_error, on_result=empty_result)
TIMEOUT_MS = 100


def seen(rig: Rig) -> Seen:
    return rig.values(), rig.causes(), rig.calls()


def late_outcome(quirks: Quirks) -> Seen:
    """A76: attempt 1 fails, and its client says something else while attempt 2 runs."""
    with open_virtual(timeout_ms=TIMEOUT_MS, retry=FIXED, quirks=quirks) as rig:
        rig.process(record(1))
        rig.fail(1)
        rig.advance(10)
        rig.complete(1, "late", attempt=1)
        rig.run_mail()
        rig.complete(1, "second", attempt=2)
        rig.run_mail()
        return seen(rig)


def timeout_at_its_instant(quirks: Quirks) -> Seen:
    """A80: the default handler fails the record, at exactly the timeout; B11."""
    with open_virtual(timeout_ms=TIMEOUT_MS, retry=FIXED, quirks=quirks) as rig:
        rig.process(record(1))
        rig.advance(TIMEOUT_MS + 10)
        return seen(rig)


def outcome_between(quirks: Quirks) -> Seen:
    """A81: mails T, M1, M2: the timer's, an attempt's that was posted before that ran, the handler's."""
    function = HandFunction(timeout=substitute("substitute"))
    retry = replace(FIXED, on_error=None)
    with open_virtual(timeout_ms=TIMEOUT_MS, retry=retry, function=function, quirks=quirks) as rig:
        rig.process(record(1))
        rig.advance(TIMEOUT_MS, hold=True)
        rig.fail(1)
        rig.run_mail()
        return seen(rig)


def delays_of_one_of_two(quirks: Quirks) -> Seen:
    """A82, B14: record 1 always fails; record 2 fails once, at 15 ms; when are record 1's six calls."""
    instants: list[int] = []

    def invoke(value: Any, handle: ResultHandle) -> None:
        instants.extend([rig.timers.now_ms()] if value == 1 else [])
        if value == 1 or len(rig.hand.attempts[value]) == 1:
            handle.fail(ArithmeticError())
        else:
            handle.complete(["b"])

    retry = ExponentialBackoff(max_retries=5, initial_ms=5, max_ms=14, multiplier=1.5, on_error=any_error)
    function = HandFunction(invoke=invoke)
    with open_virtual(
        timeout_ms=1_000, retry=retry, function=function, quirks=quirks, mode="unordered"
    ) as rig:
        rig.process(record(1))
        rig.advance(15)
        rig.process(record(2))
        rig.advance(100)
        return instants, [], []


def end_while_a_retry_runs(quirks: Quirks) -> Seen:
    """A86 (i)."""
    with open_virtual(timeout_ms=TIMEOUT_MS, retry=FIXED, quirks=quirks) as rig:
        rig.process(record(1))
        rig.fail(1)
        rig.advance(10)
        rig.complete_soon(1, "a")
        rig.operator.end_input()
        return seen(rig)


def end_after_a_timeout_in_backoff(quirks: Quirks) -> Seen:
    """A86 (ii): the record is finished."""
    function = HandFunction(timeout=substitute("substitute"))
    retry = replace(FIXED, delay_ms=2 * TIMEOUT_MS)
    with open_virtual(timeout_ms=TIMEOUT_MS, retry=retry, function=function, quirks=quirks) as rig:
        rig.process(record(1))
        rig.fail(1)
        rig.advance(TIMEOUT_MS)
        rig.operator.end_input()
        return seen(rig)


CASES: dict[str, list[tuple[Callable[[Quirks], Seen], Seen, Seen]]] = {
    "late_outcome_counts_for_next_attempt": [
        (late_outcome, (["second"], [], [1, (1, 2)]), (["late"], [], [1, (1, 2)])),
    ],
    "timeout_outcome_is_judged": [
        (timeout_at_its_instant, ([], [CallTimedOut], [1]), ([], [], [1, (1, 2)])),
    ],
    "attempt_outcome_beats_timeout": [
        (outcome_between, (["substitute"], [], [1]), ([], [ArithmeticError], [1])),
    ],
    "backoff_is_shared": [
        (delays_of_one_of_two, ([0, 5, 12, 23, 37, 51], [], []), ([0, 5, 12, 22, 29, 39], [], [])),
    ],
    "last_calls_follow_registration": [
        (end_while_a_retry_runs, (["a"], [], [1, (1, 2)]), (["a"], [], [1, (1, 2), (1, 3)])),
        (end_after_a_timeout_in_backoff, (["substitute"], [], [1]), (["substitute"], [], [1, (1, 2)])),
    ],
}
"""By quirk: a script, what is seen in `strict`, and what with that quirk."""

EACH = [
    pytest.param(name, *case, id=f"{name}-{case[0].__name__}")
    for name, cases in CASES.items()
    for case in cases
]


def alone(name: str) -> Quirks:
    """That quirk, and no other."""
    return Quirks(**{name: True})


@each(("name", "script", "strict", "quirky"), EACH)
def test_a_quirk_alone_shows_its_difference_a76_a80_a81_a82_a86(
    name: str, script: Callable[[Quirks], Seen], strict: Seen, quirky: Seen
) -> None:
    """A76, A80, A81, A82, A86; B1, B11, B12, B14, B17."""
    assert script(STRICT) == strict
    assert script(alone(name)) == quirky
    assert strict != quirky


@each(("name", "script", "strict", "with_it"), EACH)
def test_no_other_quirk_changes_it(
    name: str, script: Callable[[Quirks], Seen], strict: Seen, with_it: Seen
) -> None:
    """Each can be switched alone."""
    others = [alone(other) for other in CASES if other != name]

    assert [script(quirks) for quirks in others] == [strict] * len(others)


ALL = [(script, quirky) for cases in CASES.values() for script, _, quirky in cases]


@each(("script", "quirky"), ALL)
def test_the_profile_of_flink_shows_them_all(script: Callable[[Quirks], Seen], quirky: Seen) -> None:
    """Nothing that is on in it hides another."""
    assert script(FLINK) == quirky


def outcome_past_the_timeout(quirks: Quirks) -> Seen:
    """A72: the handler answers nothing at 100, the attempt fails at 150."""
    function = HandFunction(timeout=lambda value, handle: None)
    with open_virtual(timeout_ms=TIMEOUT_MS, retry=FIXED, function=function, quirks=quirks) as rig:
        rig.process(record(1))
        rig.advance(TIMEOUT_MS + 50)
        rig.fail(1)
        rig.run_mail()
        rig.advance(TIMEOUT_MS + 60)
        return seen(rig)


def test_flink_1_20_alone_retries_past_the_timeout_a72() -> None:
    """The check that FLINK-38082 brought is in 2.0.2 and 2.3.0, and not in 1.20.5."""
    assert outcome_past_the_timeout(FLINK) == ([], [ArithmeticError], [1])
    assert outcome_past_the_timeout(FLINK_1_20) == ([], [], [1, (1, 2)])


def test_the_profiles_are_none_and_all_of_the_quirks_of_2_3() -> None:
    of_older = {"retries_past_the_timeout"}
    names = {field.name for field in fields(Quirks)} - of_older

    assert {"strict": Quirks(), "flink": Quirks(**dict.fromkeys(names, True))} == PROFILES
    assert names == set(CASES)
