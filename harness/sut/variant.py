"""Variant: the parts of a run that a planted defect may replace; the default of each is the correct part.

Answers to mutation testing. Most parts are functions that map the correct class to the class to use, so that a defect
can subclass the class that the run needs. Invariant: a variant draws no random number, so equal seeds give equal runs.

Functions that create a class are called for each attempt; `made_once` caches the class.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar, Unpack, cast

from harness.history.journal import Journal
from harness.sut.registry import REFERENCE, REFERENCE_EMITTER, LookupFunction
from harness.sut.rescaling import HONEST_PARTS, KeyedParts, Rescaling
from reference_impl.flip12.wait_operator import build_operator as build_emitter_operator
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.build import Mode, Parts, build_operator
from reference_impl.operator.functions import AsyncFunction
from reference_impl.task.operator_chain import AsyncOperator

T = TypeVar("T")
Kind = type[Any]
"""A class whose base class is known only at run time."""


class BuildTaskOperator(Protocol):
    """Builds an operator that a task can drive."""

    def __call__(self, *, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncOperator:
        """An operator of that mode and capacity."""


class BuildMailbox(Protocol):
    """Builds a task's mailbox, for the thread that calls it."""

    def __call__(self, *, loop: asyncio.AbstractEventLoop) -> Mailbox:
        """The mailbox of a task whose event loop is `loop`."""


class BuildTimers(Protocol):
    """Builds the timers of a task."""

    def __call__(
        self, loop: asyncio.AbstractEventLoop, executor: MailboxExecutor, *, wall_ns: Callable[[], int]
    ) -> Timers:
        """`wall_ns`: the wall clock, which faults may shift; the loop has the monotonic clock."""


class HasJournal(Protocol):
    """The attempt around a function, as planted defects see it."""

    @property
    def journal(self) -> Journal:
        """The attempt's journal."""


def same(honest: T) -> T:
    """Returns the correct part unchanged."""
    return honest


def made_once(make: Callable[[Kind], Kind]) -> Callable[[Kind], Kind]:
    """Caches `make`, so that it returns the same class for the same argument."""
    return cast("Callable[[Kind], Kind]", cache(make))


def _monotonic_timers(
    loop: asyncio.AbstractEventLoop, executor: MailboxExecutor, *, wall_ns: Callable[[], int]
) -> Timers:
    del wall_ns
    return Timers(loop, executor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The replaceable parts of a run. A function `Kind -> Kind` maps the correct class to the class to use."""

    build_operator: BuildTaskOperator = build_operator
    build_mailbox: BuildMailbox = Mailbox
    timers: BuildTimers = _monotonic_timers
    task: Callable[[Kind], Kind] = same
    """For `harness.engine.subtask.Subtask`."""
    coordination: Callable[[Kind], Kind] = same
    """For `harness.sut.coordination.AtomicCoordination`, or the coordination of the chosen sink."""
    sink: Callable[[Kind], Kind] = same
    """For the sink's class in `harness.database`."""
    store: Callable[[Kind], Kind] = same
    """For `harness.database.checkpoint_store.CheckpointStore`."""
    coordinator: Callable[[Kind], Kind] = same
    """For `harness.database.coordinator.Coordinator`."""
    pool: Callable[[Kind], Kind] = same
    """For `harness.database.pool.ConnectionPool`."""
    lookup: Callable[[LookupFunction], LookupFunction] = same
    """Wraps `async def lookup(record, pool)`."""
    function: Callable[[AsyncFunction, HasJournal], AsyncFunction] = lambda honest, attempt: honest
    """Wraps the function that the operator calls; outermost, around faults of calls and dead letters."""
    source: Callable[[Any], Any] = same
    """Wraps a subtask's source (an object, not a class)."""
    recorder: Callable[[Kind], Kind] = same
    """For the recorder of an attempt's journal; a defect that loses lines overrides `_write`."""
    judge: Callable[[Callable[..., Any]], Callable[..., Any]] = same
    """Wraps `harness.judge.checkers.judge.judge`, which is called with header and events."""
    arms_faults: bool = True
    """False: the scenario's faults are never injected."""
    linger_ms: int = 0
    """How long an attempt's loop runs on between the close of its operator and of its pool."""
    rescaling: type[Rescaling] = Rescaling
    """Splits the state of subtasks among those that follow them."""
    keyed: KeyedParts = HONEST_PARTS
    """The parts of a scenario's `task`."""
    bypasses_proxy: bool = False
    """True: the lookups connect to the server directly, so link faults do not affect them."""
    lookups_from_replica: bool = False
    """True: the lookups ask the replica, whatever the scenario says."""
    sink_past_proxy: bool = False
    """True: the sink connects to the server that was the primary at the beginning, wherever the links lead."""
    has_output_key: bool = True
    """False: the table of an idempotent sink has no unique key."""


HONEST = Variant()


def operator_builder(variant: Variant, *, sut: str = REFERENCE) -> BuildTaskOperator:
    """The builder of the operator of the system under test; the emitter design has no planted defects."""
    return build_emitter_operator if sut == REFERENCE_EMITTER else variant.build_operator
