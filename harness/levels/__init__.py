"""The levels of `harness.system.levels`; each implements the protocol of `harness.engine.level` (decision 29).

`level_named` finds a level by the name that scenario files list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from harness.system.errors import WorldError
from harness.system.levels import LEVELS

if TYPE_CHECKING:
    from harness.engine.level import Level

__all__ = ["extras_missing", "level_named"]

_MODULES: Final[Mapping[str, Sequence[str]]] = {
    "mysql": ("asyncmy", "pymysql", "faker", "pymysqlreplication"),
    "spark": ("pyspark", "pandas", "pyarrow"),
}
"""What an extra installs of that which a level imports."""


def level_named(name: str) -> Level:
    """Import the level's module now: level sim needs no database client, and only level spark needs Spark.

    Raises WorldError if an extra that it needs is not installed.
    """
    if missing := extras_missing(name):
        modules = ", ".join(module for extra in missing for module in _missing(extra))
        message = f"level {name} needs packages that are not installed: {modules}"
        raise WorldError(message, fix=f"pip install 'floodmark[{','.join(missing)}]', or choose level sim")
    module, _, attribute = LEVELS[name].at.partition(":")
    level: Level = getattr(import_module(module), attribute)()
    return level


def extras_missing(level: str) -> Sequence[str]:
    """The extras that `level` needs of which something is not installed."""
    return [extra for extra in LEVELS[level].extras if _missing(extra)]


def _missing(extra: str) -> Sequence[str]:
    return [module for module in _MODULES[extra] if find_spec(module) is None]
