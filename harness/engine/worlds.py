"""The worlds that runs share, opened when first needed and closed for sure.

Invariant: a run has a world to itself while it lasts, for a fault of one run must not touch another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from harness.errors import CannotHere
from harness.runs.order import Order
from harness.world.ledger import Ledger
from harness.world.proxy_program import PACKETS
from harness.world.settings import WorldSettings
from harness.world.setup.opening import open_world
from harness.world.world import World

__all__ = ["Worlds", "abilities_needed", "open_worlds", "shared_needs"]

_DECIDED_WHEN_OPENED = frozenset({PACKETS, "small-disk", "server-clock"})
"""Abilities that a world has only if they are asked for before it opens."""


def abilities_needed(order: Order) -> frozenset[str]:
    """Those abilities of the run's world that must be asked for before it opens."""
    of_faults = {ability: None for fault in order.scenario.faults for ability in fault.abilities}
    return _DECIDED_WHEN_OPENED.intersection(of_faults)


def shared_needs(orders: Sequence[Order]) -> frozenset[str]:
    """A proxy that some run needs serves them all; what changes the server is for the runs that need it."""
    return frozenset().union(*[abilities_needed(order) for order in orders]) & {PACKETS}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Free:
    """A world that no run has now, and what it was opened for."""

    world: World
    needs: frozenset[str]

    def suits(self, needs: frozenset[str]) -> bool:
        """A better proxy serves every run; a server on a small disk, say, only those that need one."""
        return needs <= self.needs and self.needs - needs <= {PACKETS}


@contextmanager
def open_worlds(kind: str, *, proxy: str, offline: bool, announce: Callable[[str], None]) -> Iterator[Worlds]:
    """Worlds of that kind while the block lasts, none of them open yet."""
    ledger = Ledger.open(WorldSettings.from_environment().places)
    try:
        with ExitStack() as stack:
            yield Worlds(kind, proxy=proxy, offline=offline, announce=announce, ledger=ledger, stack=stack)
    finally:
        ledger.close(lambda _: [])


class Worlds:
    """Lends worlds, from several threads if there are several lanes. Mutable: opens what is needed."""

    def __init__(
        self,
        kind: str,
        *,
        proxy: str,
        offline: bool,
        announce: Callable[[str], None],
        ledger: Ledger,
        stack: ExitStack,
    ) -> None:
        self._kind = kind
        self._proxy = proxy
        self._offline = offline
        self._announce = announce
        self._stack = stack
        self._opening = threading.Lock()
        self._free: list[_Free] = []
        self.ledger = ledger
        self.secrets: list[str] = []
        """The passwords of the worlds so far; no report may show one."""

    def open_one(self, needs: frozenset[str]) -> None:
        """One world more, for one lane more or for faults that no other world here can do."""
        world = self._stack.enter_context(
            open_world(
                self._kind, proxy=self._proxy, needs=needs, announce=self._announce, offline=self._offline
            )
        )
        described = world.description
        self._announce(f"{described.server} behind {described.proxy}, ready in {described.ready_s:.1f} s")
        self.secrets += [world.app.password, world.root.password]
        self._free.append(_Free(world=world, needs=needs))

    @contextmanager
    def lent(self, needs: frozenset[str]) -> Iterator[World]:
        """A world opened for these abilities, and for none that would change its server.

        It is not lent again if the block raises, except CannotHere: then nothing was done to it.
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
