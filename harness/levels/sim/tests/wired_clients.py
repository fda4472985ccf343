"""Real clients in virtual time, without an operator: coroutines on the bridge to a real server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from harness.database.endpoint import Endpoint
from harness.database.simulated.controls import executor_of
from harness.database.simulated.hub import Actor, Hub
from harness.database.simulated.link import SimulatedLink
from harness.database.simulated.server import SimulatedServer
from harness.database.simulated.tables import Customers, SimulatedTables
from harness.database.simulated.tape import MemoryRecorder, Tape
from harness.levels.sim.bridge import Bridge
from harness.levels.sim.drivers import AT
from harness.levels.sim.real_tables import RealTables
from harness.levels.sim.subtask_loop import SubtaskLoop, outer_loop_kept
from harness.system.choices import Draw
from harness.system.errors import SutError

Script = Callable[["Wired"], Awaitable[object]]


@dataclass(slots=True, kw_only=True)
class Wired:
    """What one coroutine gets. Mutable: collects what it says."""

    hub: Hub
    link: SimulatedLink
    server: SimulatedServer
    bridge: Bridge
    said: list[tuple[int, str, object]] = field(default_factory=list)
    name: str = ""

    @property
    def at(self) -> Endpoint:
        return AT

    def say(self, what: object) -> None:
        """Note `what`, with the virtual time."""
        self.said.append((self.hub.now_ms, self.name, what))


def play(tables: RealTables, *scripts: Script, seed: int = 1, limit_ms: int = 3_600_000) -> Wired:
    """Run the scripts, each in an attempt of its own, to their ends. Raises what the first of them raises."""
    hub = Hub(Draw(seed, "wired clients"), limit_ms=limit_ms, steps_max=4_000_000)
    simulated = SimulatedServer(
        hub=hub,
        tables=SimulatedTables(subtasks=1, customers=Customers([])),
        on_commit=lambda *_: None,
        executor=executor_of,
    )
    link = SimulatedLink("lookups", hub=hub, draw=Draw(seed, "link"), server=simulated)
    refusals: list[SutError] = []
    with tables.wired(hub, refuse=refusals.append) as wire:
        wired = Wired(hub=hub, link=link, server=simulated, bridge=wire._bridge)

        def attempt(number: int, script: Script) -> Callable[[Actor], None]:
            mine = Wired(
                hub=hub, link=link, server=simulated, bridge=wired.bridge, said=wired.said, name=f"{number}"
            )

            def live(actor: Actor) -> None:
                loop = SubtaskLoop(actor, MemoryRecorder(Tape(hub)))
                with wire.dialing(loop, actor, link):
                    try:
                        loop.run_until_complete(loop.create_task(_of(script, mine)))
                    finally:
                        loop.wind_up()

            return live

        actors = [
            hub.spawn(attempt(number, script), name=f"script {number}", ended=lambda _: None, at_ms=0)
            for number, script in enumerate(scripts)
        ]
        with outer_loop_kept():
            why = hub.run()
    wire.raise_failure()
    if refusals:
        raise refusals[0]
    for actor in actors:
        if actor.error is not None:
            raise actor.error
    assert why is None, why
    return wired


async def _of(script: Script, wired: Wired) -> object:
    return await script(wired)
