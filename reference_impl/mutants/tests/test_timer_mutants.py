"""Planted defects of timers: each is convicted by a stated property, which acquits the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reference_impl.elements import Watermark
from reference_impl.mailbox.loops import virtual_loop
from reference_impl.mutants.continuation_not_deferrable import EagerWatermarkProcessor
from reference_impl.mutants.timers_fired_after_restore import RememberingTimerServices
from reference_impl.mutants.timers_lost_on_rescale import ForgetfulTimerServices
from reference_impl.mutants.timers_not_deduplicated import RepeatingTimerServices
from reference_impl.mutants.timers_of_other_subtasks import GreedyTimerServices
from reference_impl.mutants.watermark_before_timers import HastyWatermarkProcessor
from reference_impl.state.internal_timer_services import InternalTimerServices, MailboxWatermarkProcessor
from reference_impl.state.internal_timers import TimersHandle
from reference_impl.state.tests.timer_bench import TimerBench

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


OF_SERVICES: list[tuple[Callable[[Services], None], list[Services]]] = [
    (a_timer_is_a_set_of_key_namespace_and_instant, [RepeatingTimerServices]),
    (restored_timers_are_those_that_had_not_fired, [RememberingTimerServices]),
    (at_another_parallelism_each_fires_once, [ForgetfulTimerServices, GreedyTimerServices]),
]
OF_PROCESSORS: list[tuple[Callable[[Processor], None], list[Processor]]] = [
    (a_watermark_passes_after_its_timers, [HastyWatermarkProcessor]),
    (a_yield_fires_no_timer, [EagerWatermarkProcessor]),
]


@pytest.mark.parametrize(("claim", "convicted"), OF_SERVICES)
def test_a_claim_about_services_acquits_the_reference_and_convicts_its_mutants(
    claim: Callable[[Services], None], convicted: list[Services]
) -> None:
    claim(InternalTimerServices)
    for mutant in convicted:
        with pytest.raises(AssertionError):
            claim(mutant)


@pytest.mark.parametrize(("claim", "convicted"), OF_PROCESSORS)
def test_a_claim_about_watermarks_acquits_the_reference_and_convicts_its_mutants(
    claim: Callable[[Processor], None], convicted: list[Processor]
) -> None:
    claim(MailboxWatermarkProcessor)
    for mutant in convicted:
        with pytest.raises(AssertionError):
            claim(mutant)


@pytest.mark.parametrize(
    "mutant",
    [
        RepeatingTimerServices,
        RememberingTimerServices,
        ForgetfulTimerServices,
        GreedyTimerServices,
    ],
)
def test_a_mutant_of_timers_is_wrong_in_one_thing_only(mutant: Services) -> None:
    """Whoever is convicted by one claim is acquitted by the others."""
    for claim, convicted in OF_SERVICES:
        if mutant not in convicted:
            claim(mutant)
