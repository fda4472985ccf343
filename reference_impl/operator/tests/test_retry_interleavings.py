"""Claims about retry for any interleaving, in both profiles: A32, A36, A73, A76, A79-A81, A85, B1, B10, B26."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_impl.operator.build import Mode
from reference_impl.operator.result import ResultHandle
from reference_impl.operator.retry import FLINK, STRICT, FixedDelay, Quirks, any_error, empty_result
from reference_impl.tests.rig import HandFunction, Rig, open_virtual, quickly, record, substitute, watermark

CAPACITY = 3
MAX_RETRIES = 2
TIMEOUT_MS = 7
RETRY = FixedDelay(max_retries=MAX_RETRIES, delay_ms=3, on_error=any_error, on_result=empty_result)
LATE_MS = 1_000

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "record",
                "record",
                "watermark",
                "ok",
                "empty",
                "fail",
                "again",
                "mail",
                "mail",
                "pass",
                "hold",
                "supply",
            ]
        ),
        st.integers(0, 20),
    ),
    max_size=40,
)


class Run:
    """An interleaving, played; holds what the claims are about."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.taken: list[Any] = []

    def step(self, number: int, what: str, pick: int) -> None:
        match what:
            case "record" | "watermark" if len(self.rig.operator) < CAPACITY:
                element = record(number) if what == "record" else watermark(number)
                self.taken.append(number if what == "record" else f"w{number}")
                self.rig.process(element)
            case "mail":
                self.rig.executor.try_yield()
            case "pass" | "hold":
                self.rig.advance(self.rig.timers.now_ms() + pick % 5, hold=what == "hold")
            case "ok" | "empty" | "fail" | "again" | "supply" if self.rig.hand.attempts:
                self.end(what, pick)
            case _:
                pass
        assert len(self.rig.operator) <= CAPACITY

    def end(self, what: str, pick: int) -> None:
        """An outcome of any attempt that there has been, of any record, finished or not."""
        calls = [handle for handles in self.rig.hand.attempts.values() for handle in handles]
        handle = calls[pick % len(calls)] if what == "again" else calls[-1 - pick % min(len(calls), 3)]
        match what:
            case "fail":
                handle.fail(ArithmeticError())
            case "supply":
                handle.supply(lambda: ["result"] * (pick % 2))
            case _:
                handle.complete([] if what == "empty" else ["result"])


def end_late(rig: Rig, handle: ResultHandle) -> None:
    """A call that nobody ends does so long after every timeout."""
    rig.loop.call_later(LATE_MS / 1_000, handle.complete, ["too late"])


@pytest.mark.parametrize("quirks", [STRICT, FLINK], ids=["strict", "flink"])
@pytest.mark.parametrize("mode", get_args(Mode))
@quickly
@given(steps=STEPS)
def test_whatever_interleaves_every_record_ends_once_and_in_time_a81_b1(
    mode: Mode, quirks: Quirks, steps: list[tuple[str, int]]
) -> None:
    """A32, A36, A52, A73, A76, A79, A80, A81, A85; B1, B10, B26; O1-O10."""
    function = HandFunction(invoke=lambda _, handle: end_late(rig, handle), timeout=substitute("substitute"))
    with open_virtual(
        mode=mode, capacity=CAPACITY, timeout_ms=TIMEOUT_MS, retry=RETRY, function=function, quirks=quirks
    ) as rig:
        run = Run(rig)
        for number, (what, pick) in enumerate(steps):
            run.step(number, what, pick)
        rig.operator.end_input()
        rig.run_mail()

        assert (len(rig.operator), len(rig.timers), rig.operator.snapshot()) == (0, 0, ())
        check_outcomes(run)
        if quirks == STRICT:
            check_calls(run)
            assert rig.timers.now_ms() < LATE_MS


def check_outcomes(run: Run) -> None:
    """Each record has one final outcome; watermarks are all there, and in place."""
    finals = Counter(
        value
        for what, value in run.rig.happened
        if what in {"ok", "fail", "timeout"} and not isinstance(value, tuple)
    )
    records = [element for element in run.taken if isinstance(element, int)]
    assert finals == Counter(records)
    assert [value for value in run.rig.values() if str(value).startswith("w")] == [
        element for element in run.taken if isinstance(element, str)
    ]
    assert len(run.rig.failures) == sum(
        what == "fail" and not isinstance(value, tuple) for what, value in run.rig.happened
    )


def check_calls(run: Run) -> None:
    """At most one call more than retries, and the last one; at most one timeout; none once the record is done."""
    done: set[int] = set()
    for what, value in run.rig.happened:
        number = value[0] if isinstance(value, tuple) else value
        if what == "called":
            assert number not in done
        elif what != "emitted" and not isinstance(value, tuple):
            done.add(number)
    assert all(len(calls) <= MAX_RETRIES + 2 for calls in run.rig.hand.attempts.values())
    assert all(len(timeouts) <= 1 for timeouts in run.rig.hand.timeouts.values())
