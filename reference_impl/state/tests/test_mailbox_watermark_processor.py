"""Claims about the advance that lets mail through: T13, and the four bugs that it was built against."""

from __future__ import annotations

from reference_impl.elements import Watermark
from reference_impl.state.internal_timer_services import MailboxWatermarkProcessor
from reference_impl.state.internal_timers import InternalTimer
from reference_impl.state.tests.timer_bench import TimerBench


class Advance:
    """A processor over the bench's timers, and what left it, in the order of all that happened."""

    def __init__(self, bench: TimerBench, *, intermediate: bool = False) -> None:
        self.bench = bench
        self.happened: list[object] = []
        self.processor = MailboxWatermarkProcessor(
            timers=bench.services,
            executor=bench.executor,
            emit=lambda watermark: self.happened.append(f"w{watermark.timestamp}"),
            intermediate_watermarks=intermediate,
        )
        bench.fired.then = lambda timer: self.happened.append(timer.timestamp)

    def watermark(self, timestamp: int) -> None:
        self.processor.emit_watermark_inside_mailbox(Watermark(timestamp=timestamp))

    def mail(self, what: str) -> None:
        self.bench.executor.execute(lambda: self.happened.append(what), what)

    def take_one(self) -> None:
        self.bench.mailbox.take().action()


def test_without_mail_the_watermark_passes_after_its_timers_t13(bench: TimerBench) -> None:
    advance = Advance(bench)
    for time in (1, 2, 3):
        bench.event("k", time)

    advance.watermark(2)

    assert advance.happened == [1, 2, "w2"]


def test_a_barrier_waits_for_one_timer_and_not_for_the_burst_flink_20217(bench: TimerBench) -> None:
    advance = Advance(bench)
    for time in range(1, 1_001):
        bench.event("k", time)
    advance.mail("barrier")

    advance.watermark(1_000)
    assert advance.happened == [1]
    bench.run_mail()

    assert advance.happened == [1, "barrier", *range(2, 1_001), "w1000"]


def test_each_call_fires_one_timer_at_least_t13(bench: TimerBench) -> None:
    """Mail that puts itself back for ever does not stop event time."""
    advance = Advance(bench)
    for time in (1, 2, 3):
        bench.event("k", time)

    def busy() -> None:
        if "w3" not in advance.happened:
            bench.executor.execute(busy, "busy")

    busy()
    advance.watermark(3)
    for _ in range(10):
        if bench.mailbox.has_mail():
            advance.take_one()

    assert advance.happened == [1, 2, 3, "w3"]


def test_there_is_one_continuation_however_many_watermarks_come_t13(bench: TimerBench) -> None:
    advance = Advance(bench)
    for time in range(1, 10):
        bench.event("k", time)
    advance.mail("mail")

    for timestamp in (4, 5, 9):
        advance.watermark(timestamp)

    assert len(bench.mailbox) == 2


def test_only_the_highest_of_the_waiting_watermarks_passes_t13(bench: TimerBench) -> None:
    advance = Advance(bench)
    for time in (1, 2, 3, 4):
        bench.event("k", time)
    advance.mail("mail")

    advance.watermark(3)
    advance.watermark(4)
    advance.watermark(2)
    bench.run_mail()

    assert advance.happened == [1, 2, 3, "mail", 4, "w4"]


def test_a_watermark_that_passed_is_not_emitted_again_by_its_continuation_t13(bench: TimerBench) -> None:
    advance = Advance(bench)
    bench.event("k", 1)
    advance.mail("mail")
    advance.watermark(1)  # its only timer has fired, but there was mail: a continuation waits

    advance.take_one()
    advance.watermark(2)
    bench.run_mail()

    assert advance.happened == [1, "mail", "w2"]


def test_a_yield_never_runs_the_continuation_flink_35528(bench: TimerBench) -> None:
    """An operator that waits for room would else run it, and it would put itself back, for ever."""
    advance = Advance(bench)
    for time in (1, 2, 3):
        bench.event("k", time)
    advance.mail("mail")
    advance.watermark(3)

    assert bench.executor.try_yield()
    assert not bench.executor.try_yield()
    assert advance.happened == [1, "mail"]


def test_who_finishes_runs_the_continuation_and_loses_no_timer_flink_39481(bench: TimerBench) -> None:
    advance = Advance(bench)
    for time in (1, 2, 3):
        bench.event("k", time)
    advance.mail("mail")
    advance.watermark(3)

    while bench.executor.try_yield_ignoring_deferrable():
        pass

    assert advance.happened == [1, "mail", 2, 3, "w3"]


def test_downstream_hears_of_the_progress_if_asked_for_flink_40101(bench: TimerBench) -> None:
    advance = Advance(bench, intermediate=True)
    for time in (10, 20, 30):
        bench.event("k", time)
    advance.mail("mail")

    advance.watermark(30)
    bench.run_mail()

    assert advance.happened == [10, "w19", "mail", 20, 30, "w30"]


def test_progress_is_never_behind_what_was_emitted_flink_40101(bench: TimerBench) -> None:
    advance = Advance(bench, intermediate=True)
    advance.watermark(10)
    for time in (3, 4):  # late
        bench.event("k", time)
    advance.mail("mail")

    advance.watermark(20)
    bench.run_mail()

    assert advance.happened == ["w10", 3, "mail", 4, "w20"]


def test_between_two_timers_a_snapshot_holds_those_that_have_not_fired_t14(bench: TimerBench) -> None:
    advance = Advance(bench)
    for time in (1, 2, 3):
        bench.event("k", time)
    advance.mail("barrier")
    advance.watermark(3)

    left: list[InternalTimer] = bench.service.event_time_timers()

    assert [timer.timestamp for timer in left] == [2, 3]


def test_a_watermark_that_is_behind_counts_as_the_highest_so_far_t13(bench: TimerBench) -> None:
    advance = Advance(bench)
    advance.watermark(10)
    bench.event("k", 7)  # late

    advance.watermark(5)

    assert advance.happened == ["w10", 7, "w10"]
    assert bench.service.current_watermark == 10
