"""Planted defects of the operator, on an operator alone: the smallest case in which each differs from the reference."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from harness.sut.defects import IN_RUNS, variant_of
from harness.sut.defects.calls import build_losing_operator, build_quiet_operator, three_in_a_thousand
from harness.sut.defects.operators import FINAL_WATERMARK, OperatorOfSettlements
from harness.sut.variant import HONEST
from reference_impl.elements import LatencyMarker, Record
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.operator.build import BuildOperator, Mode, build_operator, operator_around, queue_for
from reference_impl.operator.retry import ExponentialBackoff, FixedDelay, any_error
from reference_impl.tests.rig import (
    HandFunction,
    Rig,
    open_virtual,
    record,
    shown,
    substitute,
    watched_loop,
    watermark,
)

TIMEOUT_MS = 10
RETRY = FixedDelay(max_retries=3, delay_ms=8, on_error=any_error)


def completed_in_turn(build: BuildOperator, mode: Mode, *values: int) -> list[Any]:
    """Two records, a watermark, a third record; the calls of `values` end in this order."""
    with open_virtual(build=build, mode=mode) as rig:
        rig.process(record(1), record(2), watermark(2), record(3))
        for value in values:
            rig.complete(value, value)
            rig.run_mail()
        return rig.values()


open_keyed = partial(open_virtual, mode="keyed", key_of=lambda value: value % 10)
"""Records 1 and 11 have one key."""


def completed_by_key(build: BuildOperator, *values: int) -> list[Any]:
    """Two records of one key, and a watermark; the calls of `values` end in this order."""
    with open_keyed(build=build) as rig:
        rig.process(record(1), record(11), watermark(2))
        for value in values:
            rig.complete(value, value)
            rig.run_mail()
        return rig.values()


def timed_out_by_key(build: BuildOperator) -> list[Any]:
    """The first of two records of one key has a timeout, when the second one's call has ended."""
    late = HandFunction(timeout=substitute("late"))
    with open_keyed(build=build, timeout_ms=TIMEOUT_MS, function=late) as rig:
        rig.process(record(1))
        rig.advance(5)
        rig.process(record(11))
        rig.complete(11, 11)
        rig.advance(TIMEOUT_MS)
        return rig.values()


def restored_by_key(build: BuildOperator, *, given: int) -> list[Any]:
    """Of three records of one key the first two, or one, are restored; their calls end in reverse."""
    with open_keyed(build=build) as rig:
        values = (1, 11, 21)
        rig.operator.open([record(value) for value in values[:given]])
        rig.process(*(record(value) for value in values[given:]))
        for value in reversed(values):
            rig.complete(value, value)
            rig.run_mail()
        return rig.values()


def called_again_by_key(build: BuildOperator) -> list[Any]:
    """The first of two records of one key is called again, when the second one's call has ended."""
    with open_keyed(build=build, timeout_ms=100, retry=RETRY) as rig:
        rig.process(record(1), record(11))
        rig.fail(1)
        rig.complete(11, 11)
        rig.advance(8)
        rig.complete(1, 1)
        rig.run_mail()
        return rig.values()


def snapshot(build: BuildOperator) -> list[Any]:
    """Of two records and a watermark, the second record's call having ended; afterwards the first one's ends too."""
    with open_virtual(build=build) as rig:
        rig.process(record(1), record(2), watermark(2))
        rig.complete(2, "b")
        rig.run_mail()
        rig.complete_soon(1, "a")
        return [shown(element) for element in rig.operator.snapshot()]


def restored(build: BuildOperator) -> list[Any]:
    """The calls after a restore of two records in an operator with room for both."""
    with open_virtual(build=build, capacity=2) as rig:
        rig.operator.open((record(1), record(2)))
        return rig.calls()


def room_after(build: BuildOperator, *, restored: int, taken: int) -> bool:
    """Whether an operator of capacity 2 has room left after so many elements."""
    with open_virtual(build=build, capacity=2) as rig:
        rig.operator.open([record(number) for number in range(restored)])
        rig.process(*(record(number) for number in range(restored, restored + taken)))
        return bool(rig.operator.room)


def lost_then_found(build: BuildOperator) -> list[Any]:
    """The first record's completion is one of those that get lost."""
    with open_virtual(build=build, mode="unordered") as rig:
        rig.process(record(1), record(2))
        rig.complete(1, "a")
        rig.complete(2, "b")
        rig.run_mail()
        return rig.values()


def answered_late(build: BuildOperator) -> list[Any]:
    """A substitute at the timeout, then the result."""
    function = HandFunction(timeout=substitute("substitute"))
    with open_virtual(build=build, function=function, timeout_ms=TIMEOUT_MS) as rig:
        rig.process(record(1))
        rig.advance(TIMEOUT_MS)
        rig.complete(1, "late")
        rig.run_mail()
        return rig.happened


def timed_out_in_backoff(build: BuildOperator) -> list[Any]:
    """A failure shortly before the timeout, which comes before the next attempt would."""
    function = HandFunction(timeout=substitute("substitute"))
    with open_virtual(build=build, function=function, timeout_ms=TIMEOUT_MS, retry=RETRY) as rig:
        rig.process(record(1))
        rig.advance(5)
        rig.fail(1)
        rig.advance(50)
        return rig.calls()


BACKOFF = ExponentialBackoff(max_retries=3, initial_ms=10, max_ms=30, multiplier=2, on_error=any_error)


def times_of_calls(build: BuildOperator) -> list[int]:
    """When a record is called whose every call fails at once, in ms."""
    times: list[int] = []
    with open_virtual(build=build, timeout_ms=1000, retry=BACKOFF) as rig:
        rig.process(record(1))
        for now_ms in range(100):
            rig.advance(now_ms)
            if len(times) < len(rig.calls()):
                times.append(now_ms)
                rig.fail(1)
                rig.run_mail()
    return times


def answered_emptily(build: BuildOperator) -> list[Any]:
    """The calls of a record whose first answer is empty."""
    with open_virtual(build=build, timeout_ms=1000, retry=RETRY) as rig:
        rig.process(record(1))
        rig.complete(1)
        rig.advance(50)
        return rig.calls()


def failed_together(build: BuildOperator) -> list[Any]:
    """The calls of two records that wait in their backoff at the same time."""
    with open_virtual(build=build, timeout_ms=1000, retry=RETRY) as rig:
        rig.process(record(1), record(2))
        rig.fail(1)
        rig.fail(2)
        rig.advance(50)
        return rig.calls()


def ended_in_backoff(build: BuildOperator) -> list[Any]:
    """What leaves if the input ends in a backoff and the call that is made at once is answered before its end."""
    function = HandFunction(timeout=substitute("substitute"))
    with open_virtual(build=build, function=function, timeout_ms=100, retry=RETRY) as rig:
        rig.process(record(1))
        rig.fail(1)
        rig.run_mail()
        rig.loop.call_later(0.005, partial(rig.complete, 1, "answer"))
        rig.operator.end_input()
        return rig.values()


def failed_for_good(build: BuildOperator) -> tuple[Any, ...]:
    """A call that fails: what leaves, and what the task is told."""
    with open_virtual(build=build) as rig:
        rig.process(record(1))
        rig.fail(1)
        rig.run_mail()
        return rig.values(), rig.causes()


@dataclass
class _Reused:
    """One object for all records."""

    number: int

    def __hash__(self) -> int:
        return id(self)


def reused(build: BuildOperator) -> list[int]:
    """What a snapshot holds if the source reads the next record into the same object."""
    with open_virtual(build=build, copy_value=copy) as rig:
        value = _Reused(1)
        rig.process(Record(value=value))
        value.number = 2
        return [element.value.number for element in rig.operator.snapshot() if isinstance(element, Record)]


def completed_in_a_callback(build: BuildOperator) -> list[Any]:
    """What has left when the client's callback returns, and no mail has run."""
    with open_virtual(build=build) as rig:
        rig.process(record(1))
        rig.complete(1, "a")
        return rig.values()


def completed_after_close(build: BuildOperator) -> list[Any]:
    """A result that comes when the operator and its mailbox are closed."""
    with open_virtual(build=build) as rig:
        rig.process(record(1))
        rig.operator.close()
        rig.mailbox.close()
        rig.complete(1, "a")
        return rig.values()


def ended(build: BuildOperator) -> list[Any]:
    """A record in flight, then the final watermark."""
    with open_virtual(build=build) as rig:
        rig.process(record(1), watermark(1), watermark(FINAL_WATERMARK))
        rig.complete(1, 1)
        rig.run_mail()
        return ["end" if value == f"w{FINAL_WATERMARK}" else value for value in rig.values()]


def measured(build: BuildOperator) -> list[Any]:
    """A latency marker behind a record in flight."""
    with open_virtual(build=build) as rig:
        rig.process(record(1), LatencyMarker(id=7))
        rig.complete(1, 1)
        rig.run_mail()
        return ["marker" if isinstance(value, LatencyMarker) else value for value in rig.values()]


def upstream_while_waiting(build: BuildOperator) -> list[str]:
    """The mail of an operator upstream that runs while a record waits for the only slot."""
    ran: list[str] = []
    with watched_loop(virtual=True) as loop:
        rig = Rig(loop, build=build, capacity=1, mailbox=Mailbox(loop=loop), priority=1)
        rig.process(record(1))
        MailboxExecutor(rig.mailbox, 0).execute(lambda: ran.append("upstream"), "feed the operator once more")
        rig.complete_soon(1, "a")
        rig.process(record(2))
        return list(ran)


def marked(build: BuildOperator) -> list[Any]:
    """Two equal watermarks and a third."""
    with open_virtual(build=build) as rig:
        rig.process(watermark(2), watermark(2), watermark(3))
        rig.run_mail()
        return rig.values()


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A case, and what the reference and the defect give in it."""

    case: Callable[[BuildOperator], Any]
    reference: Any
    mutant: Any
    build: BuildOperator | None = None
    """The builder of the defect, where the case needs other arguments than the table gives."""


WHERE_IT_SHOWS = {
    "snapshot-omits-completed": Shown(case=snapshot, reference=[1, 2, "w2"], mutant=[1, "w2"]),
    "restores-reversed": Shown(case=restored, reference=[1, 2], mutant=[2, 1]),
    "loses-completions": Shown(
        case=lost_then_found,
        reference=["a", "b"],
        mutant=["b"],
        build=partial(build_losing_operator, is_lost=lambda value: value == 1),
    ),
    "settles-twice": Shown(
        case=lambda build: completed_in_turn(build, "ordered", 1, 2),
        reference=[1, 2, "w2"],
        mutant=[1, 1, 2, "w2", 2],
    ),
    "watermarks-at-once": Shown(
        case=lambda build: completed_in_turn(build, "ordered", 2, 1),
        reference=[1, 2, "w2"],
        mutant=["w2", 1, 2],
    ),
    "segment-leak": Shown(
        case=lambda build: completed_in_turn(build, "unordered", 3, 2, 1),
        reference=[2, 1, "w2", 3],
        mutant=[3, 2, 1, "w2"],
    ),
    "retries-after-timeout": Shown(case=timed_out_in_backoff, reference=[1], mutant=[1, (1, 2)]),
    "backoff-stays": Shown(case=times_of_calls, reference=[0, 10, 30, 60], mutant=[0, 10, 20, 30]),
    "backoff-without-limit": Shown(case=times_of_calls, reference=[0, 10, 30, 60], mutant=[0, 10, 30, 70]),
    "gives-up-one-try-early": Shown(case=times_of_calls, reference=[0, 10, 30, 60], mutant=[0, 10, 30]),
    "retries-empty-answers": Shown(case=answered_emptily, reference=[1], mutant=[1, (1, 2)]),
    "one-backoff-timer": Shown(case=failed_together, reference=[1, 2, (1, 2), (2, 2)], mutant=[1, 2, (2, 2)]),
    "waits-out-backoff-at-end": Shown(case=ended_in_backoff, reference=["answer"], mutant=["substitute"]),
    "late-results": Shown(
        case=answered_late,
        reference=[("called", 1), ("timeout", 1), ("emitted", "substitute")],
        mutant=[("called", 1), ("timeout", 1), ("emitted", "substitute"), ("ok", 1), ("emitted", "late")],
    ),
    "restores-beyond-capacity": Shown(
        case=lambda build: room_after(build, restored=2, taken=0), reference=False, mutant=True
    ),
    "frees-slot-on-call": Shown(
        case=lambda build: room_after(build, restored=0, taken=2), reference=False, mutant=True
    ),
    "swallows-errors": Shown(
        case=failed_for_good,
        reference=([], [ArithmeticError]),
        mutant=(["default"], []),
        build=partial(build_quiet_operator, default=lambda _: ["default"]),
    ),
    "shares-records": Shown(case=reused, reference=[1], mutant=[2]),
    "emits-from-callback": Shown(case=completed_in_a_callback, reference=[], mutant=["a"]),
    "emits-after-close": Shown(case=completed_after_close, reference=[], mutant=["a"]),
    "end-at-once": Shown(case=ended, reference=[1, "w1", "end"], mutant=["end", 1, "w1"]),
    "snapshot-awaits-empty-queue": Shown(case=snapshot, reference=[1, 2, "w2"], mutant=[]),
    "latency-markers-wait": Shown(case=measured, reference=["marker", 1], mutant=[1, "marker"]),
    "yields-to-upstream": Shown(case=upstream_while_waiting, reference=[], mutant=["upstream"]),
    "drops-equal-watermarks": Shown(case=marked, reference=["w2", "w2", "w3"], mutant=["w2", "w3"]),
    "one-overtakes-its-key": Shown(
        case=lambda build: completed_by_key(build, 11, 1), reference=[1, 11, "w2"], mutant=[11, 1, "w2"]
    ),
    "watermark-passes-key": Shown(
        case=lambda build: completed_by_key(build, 1), reference=[1], mutant=[1, "w2"]
    ),
    "key-stuck-after-timeout": Shown(case=timed_out_by_key, reference=["late", 11], mutant=["late"]),
    "lines-by-bucket": Shown(
        case=lambda build: restored_by_key(build, given=2), reference=[1, 11, 21], mutant=[21, 1, 11]
    ),
    "restores-keys-backwards": Shown(
        case=lambda build: restored_by_key(build, given=3), reference=[1, 11, 21], mutant=[21, 11, 1]
    ),
    "retry-loses-its-turn": Shown(case=called_again_by_key, reference=[1, 11], mutant=[11, 1]),
    "unordered-emission": Shown(
        case=lambda build: completed_in_turn(build, "ordered", 2, 1),
        reference=[1, 2, "w2"],
        mutant=[2, 1, "w2"],
    ),
}


def test_every_defect_that_replaces_the_operator_has_its_case() -> None:
    replacing = {
        name for name, defect in IN_RUNS.items() if defect.variant.build_operator is not HONEST.build_operator
    }

    assert set(WHERE_IT_SHOWS) == replacing


@pytest.mark.parametrize("name", WHERE_IT_SHOWS)
def test_a_mutant_differs_from_the_reference_in_what_its_name_says(name: str) -> None:
    shows = WHERE_IT_SHOWS[name]

    assert shows.case(build_operator) == shows.reference
    assert shows.case(shows.build or variant_of(name).build_operator) == shows.mutant


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
def test_with_the_honest_settlement_the_mutants_of_it_would_be_the_reference(mode: Mode) -> None:
    def build(*, mode: Mode, capacity: int, **parts: Any) -> OperatorOfSettlements:
        operator = operator_around(
            queue_for(mode, capacity, parts.get("key_of")), kind=OperatorOfSettlements, **parts
        )
        assert isinstance(operator, OperatorOfSettlements)
        return operator

    for order in ((1, 2, 3), (3, 2, 1), (2, 3, 1)):
        assert completed_in_turn(build, mode, *order) == completed_in_turn(build_operator, mode, *order)
    assert answered_late(build) == answered_late(build_operator)
    assert failed_for_good(build) == failed_for_good(build_operator)


def test_a_segment_leak_is_none_in_ordered_mode() -> None:
    leaking = completed_in_turn(variant_of("segment-leak").build_operator, "ordered", 3, 2, 1)

    assert leaking == completed_in_turn(build_operator, "ordered", 3, 2, 1)


def test_restored_records_that_take_no_slots_leave_room_for_the_capacity_and_no_more() -> None:
    build = variant_of("restores-beyond-capacity").build_operator

    assert room_after(build, restored=2, taken=1)
    assert not room_after(build, restored=2, taken=2)


def test_three_completions_in_a_thousand_are_lost() -> None:
    lost = sum(map(three_in_a_thousand, range(100_000)))

    assert 200 < lost < 400
