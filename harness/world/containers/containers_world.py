"""MySQL and Toxiproxy in two containers on a network of their own.

Invariants: every container and network carries our labels, by which the reaper finds them, so Ryuk stays
off; every published port is on loopback and fixed for the world's life; one way removes them, whether we
live or died.
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

from harness.choices import fresh_secret
from harness.clock import Deadline, monotonic_us, wait_until
from harness.errors import WorldError
from harness.outcome import WorldDescription
from harness.world.containers.engine import Engine, brief
from harness.world.containers.images import Images
from harness.world.containers.sweep import labels_of_run, sweep_run
from harness.world.data_folder import REDO_BYTES
from harness.world.ledger import Ledger
from harness.world.mysql_server import app_grants, server_options
from harness.world.ports import LOOPBACK, reserve_port
from harness.world.proof import ask, proof_of
from harness.world.toxiproxy import Toxiproxy
from harness.world.world import DATABASE, LINKS, Address, Credentials, World

__all__ = ["open_containers_world"]

READY_LIMIT_S = 120.0
"""The published image initialises its data folder on each start; ours is ready in a second."""
POLL_S = 0.05

CONTROL_PORT = 8474
MYSQL_PORT = 3306
LINK_PORTS = {link: 8666 + number for number, link in enumerate(LINKS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Where a world's parts are published; all on loopback."""

    direct: Address
    control: Address
    links: Mapping[str, Address]


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
) -> Iterator[World]:
    """A containers world while the block lasts."""
    app = Credentials(user="app", password=fresh_secret())
    root = Credentials(user="root", password=fresh_secret())
    plan = _Plan(
        direct=Address(host=LOOPBACK, port=reserve_port(ledger, among=ports)),
        control=Address(host=LOOPBACK, port=reserve_port(ledger, among=ports)),
        links={link: Address(host=LOOPBACK, port=reserve_port(ledger, among=ports)) for link in LINKS},
    )
    labels = labels_of_run(ledger)
    with ExitStack() as stack:
        ledger.note_engine()
        stack.callback(sweep_run, engine, ledger.run_id)  # one way to remove them, whether we live or died
        network = _network(labels)
        mysql = _mysql(images.mysql, network=network, labels=labels, plan=plan, app=app, root=root)
        toxiproxy = _toxiproxy(images.toxiproxy, network=network, labels=labels, plan=plan)
        _start(mysql, toxiproxy)
        proxy = Toxiproxy(plan.control, say=say)
        _wait_until_ready(mysql, toxiproxy, proxy=proxy, plan=plan, app=app)
        ask(plan.direct, root, *app_grants(app.user), database=None)
        version = str(ask(plan.direct, app, "SELECT VERSION()")[0][0])
        description = WorldDescription(
            kind="containers",
            why=why,
            server=f"{'MariaDB' if 'MariaDB' in version else 'MySQL'} {version.partition('-')[0]}",
            proxy=f"Toxiproxy {proxy.version()}",
            ready_s=(monotonic_us() - begun_us) / 1_000_000,
        )
        yield World(
            description=description,
            links=plan.links,
            direct=plan.direct,
            app=app,
            root=root,
            proxy=proxy,
            folder=ledger.folder,
            enrol=ledger.note_process,
        )


def _configure_testcontainers() -> None:
    """Its settings are a module global read at import; these three are ours whatever the environment says."""
    testcontainers_config.ryuk_disabled = True  # our own reaper works offline, and after a SIGKILL
    testcontainers_config.connection_mode_override = ConnectionMode.docker_host
    testcontainers_config.sleep_time = 0.05


def _network(labels: Mapping[str, str]) -> Network:
    _configure_testcontainers()
    return Network(docker_network_kw={"labels": dict(labels)}).create()


def _mysql(
    image: str,
    *,
    network: Network,
    labels: Mapping[str, str],
    plan: _Plan,
    app: Credentials,
    root: Credentials,
) -> DockerContainer:
    container = _container(image, network=network, labels=labels, published={MYSQL_PORT: plan.direct})
    container.with_network_aliases("mysql")
    container.with_envs(
        MYSQL_ROOT_PASSWORD=root.password,
        MYSQL_USER=app.user,
        MYSQL_PASSWORD=app.password,
        MYSQL_DATABASE=DATABASE,
    )
    # Options only: the entrypoints of the published images, and ours, put their server before them.
    return container.with_command([*server_options(), f"--loose-innodb-redo-log-capacity={REDO_BYTES}"])


def _toxiproxy(image: str, *, network: Network, labels: Mapping[str, str], plan: _Plan) -> DockerContainer:
    published = {CONTROL_PORT: plan.control, **{LINK_PORTS[link]: plan.links[link] for link in LINKS}}
    return _container(image, network=network, labels=labels, published=published)


def _container(
    image: str, *, network: Network, labels: Mapping[str, str], published: Mapping[int, Address]
) -> DockerContainer:
    container = DockerContainer(image).with_network(network).with_kwargs(labels=dict(labels))
    bindings: Any = (
        container.ports
    )  # typed for port numbers; the engine's client takes (address, port) as well
    bindings.update({f"{inside}/tcp": (outside.host, outside.port) for inside, outside in published.items()})
    return container


def _start(*containers: DockerContainer) -> None:
    """Start them at once: each start waits for the engine most of its time."""
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


def _wait_until_ready(
    mysql: DockerContainer, toxiproxy: DockerContainer, *, proxy: Toxiproxy, plan: _Plan, app: Credentials
) -> None:
    """Ready is a `SELECT 1` as the user, directly and through every link."""
    deadline = Deadline(READY_LIMIT_S)
    _wait_for(toxiproxy, proxy.healthy, what="Toxiproxy to list its proxies", deadline=deadline)
    for link in LINKS:
        proxy.create(link, listen=f"0.0.0.0:{LINK_PORTS[link]}", upstream=f"mysql:{MYSQL_PORT}")
    holds, lacks = proof_of({"directly": plan.direct, **plan.links}, app)
    try:
        _wait_for(mysql, holds, what="MySQL to answer SELECT 1", deadline=deadline)
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

    # To look costs both of us time that the server's start could use, so not too often.
    wait_until(over, deadline=deadline, every_s=POLL_S)
    if held[0]:
        return
    words = wrapped.logs(tail=8).decode(errors="replace").splitlines()
    tail = f"\n  last lines of {container.image}:" + "".join(f"\n    {line}" for line in words)
    problem = "it ended" if _ended(wrapped) else f"in vain for {deadline.seconds:g} s"
    raise WorldError(
        f"waited for {what}, {problem}{tail}", fix="free the machine's processor and disk, try again"
    )


def _ended(container: Any) -> bool:
    container.reload()
    return bool(container.status in {"exited", "dead"})
