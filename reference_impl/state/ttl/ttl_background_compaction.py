"""Runs the compactions of a task's states when they are due, between other mail.

Answers to the threads in which RocksDB compacts for Flink; here it is the task's own. Invariant: a slice is one mail,
and the next one is put behind what waits by then, so a pass over however many entries holds nothing up (M13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

from reference_impl.errors import MailboxClosed
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.state.state_table import Compaction
from reference_impl.timers import Timers

__all__ = ["TtlBackgroundCompaction"]

_LOOK_EVERY_MS = 60_000


class TtlBackgroundCompaction:
    """Of one task, whose `compactions` are asked for at each look. Mutable: a timer, until `close`."""

    def __init__(
        self,
        *,
        compactions: Callable[[], Iterable[Compaction]],
        timers: Timers,
        executor: MailboxExecutor,
        look_every_ms: int = _LOOK_EVERY_MS,
    ) -> None:
        self._compactions = compactions
        self._executor = executor
        self._timer = timers.register_fixed_delay(self._look, delay_ms=look_every_ms, period_ms=look_every_ms)

    def close(self) -> None:
        """Begin no other pass; the mail of one that has begun still runs."""
        self._timer.cancel()

    def _look(self, _: int) -> None:
        for compaction in self._compactions():
            if compaction.is_due:
                self._go_on(compaction.compact())

    def _go_on(self, slices: Iterator[None]) -> None:
        with suppress(StopIteration, MailboxClosed):  # it is through, or the task is going down
            next(slices)
            self._executor.execute(partial(self._go_on, slices), "compaction of expired state")
