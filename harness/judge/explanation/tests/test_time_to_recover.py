"""V17: what a fault or a kill cost is counted from its events; what cannot be counted says why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.history.verdict import Cost, Recovery
from harness.judge.explanation.events import summary_of
from harness.judge.explanation.recovery import STEADY_RESULTS, RecoveryFold

Json = dict[str, Any]


def measured(*events: Json | list[Json]) -> Recovery:
    """Of events in the order in which they are told; `restored` of a `restore` says how many records it has."""
    fold = RecoveryFold()
    for n, event in enumerate(flat(events), start=1):
        given = {**event}
        restored = given.pop("restored", 0)
        summary = summary_of(json.dumps({"n": n, **given}).encode())
        assert summary is not None
        fold.step(summary, restored=restored)
    return fold.recovery()


def flat(events: Any) -> Iterator[Json]:
    for event in events:
        if isinstance(event, list):
            yield from flat(event)
        else:
            yield event


def of(k: str, t: int, a: int = 1, **fields: Any) -> Json:
    return {"k": k, "t": t, "s": 0, "a": a, **fields}


def record(number: int, t: int, lag: int, a: int = 1) -> list[Json]:
    """A record that comes in at `t` and leaves `lag` later."""
    return [of("in", t, a, pos=number, id=number), of("out", t + lag, a, id=number, j=0, v=1)]


def records(numbers: range, *, begin: int = 0, lag: int = 10, a: int = 1) -> list[Json]:
    return [event for number in numbers for event in record(number, begin + 100 * number, lag, a)]


def fault(phase: str, t: int) -> Json:
    return {
        "k": "fault",
        "t": t,
        "f": "spike",
        "phase": phase,
        **({"evidence": {}} if phase == "end" else {}),
    }


def only(found: Recovery) -> Cost:
    (cost,) = found.costs
    return cost


def test_without_a_disturbance_there_is_a_reason_and_no_number() -> None:
    found = measured(records(range(5)))

    assert found.costs == ()
    assert found.why == "no fault began, and no attempt was killed"


def test_a_fault_is_steady_again_with_the_first_of_a_row_of_quick_results() -> None:
    found = measured(
        records(range(30)),
        fault("begin", 3000),
        record(30, 3100, 500),
        fault("end", 4000),
        record(31, 4100, 300),
        records(range(50, 50 + STEADY_RESULTS)),
    )

    cost = only(found)
    assert (cost.what, cost.begin_us, cost.first_output_us, cost.steady_us) == (
        'fault "spike" (all subtasks)',
        3000,
        400,
        1010,
    )


def test_a_row_that_is_broken_begins_anew() -> None:
    quick = records(range(50, 50 + STEADY_RESULTS - 1))
    found = measured(
        records(range(30)), fault("begin", 3000), fault("end", 4000), quick, record(90, 9000, 11),
        records(range(100, 100 + STEADY_RESULTS)),
    )  # fmt: skip

    assert only(found).steady_us == 100 * 100 + 10 - 4000


def test_a_fault_is_detected_by_the_first_call_that_fails_while_it_is_active() -> None:
    failing = of("res", 3500, id=7, r="fail", final=False)

    assert only(measured(fault("begin", 3000), failing, fault("end", 4000))).detect_us == 500
    assert only(measured(fault("begin", 3000), fault("end", 3400), failing)).detect_us is None


def test_a_kill_tells_how_long_the_attempt_was_silent_and_what_was_replayed() -> None:
    found = measured(
        of("start", 0, pos=0),
        records(range(40)),
        of("kill", 5000),
        of("start", 6000, 2, pos=38),
        of("restore", 6000, 2, c=1, restored=3),
        of("in", 6100, 2, pos=38, id=38),
        of("in", 6200, 2, pos=39, id=39),
        of("in", 6300, 2, pos=40, id=40),
        of("out", 6400, 2, id=40, j=0, v=1),
    )

    cost = only(found)
    assert cost.what == "kill of attempt 1 of subtask 0"
    assert (cost.detect_us, cost.first_output_us) == (5000 - 3910, 1400)
    assert (cost.replayed, cost.replayed_of) == (5, 40)


def test_the_last_words_of_a_zombie_are_no_first_result() -> None:
    found = measured(records(range(3)), of("kill", 1000), of("out", 1100, 1, id=9, j=0, v=1))

    assert only(found).first_output_us is None
    assert only(found).absent["first output"] == "no result followed"


def test_records_that_come_in_faster_than_they_leave_are_counted_until_it_is_steady() -> None:
    flood = [of("in", 3000 + n, pos=100 + n, id=100 + n) for n in range(7)]

    cost = only(measured(records(range(30)), fault("begin", 3000), flood, fault("end", 900_000)))

    assert cost.deficit == 7


def test_a_record_that_yields_nothing_has_left_with_its_outcome() -> None:
    nothing = [of("in", 3000, pos=1, id=1, expect=[]), of("res", 3001, id=1, r="ok", final=True)]
    empty = [of("in", 3002, pos=2, id=2), of("res", 3003, id=2, r="ok", final=True, v=[])]
    dead = [of("in", 3004, pos=3, id=3), of("dead", 3005, id=3)]
    failed = [of("in", 3006, pos=4, id=4), of("res", 3007, id=4, r="fail", final=True)]
    late = [of("in", 3008, pos=5, id=5), of("res", 3009, id=5, r="timeout", final=True, error="late")]

    assert only(measured(fault("begin", 2999), nothing, empty, dead, failed, late)).deficit == 0


def test_a_substitute_of_a_timeout_leaves_like_any_result() -> None:
    timed_out = of("res", 3009, id=5, r="timeout", final=True, v=["else"])
    came = [of("in", 3008, pos=5, id=5, expect=[]), timed_out]

    assert only(measured(fault("begin", 2999), came)).deficit == 1
    assert only(measured(fault("begin", 2999), came, of("out", 3010, id=5, j=0, v="else"))).deficit == 0


def test_what_has_no_number_says_why() -> None:
    open_fault = only(measured(fault("begin", 10), records(range(1, 3))))
    few = only(measured(records(range(3)), fault("begin", 3000), fault("end", 4000)))
    slow = only(measured(records(range(30)), fault("begin", 3000), fault("end", 4000)))
    alone = only(measured(records(range(3)), of("kill", 5000)))

    assert open_fault.absent["steady"] == "the fault did not end"
    assert "too few to compare with" in few.absent["steady"]
    assert slow.absent["steady"] == f"no {STEADY_RESULTS} results in a row were as quick as before"
    assert alone.absent["replayed"] == "no attempt followed"


def test_another_disturbance_ends_the_measuring_of_the_one_before() -> None:
    first, second = measured(
        records(range(30)), fault("begin", 3000), fault("end", 4000), fault("begin", 5000), fault("end", 6000),
        records(range(70, 100)),
    ).costs  # fmt: skip

    assert first.absent["steady"] == 'the fault "spike" came before it was steady'
    assert second.steady_us == 70 * 100 + 10 - 6000


def test_beyond_fifty_disturbances_are_only_counted() -> None:
    found = measured(*[[fault("begin", t), fault("end", t + 1)] for t in range(0, 120, 2)])

    assert (len(found.costs), found.omitted) == (50, 10)
