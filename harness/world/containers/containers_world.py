"""The containers world: MySQL in a container; Toxiproxy in another on the same network, or our own proxy process.

Invariants: every container and network carries our labels, by which the reaper finds them, so testcontainers' Ryuk
stays off; every port is published on loopback and stays the same; the same code removes them at the end and after a
crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from docker.errors import APIError  # type: ignore[import-untyped]  # it ships no types
from testcontainers.core.config import ConnectionMode, testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from harness.scenario.outcome import WorldDescription
from harness.system.child import Child
from harness.system.choices import fresh_secret
from harness.system.clock import Deadline, monotonic_us, wait_until
from harness.system.errors import WorldError
from harness.system.json_types import Json
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
class _Plan:
    """The published addresses of a world's parts, all on loopback, and its users."""

    app: Credentials
    root: Credentials
    direct: Address
    links: Mapping[str, Address]
    replica: Address | None = None
    """The second server; None: there is none."""
    beside: Mapping[str, Address] = field(default_factory=dict)
    """The links that a world has with a second server only."""


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
    wait_for: Callable[[Callable[[], bool], Deadline], None]


@contextmanager
def open_containers_world(
    engine: Engine,
    images: Images,
    *,
    why: str,
    ledger: Ledger,
    ports: range | None,
    say: Callable[[str], None],
    begun_us: int,
    needs: frozenset[str],
) -> Iterator[World]:
    """A containers world for the duration of the block."""
    app, root = (Credentials(user=user, password=fresh_secret()) for user in ("app", "root"))
    plan = _Plan(
        app=app,
        root=root,
        direct=Address(host=LOOPBACK, port=reserve_port(ledger, among=ports)),
        links={link: Address(host=LOOPBACK, port=reserve_port(ledger, among=ports)) for link in LINKS},
        **_plan_of_second(needs, ledger=ledger, ports=ports),
    )
    labels = labels_of_run(ledger)
    with ExitStack() as stack:
        ledger.note_engine()
        stack.callback(sweep_run, engine, ledger.run_id)  # the same removal as for a dead run
        network = _network(labels)
        small, name = "small-disk" in needs, f"floodmark-{ledger.run_id}"
        volume = make_small_volume(engine, images.mysql, name=name, labels=labels) if small else None
        made = partial(_mysql, images.mysql, needs=needs, plan=plan, network=network, labels=labels)
        mysql, at = made(SERVER, plan.direct, volume=volume), plan.replica
        second = None if at is None else made(SECOND, at, server_id=REPLICA_ID)
        servers = [mysql, *([] if second is None else [second])]
        if images.toxiproxy is None:
            process, control = start_own_proxy(ledger=ledger, ports=ports, say=say)
            stack.callback(process.stop)
            _start(*servers)
            proxy = _beside(process, control, plan=plan)
        else:
            control = Toxiproxy(Address(host=LOOPBACK, port=reserve_port(ledger, among=ports)), say=say)
            toxiproxy = _toxiproxy(images.toxiproxy, network, labels, plan=plan, control=control.control)
            _start(*servers, toxiproxy)
            proxy = _inside(toxiproxy, control, plan=plan)
        _wait_until_ready(mysql, proxy, plan=plan)
        flavour, title = _flavour(plan.direct, root)
        ask(plan.direct, root, *app_grants(app.user, mariadb=flavour == "mariadb"), database=None)
        server = _server(mysql, volume, flavour=flavour, direct=plan.direct, plan=plan)
        pair = None if second is None else _paired(second, server, proxy, plan=plan)
        yield World(
            description=_description(why, title, proxy.control.title(), begun_us),
            links=plan.links,
            direct=plan.direct,
            app=app,
            root=root,
            proxy=proxy.control,
            folder=ledger.folder,
            enrol=ledger.note_process,
            lacks={**proxy_lacks(own=proxy.control.own), **containers_server_lacks(flavour=flavour)},
            server=server if pair is None else server.with_pair(pair),
            pair=pair,
        )


def _plan_of_second(needs: frozenset[str], *, ledger: Ledger, ports: range | None) -> Json:
    """The published addresses of a second server and of its links, if there is to be one."""
    if REPLICA not in needs:
        return {}
    names = (SECOND, PROBE, REPLICA_LINK)
    replica, *beside = [Address(host=LOOPBACK, port=reserve_port(ledger, among=ports)) for _ in names]
    return {"replica": replica, "beside": dict(zip((PROBE, REPLICA_LINK), beside, strict=True))}


def _paired(second: DockerContainer, first: Server, proxy: _Proxy, *, plan: _Plan) -> ServerPair:
    """The second server, which follows the first when this returns."""
    assert plan.replica is not None, "it was planned"
    for link, upstream in ((PROBE, proxy.upstream), (REPLICA_LINK, proxy.second)):
        proxy.control.create(link, listen=proxy.listens[link], upstream=upstream)
    ways = {"directly": plan.replica, **plan.beside}
    _wait_for_answers(second, ways, plan.app, who="the replica", deadline=Deadline(READY_LIMIT_S))
    grants = app_grants(plan.app.user, mariadb=first.flavour == "mariadb")
    ask(plan.replica, plan.root, *grants, database=None)
    control = _server(second, None, flavour=first.flavour, direct=plan.replica, plan=plan)
    pair = ServerPair(
        primary=PairedServer(
            server=first,
            direct=plan.direct,
            upstream=proxy.upstream,
            source=Address(host=SERVER, port=MYSQL_PORT),
        ),
        replica=PairedServer(
            server=control,
            direct=plan.replica,
            upstream=proxy.second,
            source=Address(host=SECOND, port=MYSQL_PORT),
        ),
        proxy=proxy.control,
        links=plan.beside,
        app=plan.app,
        root=plan.root,
    )
    pair.attach()
    return pair


def _description(why: str, server: str, proxy: str, begun_us: int) -> WorldDescription:
    ready_s = (monotonic_us() - begun_us) / 1_000_000
    return WorldDescription(kind="containers", why=why, server=server, proxy=proxy, ready_s=ready_s)


def _flavour(direct: Address, root: Credentials) -> tuple[str, str]:
    """`mysql` or `mariadb`, and a title like `MySQL 9.7.4`."""
    version = str(ask(direct, root, "SELECT VERSION()", database=None)[0][0])
    name = "MariaDB" if "MariaDB" in version else "MySQL"
    return name.lower(), f"{name} {version.partition('-')[0]}"


def _server(
    mysql: DockerContainer, volume: SmallVolume | None, *, flavour: str, direct: Address, plan: _Plan
) -> Server:
    """The server control for faults."""

    def wait(condition: Callable[[], bool], what: str, deadline: Deadline) -> None:
        _wait_for(mysql, condition, what=what, deadline=deadline)

    machine = ContainerMachine(mysql.get_wrapped_container(), volume=volume, wait=wait)
    return Server(machine, flavour=flavour, address=direct, root=plan.root, user=plan.app.user)


def _network(labels: Mapping[str, str]) -> Network:
    # Testcontainers' settings are a module global read at import; these three must not depend on the environment.
    testcontainers_config.ryuk_disabled = True  # our own reaper works offline and after a SIGKILL
    testcontainers_config.connection_mode_override = ConnectionMode.docker_host
    testcontainers_config.sleep_time = 0.05
    return Network(docker_network_kw={"labels": dict(labels)}).create()


def _mysql(
    image: str,
    alias: str,
    published: Address,
    *,
    needs: frozenset[str],
    plan: _Plan,
    network: Network,
    labels: Mapping[str, str],
    volume: SmallVolume | None = None,
    server_id: int = 1,
) -> DockerContainer:
    container = _container(image, network=network, labels=labels, published={MYSQL_PORT: published})
    container.with_network_aliases(alias)
    container.with_envs(
        MYSQL_ROOT_PASSWORD=plan.root.password,
        MYSQL_USER=plan.app.user,
        MYSQL_PASSWORD=plan.app.password,
        MYSQL_DATABASE=DATABASE,
    )
    if volume is not None:
        container.with_kwargs(labels=dict(labels), mounts=[volume.mount])
    # Options only: the image's entrypoint puts the server's program before them.
    options = server_options(needs=needs, server_id=server_id)
    return container.with_command([*options, f"--loose-innodb-redo-log-capacity={REDO_BYTES}"])


def _toxiproxy(
    image: str, network: Network, labels: Mapping[str, str], *, plan: _Plan, control: Address
) -> DockerContainer:
    links = {**plan.links, **plan.beside}
    published = {CONTROL_PORT: control, **{LINK_PORTS[link]: address for link, address in links.items()}}
    return _container(image, network=network, labels=labels, published=published)


def _inside(container: DockerContainer, control: Toxiproxy, *, plan: _Plan) -> _Proxy:
    """Toxiproxy, in the database's network."""

    def wait_for(condition: Callable[[], bool], deadline: Deadline) -> None:
        _wait_for(container, condition, what="Toxiproxy to list its links", deadline=deadline)

    listens = {link: f"0.0.0.0:{LINK_PORTS[link]}" for link in (*plan.links, *plan.beside)}
    return _Proxy(
        control=control,
        listens=listens,
        upstream=f"{SERVER}:{MYSQL_PORT}",
        second="" if plan.replica is None else f"{SECOND}:{MYSQL_PORT}",
        wait_for=wait_for,
    )


def _beside(process: Child, control: Toxiproxy, *, plan: _Plan) -> _Proxy:
    """Our own proxy, outside the containers; it dials the database's published port."""

    def wait_for(condition: Callable[[], bool], deadline: Deadline) -> None:
        process.wait_for(condition, what=f"{process.name} to list its links", limit_s=deadline.left_s)

    links = {**plan.links, **plan.beside}
    listens = {link: f"{address.host}:{address.port}" for link, address in links.items()}
    return _Proxy(
        control=control,
        listens=listens,
        upstream=f"{plan.direct.host}:{plan.direct.port}",
        second="" if plan.replica is None else f"{plan.replica.host}:{plan.replica.port}",
        wait_for=wait_for,
    )


def _container(
    image: str, *, network: Network, labels: Mapping[str, str], published: Mapping[int, Address]
) -> DockerContainer:
    container = DockerContainer(image).with_network(network).with_kwargs(labels=dict(labels))
    bindings: Any = container.ports  # typed for port numbers; the engine's client also takes (address, port)
    bindings.update({f"{inside}/tcp": (outside.host, outside.port) for inside, outside in published.items()})
    return container


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


def _wait_until_ready(mysql: DockerContainer, proxy: _Proxy, *, plan: _Plan) -> None:
    """Wait until `SELECT 1` works as the user, directly and through every link."""
    deadline = Deadline(READY_LIMIT_S)
    proxy.wait_for(proxy.control.healthy, deadline)
    for link in LINKS:
        proxy.control.create(link, listen=proxy.listens[link], upstream=proxy.upstream)
    ways = {"directly": plan.direct, **plan.links}
    _wait_for_answers(mysql, ways, plan.app, who="MySQL", deadline=deadline)


def _wait_for_answers(
    container: DockerContainer, ways: Mapping[str, Address], app: Credentials, *, who: str, deadline: Deadline
) -> None:
    """Waits until `SELECT 1` is answered over each way; the error says which way was not."""
    holds, lacks = proof_of(ways, app)
    try:
        _wait_for(container, holds, what=f"{who} to answer SELECT 1", deadline=deadline)
    except WorldError as error:
        error.add_note(f"last attempt, {lacks()}")
        raise


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
