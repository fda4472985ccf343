"""What the engine asks of a level of fidelity: its needs, how it makes a run, and the run while it goes on.

Answers to Jepsen's `Client` and `DB`. The engine asks a level what it can do, never which one it is. `poll`
of an execution never blocks, and after `stop` no process of it does work any more, superseded ones included.
An `Observer` is told of phases and may ask to stop; it changes nothing of what it sees, and a stop ends a
campaign early, never a run halfway judged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from harness.checkers.judge import judge
from harness.engine.refusals import refuse_at_level
from harness.errors import UsageError
from harness.faults.real.fault_site import Workers
from harness.history.event import Event
from harness.history.header import Header
from harness.runs.order import Order
from harness.runs.outcome import FaultRecord, Pitfall, WorldDescription
from harness.runs.plan import RunPlan
from harness.verdict import Judgement

__all__ = [
    "ATTEMPTS_MAX",
    "Execution",
    "ExecutionState",
    "Level",
    "LevelRunner",
    "Levels",
    "Observer",
    "Opening",
    "Play",
    "ProcessEnd",
    "Record",
    "Site",
    "Stop",
    "refuse",
]


class Stop(threading.Event):
    """Set from outside (Ctrl-C) to end a run early, with all that it owes."""


class Observer:
    """Told how a run goes; the silent one. `harness.cli.campaigning` has those that speak."""

    def phase(self, name: str, text: str) -> None:
        """A phase begins, a fault is armed or healed: worth a line."""

    def standing(
        self, *, in_flight: int, lag: int, epoch: int, faults: Mapping[str, bool], elapsed_s: float
    ) -> None:
        """How it stands now: `faults` are those that act, and whether each bites; a few times a second."""


ATTEMPTS_MAX = 4
"""Failures and kills that a subtask may have; with the last one the run has failed. Spark's default too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """A worker's process as it was reaped."""

    subtask: int
    pid: int
    code: int
    """Its exit code, or the signal that ended it, negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionState:
    """Whether it still runs, and why it stopped early if it did."""

    running: bool
    error: str | None = None
    ends: tuple[ProcessEnd, ...] = ()
    """The processes that were reaped since the last look, where this level reaps them itself."""


class Execution(Workers, Protocol):
    """A run under way."""

    def poll(self) -> ExecutionState:
        """Restart what died, reap what ended, and say how it stands."""

    def stop(self) -> None:
        """End every attempt, within a few seconds."""


class LevelRunner(Protocol):
    """Starts runs at one level (`live`, `spark`)."""

    def start(self, plan: RunPlan, *, subtasks: int, logs: Path) -> Execution:
        """Begin all subtasks of `plan`; what they print goes to files in `logs`."""


if TYPE_CHECKING:
    from harness.world.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where one run is made, and who looks on."""

    run_id: str
    folder: Path
    """Of this run alone; raw events, logs and the history are left there."""
    world: World | None = None
    """None: the level needs no world."""
    observer: Observer = field(default_factory=Observer)
    stop: Stop = field(default_factory=Stop)
    limit_s: float | None = None
    """Shortens the scenario's own budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a run left, not yet judged; times are those of its history."""

    header: Header
    events: Sequence[Event]
    whole: bool
    """Whether it ran to its end and nothing that was recorded is missing: otherwise it is never a pass."""
    error: str | None
    """Why it stopped early, if it did."""
    interrupted: bool = False
    ran_us: int
    """When it was over, by `clock.monotonic_us`."""
    world: WorldDescription
    faults: tuple[FaultRecord, ...]
    accounting: Mapping[str, int]
    """Counted in the tables, beside the checkers."""
    threats: tuple[str, ...] = ()
    pitfalls: tuple[Pitfall, ...] | None = None
    """None: this level does not record what a pitfall shows in."""
    judge: Callable[[Header, Sequence[Event]], Judgement] = judge
    """A planted defect may be one of the judge."""


Play = Callable[[Order, Site], Record]
"""Makes one run. Raises CannotHere, before anything is done, if the world has no means for a fault; WorldError if the
world breaks under the harness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a level may need while it is open."""

    lanes: int = 1
    """Runs at a time, at most."""
    folder: Path = Path()
    """For files of its own; its parent outlives it."""
    note_process: Callable[[int], None] = lambda pid: None
    """Is given the pid of everything that is started."""
    announce: Callable[[str], None] = lambda text: None


class Level(Protocol):
    """One level of fidelity."""

    @property
    def name(self) -> str:
        """As scenario files list it."""

    @property
    def needs_world(self) -> bool:
        """Whether a run needs a database and a proxy to itself; such runs are threads of one process."""

    @property
    def repeatable(self) -> bool:
        """Whether equal orders give equal bytes: very many runs are then only counted, in forked processes."""

    def refuse(self, order: Order) -> None:
        """Raise UsageError for what only this level cannot run."""

    def open(self, opening: Opening) -> AbstractContextManager[Play]:
        """What makes runs, while the block lasts."""


Levels = Callable[[str], Level]
"""The level of that name."""


def refuse(order: Order, level: Level) -> None:
    """Raise UsageError if `order` cannot be run at `level`: not listed by the file, or a fault has no means there."""
    scenario = order.scenario
    refuse_at_level(scenario, level.name)
    if level.name not in scenario.levels:
        message = f"scenario {scenario.scenario} does not run at level {level.name}"
        raise UsageError(message, fix=f"choose --level {' or '.join(scenario.levels)}")
    level.refuse(order)
