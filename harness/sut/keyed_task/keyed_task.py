"""A keyed task: what a scenario's `task:` puts around the lookups of one subtask, at every level.

Answers to a job graph's vertex with two inputs and a chain of two operators. Invariant: it adds parts and replaces
none: source, lookups, coordination and sink are those of a task without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from harness.sut.keyed_task.keyed_chain import BuildLookups, KeyedChain
from harness.sut.keyed_task.merged_inputs import MergedInputs
from harness.sut.keyed_task.parts import HONEST_PARTS, KeyedParts
from harness.sut.keyed_task.session_counter import SessionCounter
from harness.sut.phases import Phases
from harness.workloads.inputs import Inputs
from reference_impl.elements import OperatorInput
from reference_impl.mailbox import Mailbox
from reference_impl.mailbox_executor import MailboxExecutor
from reference_impl.source_task import Checkpoint, ClosableOperator, Coordinator, Source
from reference_impl.timers import Timers

__all__ = ["KeyedTask", "Wired", "wired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedTask:
    """Of one subtask."""

    inputs: Inputs
    gap_ms: int
    parts: KeyedParts = HONEST_PARTS

    def merged(
        self, source: Source, *, phases: Phases, timers: Timers, executor: MailboxExecutor
    ) -> MergedInputs:
        """`source`, as it comes over the inputs."""
        return MergedInputs(
            source, inputs=self.inputs, parts=self.parts, phases=phases, timers=timers, executor=executor
        )

    def chain(
        self,
        *,
        phases: Phases,
        lookups: BuildLookups,
        mailbox: Mailbox,
        timers: Callable[[MailboxExecutor], Timers],
        emit: Callable[[OperatorInput], None],
        fail: Callable[[BaseException], None],
    ) -> KeyedChain:
        """The operator with state by key, with the lookups behind it."""
        return KeyedChain(
            function=SessionCounter(gap_ms=self.gap_ms, phases=phases),
            inputs=self.inputs,
            parts=self.parts,
            lookups=lookups,
            mailbox=mailbox,
            timers=timers,
            emit=emit,
            fail=fail,
        )


class _Coordination(Coordinator, Protocol):
    """Who coordinates, and takes what is emitted."""

    def emit(self, element: OperatorInput) -> None:
        """An element leaves the last operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """What a `SourceTask` is built from."""

    operator: ClosableOperator
    source: Source
    coordinator: Coordinator


def wired(
    keyed: KeyedTask | None,
    *,
    lookups: BuildLookups,
    source: Source,
    coordination: _Coordination,
    phases: Phases,
    mailbox: Mailbox,
    executor: MailboxExecutor,
    timers: Timers,
    timers_of: Callable[[MailboxExecutor], Timers],
    fail: Callable[[BaseException], None],
) -> Wired:
    """The parts of a task with what `keyed` puts around them; None: as they are, the lookups alone in their chain."""
    if keyed is None:
        operator = lookups(executor=executor, timers=timers, emit=coordination.emit, fail=fail)
        return Wired(operator=operator, source=source, coordinator=coordination)
    chain = keyed.chain(
        phases=phases,
        lookups=lookups,
        mailbox=mailbox,
        timers=timers_of,
        emit=coordination.emit,
        fail=fail,
    )
    merged = keyed.merged(source, phases=phases, timers=timers, executor=executor)
    return Wired(operator=chain, source=merged, coordinator=_CutAtBarriers(coordination, merged))


class _CutAtBarriers:
    """`coordinator`, to whom a source says where its barriers stood, as each source of a real job does itself."""

    def __init__(self, coordinator: Coordinator, merged: MergedInputs) -> None:
        self._coordinator = coordinator
        self._merged = merged

    def completes(self, checkpoint: Checkpoint) -> None:
        """The last one has no barriers: it is at the end."""
        stood_at = self._merged.cut_at(checkpoint.number)
        if stood_at is not None:
            checkpoint = replace(checkpoint, position=stood_at)
        self._coordinator.completes(checkpoint)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coordinator, name)
