"""What is measured of a run, and when a threshold holds, is crossed or is unknown."""

from __future__ import annotations

from collections.abc import Iterable

from harness.history.event import Call, Event, FaultEvent, In, Kill, Out, Rescale, Start
from harness.judge.explanation.measures import judged_thresholds, measures_of, measures_of_recovery
from harness.scenario.outcome import Measure

FAULT_ENDS_US = 60_000


def records(lags_us: Iterable[int], *, first: int = 0, begin_us: int = 0) -> list[Event]:
    """Records a millisecond apart, each with one call, that leave after their lags."""
    found: list[Event] = []
    for place, lag_us in enumerate(lags_us):
        number, t = first + place, begin_us + 1000 * place
        found.append(In(n=0, t=t, s=0, a=1, pos=number, id=number))
        found.append(Call(n=0, t=t, s=0, a=1, id=number, try_=1))
        found.append(Out(n=0, t=t + lag_us, s=0, a=1, id=number, j=0, v={}))
    return found


def history(*events: Event) -> list[Event]:
    return sorted([Start(n=0, t=0, s=0, a=1, from_=None, pos=0), *events], key=lambda event: event.t)


def disturbed(after_us: Iterable[int]) -> list[Event]:
    """40 records of 5 ms, a fault from 50 to 60 ms, and later ones with the given lags."""
    fault = [
        FaultEvent(n=0, t=50_000, f="slow", phase="begin"),
        FaultEvent(n=0, t=FAULT_ENDS_US, f="slow", phase="end"),
    ]
    return history(*records([5000] * 40), *fault, *records(after_us, first=40, begin_us=FAULT_ENDS_US))


def test_latency_is_from_the_first_intake_to_the_first_result() -> None:
    measures = measures_of(history(*records([*[2000] * 18, 7000, 9000])))

    assert measures["latency_p50"].value == 2
    assert measures["latency_p95"].value == 7
    assert measures["latency_max"].value == 9


def test_calls_of_retries_count_and_replayed_records_do_not() -> None:
    again = Call(n=0, t=100, s=0, a=1, id=0, try_=2)
    replayed = In(n=0, t=200, s=0, a=1, pos=0, id=0)

    measures = measures_of(history(*records([5000] * 4), again, replayed))

    assert measures["calls_per_record"].value == 1.25


def test_a_record_that_never_left_is_not_quick() -> None:
    stays = In(n=0, t=3000, s=0, a=1, pos=99, id=99)

    measures = measures_of(history(*records([5000] * 3), stays, *records([20_000], first=100, begin_us=4000)))

    assert measures["latency_max"] == Measure(
        value=None, at_least=21.0, why="1 of 5 records were not measured"
    )
    assert measures["latency_p50"].value == 5


def test_after_a_rescale_a_record_that_waits_may_have_left_elsewhere() -> None:
    stays = In(n=0, t=3000, s=0, a=1, pos=99, id=99)
    rescale = Rescale(n=0, t=1, c=1, of=[0], to=[1])

    measures = measures_of(history(*records([5000] * 3), stays, rescale))

    assert measures["latency_max"].value is None
    assert measures["latency_max"].at_least == 5  # not how long the other seems to have waited


def test_recovery_is_from_the_end_of_the_fault_to_the_first_of_steady_results() -> None:
    measures = measures_of(disturbed([30_000] * 10 + [5000] * 60))

    assert measures["recovery_p95"].value == 39  # the last slow one leaves then
    assert measures["first_result_max"].value is not None


def test_a_run_that_stays_slow_crosses_what_it_stayed_slow_for() -> None:
    measures = measures_of(disturbed([30_000] * 40))

    long, short = judged_thresholds({"recovery_max": 1000, "recovery_p95": 50}, measures)

    assert (long.verdict, short.verdict) == ("unknown", "crossed")
    assert "no 20 results in a row were as quick as before" in long.says


def test_without_a_disturbance_recovery_is_unknown_and_not_zero() -> None:
    (threshold,) = judged_thresholds({"recovery_p95": 2000}, measures_of(history(*records([5000] * 4))))

    assert threshold.verdict == "unknown"
    assert threshold.says == (
        "recovery_p95 could not be measured, and at most 2 s is allowed: no fault began, and no attempt was killed"
    )


def test_a_threshold_is_met_by_its_own_value() -> None:
    measures = measures_of(history(*records([5000] * 4)))

    met, crossed = judged_thresholds({"latency_p95": 5, "latency_max": 4}, measures)

    assert (met.verdict, crossed.verdict) == ("holds", "crossed")
    assert crossed.says == "latency_max is 5 ms, and at most 4 ms is allowed"


def test_an_empty_history_measures_nothing() -> None:
    assert all(measure.value is None and measure.why for measure in measures_of([]).values())


def test_a_kill_without_a_successor_is_no_recovery() -> None:
    measures = measures_of(history(*records([5000] * 30), Kill(n=0, t=40_000, s=0, a=1)))

    assert measures["recovery_max"].value is None
    assert measures["recovery_max"].why == (
        "1 of 1 disturbances were not measured (kill of attempt 1 of subtask 0: no 20 results in a row were as quick "
        "as before)"
    )


def test_seen_from_outside_calls_are_unknown() -> None:
    (threshold,) = judged_thresholds({"calls_per_record": 1.2}, measures_of_recovery(None))

    assert threshold.verdict == "unknown"
