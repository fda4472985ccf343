"""The levels sim, live and spark; each implements the protocol of `harness.engine.level` (decision 29).

`level_named` finds a level by the name that scenario files list.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from harness.engine.level import Level

__all__ = ["level_named"]

_WHERE: Final = {
    "sim": ("harness.levels.sim.level", "SimulatedLevel"),
    "live": ("harness.levels.live.supervisor", "LiveLevel"),
    "spark": ("harness.levels.spark.level", "SparkLevel"),
}


def level_named(name: str) -> Level:
    """Import the level's module now: level sim needs no database client, and only level spark needs Spark."""
    module, attribute = _WHERE[name]
    level: Level = getattr(import_module(module), attribute)()
    return level
