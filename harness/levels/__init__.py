"""The levels of fidelity: what differs between them, behind the protocol of `harness.engine.level`.

`level_named` finds one by the name that scenario files list (decision 29).
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
    """Its module is imported now: level sim needs no database's client, and only Spark's needs Spark."""
    module, attribute = _WHERE[name]
    level: Level = getattr(import_module(module), attribute)()
    return level
