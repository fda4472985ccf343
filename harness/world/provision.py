"""What `floodmark setup` does for the local world: see what is lacking, get it by ordinary package clients.

Invariant: a step that finds its thing in place does nothing and says so; no step needs root.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.clock import monotonic_us
from harness.errors import WorldError
from harness.world.containers import sweep_run
from harness.world.data_folder import prepared_data_folder, prepared_name
from harness.world.ledger import Ledger, reap
from harness.world.proxy_program import build_proxy_program, built_proxy_program, find_proxy_program
from harness.world.server_program import ServerProgram, find_server
from harness.world.settings import WorldSettings
from harness.world.unpacked_server import unpack_server

__all__ = ["Say", "Step", "provide_local_world", "timed_step"]

Say = Callable[[str], None]
"""Takes a sentence on what is going on."""


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
    yield timed_step("database server", outcome, begun_us)
    begun_us = monotonic_us()
    yield timed_step("proxy", _proxy(settings, rebuild=rebuild, say=say), begun_us)
    begun_us = monotonic_us()
    yield timed_step(
        "data folder", _data_folder(server, settings=settings, rebuild=rebuild, say=say), begun_us
    )


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


def timed_step(thing: str, outcome: str, begun_us: int) -> Step:
    """The step that began then and is done now."""
    return Step(thing=thing, outcome=outcome, took_s=(monotonic_us() - begun_us) / 1_000_000)
