"""Planted defects: the reference, its sink, its pool, its task or the harness with one thing wrong.

They show that the checkers bite: one table, `DEFECTS`, serves every level. Invariant: a defect is in what is under
test, or in the harness, never in a checker that it is to be convicted by.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from harness.defects.calls import OF_CALLS
from harness.defects.checkpoints import OF_CHECKPOINTS
from harness.defects.defect import HARNESS_CHECKS, Defect
from harness.defects.harness import OF_THE_HARNESS
from harness.defects.keyed import OF_KEYED_TASKS
from harness.defects.operators import OF_OPERATORS
from harness.defects.pools import OF_POOLS
from harness.defects.sinks import OF_SINKS
from harness.defects.tasks import OF_TASKS
from harness.errors import UsageError
from harness.sut.variant import HONEST, Variant

__all__ = ["DEFECTS", "HARNESS_CHECKS", "Defect", "find_defect", "variant_of"]

_BY_COMPONENT = (
    *OF_CHECKPOINTS,
    *OF_SINKS,
    *OF_CALLS,
    *OF_POOLS,
    *OF_TASKS,
    *OF_OPERATORS,
    *OF_KEYED_TASKS,
    *OF_THE_HARNESS,
)

DEFECTS: Mapping[str, Defect] = MappingProxyType(
    {defect.name: defect for defect in sorted(_BY_COMPONENT, key=lambda defect: defect.number or 100)}
)
"""By name, in the order of their numbers."""


def find_defect(name: str) -> Defect:
    """The defect `name`. Raises UsageError with what there is."""
    if name not in DEFECTS:
        message = f"there is no mutant called {name!r}"
        raise UsageError(message, fix=f"one of: {', '.join(DEFECTS)}")
    return DEFECTS[name]


def variant_of(name: str | None) -> Variant:
    """What the defect `name` replaces; without a name, nothing. Raises UsageError as `find_defect`."""
    return HONEST if name is None else find_defect(name).variant
