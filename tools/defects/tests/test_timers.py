"""Planted defects of timers: each is convicted by a stated property, which acquits the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.sut.defects import variant_of
from reference_impl.elements import Watermark
from reference_impl.mailbox.loops import NS_PER_MS, virtual_loop
from reference_impl.state.internal_timer_services import InternalTimerServices, MailboxWatermarkProcessor
from reference_impl.state.internal_timers import TimersHandle
from reference_impl.state.tests.timer_bench import TimerBench
from reference_impl.tests.rig import open_virtual
from tools.defects.tests.wrong_parts import wrong_part

Services = type[InternalTimerServices]
Processor = type[MailboxWatermarkProcessor]
KEYS = [f"key {number}" for number in range(12)]


def a_timer_is_a_set_of_key_namespace_and_instant(services: Services) -> None:
    """T10."""
    with virtual_loop() as loop:
        bench = TimerBench(loop, services=services)
        for _ in range(2):
            bench.event("k", 5)
        bench.services.advance_watermark(5)

        assert bench.fired.timers == [(5, "k", None)]


def restored_timers_are_those_that_had_not_fired(services: Services) -> None:
    """T14, T15."""
    with virtual_loop() as loop:
        before = TimerBench(loop, services=services)
        for time in (1, 2, 3):
            before.event("k", time)
        before.services.advance_watermark(2)
        after = TimerBench(loop, services=services, handles=handles_of([before]))
        after.services.advance_watermark(9)

        assert after.fired.timers == [(3, "k", None)]


def at_another_parallelism_each_fires_once(services: Services) -> None:
    """T15."""
    with virtual_loop() as loop:
        for old, new in ((1, 3), (3, 1), (3, 2)):
            before = [
                TimerBench(loop, subtask=index, parallelism=old, services=services) for index in range(old)
            ]
            for key in KEYS:
                next(one for one in before if one.owns(key)).event(key, 5)
            fired: list[Any] = []
            for index in range(new):
                after = TimerBench(
                    loop, handles=handles_of(before), subtask=index, parallelism=new, services=services
                )
                after.services.advance_watermark(9)
                fired += [key for _, key, _ in after.fired.timers]

            assert sorted(fired) == sorted(KEYS)


def handles_of(benches: list[TimerBench]) -> list[TimersHandle]:
    return [handle for bench in benches if (handle := bench.take_snapshot()) is not None]


def a_watermark_passes_after_its_timers(processor: Processor) -> None:
    """T13, with mail in between."""
    with virtual_loop() as loop:
        bench = TimerBench(loop)
        happened = interrupted(bench, processor)
        bench.run_mail()

        assert happened == [1, "mail", 2, 3, "w3"]


def a_yield_fires_no_timer(processor: Processor) -> None:
    """M8, FLINK-35528."""
    with virtual_loop() as loop:
        bench = TimerBench(loop)
        happened = interrupted(bench, processor)
        while bench.executor.try_yield():
            pass

        assert happened == [1, "mail"]


def interrupted(bench: TimerBench, processor: Processor) -> list[Any]:
    """An advance over three timers that mail interrupts after the first; all that happens."""
    happened: list[Any] = []
    bench.fired.then = lambda timer: happened.append(timer.timestamp)
    for time in (1, 2, 3):
        bench.event("k", time)
    bench.executor.execute(lambda: happened.append("mail"), "mail")
    processor(
        timers=bench.services,
        executor=bench.executor,
        emit=lambda watermark: happened.append(f"w{watermark.timestamp}"),
    ).emit_watermark_inside_mailbox(Watermark(timestamp=3))
    return happened


OF_SERVICES: dict[str, Callable[[Services], None]] = {
    "timers-not-deduplicated": a_timer_is_a_set_of_key_namespace_and_instant,
    "timers-fired-after-restore": restored_timers_are_those_that_had_not_fired,
    "timers-lost-on-rescale": at_another_parallelism_each_fires_once,
    "timers-of-other-subtasks": at_another_parallelism_each_fires_once,
}
OF_PROCESSORS: dict[str, Callable[[Processor], None]] = {
    "watermark-before-timers": a_watermark_passes_after_its_timers,
    "continuation-not-deferrable": a_yield_fires_no_timer,
}
CONVICTIONS = (*OF_SERVICES, *OF_PROCESSORS)


@pytest.mark.parametrize("name", OF_SERVICES)
def test_a_property_of_services_acquits_the_reference_and_convicts_its_defect(name: str) -> None:
    OF_SERVICES[name](InternalTimerServices)

    with pytest.raises(AssertionError):
        OF_SERVICES[name](wrong_part(name))


@pytest.mark.parametrize("name", OF_PROCESSORS)
def test_a_property_of_watermarks_acquits_the_reference_and_convicts_its_defect(name: str) -> None:
    OF_PROCESSORS[name](MailboxWatermarkProcessor)

    with pytest.raises(AssertionError):
        OF_PROCESSORS[name](wrong_part(name))


@pytest.mark.parametrize("name", OF_SERVICES)
def test_a_defect_of_timers_is_acquitted_by_the_properties_of_the_others(name: str) -> None:
    for holds in dict.fromkeys(OF_SERVICES.values()):
        if holds is not OF_SERVICES[name]:
            holds(wrong_part(name))


@pytest.mark.parametrize(("jump_ms", "fires_at_ms"), [(0, 10), (4, 6), (-4, 14)])
def test_a_timer_on_the_wall_clock_fires_when_that_says_so(jump_ms: int, fires_at_ms: int) -> None:
    """The clock is set at 2 ms; another timer, due each millisecond, has the loop look."""
    build_timers = variant_of("tools.defects:wall_clock_timers").timers
    with open_virtual() as rig:
        jumped_ns = 0
        fired: list[int] = []
        timers = build_timers(rig.loop, rig.executor, wall_ns=lambda: rig.timers.now_ns() + jumped_ns)
        timers.register(10, lambda: fired.append(rig.timers.now_ms()))
        for now_ms in range(1, 21):
            jumped_ns = jump_ms * NS_PER_MS if now_ms > 2 else 0
            timers.register(0, lambda: None)
            rig.advance(now_ms)

        assert fired == [fires_at_ms]
