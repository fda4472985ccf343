"""A keyed operator with its state, its timers and its clock, that can be saved and restored at another parallelism."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reference_impl.checkpoint_events import CheckpointOptions
from reference_impl.checkpoints.state_handler import StateInitializationContext
from reference_impl.elements import OperatorInput, Record
from reference_impl.mailbox.loops import VirtualLoop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.internal_timers import TimersHandle
from reference_impl.state.key_groups import (
    assign_key_to_parallel_operator,
    assign_to_key_group,
    compute_key_group_range_for_operator_index,
)
from reference_impl.state.keyed_state_backend import KeyedStateBackend, KeyedStateStore
from reference_impl.state.operator_state import OperatorStateBackend
from reference_impl.state.snapshots import KeyedStateHandle, OperatorStateHandle
from reference_impl.tests.rig import shown

MAX_PARALLELISM = 8


def owner_of(key: Any, parallelism: int) -> int:
    """The subtask that gets its records."""
    return assign_key_to_parallel_operator(key, MAX_PARALLELISM, parallelism)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a checkpoint holds of one subtask."""

    keyed: KeyedStateHandle | None
    timers: TimersHandle | None
    operator: OperatorStateHandle | None


class KeyedBench:
    """One subtask. `build` gets the parts that every keyed operator needs by keyword."""

    def __init__(
        self,
        loop: VirtualLoop,
        build: Callable[..., Any],
        *,
        restored: Sequence[Saved] | None = None,
        subtask: int = 0,
        parallelism: int = 1,
        interruptible: bool = False,
    ) -> None:
        self.loop = loop
        self.mailbox = Mailbox(loop=loop)
        self.executor = MailboxExecutor(self.mailbox, 0)
        self.emitted: list[OperatorInput] = []
        key_group_range = compute_key_group_range_for_operator_index(MAX_PARALLELISM, parallelism, subtask)
        self.backend = KeyedStateBackend(
            operator="keyed", max_parallelism=MAX_PARALLELISM, key_group_range=key_group_range
        )
        self.timer_services = InternalTimerServices(
            timers=Timers(loop, self.executor),
            key_context=self.backend,
            key_group_range=key_group_range,
            max_parallelism=MAX_PARALLELISM,
        )
        self.operator_state = OperatorStateBackend(operator="keyed")
        if restored:
            self.operator_state.restore(restored[subtask % len(restored)].operator)
            self.backend.restore([saved.keyed for saved in restored])
            self.timer_services.restore([saved.timers for saved in restored if saved.timers is not None])
        self.operator = build(
            key_context=self.backend,
            timer_services=self.timer_services,
            emit=self.emitted.append,
            executor=self.executor if interruptible else None,
        )
        self.operator.initialize_state(
            StateInitializationContext(
                operator_id="keyed",
                restored_checkpoint_id=None if restored is None else 1,
                keyed_state_store=KeyedStateStore(self.backend),
                operator_state_store=self.operator_state,
            )
        )
        self.operator.open()

    def values(self) -> list[Any]:
        """What was emitted."""
        return [shown(element) for element in self.emitted]

    def records(self) -> list[tuple[Any, int | None, int | None]]:
        """The records that were emitted: value, event time, position."""
        return [
            (element.value, element.timestamp, element.position)
            for element in self.emitted
            if isinstance(element, Record)
        ]

    def save(self) -> Saved:
        """Both parts of a snapshot."""
        keyed = self.backend.snapshot(1, 0, CheckpointOptions())
        operator = self.operator_state.snapshot(1, 0, CheckpointOptions())
        timers = self.timer_services.snapshot()
        for future in (keyed, operator, timers):
            future.run()
        return Saved(keyed=keyed.result(), timers=timers.result(), operator=operator.result())

    def owns(self, key: Any) -> bool:
        """Whether the key's records come here."""
        return assign_to_key_group(key, MAX_PARALLELISM) in self.backend.key_group_range

    def run_mail(self) -> None:
        """All that waits."""
        while self.mailbox.has_mail():
            self.mailbox.take().action()

    def advance(self, to_ms: int) -> None:
        """Let it be `to_ms`, and run what falls due at each instant."""
        while True:
            self.run_mail()
            due_ms = self.loop.next_due_ms()
            if due_ms is None or due_ms > to_ms:
                break
            self.loop.advance(due_ms)
            self.loop.run_ready()
        self.loop.advance(to_ms)
