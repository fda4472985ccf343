"""The door to worlds: choose one, open it, and leave nothing behind however the block ends.

Invariant: nothing falls back in silence; which world was taken, and why, is said first and stands in its
description.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.clock import monotonic_us
from harness.errors import UsageError, WorldError
from harness.world.containers import find_engine, sweep_run
from harness.world.ledger import Ledger, Reaped, reap
from harness.world.local import LocalParts, find_local_parts, open_local_world
from harness.world.settings import WorldSettings
from harness.world.world import World

if TYPE_CHECKING:
    from harness.world.containers.engine import Engine
    from harness.world.containers.images import Images

__all__ = ["KINDS", "Choice", "choose_world", "open_world"]

KINDS = ("auto", "containers", "local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A world that can be opened, and why it was chosen."""

    parts: LocalParts | tuple[Engine, Images]
    why: str


@contextmanager
def open_world(
    kind: str,
    *,
    announce: Callable[[str], None],
    offline: bool = False,
    settings: WorldSettings | None = None,
) -> Iterator[World]:
    """A world of the wanted kind while the block lasts; `offline` forbids any act on the network.

    Says first which world was taken and why. Removes what dead runs left before it makes anything, and
    everything of its own when the block ends, however it ends.
    """
    begun_us = monotonic_us()
    chosen = WorldSettings.from_environment() if settings is None else settings
    choice = choose_world(kind, settings=chosen, offline=offline, say=announce)
    announce(choice.why)
    chosen.places.make()
    for left in reap(chosen.places, sweep_run):
        announce(_remains(left))
    ledger = Ledger.open(chosen.places)
    try:
        with _opened(choice, ledger=ledger, settings=chosen, say=announce, begun_us=begun_us) as world:
            yield world
    finally:
        ledger.close(sweep_run)


def choose_world(kind: str, *, settings: WorldSettings, offline: bool, say: Callable[[str], None]) -> Choice:
    """Which world to open; an error says what each one lacks."""
    match kind:
        case "local":
            return Choice(parts=find_local_parts(settings), why="local world: asked for")
        case "containers":
            engine, images = _containers(settings, offline=offline, say=say)
            return Choice(
                parts=(engine, images), why=f"containers world: asked for; {engine.title}; {images.why}"
            )
        case "auto":
            return _automatic(settings, offline=offline, say=say)
        case _:
            raise UsageError(f"there is no world {kind!r}", fix=f"choose one of {', '.join(KINDS)}")


def _automatic(settings: WorldSettings, *, offline: bool, say: Callable[[str], None]) -> Choice:
    """Containers if an engine answers and has (or gets) the images, else local."""
    try:
        engine, images = _containers(settings, offline=offline, say=say)
    except WorldError as lacking:
        return _automatic_local(settings, no_containers=lacking)
    return Choice(
        parts=(engine, images), why=f"containers world (auto): {engine.title} answers; {images.why}"
    )


def _automatic_local(settings: WorldSettings, *, no_containers: WorldError) -> Choice:
    try:
        parts = find_local_parts(settings)
    except WorldError as no_local:
        raise WorldError(
            f"no world can be opened here. Containers: {no_containers.what}. Local: {no_local.what}",
            fix=no_local.fix,
        ) from no_containers
    return Choice(parts=parts, why=f"local world (auto): {no_containers.what}")


def _containers(
    settings: WorldSettings, *, offline: bool, say: Callable[[str], None]
) -> tuple[Engine, Images]:
    engine = find_engine(settings)
    from harness.world.containers.images import choose_images  # noqa: PLC0415

    return engine, choose_images(engine, settings, offline=offline, say=say)


def _opened(
    choice: Choice, *, ledger: Ledger, settings: WorldSettings, say: Callable[[str], None], begun_us: int
) -> AbstractContextManager[World]:
    match choice.parts:
        case LocalParts() as parts:
            return open_local_world(
                parts, why=choice.why, ledger=ledger, ports=settings.ports, say=say, begun_us=begun_us
            )
        case (engine, images):
            from harness.world.containers.containers_world import open_containers_world  # noqa: PLC0415
            from harness.world.containers.sweep import sweep_dead_owners  # noqa: PLC0415

            for left in sweep_dead_owners(engine):  # what the engine finished making after a kill
                say(_remains(left))
            return open_containers_world(
                engine,
                images,
                why=choice.why,
                ledger=ledger,
                ports=settings.ports,
                say=say,
                begun_us=begun_us,
            )


def _remains(found: Reaped) -> str:
    """One line on what a dead run left."""
    removed = f"removed {', '.join(found.removed)}" if found.removed else "removed nothing"
    return f"run {found.run_id} had died: {removed}" + "".join(
        f"; could not remove: {what}" for what in found.left
    )
