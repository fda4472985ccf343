"""Level `job-sim`: a user's job in virtual time, run and judged by the code of level `job`.

Invariants: equal orders give equal histories; a job that leaves virtual time is refused with the line that does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import ClassVar, Final

from harness.engine.canaries import refuse_blindness
from harness.engine.level import Opening, OutsideRecord, RunSite, refuse_in_world
from harness.judge.canaries.canary import canaries, overlooked
from harness.judge.checkers.outside.judge import judge_outside
from harness.levels.job.job_scenario import JobScenario
from harness.levels.job.level import JobLevel, command_of
from harness.levels.job.order import JobOrder
from harness.levels.sim.real_tables import make_bridgeable
from harness.levels.virtual.host import CalmTold, Host, Place
from harness.levels.virtual.inside import is_python
from harness.levels.virtual.world import ServerAt
from harness.system.errors import CannotHere, SutError, UsageError, WorldError
from harness.system.whole_file import temporary_folder
from harness.world.mysql_server import BINLOG, LOCK_WAITS
from harness.world.setup.opening import open_world
from harness.world.world import World

_LACKS: Final = {
    "server-process": "a server that may be killed",
    "replica": "two servers",
    "small-disk": "a server that may be stopped",
    "server-clock": "a server of its own",
}


def refuse_real_time(scenario: JobScenario) -> None:
    """Raises CannotHere if it needs what there is none of in virtual time, as a server that may be killed."""
    try:
        refuse_in_world(scenario, _LACKS)
    except CannotHere as lacking:
        raise CannotHere(lacking.what, fix="leave --level out", need="real time") from None
    if scenario.has_two_servers:
        message = f"scenario {scenario.scenario} cannot run here: its lookups go to a replica"
        raise CannotHere(message, fix="leave --level out", need="real time")


def needs_real_time(scenario: JobScenario) -> bool:
    """Whether `refuse_real_time` refuses it."""
    try:
        refuse_real_time(scenario)
    except CannotHere:
        return True
    return False


def leaves_virtual_time(order: JobOrder, *, world: str) -> str:
    """Why the job cannot run in virtual time, found by a run without faults; empty if it can."""
    level = VirtualJobLevel()
    try:
        level.refuse(order)
        with level.open(Opening(world=world)) as plays:
            plays.calm_twin(order, RunSite(run_id="", folder=Path()))
    except (UsageError, SutError, WorldError) as error:
        return error.what
    return ""


class VirtualPlays:
    """Makes the runs of a campaign, each in a host that is free. Mutable; any thread may call it.

    Each host has a server of its own: a fault may set what all sessions of a server see, as `read_only`.
    """

    def __init__(self, opening: Opening, *, stack: ExitStack) -> None:
        self._opening = opening
        self._stack = stack
        self._folder = stack.enter_context(temporary_folder("floodmark-hosts-"))
        self._free = [self._new(announce=opening.announce)]
        self._lock = Lock()

    def _new(self, *, announce: Callable[[str], None] = lambda text: None) -> Host:
        opening = self._opening
        kind = "auto" if opening.world == "simulated" else opening.world
        needs = frozenset({BINLOG, LOCK_WAITS})
        real = self._stack.enter_context(open_world(kind, needs=needs, announce=announce))
        make_bridgeable(real)
        at = ServerAt(
            description=real.description,
            direct=real.direct,
            app=real.app,
            root=real.root,
            flavour=real.server.flavour,
            lacks=real.lacks,
        )
        host = Host(at, folder=self._folder, note_process=opening.note_process)
        self._stack.callback(host.close)
        return host

    def __call__(self, order: JobOrder, site: RunSite) -> OutsideRecord:
        refuse_real_time(order.scenario)
        with self._host() as host:
            place = Place(folder=site.folder, limit_s=site.limit_s)
            return host.play(order, place, observer=site.observer, stop=site.stop)

    def calm_twin(self, order: JobOrder, site: RunSite) -> CalmTold:
        """What its calm twin has sent."""
        with self._host() as host:
            return host.calm(order, observer=site.observer)

    @contextmanager
    def _host(self) -> Iterator[Host]:
        with self._lock:
            host = self._free.pop() if self._free else self._new()
        try:
            yield host
        finally:
            with self._lock:
                self._free.append(host)


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualJobLevel:
    """Implements `Level`."""

    name: ClassVar[str] = "job-sim"
    needs_world: ClassVar[bool] = False
    in_threads: ClassVar[bool] = True
    repeatable: ClassVar[bool] = False

    def refuse(self, order: JobOrder) -> None:
        """As level `job`, and what is no Python."""
        JobLevel().refuse(order)
        program = command_of(order)
        if not is_python(program):
            message = f"virtual time follows jobs in Python alone, and the command is {program[0]}"
            raise UsageError(message, fix="leave --level out")

    def refuse_blindness(self, world: World | None) -> None:
        """See `Level`: the judge is that of level `job`."""
        del world
        refuse_blindness(list(overlooked(judge_outside, canaries("jobs"))), level=self.name)

    @contextmanager
    def open(self, opening: Opening) -> Iterator[VirtualPlays]:
        """Processes that make the runs, each with a real server."""
        with ExitStack() as stack:
            yield VirtualPlays(opening, stack=stack)
