"""Chooses the images of a containers world: named in the settings, else published, else built here.

Invariant: an image is pulled only if that is allowed and a registry confirms in time that it has it; a replacement for
a published image is announced with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.system.errors import WorldError
from harness.world.containers.engine import Engine
from harness.world.settings import WorldSettings

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One of the two images, before the choice."""

    setting: str
    named: str | None
    published: str
    own: str


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
    mysql = _Part(
        setting="FLOODMARK_MYSQL_IMAGE",
        named=settings.mysql_image,
        published=PUBLISHED_MYSQL,
        own=OFFLINE_MYSQL,
    )
    image, why = _choose(mysql, engine=engine, offline=offline, say=say)
    if proxy == "own":
        return Images(mysql=image, toxiproxy=None, why=why)
    toxiproxy = _Part(
        setting="FLOODMARK_TOXIPROXY_IMAGE",
        named=settings.toxiproxy_image,
        published=PUBLISHED_TOXIPROXY,
        own=OFFLINE_TOXIPROXY,
    )
    try:
        its_image, its_why = _choose(toxiproxy, engine=engine, offline=offline, say=say)
    except WorldError as lacking:
        if proxy != "auto":
            raise
        return Images(mysql=image, toxiproxy=None, why=f"{why}; {lacking.what}")
    return Images(mysql=image, toxiproxy=its_image, why=f"{why}; {its_why}")


def _choose(part: _Part, *, engine: Engine, offline: bool, say: Callable[[str], None]) -> tuple[str, str]:
    """The image for one part, and the reason."""
    image = part.named or part.published
    if engine.has(image):
        return image, f"image {image} is present"
    if part.named is None and engine.has(part.own):
        return part.own, f"image {part.own} is present (built here) and {part.published} is not"
    fix = f"floodmark setup --world containers --offline-images (or name another image in {part.setting})"
    if offline:
        raise WorldError(f"image {image} is not present, and --offline forbids to pull it", fix=fix)
    if not engine.is_in_registry(image):
        raise WorldError(f"image {image} is not present, and no registry answered that it has it", fix=fix)
    say(f"pulling {image}")
    engine.pull(image)
    return image, f"image {image} was pulled"
