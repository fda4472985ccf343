"""Variant: what a planted defect may replace at level sim; the default of every part is the honest one.

Answers to mutation testing. Most parts are functions from the honest part to the one that is used, so that a
defect is a subclass or wrapper of whatever the situation calls for. Invariant: a variant changes what is under
test, or what the harness does around it, and never draws: equal seeds stay equal situations.

A function that makes a class should be cached (`functools.cache`): it is asked once an attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack

from harness.sut.keyed_task.parts import HONEST_PARTS, KeyedParts
from reference_impl.async_wait_build import Mode, Parts, build_operator
from reference_impl.mailbox import Mailbox
from reference_impl.mutants.mailbox_eras import BuildMailbox
from reference_impl.task.async_link import AsyncOperator
from reference_impl.timers import Timers

if TYPE_CHECKING:
    from harness.sim.attempt import Attempt
    from reference_impl.async_function import AsyncFunction

__all__ = ["HONEST", "BuildTaskOperator", "Variant", "same"]

T = TypeVar("T")


class BuildTaskOperator(Protocol):
    """Builds an operator that a task can drive, of whatever design."""

    def __call__(self, *, mode: Mode, capacity: int, **parts: Unpack[Parts]) -> AsyncOperator:
        """An operator of that mode and capacity."""


def same(honest: T) -> T:
    """The honest part itself."""
    return honest


def _same_function(honest: AsyncFunction, attempt: Attempt) -> AsyncFunction:
    del attempt
    return honest


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The parts of a run. `type -> type` means: given the honest class, the one to use."""

    build_operator: BuildTaskOperator = build_operator
    build_mailbox: BuildMailbox = Mailbox
    timers: type[Timers] = Timers
    """Built as `timers(loop, executor)`; a `loop` of level sim also has `wall_ns`, the clock that jumps."""
    task: Callable[[type[Any]], type[Any]] = same
    """Of `harness.engine.subtask.Subtask`."""
    coordination: Callable[[type[Any]], type[Any]] = same
    """Of `harness.sut.coordination.Coordination`, or of the sink's own."""
    sink: Callable[[type[Any]], type[Any]] = same
    """Of the sink that the situation calls for; `kind` is a class attribute of each."""
    coordinator: Callable[[type[Any]], type[Any]] = same
    """Of the global coordinator of sinks that need one."""
    client: Callable[[type[Any]], type[Any]] = same
    """Of `harness.sim.client.Client`: an attempt's pool of connections to the database."""
    function: Callable[[AsyncFunction, Attempt], AsyncFunction] = _same_function
    """Around the user's function; the attempt knows its number, its executor, and `run.shared`."""
    source: Callable[[Any], Any] = same
    """Around a subtask's source (an object, not a class)."""
    journal: Callable[[type[Any]], type[Any]] = same
    """Of `harness.sim.buffer_journal.BufferJournal`; a recorder that loses events overrides `_write`."""
    judge: Callable[[Callable[..., Any]], Callable[..., Any]] = same
    """Of `harness.checkers.judge.judge`, called with header and events."""
    effects: Callable[[type[Any]], type[Any]] = same
    """Of `harness.sim.effects.EffectTable`."""
    dead_letters: Callable[[type[Any]], type[Any]] = same
    """Of what routes a record to the dead letters."""
    arms_faults: bool = True
    """False: no fault is ever armed, though the scenario names some."""
    linger_ms: int = 0
    """How long an attempt that has closed lives on, at least."""
    keyed: KeyedParts = HONEST_PARTS
    """Of a scenario's `task:`; the same at every level."""
    bypasses_proxy: bool = False
    """True: connections of the lookups do not cross the link on which faults act."""


HONEST = Variant()
