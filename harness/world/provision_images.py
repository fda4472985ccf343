"""What `floodmark setup` does for the containers world: pull the images, or build both here.

Invariant: an image that is here and built by today's recipe is left alone, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.clock import monotonic_us
from harness.world.containers import find_engine
from harness.world.containers.engine import Engine
from harness.world.containers.images import OFFLINE_MYSQL, OFFLINE_TOXIPROXY, choose_images
from harness.world.offline_images.build import build_mysql_image, build_toxiproxy_image, is_current
from harness.world.provision import Say, Step, timed_step
from harness.world.proxy_program import build_proxy_program, built_proxy_program
from harness.world.settings import WorldSettings

__all__ = ["provide_images", "provide_offline_images"]


def provide_images(settings: WorldSettings, *, say: Say) -> Iterator[Step]:
    """Images for `--world containers`: those that are here, else pulled."""
    begun_us = monotonic_us()
    engine = find_engine(settings)
    yield timed_step("engine", f"{engine.title} answers", begun_us)
    begun_us = monotonic_us()
    images = choose_images(engine, settings, offline=False, say=say)
    yield timed_step("images", f"{images.mysql} and {images.toxiproxy}; {images.why}", begun_us)


def provide_offline_images(settings: WorldSettings, *, rebuild: bool, say: Say) -> Iterator[Step]:
    """Both images, built here from package sources."""
    settings.places.make()
    begun_us = monotonic_us()
    engine = find_engine(settings)
    yield timed_step("engine", f"{engine.title} answers", begun_us)
    begun_us = monotonic_us()
    yield timed_step(
        OFFLINE_TOXIPROXY, _toxiproxy_image(engine, settings=settings, rebuild=rebuild, say=say), begun_us
    )
    begun_us = monotonic_us()
    yield timed_step(
        OFFLINE_MYSQL, _mysql_image(engine, settings=settings, rebuild=rebuild, say=say), begun_us
    )


def _toxiproxy_image(engine: Engine, *, settings: WorldSettings, rebuild: bool, say: Say) -> str:
    if is_current(engine, OFFLINE_TOXIPROXY) and not rebuild:
        return "already there"
    program = built_proxy_program(
        settings
    )  # not the PATH's: that one may need libraries that an empty image lacks
    if rebuild or not program.exists():
        program = build_proxy_program(settings, say=say)
    build_toxiproxy_image(engine, program=program)
    return "built"


def _mysql_image(engine: Engine, *, settings: WorldSettings, rebuild: bool, say: Say) -> str:
    if is_current(engine, OFFLINE_MYSQL) and not rebuild:
        return "already there"
    build_mysql_image(engine, path=settings.path, say=say)
    return "built"
