"""The containers world: MySQL in a container; Toxiproxy in another on the same network, or our own proxy process.

Invariants: every container and network carries our labels, by which the reaper finds them, so testcontainers' Ryuk
stays off; every port is published on loopback and stays the same; the same code removes them at the end and after a
crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from docker.errors import APIError  # type: ignore[import-untyped]  # it ships no types
from testcontainers.core.config import ConnectionMode, testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from harness.scenario.outcome import WorldDescription
from harness.system.choices import fresh_secret
from harness.system.clock import Deadline, wait_until
from harness.system.errors import WorldError
from harness.world.containers.container_server import (
    ContainerMachine,
    SmallVolume,
    containers_server_lacks,
    make_small_volume,
)
from harness.world.containers.engine import Engine, Images, brief, labels_of_run, sweep_run
from harness.world.ledger import LOOPBACK, Ledger, reserve_port
from harness.world.mysql_server import REDO_BYTES, REPLICA, REPLICA_ID, app_grants, server_options
from harness.world.proxy_program import proxy_lacks, start_own_proxy
from harness.world.server import Server, ask, proof_of
from harness.world.server_pair import PROBE, REPLICA_LINK, PairedServer, ServerPair
from harness.world.toxiproxy import Toxiproxy
from harness.world.world import DATABASE, LINKS, Address, Credentials, World

READY_LIMIT_S = 120.0
"""The published image initialises its data folder at each start; ours is ready in a second."""
POLL_S = 0.05

CONTROL_PORT = 8474
MYSQL_PORT = 3306
LINK_PORTS = {link: 8666 + number for number, link in enumerate((*LINKS, PROBE, REPLICA_LINK))}
SERVER, SECOND = "mysql", "replica"
"""The names of the two servers in the containers' network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proxy:
    """A started proxy, and the addresses from its point of view."""

    control: Toxiproxy
    listens: Mapping[str, str]
    """Listen address of each link, from the proxy's point of view."""
    upstream: str
    """The database's address from the proxy's point of view; the same after a restart of the database."""
    second: str
    """The second server's; empty: there is none."""


@contextmanager
def open_containers_world(
    engine: Engine,
    images: Images,
    *,
    describe: Callable[[str, str], WorldDescription],
    ledger: Ledger,
    say: Callable[[str], None],
    needs: frozenset[str],
) -> Iterator[World]:
    """A containers world for the duration of the block; `describe` gets the titles of its server and proxy."""
    with ExitStack() as stack:
        ledger.note_engine()
        stack.callback(sweep_run, engine, ledger.run_id)  # the same removal as for a dead run
        site = _Site(ledger, needs=needs)
        name = f"floodmark-{ledger.run_id}"
        volume = (
            make_small_volume(engine, images.mysql, name=name, labels=site.labels)
            if "small-disk" in needs
            else None
        )
        mysql = site.mysql(images.mysql, SERVER, site.direct, volume=volume)
        servers = [mysql]
        if site.replica is not None:
            servers.append(site.mysql(images.mysql, SECOND, site.replica, server_id=REPLICA_ID))
        if images.toxiproxy is None:
            process, control = start_own_proxy(ledger=ledger, say=say)
            stack.callback(process.stop)
            _start(*servers)
            proxy, deadline = site.beside(control), Deadline(READY_LIMIT_S)
            what = f"{process.name} to list its links"
            process.wait_for(control.healthy, what=what, limit_s=deadline.left_s)
        else:
            control = Toxiproxy(_published(ledger), say=say)
            toxiproxy = site.toxiproxy(images.toxiproxy, control.control)
            _start(*servers, toxiproxy)
            proxy, deadline = site.inside(control), Deadline(READY_LIMIT_S)
            what = "Toxiproxy to list its links"
            _wait_for(toxiproxy, control.healthy, what=what, deadline=deadline)
        for link in LINKS:
            control.create(link, listen=proxy.listens[link], upstream=proxy.upstream)
        site.await_answers(mysql, {"directly": site.direct, **site.links}, who="MySQL", deadline=deadline)
        version = str(ask(site.direct, site.root, "SELECT VERSION()", database=None)[0][0])
        kind = "MariaDB" if "MariaDB" in version else "MySQL"
        server = site.server(mysql, volume, flavour=kind.lower(), direct=site.direct)
        pair = None if site.replica is None else site.paired(servers[1], site.replica, server, proxy)
        yield World(
            description=describe(f"{kind} {version.partition('-')[0]}", control.title()),
            links=site.links,
            direct=site.direct,
            app=site.app,
            root=site.root,
            proxy=control,
            folder=ledger.folder,
            enrol=ledger.note_process,
            lacks={**proxy_lacks(own=control.own), **containers_server_lacks(flavour=server.flavour)},
            server=server if pair is None else server.with_pair(pair),
            pair=pair,
        )


def _published(ledger: Ledger) -> Address:
    return Address(host=LOOPBACK, port=reserve_port(ledger))


class _Site:
    """What the containers of a world have in common: users, published addresses on loopback, labels, the network."""

    def __init__(self, ledger: Ledger, *, needs: frozenset[str]) -> None:
        self.app, self.root = (Credentials(user=user, password=fresh_secret()) for user in ("app", "root"))
        self.direct = _published(ledger)
        self.links = {link: _published(ledger) for link in LINKS}
        has_second = REPLICA in needs
        self.replica = _published(ledger) if has_second else None
        """The second server; None: there is none."""
        self.beside_it = {link: _published(ledger) for link in (PROBE, REPLICA_LINK) if has_second}
        """The links that a world has with a second server only."""
        self.labels = labels_of_run(ledger)
        self._needs = needs
        # Testcontainers' settings are a module global read at import; these three must not depend on the environment.
        testcontainers_config.ryuk_disabled = True  # our own reaper works offline and after a SIGKILL
        testcontainers_config.connection_mode_override = ConnectionMode.docker_host
        testcontainers_config.sleep_time = 0.05
        self._network = Network(docker_network_kw={"labels": dict(self.labels)}).create()

    def _container(self, image: str, published: Mapping[int, Address]) -> DockerContainer:
        container = DockerContainer(image).with_network(self._network).with_kwargs(labels=dict(self.labels))
        bindings: Any = (
            container.ports
        )  # typed for port numbers; the engine's client also takes (address, port)
        bindings.update({f"{inside}/tcp": (out.host, out.port) for inside, out in published.items()})
        return container

    def mysql(
        self,
        image: str,
        alias: str,
        published: Address,
        *,
        volume: SmallVolume | None = None,
        server_id: int = 1,
    ) -> DockerContainer:
        container = self._container(image, {MYSQL_PORT: published})
        container.with_network_aliases(alias)
        container.with_envs(
            MYSQL_ROOT_PASSWORD=self.root.password,
            MYSQL_USER=self.app.user,
            MYSQL_PASSWORD=self.app.password,
            MYSQL_DATABASE=DATABASE,
        )
        if volume is not None:
            container.with_kwargs(labels=dict(self.labels), mounts=[volume.mount])
        # Options only: the image's entrypoint puts the server's program before them.
        options = server_options(mariadb="mariadb" in image, needs=self._needs, server_id=server_id)
        return container.with_command([*options, f"--loose-innodb-redo-log-capacity={REDO_BYTES}"])

    def toxiproxy(self, image: str, control: Address) -> DockerContainer:
        links = {**self.links, **self.beside_it}
        published = {LINK_PORTS[link]: address for link, address in links.items()}
        return self._container(image, {CONTROL_PORT: control, **published})

    def inside(self, control: Toxiproxy) -> _Proxy:
        """Toxiproxy, in the database's network."""
        return _Proxy(
            control=control,
            listens={link: f"0.0.0.0:{LINK_PORTS[link]}" for link in (*self.links, *self.beside_it)},
            upstream=f"{SERVER}:{MYSQL_PORT}",
            second="" if self.replica is None else f"{SECOND}:{MYSQL_PORT}",
        )

    def beside(self, control: Toxiproxy) -> _Proxy:
        """Our own proxy, outside the containers; it dials the database's published port."""
        links = {**self.links, **self.beside_it}
        return _Proxy(
            control=control,
            listens={link: f"{address.host}:{address.port}" for link, address in links.items()},
            upstream=f"{self.direct.host}:{self.direct.port}",
            second="" if self.replica is None else f"{self.replica.host}:{self.replica.port}",
        )

    def server(
        self, mysql: DockerContainer, volume: SmallVolume | None, *, flavour: str, direct: Address
    ) -> Server:
        """The server control for faults; its user gets its grants."""
        grants = app_grants(self.app.user, mariadb=flavour == "mariadb")
        ask(direct, self.root, *grants, database=None)

        def wait(condition: Callable[[], bool], what: str, deadline: Deadline) -> None:
            _wait_for(mysql, condition, what=what, deadline=deadline)

        machine = ContainerMachine(mysql.get_wrapped_container(), volume=volume, wait=wait)
        return Server(machine, flavour=flavour, address=direct, root=self.root, user=self.app.user)

    def paired(
        self, container: DockerContainer, replica: Address, first: Server, proxy: _Proxy
    ) -> ServerPair:
        """The second server, which follows the first when this returns."""
        for link, upstream in ((PROBE, proxy.upstream), (REPLICA_LINK, proxy.second)):
            proxy.control.create(link, listen=proxy.listens[link], upstream=upstream)
        ways, deadline = {"directly": replica, **self.beside_it}, Deadline(READY_LIMIT_S)
        self.await_answers(container, ways, who="the replica", deadline=deadline)
        second = self.server(container, None, flavour=first.flavour, direct=replica)
        pair = ServerPair(
            primary=PairedServer(
                server=first,
                direct=self.direct,
                upstream=proxy.upstream,
                source=Address(host=SERVER, port=MYSQL_PORT),
            ),
            replica=PairedServer(
                server=second,
                direct=replica,
                upstream=proxy.second,
                source=Address(host=SECOND, port=MYSQL_PORT),
            ),
            proxy=proxy.control,
            links=self.beside_it,
            app=self.app,
            root=self.root,
        )
        pair.attach()
        return pair

    def await_answers(
        self, container: DockerContainer, ways: Mapping[str, Address], *, who: str, deadline: Deadline
    ) -> None:
        """Waits until `SELECT 1` is answered over each way; the error says which way was not."""
        holds, lacks = proof_of(ways, self.app)
        try:
            _wait_for(container, holds, what=f"{who} to answer SELECT 1", deadline=deadline)
        except WorldError as error:
            error.add_note(f"last attempt, {lacks()}")
            raise


def _start(*containers: DockerContainer) -> None:
    """Start the containers in parallel; each start mostly waits for the engine."""
    with ThreadPoolExecutor(max_workers=len(containers)) as pool:
        started = [pool.submit(container.start) for container in containers]
    for container, future in zip(containers, started, strict=True):
        try:
            future.result()
        except APIError as error:
            raise WorldError(
                f"the engine could not start {container.image}: {brief(error)}",
                fix="set FLOODMARK_PORTS to a range with free ports if a port is taken; "
                "else see the engine's log",
            ) from error


def _wait_for(
    container: DockerContainer, condition: Callable[[], bool], *, what: str, deadline: Deadline
) -> None:
    wrapped: Any = container.get_wrapped_container()
    held: list[bool] = []

    def over() -> bool:
        held[:] = [condition()]
        return held[0] or _ended(wrapped)

    # Each check costs processor time that the starting server needs, so check rarely.
    wait_until(over, deadline=deadline, every_s=POLL_S)
    if held[0]:
        return
    words = wrapped.logs(tail=8).decode(errors="replace").splitlines()
    tail = f"\n  last lines of {container.image}:" + "".join(f"\n    {line}" for line in words)
    problem = "but it ended" if _ended(wrapped) else f"but not within {deadline.seconds:g} s"
    raise WorldError(
        f"waited for {what}, {problem}{tail}", fix="free the machine's processor and disk, try again"
    )


def _ended(container: Any) -> bool:
    container.reload()
    return bool(container.status in {"exited", "dead"})
