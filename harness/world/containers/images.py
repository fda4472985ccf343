"""Chooses the images of a containers world: named in the settings, else published, else built here.

Invariant: an image is pulled only if that is allowed and a registry confirms in time that it has it; a replacement for
a published image is announced with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

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
