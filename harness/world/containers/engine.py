"""The container engine: a connected Docker client with the few operations that worlds need; their images; our reaper.

Unlike Ryuk the reaper works offline and after a SIGKILL: it finds containers, networks and volumes by the labels that
all of ours carry, and touches nothing without them, and nothing whose owner lives or runs on another machine.
Invariants: an image is pulled only if that is allowed and a registry confirms in time that it has it; every call has a
limit, and every failure of the engine is raised as a `WorldError` with a remedy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

import docker  # type: ignore[import-untyped]  # it ships no types
from docker.errors import APIError, DockerException, ImageNotFound, NotFound  # type: ignore[import-untyped]  # it ships no types  # type: ignore[import-untyped]  # it ships no types
from requests.exceptions import RequestException

from harness.system.errors import WorldError
from harness.system.process_identity import Owner, ProcessIdentity, this_owner
from harness.world.ledger import Ledger, Reaped
from harness.world.settings import WorldSettings

PING_LIMIT_S = 3
CALL_LIMIT_S = 30
REGISTRY_LIMIT_S = 8
"""How long a registry may take to answer whether it has an image."""
PULL_LIMIT_S = 300
BUILD_LIMIT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A container engine that answers."""

    client: docker.DockerClient
    title: str
    """For example `Docker 20.10.24`."""

    def has(self, image: str) -> bool:
        """Whether the image exists locally."""
        try:
            self.client.images.get(image)
        except ImageNotFound:
            return False
        return True

    def label_of(self, image: str, label: str) -> str | None:
        """The value of a label of a local image; None if image or label does not exist."""
        if not self.has(image):
            return None
        labels: Mapping[str, str] = self.client.images.get(image).labels
        return labels.get(label)

    def is_in_registry(self, image: str) -> bool:
        """Whether a registry answers in time that it has the image."""
        try:
            _client(REGISTRY_LIMIT_S).images.get_registry_data(image)
        except (DockerException, RequestException):
            return False
        return True

    def pull(self, image: str) -> None:
        """Pull an image from its registry."""
        try:
            _client(PULL_LIMIT_S).images.pull(image)
        except (DockerException, RequestException) as error:
            raise WorldError(
                f"image {image} could not be pulled: {brief(error)}",
                fix="see the engine's log and its free disk space",
            ) from error

    def import_image(self, files: Path, image: str) -> None:
        """Make an image from a tar file of a whole file system."""
        repository, _, tag = image.partition(":")
        with self._replacing(image):
            _client(BUILD_LIMIT_S).api.import_image_from_file(str(files), repository=repository, tag=tag)

    def build(
        self,
        folder: Path,
        *,
        dockerfile: str,
        image: str,
        arguments: Mapping[str, str],
        labels: Mapping[str, str],
    ) -> None:
        """Build an image from a folder with the engine's legacy builder."""
        with self._replacing(image):
            _client(BUILD_LIMIT_S).images.build(
                path=str(folder),
                dockerfile=dockerfile,
                tag=image,
                buildargs=dict(arguments),
                labels=dict(labels),
                rm=True,
                forcerm=True,
                timeout=BUILD_LIMIT_S,
            )

    @contextmanager
    def _replacing(self, image: str) -> Iterator[None]:
        """Make an image in the block; the image that had the name before is removed if possible."""
        earlier = self.client.images.get(image).id if self.has(image) else None
        try:
            yield
        except (DockerException, RequestException) as error:
            raise WorldError(
                f"the engine could not make {image}: {brief(error)}",
                fix="see the engine's log and its free disk space",
            ) from error
        if earlier not in {None, self.client.images.get(image).id}:
            with suppress(DockerException):  # a living world or another image may still use it
                self.client.images.remove(earlier)


def _client(limit_s: int) -> docker.DockerClient:
    """A client with its own time limit."""
    return docker.from_env(timeout=limit_s)


def connect() -> Engine:
    """Connect to the engine. Raises WorldError if it does not answer."""
    try:
        title = f"Docker {docker.from_env(timeout=PING_LIMIT_S).version()['Version'].partition('+')[0]}"
        return Engine(client=docker.from_env(timeout=CALL_LIMIT_S), title=title)
    except (DockerException, RequestException, OSError) as error:
        if "Permission denied" in str(error):
            raise WorldError(
                "no container engine: this user may not open its socket",
                fix="join the group docker, or use --world local",
            ) from error
        raise WorldError(
            f"no container engine answers within {PING_LIMIT_S} s: {brief(error)}",
            fix="start one (`systemctl start docker`), or use --world local",
        ) from error


def brief(error: Exception) -> str:
    """The error in one line."""
    said = getattr(error, "explanation", None) or error  # without the address that was asked
    return " ".join(str(said).split())[:200]


PUBLISHED_MYSQL = "mysql:8.4"
PUBLISHED_TOXIPROXY = "ghcr.io/shopify/toxiproxy:2.12.0"
OFFLINE_MYSQL = "floodmark/mysql:offline"
OFFLINE_TOXIPROXY = "floodmark/toxiproxy:offline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """The chosen images and the reason."""

    mysql: str
    toxiproxy: str | None
    """None: our own proxy, as a process outside the engine."""
    why: str


def choose_images(
    engine: Engine,
    settings: WorldSettings,
    *,
    offline: bool,
    say: Callable[[str], None],
    proxy: str = "toxiproxy",
) -> Images:
    """The images to start, present when this returns. Raises WorldError with what is missing and how to get it.

    `proxy`: `own` takes no image for the proxy; `auto` takes one if it can be had.
    """
    choose = partial(_choose, engine=engine, offline=offline, say=say)
    image, why = choose("FLOODMARK_MYSQL_IMAGE", settings.mysql_image, PUBLISHED_MYSQL, OFFLINE_MYSQL)
    if proxy == "own":
        return Images(mysql=image, toxiproxy=None, why=why)
    named = settings.toxiproxy_image
    try:
        its_image, its_why = choose(
            "FLOODMARK_TOXIPROXY_IMAGE", named, PUBLISHED_TOXIPROXY, OFFLINE_TOXIPROXY
        )
    except WorldError as lacking:
        if proxy != "auto":
            raise
        return Images(mysql=image, toxiproxy=None, why=f"{why}; {lacking.what}")
    return Images(mysql=image, toxiproxy=its_image, why=f"{why}; {its_why}")


def _choose(
    setting: str,
    named: str | None,
    published: str,
    own: str,
    *,
    engine: Engine,
    offline: bool,
    say: Callable[[str], None],
) -> tuple[str, str]:
    """The image for one part, and the reason."""
    image = named or published
    if engine.has(image):
        return image, f"image {image} is present"
    if named is None and engine.has(own):
        return own, f"image {own} is present (built here) and {published} is not"
    fix = f"floodmark setup --world containers --offline-images (or name another image in {setting})"
    if offline:
        raise WorldError(f"image {image} is not present, and --offline forbids to pull it", fix=fix)
    if not engine.is_in_registry(image):
        raise WorldError(f"image {image} is not present, and no registry answered that it has it", fix=fix)
    say(f"pulling {image}")
    engine.pull(image)
    return image, f"image {image} was pulled"


PROJECT_LABEL = "floodmark.project"
RUN_LABEL = "floodmark.run"
OWNER_LABEL = "floodmark.owner"

_REMOVAL_S = 30
"""How long a removal by another process may take."""


def labels_of_run(ledger: Ledger) -> Mapping[str, str]:
    """The labels of every container and network of a run."""
    return {
        PROJECT_LABEL: "floodmark",
        RUN_LABEL: ledger.run_id,
        OWNER_LABEL: json.dumps(asdict(this_owner())),
    }


def sweep_run(engine: Engine, run_id: str) -> list[str]:
    """Remove everything of one run; returns one sentence for each thing."""
    label = f"{RUN_LABEL}={run_id}"
    removed = []
    for container in engine.client.containers.list(all=True, ignore_removed=True, filters={"label": label}):
        if not _remove_container(container):
            continue
        removed.append(f"container {container.short_id} ({container.attrs['Config']['Image']})")
    for network in _networks(engine, label):
        try:
            network.remove()
        except NotFound:
            continue
        removed.append(f"network {network.name}")
    for volume in _volumes(engine, label):
        try:
            volume.remove(force=True)
        except NotFound:
            continue
        removed.append(f"volume {volume.name}")
    return removed


def sweep_dead_owners(engine: Engine) -> list[Reaped]:
    """Remove everything with our label whose owner is dead, for runs whose ledger is gone."""
    label = f"{PROJECT_LABEL}=floodmark"
    owners = {}
    for thing in [
        *engine.client.containers.list(all=True, ignore_removed=True, filters={"label": label}),
        *_networks(engine, label),
        *_volumes(engine, label),
    ]:
        # A container has them in its configuration, a network at the top level.
        labels = thing.attrs.get("Labels") or thing.attrs.get("Config", {}).get("Labels") or {}
        owners[labels.get(RUN_LABEL, "")] = _owner(labels.get(OWNER_LABEL, ""))
    return [
        Reaped(run_id=run_id, removed=tuple(sweep_run(engine, run_id)))
        for run_id, owner in owners.items()
        if owner is not None and not owner.is_foreign() and not owner.is_alive()
    ]


def _remove_container(container: docker.models.containers.Container) -> bool:
    """Remove the container; False if another process removes it, and then returns after it is gone.

    Two of our processes that start together both find what a dead owner left.
    """
    try:
        container.remove(force=True, v=True)
    except NotFound:
        return False
    except APIError as error:
        if error.status_code != HTTPStatus.CONFLICT:
            raise
        # Another removal is under way; the network can only be removed after it.
        with suppress(NotFound):
            container.wait(condition="removed", timeout=_REMOVAL_S)
        return False
    return True


def _volumes(engine: Engine, label: str) -> list[docker.models.volumes.Volume]:
    return list(engine.client.volumes.list(filters={"label": label}))


def _networks(engine: Engine, label: str) -> list[docker.models.networks.Network]:
    return list(engine.client.networks.list(filters={"label": label}))


def _owner(text: str) -> Owner | None:
    try:
        found = json.loads(text)
        return Owner(
            process=ProcessIdentity(**found["process"]), boot=found["boot"], machine=found["machine"]
        )
    except (ValueError, KeyError, TypeError):
        return None
