"""The steps of `floodmark setup` for the local world and for Kafka: find what is missing and install it into the cache.

Invariant: a step that finds its result in place changes nothing and says so; no step needs root.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.system.clock import monotonic_us
from harness.system.errors import WorldError
from harness.world.containers import sweep_run
from harness.world.data_folder import prepared_data_folder, prepared_name
from harness.world.kafka.jars import find_java_for_kafka, install_kafka, kafka_folder
from harness.world.ledger import Ledger, open_ledger, reap
from harness.world.proxy_program import build_proxy_program, built_proxy_program, find_proxy_program
from harness.world.server_clock import find_clock_library
from harness.world.server_program import ServerProgram, find_server
from harness.world.settings import WorldSettings
from harness.world.unpacked_server import unpack_clock, unpack_server

Say = Callable[[str], None]
"""Gets sentences about the progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionStep:
    """One thing that a world needs, and what was done for it."""

    thing: str
    outcome: str
    took_s: float

    def __str__(self) -> str:
        return f"{self.thing}: {self.outcome} ({self.took_s:.1f} s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """One run of `setup`: its options, and the ledger that lists unfinished things."""

    settings: WorldSettings
    ledger: Ledger
    rebuild: bool
    say: Say


@contextmanager
def provisioning(settings: WorldSettings, *, rebuild: bool, say: Say) -> Iterator[Provision]:
    """A run of `setup` for the duration of the block; unfinished things are removed, even after a SIGKILL."""
    settings.places.make()
    reap(settings.places, sweep_run)
    with open_ledger(settings.places, sweep_run) as ledger:
        yield Provision(settings=settings, ledger=ledger, rebuild=rebuild, say=say)


def provide_local_world(task: Provision, *, toxiproxy: bool = True) -> Iterator[ProvisionStep]:
    """A server, Toxiproxy (unless False), a prepared data folder and a clock that can be shifted."""
    begun_us = monotonic_us()
    server, outcome = _server(task)
    yield timed_step("database server", outcome, begun_us)
    if toxiproxy:
        begun_us = monotonic_us()
        yield timed_step("proxy", _proxy(task), begun_us)
    begun_us = monotonic_us()
    yield timed_step("data folder", _data_folder(task, server), begun_us)
    begun_us = monotonic_us()
    yield timed_step("server's clock", _clock(task), begun_us)


def _server(task: Provision) -> tuple[ServerProgram, str]:
    try:
        found = find_server(task.settings)
    except WorldError:
        if task.settings.server is not None:
            raise
    else:
        if not task.rebuild or found.root is None:  # an installed server is not ours to replace
            return found, f"{found.title} at {found.program}, already there"
    unpacked = unpack_server(task.settings, scratch=task.ledger.folder, say=task.say)
    return unpacked, f"{unpacked.title} unpacked into {unpacked.root}"


def _proxy(task: Provision) -> str:
    """Our own proxy needs no setup. Toxiproxy is built where Go is available, for comparison."""
    try:
        found = find_proxy_program(task.settings)
    except WorldError:
        found = None
    if found is not None and not (task.rebuild and found == built_proxy_program(task.settings)):
        return f"{found}, already there; our own beside it"
    try:
        built = build_proxy_program(task.settings, scratch=task.ledger.folder, say=task.say)
    except WorldError as lacking:
        return f"our own serves, which needs nothing; {lacking.what}"
    return f"built {built}; our own beside it"


def _data_folder(task: Provision, server: ServerProgram) -> str:
    places = task.settings.places
    ready = places.datadirs / prepared_name(server)
    if task.rebuild:
        shutil.rmtree(ready, ignore_errors=True)
    if ready.exists():
        return f"{ready}, already there"
    return f"prepared {prepared_data_folder(server, places=places, ledger=task.ledger, say=task.say)}"


def _clock(task: Provision) -> str:
    """Only the fault `server_clock` needs it, so its absence is no error."""
    found = find_clock_library(task.settings)
    if found is None or (task.rebuild and found.is_relative_to(task.settings.places.clock)):
        try:
            unpack_clock(task.settings, scratch=task.ledger.folder, say=task.say)
        except WorldError as lacking:
            return f"cannot be shifted here: {lacking.what}"
        unpacked = find_clock_library(task.settings)
        return f"unpacked {unpacked}" if unpacked else "cannot be shifted here: the library does not load"
    return f"{found}, already there"


def timed_step(thing: str, outcome: str, begun_us: int) -> ProvisionStep:
    """A step that began at `begun_us` and has ended now."""
    return ProvisionStep(thing=thing, outcome=outcome, took_s=(monotonic_us() - begun_us) / 1_000_000)


def provide_kafka(task: Provision) -> Iterator[ProvisionStep]:
    """Download the pinned jars into the cache, unless they are there."""
    begun_us = monotonic_us()
    find_java_for_kafka(task.settings)
    home = kafka_folder(task.settings.places)
    if task.rebuild:
        shutil.rmtree(home, ignore_errors=True)
    if home.is_dir():
        outcome = f"{home}, already there"
    else:
        outcome = f"jars in {install_kafka(task.settings, scratch=task.ledger.folder, say=task.say)}"
    yield timed_step("Kafka", outcome, begun_us)
