"""The world of a job in virtual time: its clock, its network with our own proxy, and a real server behind it.

Invariants: one thread; what runs and in which order depends on the seed alone; the server's replies take no time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Final

from harness.database.endpoint import Endpoint
from harness.database.simulated.controls import executor_of
from harness.database.simulated.hub import Actor, Hub
from harness.database.simulated.server import SimulatedServer
from harness.database.simulated.tables import Customers, SimulatedTables
from harness.faults.real.evidence import LogPage, ProxyEvidence, evidence_of
from harness.faults.real.server_control import ServerState, Session
from harness.levels.job.statement_log import SentStatement
from harness.levels.sim.bridge import Bridge
from harness.levels.sim.bridged_session import BridgedSession, Command
from harness.levels.virtual.network import HubLoop, Network, Socket, VirtualListener, VirtualPump
from harness.levels.virtual.processes import JobMachine
from harness.levels.virtual.server_end import ServerEnd
from harness.proxy.http_server import Request
from harness.proxy.proxy_parts import ProxyParts
from harness.proxy.registry import Registry
from harness.proxy.service import Api
from harness.scenario.outcome import WorldDescription
from harness.system.choices import Draw
from harness.system.clock import Beside, Flag, virtual_time
from harness.system.versions import VERSION
from harness.world.server import Server
from harness.world.toxiproxy import Toxiproxy
from harness.world.world import LINKS, Address, Credentials, World

_HOST: Final = "127.0.0.1"
_SERVER: Final = 3306
_LINK_PORTS: Final = {link: 3401 + number for number, link in enumerate(LINKS)}
_LIMIT_MS: Final = 86_400_000
_STARTUP_MS: Final = (200, 400)
"""As an interpreter takes on a common machine."""
_STEPS_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAt:
    """A server that another process has started."""

    description: WorldDescription
    direct: Address
    app: Credentials
    root: Credentials
    flavour: str
    lacks: Mapping[str, str]


class _Elsewhere:
    """The machine of such a server: it is there."""

    def look(self) -> ServerState:
        return ServerState(start="there", paused=False, pid=None, uptime_s=None)


class _InTurn:
    """What is due at one instant comes in the order in which it was asked for."""

    def bits(self, count: int) -> int:
        del count
        return 0


class HubTime:
    """The `Time` of a hub: whoever waits is an actor."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def now_us(self) -> int:
        return 1000 * self._hub.now_ms

    def pause(self, seconds: float) -> None:
        self._mine().sleep_until(self._hub.now_ms + max(1, ceil(round(1000 * seconds, 6))))

    def flag(self) -> Flag:
        return _HubFlag(self)

    def beside(self, work: Callable[[], None], *, name: str) -> Beside:
        hub = self._hub
        return _HubBeside(
            self, hub.spawn(lambda _: work(), name=name, ended=lambda _: None, at_ms=hub.now_ms)
        )

    def _mine(self) -> Actor:
        actor = self._hub.current
        assert actor is not None, "only an actor waits"
        return actor

    def await_(self, until: Callable[[], bool], timeout: float | None) -> bool:
        """Polls, as a thread that waits is woken late."""
        due_ms = None if timeout is None else self._hub.now_ms + max(1, ceil(round(1000 * timeout, 6)))
        while not until():
            if due_ms is not None and self._hub.now_ms >= due_ms:
                return False
            self._mine().sleep_until(self._hub.now_ms + 1 if due_ms is None else due_ms)
        return True


class _HubFlag:
    def __init__(self, time: HubTime) -> None:
        self._time = time
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def wait(self, timeout: float | None = None) -> bool:
        return self._time.await_(self.is_set, timeout)


class _HubBeside:
    def __init__(self, time: HubTime, actor: Actor) -> None:
        self._time, self._actor = time, actor

    def is_alive(self) -> bool:
        return self._actor.alive

    def join(self, timeout: float | None = None) -> None:
        waited_s = 0.0
        while self._actor.alive and (timeout is None or waited_s < timeout):
            self._time.pause(0.001)
            waited_s += 0.001


class _Parts(ProxyParts):
    """Our own proxy's parts, in a virtual network."""

    def __init__(self, hub: Hub, network: Network, *, machine: JobMachine, seed: int) -> None:
        self._hub, self._network, self._machine = hub, network, machine
        self._sockets: dict[int, Socket] = {}
        super().__init__(HubLoop(hub), seed=seed)  # type: ignore[arg-type]

    def made_pump(self) -> Any:
        return VirtualPump(self._hub, self._sockets)

    def socket(self, family: object) -> Any:
        del family
        made = self._network.socket()
        self._sockets[made.fileno()] = made
        return made

    def listener(self, address: str, accepted: Any) -> Any:
        return VirtualListener(address, network=self._network, sockets=self._sockets, accepted=accepted)

    def opened_by(self, port: int) -> int:
        found = self._machine.of_port(port)
        return 0 if found is None else found.main.pid

    @property
    def identifies(self) -> bool:
        """It is always known."""
        return False

    @identifies.setter
    def identifies(self, on: bool) -> None: ...


class _InProcess(Toxiproxy):
    """The control interface of a proxy in this process."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(Address(host=_HOST, port=0), say=lambda _: None, own=True)
        self._registry = registry
        self._api = Api(registry, version=VERSION)

    def link_log(self, link: str, after: int = 0) -> LogPage:
        """Without a way over text: it is asked for a hundred times a run."""
        log, found, lost = self._registry.link(link), list[ProxyEvidence](), 0
        while (page := log.log_after(after)).events:
            found += [evidence_of(one.as_json()) for one in page.events]
            lost += page.lost
            after = page.next
        return LogPage(events=found, next=page.next, lost=lost + page.lost)

    def _exchange(
        self, method: str, path: str, body: Mapping[str, object] | None, *, where: str
    ) -> tuple[int, str]:
        del where
        payload = b"" if body is None else json.dumps(body).encode()
        answer = self._api.handle(
            Request(method=method, target=path, headers={}, body=payload, keeps_open=False)
        )
        return int(answer.status), answer.body.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class _VirtualSession(Session):
    """A session of the job."""

    server: SimulatedServer

    def kill(self, connection: object, what: str) -> bool:
        del connection
        return self.server.kill(self.id) if what == "CONNECTION" else self.server.kill_query(self.id)


class VirtualWorld:
    """One run's. Mutable.

    `is_steady`: no packet overtakes another one, as in the calm twin, so that its order is that of the job.
    """

    def __init__(self, at: ServerAt, *, seed: int, is_steady: bool) -> None:
        draw = Draw(seed, "a job in virtual time")
        ties: Any = _InTurn() if is_steady else draw
        self.hub = hub = Hub(ties, limit_ms=_LIMIT_MS, steps_max=_STEPS_MAX)
        self.network = Network(hub)
        self.machine = JobMachine(
            hub=hub,
            network=self.network,
            lag=None if is_steady else lambda: draw.bits(1),
            startup=lambda: draw.between(*_STARTUP_MS),
            seed=seed,
        )
        self._at = at
        self._registry = Registry(_Parts(hub, self.network, machine=self.machine, seed=seed))
        control = _InProcess(self._registry)
        self.statements: list[SentStatement] = []
        self.bridge: Bridge | None = None
        self.server = SimulatedServer(
            hub=hub,
            tables=SimulatedTables(subtasks=1, customers=Customers([])),
            on_commit=lambda *_: None,
            executor=executor_of,
        )
        for link, port in _LINK_PORTS.items():
            control.create(link, listen=f"{_HOST}:{port}", upstream=f"{_HOST}:{_SERVER}")
        machine: Any = _Elsewhere()
        server = Server(machine, flavour=at.flavour, address=at.direct, root=at.root, user=at.app.user)
        self.world = World(
            description=at.description,
            links={link: Address(host=_HOST, port=port) for link, port in _LINK_PORTS.items()},
            direct=at.direct,
            app=at.app,
            root=at.root,
            proxy=control,
            folder=Path(),
            enrol=lambda _: None,
            server=server.with_sessions(self._sessions, lambda _: self._writers()),
            lacks=at.lacks,
        )

    def _sessions(self) -> list[Session]:
        return [
            _VirtualSession(
                id=one.number,
                command="Query" if one.statement else "Sleep",
                state="",
                statement=one.statement,
                server=self.server,
            )
            for one in self.server.clients()
        ]

    def _writers(self) -> Mapping[int, int]:
        """By the numbers that the job's sessions have here."""
        assert self.bridge is not None
        found = self.bridge.writers()
        sessions = [one for one in self.server.sessions.values() if isinstance(one, BridgedSession)]
        return {one.number: found[one.real_number] for one in sessions if one.real_number in found}

    def serve(self, database: Endpoint) -> None:
        """From now on the server's sessions use this database."""
        app = self._at.app.at(self._at.direct, database.database)
        bridge = self.bridge = Bridge(app, database, now_us=lambda: 1000 * self.hub.now_ms)
        bridge.tells_numbers = True

        def asked(session: int, command: Command) -> None:
            text = command.exchange.text.decode(errors="replace")
            if text:
                self.statements.append(SentStatement(t_us=1000 * self.hub.now_ms, session=session, text=text))

        def accepted(end: Socket) -> None:
            ServerEnd(end, server=self.server, bridge=bridge, asked=asked)

        self.network.listen(_SERVER, accepted)

    def end_sessions(self) -> None:
        """Nobody uses them any more: what they have locked is free, though the last packet is still on its way."""
        for session in list(self.server.sessions.values()):
            session.end()

    def close(self) -> None:
        for one in self.machine.processes:
            one.kill()
        if self.bridge is not None:
            self.bridge.close()
        self._registry.close()

    def run(self, work: Callable[[], Any]) -> Any:
        """The result of `work`, in this world's time. Raises what it raises."""
        found: list[Any] = []
        actor = self.hub.spawn(
            lambda _: found.append(work()), name="the run", ended=lambda _: None, at_ms=self.hub.now_ms
        )
        try:
            with virtual_time(HubTime(self.hub)):
                why = self.hub.run()
        finally:
            self.close()
        if self.machine.escaped is not None:
            raise self.machine.escaped
        if self.bridge is not None and self.bridge.failure is not None:
            raise self.bridge.failure
        if actor.error is not None:
            raise actor.error
        if not found:
            raise RuntimeError(f"the run in virtual time has no result: {why}")
        return found[0]
