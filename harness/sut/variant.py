"""Variant: what a planted defect replaces; the default of every part is the honest one.

Answers to mutation testing. Most parts are functions from the honest class to the one that is used, so that a defect
is a subclass of whatever class the run calls for. Invariant: a variant changes what is under test, or what the harness
does around it, and draws no random number: equal seeds stay equal runs.

A function that makes a class is asked once an attempt: `made_once` keeps what it made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar, Unpack, cast

from harness.sut.keyed_parts import HONEST_PARTS, KeyedParts
from harness.sut.registry import REFERENCE, REFERENCE_EMITTER, LookupFunction
from reference_impl.flip12.wait_operator import build_operator as build_emitter_operator
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers
from reference_impl.operator.build import Mode, Parts, build_operator
from reference_impl.operator.functions import AsyncFunction

__all__ = [
    "HONEST",
    "BuildMailbox",
    "BuildTaskOperator",
    "BuildTimers",
    "HasJournal",
    "Kind",
    "Variant",
    "made_once",
    "operator_builder",
    "same",
]

T = TypeVar("T")
Kind = type[Any]
"""A class whose base is known only when it is made."""


class BuildTaskOperator(Protocol):
    """Builds an operator that a task can drive, of whatever design."""

    def __call__(self, *, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> Any:
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
        """`wall_ns` is the wall clock, which faults set; the loop has the monotonic one."""


class HasJournal(Protocol):
    """The attempt that a function is called in, as far as a defect looks at it."""

    @property
    def journal(self) -> Any:
        """Where the attempt writes down what it does."""


def same(honest: T) -> T:
    """The honest part itself."""
    return honest


def made_once(make: Callable[[Kind], Kind]) -> Callable[[Kind], Kind]:
    """`make`, which gives the same class for the same honest class."""
    return cast("Callable[[Kind], Kind]", cache(make))


def _same_function(honest: AsyncFunction, attempt: HasJournal) -> AsyncFunction:
    del attempt
    return honest


def _monotonic_timers(
    loop: asyncio.AbstractEventLoop, executor: MailboxExecutor, *, wall_ns: Callable[[], int]
) -> Timers:
    del wall_ns
    return Timers(loop, executor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The parts of a run. `type -> type` means: given the honest class, the one to use."""

    build_operator: BuildTaskOperator = build_operator
    build_mailbox: BuildMailbox = Mailbox
    timers: BuildTimers = _monotonic_timers
    task: Callable[[Kind], Kind] = same
    """Of `harness.engine.subtask.Subtask`."""
    coordination: Callable[[Kind], Kind] = same
    """Of `harness.sut.coordination.Coordination`, or of the one that the sink calls for."""
    sink: Callable[[Kind], Kind] = same
    """Of the sink's class in `harness.database`."""
    store: Callable[[Kind], Kind] = same
    """Of `harness.database.checkpoint_store.CheckpointStore`."""
    coordinator: Callable[[Kind], Kind] = same
    """Of `harness.database.coordinator.Coordinator`."""
    pool: Callable[[Kind], Kind] = same
    """Of `harness.database.pool.ConnectionPool`."""
    lookup: Callable[[LookupFunction], LookupFunction] = same
    """Around `async def lookup(record, pool)`."""
    function: Callable[[AsyncFunction, HasJournal], AsyncFunction] = _same_function
    """Around the function that the operator calls: outermost, after faults and dead letters."""
    source: Callable[[Any], Any] = same
    """Around a subtask's source (an object, not a class)."""
    recorder: Callable[[Kind], Kind] = same
    """Of what the attempt's journal writes with; one that loses lines overrides `_write`."""
    judge: Callable[[Callable[..., Any]], Callable[..., Any]] = same
    """Of `harness.checkers.judge.judge`, called with header and events."""
    arms_faults: bool = True
    """False: no fault is ever armed, though the scenario names some."""
    linger_ms: int = 0
    """How long an attempt's loop turns on after its operator has closed, before its pool closes."""
    keyed: KeyedParts = HONEST_PARTS
    """Of a scenario's `task:`."""
    bypasses_proxy: bool = False
    """True: connections of the lookups do not cross the link on which faults act."""
    has_output_key: bool = True
    """False: the table of an idempotent sink has no unique key."""


HONEST = Variant()


def operator_builder(variant: Variant, *, sut: str = REFERENCE) -> BuildTaskOperator:
    """What builds the operator of the system under test: the emitter has a design of its own, and no defects."""
    return build_emitter_operator if sut == REFERENCE_EMITTER else variant.build_operator
