"""What `floodmark setup` does: see what a world lacks, get it by ordinary package clients, say each step.

Invariant: a step that finds its thing in place does nothing and says so; no step needs root except building images.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.clock import monotonic_us
from harness.errors import WorldError
from harness.world.containers import OFFLINE_MYSQL, OFFLINE_TOXIPROXY, Engine, choose_images, find_engine, sweep_run
from harness.world.data_folder import prepared_data_folder, prepared_name
from harness.world.ledger import Ledger, reap
from harness.world.offline_images.build import build_mysql_image, build_toxiproxy_image, is_current
from harness.world.proxy_program import build_proxy_program, built_proxy_program, find_proxy_program
from harness.world.server_program import ServerProgram, find_server
from harness.world.settings import WorldSettings
from harness.world.unpacked_server import unpack_server

__all__ = ["Step", "provide_images", "provide_local_world", "provide_offline_images"]

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that a world needs, and what was done for it."""

    thing: str
    outcome: str
    took_s: float

    def __str__(self) -> str:
        return f"{self.thing}: {self.outcome} ({self.took_s:.1f} s)"


def provide_local_world(settings: WorldSettings, *, rebuild: bool, say: Say) -> Iterator[Step]:
    """A server, a proxy and a prepared data folder, for `--world local`."""
    settings.places.make()
    reap(settings.places, sweep_run)
    begun_us = monotonic_us()
    server, outcome = _server(settings, rebuild=rebuild, say=say)
    yield _step("database server", outcome, begun_us)
    begun_us = monotonic_us()
    yield _step("proxy", _proxy(settings, rebuild=rebuild, say=say), begun_us)
    begun_us = monotonic_us()
    yield _step("data folder", _data_folder(server, settings=settings, rebuild=rebuild, say=say), begun_us)


def provide_images(settings: WorldSettings, *, say: Say) -> Iterator[Step]:
    """Images for `--world containers`: those that are here, else pulled."""
    begun_us = monotonic_us()
    engine = find_engine(settings)
    yield _step("engine", f"{engine.title} answers", begun_us)
    begun_us = monotonic_us()
    images = choose_images(engine, settings, offline=False, say=say)
    yield _step("images", f"{images.mysql} and {images.toxiproxy}; {images.why}", begun_us)


def provide_offline_images(settings: WorldSettings, *, rebuild: bool, say: Say) -> Iterator[Step]:
    """Both images, built here from package sources."""
    settings.places.make()
    begun_us = monotonic_us()
    engine = find_engine(settings)
    yield _step("engine", f"{engine.title} answers", begun_us)
    begun_us = monotonic_us()
    yield _step(OFFLINE_TOXIPROXY, _toxiproxy_image(engine, settings=settings, rebuild=rebuild, say=say), begun_us)
    begun_us = monotonic_us()
    yield _step(OFFLINE_MYSQL, _mysql_image(engine, settings=settings, rebuild=rebuild, say=say), begun_us)


def _server(settings: WorldSettings, *, rebuild: bool, say: Say) -> tuple[ServerProgram, str]:
    try:
        found = find_server(settings)
    except WorldError:
        if settings.server is not None:
            raise
    else:
        if not rebuild or found.root is None:  # an installed server is not ours to build again
            return found, f"{found.title} at {found.program}, already there"
    unpacked = unpack_server(settings, say=say)
    return unpacked, f"{unpacked.title} unpacked into {unpacked.root}"


def _proxy(settings: WorldSettings, *, rebuild: bool, say: Say) -> str:
    try:
        found = find_proxy_program(settings)
    except WorldError:
        return f"built {build_proxy_program(settings, say=say)}"
    if rebuild and found == built_proxy_program(settings):
        return f"built {build_proxy_program(settings, say=say)}"
    return f"{found}, already there"


def _data_folder(server: ServerProgram, *, settings: WorldSettings, rebuild: bool, say: Say) -> str:
    ready = settings.places.datadirs / prepared_name(server)
    if rebuild:
        shutil.rmtree(ready, ignore_errors=True)
    if ready.exists():
        return f"{ready}, already there"
    ledger = Ledger.open(settings.places)
    try:
        return f"prepared {prepared_data_folder(server, places=settings.places, ledger=ledger, say=say)}"
    finally:
        ledger.close(sweep_run)


def _toxiproxy_image(engine: Engine, *, settings: WorldSettings, rebuild: bool, say: Say) -> str:
    if is_current(engine, OFFLINE_TOXIPROXY) and not rebuild:
        return "already there"
    program = built_proxy_program(settings)  # not the PATH's: that one may need libraries that an empty image lacks
    if rebuild or not program.exists():
        program = build_proxy_program(settings, say=say)
    build_toxiproxy_image(engine, program=program)
    return "built"


def _mysql_image(engine: Engine, *, settings: WorldSettings, rebuild: bool, say: Say) -> str:
    if is_current(engine, OFFLINE_MYSQL) and not rebuild:
        return "already there"
    build_mysql_image(engine, path=settings.path, say=say)
    return "built"


def _step(thing: str, outcome: str, begun_us: int) -> Step:
    return Step(thing=thing, outcome=outcome, took_s=(monotonic_us() - begun_us) / 1_000_000)
