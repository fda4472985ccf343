"""The local world: a database server and a proxy as child processes on free ports.

Invariant: it needs no root, no container engine and no network; everything that it starts listens on
loopback.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.faults.real.server_control import ServerState
from harness.scenario.outcome import WorldDescription
from harness.system.child import Child
from harness.system.choices import fresh_secret
from harness.system.clock import Deadline, wait_until
from harness.system.errors import WorldError
from harness.system.process_identity import identify
from harness.world.ledger import LOOPBACK, Ledger, reserve_port
from harness.world.mysql_server import (
    REPLICA,
    REPLICA_ID,
    SOCKET_PATH_MAX,
    MysqlServer,
    ServerPlace,
    local_server_lacks,
    prepare_place,
    prepared_data_folder,
    redo_option,
    replica_place,
    start_server,
)
from harness.world.proxy_program import ProxyChoice, choose_local_proxy, proxy_lacks, start_own_proxy
from harness.world.server import Server, lacking, proof_of
from harness.world.server_pair import PROBE, REPLICA_LINK, PairedServer, ServerPair
from harness.world.server_program import ServerProgram, find_server
from harness.world.settings import WorldSettings
from harness.world.toxiproxy import Toxiproxy
from harness.world.world import LINKS, Address, Credentials, World

READY_LIMIT_S = 60.0
"""How long a server may take until it answers; a hundred times what it usually takes."""
PROXY_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalParts:
    """The programs of a local world."""

    server: ServerProgram
    proxy: ProxyChoice


def find_local_parts(
    settings: WorldSettings, *, proxy: str = "auto", needs: frozenset[str] = frozenset()
) -> LocalParts:
    """Find the server and the wanted proxy. Raises one WorldError that lists everything missing."""
    missing = []
    server = chosen = None
    try:
        server = find_server(settings)
    except WorldError as error:
        if settings.server is not None:
            raise
        missing.append(error.what)
    try:
        chosen = choose_local_proxy(proxy, needs=needs, settings=settings)
    except WorldError as error:
        missing.append(error.what)
    if server is None or chosen is None:
        raise WorldError("; ".join(missing), fix="floodmark setup")
    return LocalParts(server=server, proxy=chosen)


@contextmanager
def open_local_world(
    parts: LocalParts,
    *,
    describe: Callable[[str, str], WorldDescription],
    ledger: Ledger,
    say: Callable[[str], None],
    needs: frozenset[str],
    settings: WorldSettings,
    keeps_in: Path | None = None,
) -> Iterator[World]:
    """A local world for the block. `describe` gets its server's and proxy's titles; `keeps_in`: where the data stay."""
    app, root = (Credentials(user=user, password=fresh_secret()) for user in ("app", "root"))
    prepared = prepared_data_folder(parts.server, places=ledger.places, ledger=ledger, say=say)
    with ExitStack() as stack:
        process, proxy = start_proxy(parts.proxy.program, ledger=ledger, say=say)
        stack.callback(process.stop)
        site = _Site(
            program=parts.server, app=app, root=root, ledger=ledger, needs=needs, settings=settings, stack=stack,
            process=process, proxy=proxy,
        )  # fmt: skip
        place = prepare_place(prepared, needs=needs, settings=settings, ledger=ledger)
        first = site.serve(place, upstreams=dict.fromkeys(LINKS), keeps_in=keeps_in)
        pair, machines, at = None, [first.machine], first.address
        if REPLICA in needs:
            second = site.serve(
                replica_place(prepared, ledger=ledger),
                upstreams={PROBE: at, REPLICA_LINK: None},
                keeps_in=None if keeps_in is None else keeps_in.with_name(f"{keeps_in.name}-replica"),
                name="replica",
                server_id=REPLICA_ID,
            )
            machines.append(second.machine)
            pair = ServerPair(
                primary=first.paired,
                replica=second.paired,
                proxy=proxy,
                links=second.links,
                app=app,
                root=root,
            )
            pair.attach()
        yield World(
            description=describe(parts.server.title, proxy.title()),
            links=first.links,
            direct=at,
            app=app,
            root=root,
            proxy=proxy,
            folder=ledger.folder,
            enrol=ledger.note_process,
            kept=None if keeps_in is None else how_to_open(parts.server, keeps_in.resolve()),
            lacks={**proxy_lacks(own=proxy.own), **local_server_lacks(parts.server, settings=settings)},
            server=first.control if pair is None else first.control.with_pair(pair),
            pair=pair,
            look=lambda: _look(process, *machines),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Serving:
    """A server that answers, and the links that were opened with it."""

    machine: LocalMachine
    control: Server
    address: Address
    links: Mapping[str, Address]

    @property
    def paired(self) -> PairedServer:
        at = self.address
        return PairedServer(server=self.control, direct=at, upstream=_written(at), source=at)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Site:
    """What the servers of a world have in common."""

    program: ServerProgram
    app: Credentials
    root: Credentials
    ledger: Ledger
    needs: frozenset[str]
    settings: WorldSettings
    stack: ExitStack
    process: Child
    """The proxy's."""
    proxy: Toxiproxy

    def serve(
        self,
        place: ServerPlace,
        *,
        upstreams: Mapping[str, Address | None],
        keeps_in: Path | None,
        name: str = "server",
        server_id: int = 1,
    ) -> _Serving:
        """Start a server and open links; None leads to it. Returns when it answers directly and over each link.

        It is killed with the world; if its data stay, it is shut down in order, and they are copied.
        """
        server = start_server(
            self.program,
            data=place.data,
            port=reserve_port(self.ledger),
            app=self.app,
            root=self.root,
            ledger=self.ledger,
            environment=place.environment,
            needs=self.needs,
            name=name,
            server_id=server_id,
        )
        machine = LocalMachine(server, place=place)
        if keeps_in is None:
            self.stack.callback(machine.kill)
        else:
            self.stack.callback(keep_data, place.data, keeps_in.resolve())  # runs after the shut-down
            self.stack.callback(machine.shut_down)
        proxy, process = self.proxy, server.process
        self.process.wait_for(
            proxy.healthy, what=f"{self.process.name} to list its links", limit_s=PROXY_LIMIT_S
        )
        links = {link: Address(host=LOOPBACK, port=reserve_port(self.ledger)) for link in upstreams}
        for link, upstream in upstreams.items():
            proxy.create(link, listen=_written(links[link]), upstream=_written(upstream or server.address))
        holds, lacks = proof_of({"directly": server.address, **links}, self.app)
        try:
            process.wait_for(holds, what=f"{process.name} to answer SELECT 1", limit_s=READY_LIMIT_S)
        except WorldError as error:
            error.add_note(f"last attempt, {lacks()}")
            raise
        server.secrets.unlink()
        control = Server(
            machine,
            flavour=self.program.flavour.lower(),
            address=server.address,
            root=self.root,
            user=self.app.user,
        )
        return _Serving(machine=machine, control=control, address=server.address, links=links)


def _written(address: Address) -> str:
    return f"{address.host}:{address.port}"


def _look(proxy: Child, *machines: LocalMachine) -> None:
    """Raises WorldError if the proxy, or a server that no fault ended, has died."""
    for machine in machines:
        machine.look()
    if not proxy.alive:
        raise WorldError(
            f"{proxy.name} ended, and no fault of this run ended it{proxy.last_words()}",
            fix="its log says why; run it again with --keep always to have it whole",
        )


def start_proxy(
    program: Path | None, *, ledger: Ledger, say: Callable[[str], None]
) -> tuple[Child, Toxiproxy]:
    """Start Toxiproxy from `program`, or our own proxy if that is None."""
    if program is None:
        return start_own_proxy(ledger=ledger, say=say)
    control = Address(host=LOOPBACK, port=reserve_port(ledger))
    process = ledger.start(
        [str(program), f"-host={control.host}", f"-port={control.port}"],
        name="Toxiproxy",
        log=ledger.folder / "toxiproxy.log",
    )
    return process, Toxiproxy(control, say=say)


def keep_data(data: Path, folder: Path) -> None:
    """Copy the data folder of a server that has ended to `folder`. Raises WorldError if that fails.

    Invariant: the server was shut down in order, so any server of its version opens the folder.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(data, folder)
    except (OSError, shutil.Error) as error:
        message = f"cannot keep the server's data in {folder}: {error}"
        raise WorldError(
            message, fix="free some space there, or choose another folder with --report"
        ) from error


def how_to_open(program: ServerProgram, folder: Path) -> str:
    """One line: what starts a server on `folder`, and what connects to it."""
    socket = folder / "open.sock"
    if len(os.fsencode(socket)) > SOCKET_PATH_MAX:
        socket = Path(tempfile.gettempdir()) / f"floodmark-kept-{os.getpid()}.sock"
    start = shlex.join(
        [
            *(
                ["env", *(f"{name}={value}" for name, value in program.environment.items())]
                * bool(program.environment)
            ),
            str(program.program),
            "--no-defaults",
            *program.location_options(),
            *program.user_option(),
            f"--datadir={folder}",
            f"--socket={socket}",
            f"--pid-file={folder / 'open.pid'}",
            redo_option(program),
            "--skip-networking",
            "--skip-grant-tables",
            *(() if program.is_mariadb else ("--mysqlx=OFF",)),
        ]
    )
    client = "mariadb" if program.is_mariadb else "mysql"
    return (
        f"{folder}: start it with `{start}`, then open it with `{client} --socket={shlex.quote(str(socket))}`"
    )


SHUT_DOWN_LIMIT_S = 30.0
STOP_LIMIT_S = 5.0
"""How long SIGSTOP and SIGCONT may take to reach every thread; threads get them one by one."""


class LocalMachine:
    """A `harness.world.server.Machine` over a child process. Mutable: the process is replaced.

    Invariants: every start uses the same command, port and data folder; a server that ended without a fault is an
    error that quotes the end of its log.
    """

    def __init__(self, server: MysqlServer, *, place: ServerPlace) -> None:
        self._process = server.process
        self._again = server.again
        self._socket = server.socket
        self._ballast = place.ballast
        self._clock = place.clock
        self._ended_by_us = False

    def kill(self) -> None:
        """SIGKILL, which works on a stopped process too."""
        self._ended_by_us = True
        self._process.stop()

    def shut_down(self) -> None:
        """SIGTERM, then SIGKILL if it does not end in time."""
        self._ended_by_us = True
        self._process.stop(grace_s=SHUT_DOWN_LIMIT_S)

    def start(self) -> None:
        """Run the same command again."""
        for stale in (self._socket, self._socket.with_name(f"{self._socket.name}.lock")):
            stale.unlink(missing_ok=True)
        self._process = self._again()
        self._ended_by_us = False

    def pause(self) -> None:
        """SIGSTOP; returns when every thread has stopped."""
        self._signal(signal.SIGSTOP, paused=True)

    def resume(self) -> None:
        """SIGCONT; returns when no thread is stopped."""
        self._signal(signal.SIGCONT, paused=False)

    def _signal(self, number: signal.Signals, *, paused: bool) -> None:
        pid = self._process.pid
        os.kill(pid, number)
        wait_until(
            lambda: _is_stopped(pid) == paused or not self._process.alive, deadline=Deadline(STOP_LIMIT_S)
        )
        if self._process.alive and _is_stopped(pid) != paused:
            raise WorldError(
                f"{self._process.name} (process {pid}) did not react to {number.name} within {STOP_LIMIT_S:g} s",
                fix="free the machine's processor, then try again",
            )

    def look(self) -> ServerState:
        """The process and whether it is stopped. Raises WorldError if it ended without a fault."""
        before, process = self._ended_by_us, self._process
        who = identify(process.pid) if process.alive else None
        if who is not None:
            start = f"{who.pid}-{who.started}"
            return ServerState(start=start, paused=_is_stopped(who.pid), pid=who.pid, uptime_s=None)
        # A fault in another thread may have ended or restarted it in between.
        if not before and not self._ended_by_us and process is self._process:
            raise WorldError(
                f"{process.name} ended, and no fault of this run ended it{process.last_words()}",
                fix="its log says why; run it again with --keep always to have it whole",
            )
        return ServerState(start=None, paused=False, pid=None, uptime_s=None)

    def wait_for(self, condition: Callable[[], bool], *, what: str, limit_s: float) -> None:
        """Wait for `condition`. If the process ends, raises WorldError with the end of its log."""
        self._process.wait_for(condition, what=what, limit_s=limit_s)

    def fill_disk(self) -> int:
        """Fill the free space with a ballast file."""
        if self._ballast is None:
            raise lacking("a small disk")
        return self._ballast.fill()

    def free_disk(self) -> None:
        """Remove the ballast file."""
        if self._ballast is None:
            raise lacking("a small disk")
        self._ballast.remove()

    def shift_clock(self, shift_ms: int) -> None:
        """Write the file that the preloaded library reads."""
        if self._clock is None:
            raise lacking("a clock that can be shifted")
        self._clock.shift(shift_ms)


def _is_stopped(pid: int) -> bool:
    """Whether every thread has stopped; they get the signal one by one."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():
        try:
            return psutil.Process(pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False
    states = [_state(task / "stat") for task in tasks.iterdir()]
    return all(state in {"T", "t", ""} for state in states) and "T" in states


def _state(stat: Path) -> str:
    """The thread's state letter; empty if it has just ended."""
    try:
        return stat.read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
