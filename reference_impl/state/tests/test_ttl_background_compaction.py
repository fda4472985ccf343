"""Claims about compactions that run by themselves: S16."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.state_descriptor import ValueStateDescriptor
from reference_impl.state.tests.ttl_rig import ttl
from reference_impl.state.ttl_cleanup import TtlBackgroundCompaction
from reference_impl.state.ttl_config import CleanupStrategies, CompactionFilterCleanup

STRATEGY = CompactionFilterCleanup(query_time_after_num_entries=4, periodic_compaction_ms=1000)


class Task:
    """Ten values that live for 100 ms, and a compaction a second, looked for each 500 ms. Mutable."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.mailbox = Mailbox(loop=loop)
        self.executor = MailboxExecutor(self.mailbox, 0)
        timers = Timers(loop, self.executor)
        self.backend = KeyedStateBackend(operator="op", max_parallelism=1, now_ms=timers.now_ms)
        cleanup = CleanupStrategies(compaction_filter=STRATEGY)
        descriptor = ValueStateDescriptor(name="v", value_type=int, ttl=ttl(100, cleanup=cleanup))
        state = self.backend.get_partitioned_state(None, descriptor)
        for key in range(10):
            self.backend.set_current_key(key)
            state.update(key)
        self.compaction = TtlBackgroundCompaction(
            compactions=lambda: self.backend.compactions,
            timers=timers,
            executor=self.executor,
            look_every_ms=500,
        )

    def pass_time(self, to_ms: int) -> None:
        """Let that be the time, and what is due be mail."""
        self.loop.advance(to_ms)
        self.loop.run_ready()

    def run_until(self, now_ms: int) -> list[int]:
        """How many entries are stored after each mail until then."""
        stored = []
        for instant_ms in range(500, now_ms + 1, 500):
            self.pass_time(instant_ms)
            while self.executor.try_yield():
                stored.append(self.backend.num_keyed_state_entries)
        return stored


@contextmanager
def task() -> Iterator[Task]:
    """In virtual time, at 0 ms."""
    with virtual_loop() as loop:
        yield Task(loop)


def test_a_compaction_that_is_due_runs_in_slices_and_then_not_before_the_next_period_s16() -> None:
    with task() as one:
        assert one.run_until(2500) == [10, 6, 2, 0, 0, 0, 0]


def test_other_mail_comes_between_two_slices_s16() -> None:
    ran: list[int] = []
    with task() as one:
        one.run_until(500)
        one.pass_time(1000)

        one.executor.try_yield()
        one.executor.execute(lambda: ran.append(one.backend.num_keyed_state_entries), "other")
        while one.executor.try_yield():
            pass

    assert ran == [2]


def test_a_closed_one_begins_no_other_pass_s16() -> None:
    with task() as one:
        one.compaction.close()

        assert set(one.run_until(2500)) <= {10}
