"""The worlds that runs use one after another, opened when first needed and closed with the block.

Invariant: while a run lasts it has its world to itself, because its faults must not affect other runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from harness.scenario.order import AnyOrder, Order
from harness.sut.registry import connects_itself
from harness.system.errors import CannotHere
from harness.world.ledger import Ledger, open_ledger
from harness.world.mysql_server import BINLOG, REPLICA
from harness.world.proxy_program import LOG, PACKETS
from harness.world.settings import WorldSettings
from harness.world.setup.opening import open_world
from harness.world.world import World

_DECIDED_WHEN_OPENED = frozenset({PACKETS, BINLOG, REPLICA, "small-disk", "server-clock"})
"""Abilities that must be requested before a world is opened."""


def abilities_needed(order: AnyOrder) -> frozenset[str]:
    """The abilities for this run that must be requested before its world is opened."""
    of_faults = {ability: None for fault in order.scenario.faults for ability in fault.abilities}
    of_lookup = {LOG} if isinstance(order, Order) and connects_itself(order.sut) else frozenset[str]()
    second = {REPLICA} if order.scenario.has_two_servers else frozenset[str]()
    return _DECIDED_WHEN_OPENED.intersection(of_faults) | of_lookup | second | order.needs


def shared_needs(orders: Sequence[AnyOrder]) -> frozenset[str]:
    """The abilities for a world of all runs: the proxy's, if any run needs it, but none that change the server."""
    return frozenset().union(*[abilities_needed(order) for order in orders]) & {PACKETS, LOG, BINLOG}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Free:
    """A world that no run uses now, and the abilities that it was opened with."""

    world: World
    needs: frozenset[str]

    def suits(self, needs: frozenset[str]) -> bool:
        """Whether the world fits: any proxy ability is fine, but a changed server (small disk) only if needed."""
        return needs <= self.needs and self.needs - needs <= {PACKETS, LOG}


class Worlds(ExitStack):
    """Lends worlds, from several threads if there are several lanes; use it as a block. Mutable: opens what is needed.

    `keeps_in`: the folder that gets the data folder of each server, for local worlds.
    """

    ledger: Ledger

    def __init__(
        self,
        kind: str,
        *,
        proxy: str,
        offline: bool,
        announce: Callable[[str], None],
        keeps_in: Path | None = None,
    ) -> None:
        super().__init__()
        self._kind = kind
        self._proxy = proxy
        self._offline = offline
        self._announce = announce
        self._opening = threading.Lock()
        self._free: list[_Free] = []
        self.secrets: list[str] = []
        """The passwords of the worlds so far, to be removed from reports."""
        self.kept: list[str] = []
        """How to open the data of each server that stays, once its world is closed."""
        self._keeps_in = keeps_in

    def __enter__(self) -> Self:
        settings = WorldSettings.from_environment()
        self.ledger = self.enter_context(open_ledger(settings, lambda _: []))
        return self

    def open_one(self, needs: frozenset[str]) -> None:
        """Opens one more world with these abilities."""
        keeps_in = None if self._keeps_in is None else self._keeps_in / f"server-{len(self.kept) + 1}"
        world = self.enter_context(
            open_world(
                self._kind,
                proxy=self._proxy,
                needs=needs,
                announce=self._announce,
                offline=self._offline,
                keeps_in=keeps_in,
            )
        )
        if world.kept is not None:
            self.kept.append(world.kept)
        described = world.description
        self._announce(f"{described.server} behind {described.proxy}, ready in {described.ready_s:.1f} s")
        self.secrets += [world.app.password, world.root.password]
        self._free.append(_Free(world=world, needs=needs))

    @contextmanager
    def lent(self, needs: frozenset[str]) -> Iterator[World]:
        """Lends a fitting world while the block lasts; opens one if none is free.

        A world whose block raises is not lent again, except after CannotHere, when nothing was done to it.
        """
        with self._opening:
            if not any(free.suits(needs) for free in self._free):
                self.open_one(needs)
            free = next(free for free in self._free if free.suits(needs))
            self._free.remove(free)
        try:
            yield free.world
        except CannotHere:
            self._free.append(free)
            raise
        self._free.append(free)
