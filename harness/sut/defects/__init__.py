"""Planted defects: the reference, its sink, its pool, its task or the harness with one thing wrong.

They show that the checkers convict. `DEFECTS` has twelve, one a mechanism; any other is named as `MODULE:ATTR`, be it a
user's own or one of the collection in the source tree (`tools.defects`). Invariant: a defect is in what is under test,
or in the harness, never in the checker that must convict it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from harness.sut.defects.defect import HARNESS_CHECKS, Defect
from harness.sut.defects.twelve import TWELVE
from harness.sut.registry import load_attribute
from harness.sut.variant import HONEST, Variant
from harness.system.errors import SutError, UsageError

__all__ = ["DEFECTS", "HARNESS_CHECKS", "Defect", "find_defect", "variant_of"]

DEFECTS: Mapping[str, Defect] = MappingProxyType({defect.name: defect for defect in TWELVE})
"""The defects that can be named without their module."""


def find_defect(name: str) -> Defect:
    """One of `DEFECTS`, or `MODULE:ATTR`: a `Defect`, a `Variant` or a `build_operator`.

    Raises UsageError with the names that there are, SutError for an attribute that is none of these.
    """
    if name in DEFECTS:
        return DEFECTS[name]
    if ":" not in name:
        message = f"there is no mutant called {name!r}"
        raise UsageError(message, fix=f"MODULE:ATTR for your own, or one of: {', '.join(DEFECTS)}")
    found = load_attribute(name, option="--mutant", kind="ATTR")
    if isinstance(found, Defect):
        return found
    if isinstance(found, Variant):
        return Defect(name=name, about="a defect of yours", variant=found)
    if callable(found):
        return Defect(name=name, about="a defect of yours", variant=Variant(build_operator=found))
    message = f"--mutant {name} is {type(found).__name__}, neither a Variant nor a build_operator"
    raise SutError(message, fix="see harness/sut/variant.py for what a defect may replace")


def variant_of(name: str | None) -> Variant:
    """The parts that the defect `name` replaces; None: the reference's own. Raises as `find_defect`."""
    return HONEST if name is None else find_defect(name).variant
