"""The source clock: time passes only with the source, and a timer that is due runs as mail before the next element."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.sut.gated_inputs import SourceClock
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with virtual_loop() as made:
        yield made


def test_a_timer_waits_for_the_clock_and_then_for_its_mail_trust7(loop: VirtualLoop) -> None:
    clock, fired = SourceClock(), list[int]()
    executor = MailboxExecutor(Mailbox(loop=loop), 0)
    clock.timers(loop, executor).register(20, lambda: fired.append(clock.now_ms()))

    assert not clock.advance(19)
    assert clock.advance(25)
    assert fired == []
    assert executor.try_yield()
    assert fired == [25]
    assert not clock.advance(25)


def test_a_timer_that_its_callback_registers_for_now_is_due_as_well_trust7(loop: VirtualLoop) -> None:
    clock, fired = SourceClock(), list[str]()
    executor = MailboxExecutor(Mailbox(loop=loop), 0)
    timers = clock.timers(loop, executor)

    def first() -> None:
        timers.register(0, lambda: fired.append("second"))

    timers.register(5, first)

    assert clock.advance(5)
    assert executor.try_yield()
    assert clock.advance(5)
    assert executor.try_yield()

    assert fired == ["second"]


def test_the_clock_does_not_go_back_trust7() -> None:
    clock = SourceClock()
    clock.start_at(40)

    clock.advance(30)

    assert clock.now_ms() == 40
