"""How long a world takes from nothing to a proxied `SELECT 1`, as it measures itself."""

from __future__ import annotations

from statistics import median

from harness.world.setup.opening import open_world
from tools.bench.row import Row

_ROUNDS = 5
_GOALS_S = {"containers": 2.5, "local": 1.5}


def ready_row(kind: str, *, proxy: str) -> Row:
    """Open a `kind` world with that proxy five times. Raises WorldError if this machine cannot."""
    took, server = [], ""
    for _ in range(_ROUNDS):
        with open_world(kind, proxy=proxy, announce=lambda text: None, offline=True) as world:
            took.append(world.description.ready_s)
            server = f"{world.description.server}, {world.description.proxy}"
    return Row(
        name=f"world {kind} ready, {proxy} proxy" if proxy == "own" else f"world {kind} ready",
        value=median(took),
        unit="s",
        rounds=_ROUNDS,
        goal=_GOALS_S[kind],
        larger_is_better=False,
        spread=(min(took), max(took)),
        detail=server,
    )
