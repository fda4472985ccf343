"""The interface between the engine and the levels (`sim`, `live`, `spark`).

Answers to Jepsen's `Client` and `DB`. Invariants: the engine asks a level for its properties, never for its name;
`Execution.poll` does not block; after `Execution.stop` no process of the run works any more, replaced ones included; an
observer does not influence a run; a stop ends a campaign early, but a finished run is still judged completely.

Refuses a scenario before the run if a level or a world cannot perform one of its faults.

Answers to Jepsen's optional protocols (`Kill`, `Pause`), which are checked before a test starts. Invariant: a fault
that could do nothing is refused with a message that says where it can act.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any, Protocol

from harness.database.table_editor import TableEditor
from harness.faults.real.fault_site import Workers
from harness.history.event import Event
from harness.history.header import Header
from harness.history.outside import OutsideEvent, OutsideHeader
from harness.history.verdict import Judgement
from harness.judge.checkers.judge import judge
from harness.scenario.model import Scenario
from harness.scenario.order import AnyOrder, AnyScenario, Order
from harness.scenario.outcome import FaultRecord, Pitfall, WorldDescription
from harness.scenario.plan import JudgedValues, RunPlan
from harness.sut.registry import needs_a_server
from harness.system.errors import CannotHere, UsageError
from harness.system.levels import OPERATOR_LEVELS


def refuse_at_level(scenario: Scenario, level: str) -> None:
    """Raises CannotHere if a fault of `scenario` cannot act at `level`."""
    sentences = [
        f"`{fault.do}` (fault {fault.id}) cannot be done at level {level}"
        for fault in scenario.faults
        if level not in fault.levels
    ]
    able = [level for level in OPERATOR_LEVELS if all(level in fault.levels for fault in scenario.faults)]
    _refuse(scenario, sentences, fix=f"choose --level {' or '.join(able)}")


def refuse_in_world(scenario: AnyScenario, lacks: Mapping[str, str]) -> None:
    """Raises CannotHere if a fault needs an ability that the world lacks; `lacks` says for each where to get it."""
    sentences = [
        f"`{fault.do}` (fault {fault.id}) needs {lacks[ability]}"
        for fault in scenario.faults
        for ability in fault.abilities
        if ability in lacks
    ]
    _refuse(
        scenario, sentences, fix="choose a world and a proxy that have it, or a scenario without this fault"
    )


def _refuse(scenario: AnyScenario, sentences: list[str], *, fix: str) -> None:
    if sentences:
        raise CannotHere(f"scenario {scenario.scenario} cannot run here: {'; '.join(sentences)}", fix=fix)


class Stop(threading.Event):
    """Set from outside (Ctrl-C) to end a run early; faults are still healed and results reported.

    While something is set up (`setting_up`), there is nothing to report: the signal raises KeyboardInterrupt there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_setting_up = False

    @contextmanager
    def setting_up(self) -> Iterator[None]:
        """Whether a signal ends the set-up at once; only in the main thread, which gets signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.is_setting_up = True
        try:
            yield
        finally:
            self.is_setting_up = False


class Observer:
    """Receives the progress of a run. This one ignores it; `harness.cli.run_campaign` has observers that print."""

    def phase(self, name: str, text: str) -> None:
        """A phase begins, or a fault is armed or healed."""

    def standing(
        self, *, in_flight: int, lag: int, epoch: int, faults: Mapping[str, bool], elapsed_s: float
    ) -> None:
        """The present state, a few times a second; `faults`: the active faults, and whether each has evidence."""

    def counted(self, *, done: int, asked: int, unexpected: int | None = None) -> None:
        """Of `asked` repeatable runs or trials `done` have ended; `unexpected`: those not as expected, if known."""


ATTEMPTS_MAX = 4
"""The number of failed attempts of a subtask after which the run fails; Spark's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """The end of a worker's process."""

    subtask: int
    pid: int
    code: int
    """Its exit code, or the negative number of the signal that ended it."""


def ending_of(code: int) -> str:
    """How a worker's process ended that left no message, in words."""
    if code < 0:
        return f"the worker's process was ended by {Signals(-code).name}"
    return f"the worker's process ended with exit code {code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionState:
    """Whether the run still goes on, and why it ended early if it did."""

    running: bool
    error: str | None = None
    ends: tuple[ProcessEnd, ...] = ()
    """The processes that ended since the last poll, if this level reaps them itself."""


class Execution(Workers, Protocol):
    """A run that has been started."""

    def poll(self) -> ExecutionState:
        """Restarts dead attempts, reaps ended processes, and returns the state."""

    def stop(self) -> Collection[int]:
        """Ends every attempt, within a few seconds; returns the pids of the processes that it killed."""


class LevelRunner(Protocol):
    """Starts runs at one level with processes (`live`, `spark`)."""

    def start(self, plan: RunPlan, *, subtasks: int, logs: Path) -> Execution:
        """Starts all subtasks of `plan`; their output goes to files in `logs`."""


if TYPE_CHECKING:
    from harness.world.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSite:
    """The folder, world and observer of one run."""

    run_id: str
    folder: Path
    """The run's own folder, for raw events, logs and the history."""
    world: World | None = None
    """None: the level needs no world."""
    observer: Observer = field(default_factory=Observer)
    stop: Stop = field(default_factory=Stop)
    limit_s: float | None = None
    """A limit in addition to the scenario's own budget."""
    keeps_database: bool = False
    """Whether the run's database stays on the world's server."""
    before_reading: Callable[[TableEditor], None] | None = None
    """Called after the run, before its tables are read, with a hand on them: for canaries and tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What is known of a run besides its history, before it is judged; times are those of its history."""

    whole: bool
    """Whether it ran to its end and no recorded line is missing; otherwise it cannot pass."""
    error: str | None
    """Why it ended early, if it did."""
    interrupted: bool = False
    ran_us: int
    """When it ended, by `clock.monotonic_us`."""
    world: WorldDescription
    faults: tuple[FaultRecord, ...]
    accounting: Mapping[str, int]
    """Counts from the database tables, independent of the checkers; `perform.judged` compares them with the verdict."""
    threats: tuple[str, ...] = ()
    pitfalls: tuple[Pitfall, ...] | None = None
    """None: this level does not record the data to detect pitfalls."""
    values: JudgedValues | None = None
    """How the expected results of a user's lookup or job were found; None: for our own."""

    @property
    def all_pitfalls(self) -> tuple[Pitfall, ...]:
        """The pitfalls shown by the calls of the run and by the calm answers."""
        return (*(self.pitfalls or ()), *(self.values.pitfalls if self.values else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(Ran):
    """The recorded result of a run of the operator."""

    header: Header
    events: Sequence[Event]
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Further facts for the report: under the key `cluster`, where each attempt ran."""
    judge: Callable[[Header, Sequence[Event]], Judgement] = judge
    """The function that judges the run; a planted defect may replace it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideRecord(Ran):
    """The recorded result of a run of a user's job, seen from outside."""

    header: OutsideHeader
    events: Sequence[OutsideEvent]
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Further facts for the report, under the key `job`."""
    judge: Callable[[OutsideHeader, Sequence[OutsideEvent]], Judgement]
    """The function that judges the run."""


Play = Callable[[Any, RunSite], RunRecord | OutsideRecord]
"""Makes one run of an order of its level's kind. Raises CannotHere before it starts if the world lacks an ability that
a fault needs, and WorldError if the world fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The resources that a level gets when it is opened."""

    lanes: int = 1
    """The largest number of parallel runs."""
    folder: Path = Path()
    """A folder for its own files."""
    note_process: Callable[[int], None] = lambda pid: None
    """Called with the pid of each process that is started."""
    note_mark: Callable[[str], None] = lambda mark: None
    """Called with a mark before processes start that have it in their environment, as `NAME=VALUE`."""
    announce: Callable[[str], None] = lambda text: None
    has_server: bool = False
    """Whether level sim opens a real server, for the runs that ask one (`asks_a_server`)."""
    world: str = "auto"
    """The kind of that server's world."""


class Level(Protocol):
    """One level at which scenarios run."""

    @property
    def name(self) -> str:
        """Its name in scenario files."""

    @property
    def needs_world(self) -> bool:
        """Whether each run needs its own database and proxy; such runs are threads of one process."""

    @property
    def in_threads(self) -> bool:
        """Whether several of its runs may be made at once by threads of one process."""

    @property
    def repeatable(self) -> bool:
        """Whether equal orders give equal histories, so that many runs can be counted in forked processes."""

    def refuse(self, order: Any) -> None:
        """Raises UsageError if this level cannot run the order, one of its own kind."""

    def refuse_blindness(self, world: World | None) -> None:
        """Takes the canaries along the way of a run. Raises HarnessError with those that the harness overlooks."""

    def open(self, opening: Opening) -> AbstractContextManager[Play]:
        """The function that makes runs, while the block lasts."""


Levels = Callable[[str], Level]
"""Finds a level by its name."""


def asks_a_server(order: AnyOrder) -> bool:
    """Whether its lookup's SQL goes to a real server at level sim, too. Raises as `load_lookup`."""
    if not isinstance(order, Order):
        return False
    scenario = order.scenario
    is_real = scenario.sql == "real" or (scenario.sql is None and scenario.own_schema is not None)
    return is_real or needs_a_server(order.sut)


def refuse(order: AnyOrder, level: Level) -> None:
    """Raises UsageError if `order` cannot run at `level`: the file does not list it, or a fault cannot act there."""
    if isinstance(order, Order):
        scenario = order.scenario
        refuse_at_level(scenario, level.name)
        if level.name not in scenario.levels:
            message = f"scenario {scenario.scenario} does not run at level {level.name}"
            raise UsageError(message, fix=f"choose --level {' or '.join(scenario.levels)}")
        if scenario.sql is not None:
            _refuse_sql(order, level)
        if scenario.own_schema is not None:
            _refuse_own_tables(order)
    level.refuse(order)


def _refuse_sql(order: Order, level: Level) -> None:
    """Refuse an `sql` that this run cannot have."""
    sql = order.scenario.sql
    if sql == "model" and level.needs_world:
        message = f"--sql model is SQLite at level sim, and a run at level {level.name} has a real server"
        raise UsageError(message, fix="leave --sql out, or run it with --level sim")
    if sql == "model" and needs_a_server(order.sut):
        message = f"--sut {order.sut} brings its own client, which SQLite cannot answer"
        raise UsageError(message, fix="leave --sql out")
    if sql == "real" and not level.needs_world and ":" not in order.sut:
        message = f"--sql real is for a lookup of your own, and the statements of {order.sut} are known"
        raise UsageError(message, fix="leave --sql out, or name your lookup: --sut MODULE:ATTR")


def _refuse_own_tables(order: Order) -> None:
    """Refuse own tables that this run cannot have; reads their files, to find a mistake before anything starts."""
    schema = order.scenario.own_schema
    assert schema is not None, "the scenario names a schema"
    if ":" not in order.sut:
        message = f"--sut {order.sut} reads the table `customer`, not those of {schema}"
        raise UsageError(message, fix="name your own lookup: --sut MODULE:ATTR")
    if order.scenario.sql == "model":
        message = f"{schema} makes tables in a real server, and --sql model has none"
        raise UsageError(message, fix="leave --sql out")
    from harness.database.own_tables import read_own_tables  # noqa: PLC0415 - pulls in a database's client

    read_own_tables(schema, order.scenario.data or ())
