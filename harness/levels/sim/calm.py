"""The calm twin at level sim: a simulated database with the run's rows, and no fault, in virtual time."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import Any, Final

from harness.database.simulated.controls import executor_of
from harness.database.simulated.hub import Actor, Hub
from harness.database.simulated.link import SimulatedLink
from harness.database.simulated.server import SimulatedServer
from harness.database.simulated.tables import Customers, SimulatedTables
from harness.database.simulated.tape import MemoryRecorder, Tape
from harness.judge.checkers.judge import uncollected
from harness.levels.sim.child import in_child
from harness.levels.sim.drivers import AsyncSimulatedDriver
from harness.levels.sim.subtask_loop import SubtaskLoop, outer_loop_kept
from harness.sut.calm_twin import CalmTwin, Questions
from harness.sut.registry import load_lookup
from harness.system.choices import Draw

_LIMIT_MS: Final = 3_600_000
_STEPS_MAX: Final = 4_000_000
_CHILD_S: Final = 120.0
"""How long all calls may take in real time: virtual time has its own, much shorter limit."""


def ask_in_child(
    questions: Questions, *, rows: Sequence[list[Any]], row_bytes: int
) -> Sequence[Mapping[str, Any]]:
    """As `ask_simulated`, in a process of its own."""
    ask = partial(ask_simulated, questions, rows=rows, row_bytes=row_bytes)
    return in_child(ask, what=f"--sut {questions.sut}, called alone without any fault,", limit_s=_CHILD_S)


def ask_simulated(
    questions: Questions, *, rows: Sequence[list[Any]], row_bytes: int
) -> Sequence[Mapping[str, Any]]:
    """The lines of the twin."""
    draw = Draw(questions.seed, "calm twin")
    hub = Hub(draw, limit_ms=_LIMIT_MS, steps_max=_STEPS_MAX)
    tables = SimulatedTables(subtasks=1, customers=Customers(rows))
    server = SimulatedServer(hub=hub, tables=tables, on_commit=lambda *_: None, executor=executor_of)
    link = SimulatedLink("lookups", hub=hub, draw=draw, server=server, row_bytes=row_bytes)
    lines: list[Mapping[str, Any]] = []

    def live(actor: Actor) -> None:
        loop = SubtaskLoop(actor, MemoryRecorder(Tape(hub)))
        try:
            twin = CalmTwin(
                questions,
                lookup=load_lookup(questions.sut),
                driver=AsyncSimulatedDriver(link, loop=loop),
                tell=lines.append,
            )
            asking = loop.create_task(twin.ask())
            asking.add_done_callback(lambda _: loop.stop())
            loop.run_forever()
        finally:
            loop.wind_up()

    actor = hub.spawn(live, name="calm twin", ended=lambda _: None, at_ms=0)
    with uncollected(), redirect_stdout(sys.stderr), outer_loop_kept():  # standard output is for results
        why = hub.run()
    if actor.error is not None:
        raise actor.error
    if not lines or lines[-1]["k"] != "end":
        lines.append({"k": "gone", "why": why or "it ended its event loop"})
    return lines
