"""Opens a world: chooses its kind, sets it up, and removes everything however the block ends.

Invariant: no silent fallback: the kind that was chosen and the reason are announced first and are in the description.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.scenario.outcome import WorldDescription
from harness.system.clock import monotonic_us
from harness.system.errors import UsageError, WorldError
from harness.world.containers import find_engine, sweep_run
from harness.world.ledger import Reaped, open_ledger, reap
from harness.world.local import LocalParts, find_local_parts, open_local_world
from harness.world.proxy_program import wanted_proxy
from harness.world.settings import WorldSettings
from harness.world.world import World

if TYPE_CHECKING:
    from harness.world.containers.engine import Engine, Images

KINDS = ("auto", "containers", "local")
ONLY_LOCAL = "server-clock"
"""The ability that only the local world has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The parts of a world that can be opened, and why they were chosen."""

    parts: LocalParts | tuple[Engine, Images]
    why: str


@contextmanager
def open_world(
    kind: str,
    *,
    announce: Callable[[str], None],
    proxy: str = "auto",
    needs: frozenset[str] = frozenset(),
    offline: bool = False,
    settings: WorldSettings | None = None,
    keeps_in: Path | None = None,
) -> Iterator[World]:
    """A world of the wanted kind for the duration of the block; `offline` forbids network access.

    `keeps_in`: where the server's data folder stays after the block; only the local world can.

    `needs` are the abilities that the run's faults need; they decide the proxy and the server's extras. Announces the
    chosen world and proxy with the reason, removes what dead runs left, and removes everything of its own at the end.
    """
    begun_us = monotonic_us()
    chosen = WorldSettings.from_environment() if settings is None else settings
    asked = WorldAsked(settings=chosen, proxy=proxy, needs=needs, offline=offline, say=announce)
    choice = choose_world(kind, asked)
    announce(choice.why)
    chosen.places.make()
    for left in reap(chosen.places, sweep_run):
        announce(_remains(left))

    def describe(server: str, proxy: str) -> WorldDescription:
        ready_s = (monotonic_us() - begun_us) / 1_000_000
        kind = "local" if isinstance(choice.parts, LocalParts) else "containers"
        return WorldDescription(kind=kind, why=choice.why, server=server, proxy=proxy, ready_s=ready_s)

    with open_ledger(chosen, sweep_run) as ledger:
        match choice.parts:
            case LocalParts() as parts:
                opened = open_local_world(
                    parts, describe=describe, needs=needs, ledger=ledger, settings=chosen, say=announce,
                    keeps_in=keeps_in,
                )  # fmt: skip
            case (engine, images):
                assert keeps_in is None, "the data of a container go with it"
                from harness.world.containers.containers_world import open_containers_world  # noqa: PLC0415
                from harness.world.containers.engine import sweep_dead_owners  # noqa: PLC0415

                for left in sweep_dead_owners(
                    engine
                ):  # what the engine completed after its client was killed
                    announce(_remains(left))
                opened = open_containers_world(
                    engine, images, describe=describe, needs=needs, ledger=ledger, say=announce
                )
        with opened as world:
            yield world


def choose_world(kind: str, asked: WorldAsked) -> Choice:
    """Choose the world and the proxy. Raises WorldError that says what each world lacks."""
    match kind:
        case "local":
            return _local(asked, why="local world: asked for")
        case "containers":
            return _containers(asked, why="containers world: asked for")
        case "auto":
            return _automatic(asked)
        case _:
            raise UsageError(
                f"there is no kind of world called {kind!r}", fix=f"choose one of {', '.join(KINDS)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldAsked:
    """The request, common to all kinds of world."""

    settings: WorldSettings
    offline: bool
    say: Callable[[str], None]
    proxy: str = "auto"
    needs: frozenset[str] = frozenset()


def _automatic(asked: WorldAsked) -> Choice:
    """Containers if an engine answers and the images can be had, else local; local first if a fault needs it."""
    if ONLY_LOCAL in asked.needs:
        with suppress(WorldError):
            return _local(asked, why="local world (auto): a fault shifts the server's clock")
    try:
        return _containers(asked, why="containers world (auto)")
    except WorldError as no_containers:
        try:
            return _local(asked, why=f"local world (auto): {no_containers.what}")
        except WorldError as no_local:
            raise WorldError(
                f"no world can be opened here. Containers: {no_containers.what}. Local: {no_local.what}",
                fix=no_local.fix,
            ) from no_containers


def _local(asked: WorldAsked, *, why: str) -> Choice:
    parts = find_local_parts(asked.settings, proxy=asked.proxy, needs=asked.needs)
    return Choice(parts=parts, why=f"{why}; {parts.proxy.why}")


def _containers(asked: WorldAsked, *, why: str) -> Choice:
    wanted, why_proxy = wanted_proxy(asked.proxy, needs=asked.needs)
    engine = find_engine(asked.settings)
    from harness.world.containers.engine import choose_images  # noqa: PLC0415

    images = choose_images(engine, asked.settings, proxy=wanted, offline=asked.offline, say=asked.say)
    if wanted == "auto" and images.toxiproxy is None:
        why_proxy = "our own proxy (auto)"
    return Choice(parts=(engine, images), why=f"{why}; {engine.title} answers; {why_proxy}; {images.why}")


def _remains(found: Reaped) -> str:
    """One line about what a dead run left."""
    removed = f"removed {', '.join(found.removed)}" if found.removed else "removed nothing"
    return f"run {found.run_id} had died: {removed}" + "".join(
        f"; could not remove: {what}" for what in found.left
    )
