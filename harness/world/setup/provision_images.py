"""The steps of `floodmark setup` for the containers world: pull the images, or build both here.

Invariant: an image that exists and was built by the current recipe is left alone, and the step says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.system.clock import monotonic_us
from harness.system.errors import WorldError
from harness.world.containers import find_engine
from harness.world.containers.engine import Engine
from harness.world.containers.images import OFFLINE_MYSQL, OFFLINE_TOXIPROXY, choose_images
from harness.world.offline_images.build import build_mysql_image, build_toxiproxy_image, is_current
from harness.world.proxy_program import build_proxy_program, built_proxy_program
from harness.world.setup.provision import Provision, ProvisionStep, timed_step


def provide_images(task: Provision) -> Iterator[ProvisionStep]:
    """Images for `--world containers`: those that exist, else pulled."""
    begun_us = monotonic_us()
    engine = find_engine(task.settings)
    yield timed_step("engine", f"{engine.title} answers", begun_us)
    begun_us = monotonic_us()
    images = choose_images(engine, task.settings, proxy="auto", offline=False, say=task.say)
    proxy = images.toxiproxy or "our own proxy"
    yield timed_step("images", f"{images.mysql} and {proxy}; {images.why}", begun_us)


def provide_offline_images(task: Provision) -> Iterator[ProvisionStep]:
    """Build the images from package sources; Toxiproxy's only where Go can build it."""
    begun_us = monotonic_us()
    engine = find_engine(task.settings)
    yield timed_step("engine", f"{engine.title} answers", begun_us)
    begun_us = monotonic_us()
    yield timed_step(OFFLINE_TOXIPROXY, _toxiproxy_image(task, engine), begun_us)
    begun_us = monotonic_us()
    if is_current(engine, OFFLINE_MYSQL) and not task.rebuild:
        outcome = "already there"
    else:
        build_mysql_image(engine, scratch=task.ledger.folder, path=task.settings.path, say=task.say)
        outcome = "built"
    yield timed_step(OFFLINE_MYSQL, outcome, begun_us)


def _toxiproxy_image(task: Provision, engine: Engine) -> str:
    if is_current(engine, OFFLINE_TOXIPROXY) and not task.rebuild:
        return "already there"
    # Not the program on the PATH, which may need libraries that the empty image lacks.
    program = built_proxy_program(task.settings)
    if task.rebuild or not program.exists():
        try:
            program = build_proxy_program(task.settings, scratch=task.ledger.folder, say=task.say)
        except WorldError as lacking:
            return f"left out, our own proxy serves; {lacking.what}"
    build_toxiproxy_image(engine, scratch=task.ledger.folder, program=program)
    return "built"
