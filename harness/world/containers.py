"""The containers world: MySQL and Toxiproxy through testcontainers. The only module that talks to the engine.

Invariants: every container and network carries our labels (project, run, owner), by which the reaper finds them, so
Ryuk stays off; every published port is on loopback and fixed for the world's life; nothing is pulled offline.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.choices import fresh_secret
from harness.clock import Deadline, monotonic_us, wait_until
from harness.errors import WorldError
from harness.outcome import WorldDescription
from harness.world.identity import Owner, ProcessIdentity, this_owner
from harness.world.ledger import Ledger, Reaped
from harness.world.mysql_server import app_grants, mysql_options
from harness.world.ports import LOOPBACK, reserve_port
from harness.world.proof import ask, proof_of
from harness.world.settings import WorldSettings
from harness.world.toxiproxy import Toxiproxy
from harness.world.world import DATABASE, LINKS, Address, Credentials, World

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.network import Network

__all__ = [
    "OFFLINE_MYSQL",
    "OFFLINE_TOXIPROXY",
    "Engine",
    "Images",
    "choose_images",
    "find_engine",
    "open_containers_world",
    "sweep_dead_owners",
    "sweep_run",
]

PUBLISHED_MYSQL = "mysql:8.4"
PUBLISHED_TOXIPROXY = "ghcr.io/shopify/toxiproxy:2.12.0"
OFFLINE_MYSQL = "floodmark/mysql:offline"
OFFLINE_TOXIPROXY = "floodmark/toxiproxy:offline"

PROJECT_LABEL = "floodmark.project"
RUN_LABEL = "floodmark.run"
OWNER_LABEL = "floodmark.owner"

USUAL_SOCKET = Path("/var/run/docker.sock")
PING_LIMIT_S = 3
CALL_LIMIT_S = 30
REGISTRY_LIMIT_S = 8
"""How long a registry may take to say whether it has an image."""
PULL_LIMIT_S = 300
BUILD_LIMIT_S = 300
READY_LIMIT_S = 120.0
"""The published image initialises its data folder on each start; ours is ready in a second."""
POLL_S = 0.02

CONTROL_PORT = 8474
MYSQL_PORT = 3306
LINK_PORTS = {link: 8666 + number for number, link in enumerate(LINKS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A container engine that answered."""

    client: Any
    title: str
    """`Docker 20.10.24`."""

    def has(self, image: str) -> bool:
        """Whether the image is here."""
        from docker.errors import ImageNotFound

        try:
            self.client.images.get(image)
        except ImageNotFound:
            return False
        return True

    def label_of(self, image: str, label: str) -> str | None:
        """What an image that is here says of itself under a label; None if it is not here or says nothing."""
        if not self.has(image):
            return None
        labels: Mapping[str, str] = self.client.images.get(image).labels
        return labels.get(label)

    def import_image(self, files: Path, image: str) -> None:
        """Make an image of a tar file that holds a whole file system."""
        repository, _, tag = image.partition(":")
        self.client.api.timeout = BUILD_LIMIT_S
        try:
            self.client.api.import_image_from_file(str(files), repository=repository, tag=tag)
        finally:
            self.client.api.timeout = CALL_LIMIT_S

    def build(
        self, folder: Path, *, dockerfile: str, image: str, arguments: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        """Build an image from a folder, with the engine's own (legacy) builder."""
        from docker.errors import APIError, BuildError

        try:
            self.client.images.build(
                path=str(folder), dockerfile=dockerfile, tag=image, buildargs=dict(arguments),
                labels=dict(labels), rm=True, forcerm=True, timeout=BUILD_LIMIT_S,
            )
        except (APIError, BuildError) as error:
            raise WorldError(f"the engine could not build {image}: {_brief(error)}",
                             fix="see the engine's log and its free disk space") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """The images a containers world starts, and why these."""

    mysql: str
    toxiproxy: str
    why: str


def find_engine(settings: WorldSettings) -> Engine:
    """The engine, or an error that says why there is none; quick where there is none."""
    if importlib.util.find_spec("docker") is None or importlib.util.find_spec("testcontainers") is None:
        raise WorldError("no container engine can be asked: the client is not installed",
                         fix="pip install 'floodmark[containers]'")
    if settings.engine is None and not USUAL_SOCKET.exists():
        raise WorldError(f"no container engine: {USUAL_SOCKET} does not exist and DOCKER_HOST is not set",
                         fix="start one (`systemctl start docker`), or use --world local")
    return _ping()


def _ping() -> Engine:
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(timeout=PING_LIMIT_S)
        title = f"Docker {client.version()['Version'].partition('+')[0]}"
        client.api.timeout = CALL_LIMIT_S
    except (DockerException, OSError) as error:
        raise WorldError(f"no container engine answers within {PING_LIMIT_S} s: {error}",
                         fix="start one (`systemctl start docker`), or use --world local") from error
    return Engine(client=client, title=title)


def choose_images(
    engine: Engine, settings: WorldSettings, *, offline: bool, say: Callable[[str], None]
) -> Images:
    """The images to start, present when this returns; an error names what is missing and every way to get it."""
    chosen, reasons = [], []
    for named, published, own, setting in (
        (settings.mysql_image, PUBLISHED_MYSQL, OFFLINE_MYSQL, "FLOODMARK_MYSQL_IMAGE"),
        (settings.toxiproxy_image, PUBLISHED_TOXIPROXY, OFFLINE_TOXIPROXY, "FLOODMARK_TOXIPROXY_IMAGE"),
    ):
        if named is None and not engine.has(published) and engine.has(own):
            chosen.append(own)
            reasons.append(f"{own} is here and {published} is not")
            continue
        image = named or published
        if engine.has(image):
            reasons.append(f"{image} is here")
        else:
            _pull(engine, image, offline=offline, setting=setting, say=say)
            reasons.append(f"{image} was pulled")
        chosen.append(image)
    return Images(mysql=chosen[0], toxiproxy=chosen[1], why="; ".join(reasons))


def _pull(engine: Engine, image: str, *, offline: bool, setting: str, say: Callable[[str], None]) -> None:
    """Pull an image, if a registry says in time that it has it."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    fix = f"floodmark setup --world containers --offline-images (or name another image in {setting})"
    if offline:
        raise WorldError(f"image {image} is not here, and --offline forbids to pull it", fix=fix)
    try:
        engine.client.api.timeout = REGISTRY_LIMIT_S
        engine.client.images.get_registry_data(image)
        engine.client.api.timeout = PULL_LIMIT_S
        say(f"pulling {image} (at most {PULL_LIMIT_S} s)")
        engine.client.images.pull(image)
    except (DockerException, RequestException) as error:
        raise WorldError(f"image {image} is not here and cannot be pulled: {_brief(error)}", fix=fix) from error
    finally:
        engine.client.api.timeout = CALL_LIMIT_S


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


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
    labels = _labels(ledger)
    with ExitStack() as stack:
        ledger.note_engine()
        stack.callback(sweep_run, ledger.run_id)  # one way to remove them, whether we live or died
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
            server=f"MySQL {version.partition('-')[0]}",
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
    from testcontainers.core.config import ConnectionMode, testcontainers_config

    testcontainers_config.ryuk_disabled = True  # our own reaper works offline, and after a SIGKILL
    testcontainers_config.connection_mode_override = ConnectionMode.docker_host
    testcontainers_config.sleep_time = 0.05


def _network(labels: Mapping[str, str]) -> Network:
    _configure_testcontainers()
    from testcontainers.core.network import Network

    return Network(docker_network_kw={"labels": dict(labels)}).create()


def _mysql(
    image: str, *, network: Network, labels: Mapping[str, str], plan: _Plan, app: Credentials, root: Credentials
) -> DockerContainer:
    container = _container(image, network=network, labels=labels, published={MYSQL_PORT: plan.direct})
    container.with_network_aliases("mysql")
    container.with_envs(
        MYSQL_ROOT_PASSWORD=root.password,
        MYSQL_USER=app.user,
        MYSQL_PASSWORD=app.password,
        MYSQL_DATABASE=DATABASE,
    )
    return container.with_command(["mysqld", *mysql_options(mariadb=False), "--innodb-redo-log-capacity=16777216"])


def _toxiproxy(
    image: str, *, network: Network, labels: Mapping[str, str], plan: _Plan
) -> DockerContainer:
    published = {CONTROL_PORT: plan.control, **{LINK_PORTS[link]: plan.links[link] for link in LINKS}}
    return _container(image, network=network, labels=labels, published=published)


def _container(
    image: str, *, network: Network, labels: Mapping[str, str], published: Mapping[int, Address]
) -> DockerContainer:
    from testcontainers.core.container import DockerContainer

    container = DockerContainer(image).with_network(network).with_kwargs(labels=dict(labels))
    bindings: Any = container.ports  # typed for port numbers; the engine's client takes (address, port) as well
    bindings.update({f"{inside}/tcp": (outside.host, outside.port) for inside, outside in published.items()})
    return container


def _start(*containers: DockerContainer) -> None:
    """Start them at once: each start waits for the engine most of its time."""
    from docker.errors import APIError

    with ThreadPoolExecutor(max_workers=len(containers)) as pool:
        started = [pool.submit(container.start) for container in containers]
    for container, future in zip(containers, started, strict=True):
        try:
            future.result()
        except APIError as error:
            raise WorldError(f"the engine could not start {container.image}: {_brief(error)}",
                             fix="set FLOODMARK_PORTS to a range with free ports if a port is taken; "
                                 "else see the engine's log") from error


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

    def ended() -> bool:
        wrapped.reload()
        return bool(wrapped.status in {"exited", "dead"})

    if wait_until(lambda: condition() or ended(), deadline=deadline, every_s=POLL_S) and condition():
        return
    words = wrapped.logs(tail=8).decode(errors="replace").splitlines()
    tail = f"\n  last lines of {container.image}:" + "".join(f"\n    {line}" for line in words)
    problem = "it ended" if ended() else f"in vain for {deadline.seconds:g} s"
    raise WorldError(f"waited for {what}, {problem}{tail}", fix="free the machine's processor and disk, try again")


def _labels(ledger: Ledger) -> dict[str, str]:
    return {PROJECT_LABEL: "floodmark", RUN_LABEL: ledger.run_id, OWNER_LABEL: json.dumps(asdict(this_owner()))}


def sweep_run(run_id: str) -> list[str]:
    """Remove the containers and networks of one run; a `harness.world.ledger.EngineSweep`."""
    return _remove(_ping(), f"{RUN_LABEL}={run_id}")


def sweep_dead_owners(engine: Engine) -> list[Reaped]:
    """Remove what bears our label and a dead owner's name, for runs whose ledger is gone; foreigners stay."""
    label = f"{PROJECT_LABEL}=floodmark"
    owners = {}
    for thing in [*engine.client.containers.list(all=True, filters={"label": label}), *_networks(engine, label)]:
        labels = _labels_of(thing)
        owners[labels.get(RUN_LABEL, "")] = _owner(labels.get(OWNER_LABEL, ""))
    return [
        Reaped(run_id=run_id, removed=tuple(_remove(engine, f"{RUN_LABEL}={run_id}")))
        for run_id, owner in owners.items()
        if owner is not None and not owner.is_foreign() and not owner.is_alive()
    ]


def _remove(engine: Engine, label: str) -> list[str]:
    from docker.errors import NotFound

    removed = []
    for container in engine.client.containers.list(all=True, ignore_removed=True, filters={"label": label}):
        try:
            container.remove(force=True, v=True)
        except NotFound:
            continue
        removed.append(f"container {container.short_id} ({container.attrs['Config']['Image']})")
    for network in _networks(engine, label):
        try:
            network.remove()
        except NotFound:
            continue
        removed.append(f"network {network.name}")
    return removed


def _networks(engine: Engine, label: str) -> list[Any]:
    return list(engine.client.networks.list(filters={"label": label}))


def _labels_of(thing: Any) -> Mapping[str, str]:
    """A container keeps its labels in its configuration, a network at the top."""
    attributes: Mapping[str, Any] = thing.attrs
    found: Mapping[str, str] = attributes.get("Labels") or attributes.get("Config", {}).get("Labels") or {}
    return found


def _owner(text: str) -> Owner | None:
    try:
        found = json.loads(text)
        return Owner(process=ProcessIdentity(**found["process"]), boot=found["boot"], machine=found["machine"])
    except (ValueError, KeyError, TypeError):
        return None
